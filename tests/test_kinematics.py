"""Compiled kinematics against MuJoCo's."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.contact_strata import arm_scene
from capture_cp.kernels.kinematics import place_links
from capture_cp.kernels.trig import cosine_sine
from capture_cp.spaces.links import Tree
from capture_cp.spaces.mujoco_model import unit_quaternions
from capture_lab.tasks.peg.task import Peg

mujoco = pytest.importorskip("mujoco")

#: Every kind of joint, several on one body, off its origin and with a reference; fixed bodies between; bodies in the world.
ZOO = """<mujoco><compiler angle="radian"/><worldbody>
  <body pos=".1 .2 .3" euler=".3 .2 .1">
    <joint type="slide" axis="1 2 3" pos=".1 0 0"/><joint axis="0 1 1" pos=".1 .2 .1"/><joint axis="1 0 0" ref="0.3"/>
    <geom size=".1" pos=".3 .1 0"/>
    <body pos=".3 0 0" euler="0 1 0"><geom type="box" size=".1 .2 .3" euler="1 0 1" pos="0 0 .2"/>
      <body pos=".1 0 .1" euler="1 0 .5"><joint type="ball" pos=".1 .1 .2"/><joint type="slide" axis="0 1 0" ref=".1"/>
        <geom size=".1" pos=".1 0 0"/></body></body></body>
  <body pos="1 1 1" euler="1 0 0"><freejoint/><geom size=".1 .1" type="capsule" pos=".1 .1 .1" euler="1 1 1"/>
    <body pos="0 0 .1"><joint axis="0 0 -1"/><geom size=".1" pos=".1 .2 .3"/></body></body>
  <body pos="0 0 1" euler="1 1 1"><geom size=".1" pos="1 2 3"/></body>
  <geom size=".1" pos="1 2 3" euler="1 2 3"/>
</worldbody></mujoco>"""


def models():
    yield "zoo", mujoco.MjModel.from_xml_string(ZOO)
    yield "arm", mujoco.MjModel.from_xml_string(arm_scene())
    yield "peg", Peg().true_system(threads=1).model
    yield "panda", Peg(system="arm").true_system(threads=1).model


@pytest.mark.parametrize(("name", "model"), list(models()), ids=lambda value: value if isinstance(value, str) else "")
def test_frames_are_those_of_mujoco(name, model):
    rng, data = np.random.default_rng(0), mujoco.MjData(model)
    tree = Tree(model, model.geom_bodyid.tolist())
    numbers = [tree.attach(tree.place_of_geom(geom)) for geom in range(model.ngeom)]
    links = tree.links()
    frames = np.empty((len(links.parent), 12))
    for _ in range(200):
        qpos = rng.uniform(-4, 4, model.nq)  # quaternions of any length
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        place_links(links, qpos, frames)
        np.testing.assert_allclose(frames[numbers, :3], data.geom_xpos, rtol=0, atol=1e-12)
        np.testing.assert_allclose(frames[numbers, 3:], data.geom_xmat, rtol=0, atol=1e-12)


def test_a_quaternion_of_zeros_turns_nothing():
    model = mujoco.MjModel.from_xml_string(ZOO)
    tree = Tree(model, model.geom_bodyid.tolist())
    numbers = [tree.attach(tree.place_of_geom(geom)) for geom in range(model.ngeom)]
    frames, data = np.empty((len(tree.rows), 12)), mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_kinematics(model, data)
    place_links(tree.links(), np.zeros(model.nq), frames)
    np.testing.assert_allclose(frames[numbers, :3], data.geom_xpos, rtol=0, atol=1e-12)


def test_only_links_that_are_needed_are_placed():
    model = mujoco.MjModel.from_xml_string(arm_scene())
    assert len(Tree(model, [model.body("link4").id]).rows) == 4
    assert len(Tree(model, [0]).rows) == 0


def test_entries_that_a_configuration_leaves_out_are_held():
    model, rng = mujoco.MjModel.from_xml_string(ZOO), np.random.default_rng(1)
    tree, held = Tree(model, model.geom_bodyid.tolist()), rng.standard_normal(model.nq)
    entries = rng.permutation(model.nq)[:5]
    some, every = tree.links(entries, held), tree.links()
    one, other = np.empty((len(tree.rows), 12)), np.empty((len(tree.rows), 12))
    for _ in range(20):
        y = rng.standard_normal(5)
        qpos = held.copy()
        qpos[entries] = y
        place_links(some, y, one)
        place_links(every, qpos, other)
        assert (one == other).all()


def test_cosine_and_sine():
    rng = np.random.default_rng(4)
    special = np.pi / 4 * np.arange(-40, 41)
    near = [special, np.nextafter(special, 9), np.nextafter(special, -9)]
    angles = np.concatenate([*near, rng.uniform(-7, 7, 2000), rng.uniform(-1e6, 1e6, 2000), [0.0, 1e-300, -1e-9]])
    found = np.array([cosine_sine(angle) for angle in angles])
    np.testing.assert_allclose(found, np.column_stack([np.cos(angles), np.sin(angles)]), rtol=0, atol=2.5e-16)


def test_quaternions_become_unit_ones_and_the_rest_stays():
    model = mujoco.MjModel.from_xml_string(ZOO)
    Y = np.random.default_rng(2).standard_normal((10, model.nq))
    unit = unit_quaternions(model, Y, np.arange(model.nq))
    ball, free = slice(3, 7), slice(11, 15)
    for part in (ball, free):
        assert np.linalg.norm(unit[:, part], axis=1) == pytest.approx(1)
    rest = np.setdiff1d(np.arange(model.nq), [*range(3, 7), *range(11, 15)])
    assert (unit[:, rest] == Y[:, rest]).all()
    assert (unit_quaternions(model, Y[:, 4:], np.arange(4, model.nq))[:, :3] == Y[:, 4:7]).all()  # not the whole of one
