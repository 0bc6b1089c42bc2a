"""Contact strata in batches are those of the loop over rows and pairs, which stands in benchmarks/contact_strata.py."""

from __future__ import annotations

from functools import cache

import numba
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks.contact_strata import PAIRS, PEG_PAIRS, arm_configurations, arm_scene, labels_row_by_row, row_by_row
from capture_cp import ContactStrata
from capture_lab.tasks.peg.simulator import inverse_kinematics
from capture_lab.tasks.peg.task import Peg
from solids import ball, box, capsule, hull

pytest.importorskip("mujoco")

#: Solids of every kind in one body that floats, above a plane, a box, a mesh, a cylinder, an ellipsoid and a height field.
MOVED = [ball(0.05), capsule(0.03, 0.1), box(0.1, 0.06, 0.03), hull("gem", 30, 0.06, 2)]
CROWD = f"""<mujoco><asset>{MOVED[3].asset}{hull("stone", 12, 0.1, 1).asset}
    <hfield name="hills" nrow="3" ncol="3" size="0.3 0.3 0.05 0.05" elevation="0 1 0 1 0 1 0 1 0"/></asset><worldbody>
  <geom name="plane" type="plane" size="1 1 1" pos="0 0 -0.3"/><geom name="box" type="box" size="0.2 0.1 0.1" pos="0.3 0 0"/>
  <geom name="stone" type="mesh" mesh="stone" pos="-0.3 0 0"/>
  <geom name="drum" type="cylinder" size="0.1 0.1" pos="0 0.3 0"/>
  <geom name="egg" type="ellipsoid" size="0.1 0.15 0.05" pos="0 -0.3 0"/>
  <geom name="hills" type="hfield" hfield="hills" pos="0 0 0.3"/>
  <body name="moved"><freejoint/>{"".join(f'<geom pos="{0.1 * i} 0 0" {s.geom}/>' for i, s in enumerate(MOVED))}
    <geom name="tube" type="cylinder" size="0.03 0.1" pos="0 0.1 0"/></body>
</worldbody></mujoco>"""
CROWD_PAIRS = [("moved", ["plane", "box", "stone", "drum", "egg", "hills"])]


def floating(n, rng):
    places = rng.uniform(-0.5, 0.5, (n, 3))
    return np.hstack([places, Rotation.random(n, random_state=rng).as_quat()])


def peg_cases(rng):
    peg = Peg()
    poses = peg.strata.sample_starts(600, rng)
    yield "peg", ContactStrata(peg.true_system(threads=1).model, PEG_PAIRS, tolerance=0.75e-3), poses
    arm = ContactStrata(Peg(system="arm").true_system(threads=1).model, PEG_PAIRS, tolerance=0.75e-3)
    yield "panda", arm, np.array([inverse_kinematics(pose) for pose in poses[:300]])


def cases():
    rng = np.random.default_rng(0)
    yield from peg_cases(rng)
    yield "crowd", ContactStrata(CROWD, CROWD_PAIRS, tolerance=0.02), floating(800, rng)
    apart = [(f"g{i}", ["plane", "box", "stone", "drum"]) for i in range(4)]
    geoms = "".join(f'<geom name="g{i}" pos="{0.1 * i} 0 0" {s.geom}/>' for i, s in enumerate(MOVED))
    text = CROWD.split('<body name="moved">')[0] + f'<body name="moved"><freejoint/>{geoms}</body></worldbody></mujoco>'
    yield "each", ContactStrata(text, apart, tolerance=0.01, at_most=1), floating(800, rng)


@cache
def made():
    return {name: (strata, Y) for name, strata, Y in cases()}


@pytest.fixture(params=["peg", "panda", "crowd", "each"])
def case(request):
    return made()[request.param]


@pytest.fixture
def strata(case):
    return case[0]


@pytest.fixture
def Y(case):
    return case[1]


def test_labels_are_those_of_the_loop(strata, Y):
    labels = strata.index(Y)
    assert (labels == labels_row_by_row(strata, Y)).all()
    assert len(np.unique(labels)) > 2


@pytest.mark.parametrize("within", [np.inf, 0.03, 0.0])
def test_distances_are_those_of_the_loop_up_to_the_limit(strata, Y, within):
    """Where solids do not overlap; how deep they do, MuJoCo understates (tests/test_contact_distances.py)."""
    found, expected = strata.distances(Y, within), row_by_row(strata, Y, within)
    near = expected < within
    apart = near & (expected > 0)
    assert found[apart] == pytest.approx(expected[apart], abs=1e-9)
    assert (found[near & ~apart] < 1e-9).all()
    assert (found[~near] > within - 1e-9).all()
    assert near.any()


def test_distances_do_not_depend_on_the_number_of_threads():
    strata, Y = ContactStrata(arm_scene(), PAIRS), arm_configurations(500, np.random.default_rng(5))
    expected, threads = strata.distances(Y), numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert (strata.distances(Y) == expected).all()
    finally:
        numba.set_num_threads(threads)
    assert (np.vstack([strata.distances(y[None]) for y in Y[:50]]) == expected[:50]).all()
