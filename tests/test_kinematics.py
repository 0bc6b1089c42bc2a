"""Compiled kinematics against MuJoCo's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from benchmarks.contact_strata import arm_scene
from capture_cp.kernels.kinematics import place_links
from capture_cp.kernels.trig import arc, cosine_sine
from capture_cp.spaces.swept_parts import Tree
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


def test_cosine_and_sine():
    rng = np.random.default_rng(4)
    special = np.pi / 4 * np.arange(-40, 41)
    near = [special, np.nextafter(special, 9), np.nextafter(special, -9)]
    angles = np.concatenate([*near, rng.uniform(-7, 7, 2000), rng.uniform(-1e6, 1e6, 2000), [0.0, 1e-300, -1e-9]])
    found = np.array([cosine_sine(angle) for angle in angles])
    np.testing.assert_allclose(found, np.column_stack([np.cos(angles), np.sin(angles)]), rtol=0, atol=2.5e-16)


@njit
def arcs(sines, cosines, out):
    for i in range(len(out)):
        out[i] = arc(sines[i], cosines[i])


def test_arc_is_the_arc_tangent_to_the_last_digits():
    rng = np.random.default_rng(0)
    tiny, special = 10.0 ** rng.uniform(-300, 0, 1000), [math.pi / 8, math.pi / 4]
    angles = np.concatenate([rng.uniform(0, math.pi / 2, 200_000), tiny, special])
    size = 10.0 ** rng.uniform(-3, 3, len(angles))
    sines, cosines, found = size * np.sin(angles), size * np.cos(angles), np.empty(len(angles))
    arcs(sines, cosines, found)
    np.testing.assert_allclose(found, np.arctan2(sines, cosines), rtol=5e-16)


@pytest.mark.parametrize(("sine", "cosine", "angle"), [(0.0, 0.0, 0.0), (0.0, 2.0, 0.0), (3.0, 0.0, math.pi / 2)])
def test_arc_at_the_ends(sine, cosine, angle):
    found = np.empty(1)
    arcs(np.array([sine]), np.array([cosine]), found)
    assert found[0] == angle
