"""Strata on balls and capsules: exact where they say so, on the safe side where not, and callable from compiled code."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numba import njit
from scipy.spatial.transform import Rotation

from benchmarks.contact_strata import PAIRS, arm_configurations, arm_scene
from capture_cp import CaptureError, ContactStrata, Strata, SweptStrata
from capture_cp.kernels.swept import swept_stratum
from solids import ball, box, capsule

mujoco = pytest.importorskip("mujoco")

SOLIDS = {
    "ball": ball(0.05),
    "capsule": capsule(0.03, 0.1),
    "box": box(0.1, 0.06, 0.03),
}
#: Both sides move: the second body hangs on a hinge of its own.
SCENE = """<mujoco><worldbody>
  <geom name="floor" type="plane" size="1 1 1" pos="0 0 -0.2" euler="10 5 0"/>
  <body name="moved"><freejoint/>%s</body>
  <body name="door" pos="0.3 0 0"><joint axis="0 1 1"/>%s</body>
</worldbody></mujoco>"""


def scene(one, other):
    geoms = [SOLIDS[name].geom for name in (one, other)]
    return SCENE % tuple(
        f'<geom name="{name}" pos="0.02 0.01 0" euler="20 0 40" {geom}/>' for name, geom in zip("ab", geoms)
    )


def poses(n, seed=0):
    rng = np.random.default_rng(seed)
    turns = Rotation.random(n, random_state=rng).as_quat()
    return np.hstack([rng.uniform(-0.3, 0.5, (n, 1)), rng.uniform(-0.3, 0.3, (n, 2)), turns, rng.uniform(-3, 3, (n, 1))])


@pytest.mark.parametrize("spacing", [None, 0.04, 0.02])
def test_covers_hold_what_they_cover_and_stick_out_by_no_more_than_they_say(spacing):
    swept = SweptStrata(scene("box", "box"), [("a", "b")], spacing=spacing)
    Y = poses(400)
    measured, exact = swept.distances(Y), ContactStrata(scene("box", "box"), [("a", "b")]).distances(Y)
    apart = exact > 0
    assert (measured <= exact + 1e-6)[apart].all()
    assert (measured >= exact - swept.excess - 1e-6)[apart].all()
    assert (measured[~apart] <= 1e-6).all()  # no overlap is missed
    assert apart.mean() > 0.2


def test_the_arm_and_a_body_of_several_geoms():
    Y = arm_configurations(2000, np.random.default_rng(0))
    swept, exact = (kind(arm_scene(), PAIRS, tolerance=0.005) for kind in (SweptStrata, ContactStrata))
    assert (swept.index(Y) == exact.index(Y)).all()
    assert swept.distances(Y) == pytest.approx(exact.distances(Y), abs=1e-9)
    limited, near = swept.distances(Y, within=0.02), exact.distances(Y) <= 0.02
    assert limited[near] == pytest.approx(exact.distances(Y)[near], abs=1e-9)
    assert (limited[~near] > 0.02).all()
    assert swept.n_links == 7
    assert (swept.excess == 0).all()
    assert (swept.names, swept.rest) == (exact.names, exact.rest)
    assert isinstance(swept, Strata)


@njit
def first_contact(swept, start, step, n, frames, out):
    """Steps until a pair touches: a rollout that asks at every step."""
    y = start.copy()
    for i in range(n):
        if swept_stratum(swept, y, frames, out) != 0:
            return i
        y += step
    return n


def test_a_compiled_rollout_asks_for_strata():
    swept = SweptStrata(arm_scene(), PAIRS, tolerance=0.005)
    rng = np.random.default_rng(2)
    frames, out = np.empty((swept.n_links, 12)), np.empty(len(swept.pairs))
    for start in arm_configurations(20, rng):
        step = 0.02 * rng.standard_normal(7)
        found = first_contact(swept.params, start, step, 200, frames, out)
        way = start + np.cumsum(np.vstack([np.zeros(7), np.tile(step, (199, 1))]), axis=0)
        touching = np.flatnonzero(swept.index(way) != 0)
        assert found == (touching[0] if len(touching) else 200)


def test_spheres_of_ones_own_take_the_place_of_geoms():
    spheres = np.array([[0.0, 0.0, 0.0, 0.03], [0.1, 0.0, 0.0, 0.02]])
    swept = SweptStrata(scene("box", "box"), [("moved", ["b", "floor"])], spheres={"moved": spheres})
    geoms = '<geom name="s0" type="sphere" size="0.03"/><geom name="s1" type="sphere" pos="0.1 0 0" size="0.02"/>'
    text = SCENE % (geoms, f'<geom name="b" pos="0.02 0.01 0" euler="20 0 40" {SOLIDS["box"].geom}/>')
    Y = poses(300)
    expected = ContactStrata(text, [("moved", ["b", "floor"])]).distances(Y)
    assert swept.distances(Y) == pytest.approx(expected, abs=1e-9)
    assert (swept.excess == 0).all()


def test_copies_by_pickle_have_the_same_digest():
    swept = SweptStrata(scene("box", "box"), [("a", "b")], spacing=0.03)
    again, Y = pickle.loads(pickle.dumps(swept)), poses(50)
    assert again.digest() == swept.digest()
    assert (again.index(Y) == swept.index(Y)).all()
    others = [SweptStrata(scene("box", "box"), [("a", "b")], spacing=0.02), ContactStrata(scene("box", "box"), [("a", "b")])]
    assert len({swept.digest(), *(other.digest() for other in others)}) == 3


EGG = (
    scene("ball", "ball")
    .replace('name="a"', 'name="a" size="1 2 3"')
    .replace('type="sphere" size="0.05"', 'type="ellipsoid"', 1)
)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SweptStrata(arm_scene(), PAIRS, spacing=0), "spacing is 0; expected a positive number"),
        (lambda: SweptStrata(scene("box", "box"), [("a", "b")], spacing=1e-4), "spheres, more than 4,096; use a larger"),
        (lambda: SweptStrata(EGG, [("a", "floor")]), "geom a is not a sphere"),
        (lambda: SweptStrata(arm_scene(), PAIRS, spheres=[[0, 0, 0, 1]]), "expected a dictionary from names"),
        (lambda: SweptStrata(arm_scene(), PAIRS, spheres={"hand": [[0, 0, 0, 1]]}), "expected a dictionary from names"),
        (lambda: SweptStrata(arm_scene(), PAIRS, spheres={"link7": [[0, 0, 1]]}), "spheres of link7 has shape"),
        (lambda: SweptStrata(arm_scene(), PAIRS, spheres={"link7": [[0, 0, 0, -1]]}), "negative radius"),
        (lambda: SweptStrata(arm_scene(), [("link9", "floor")]), "unknown geom or body 'link9'"),
        (lambda: SweptStrata(arm_scene(), PAIRS).index([[0.0, 0.0]]), "Y has shape"),
    ],
)
def test_bad_input_is_told_in_one_sentence(make, sentence):
    with pytest.raises(CaptureError, match=sentence) as error:
        make()
    assert "\n" not in str(error.value)
