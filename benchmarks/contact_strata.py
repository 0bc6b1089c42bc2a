"""Contact strata compared with MuJoCo row by row: `python -m benchmarks.contact_strata`, ratios of one interleaved run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import cos, radians, sin
from typing import Any

import numpy as np

from benchmarks.comparison import Comparison, print_ratios
from capture_cp import ContactStrata, SweptStrata
from capture_cp.base.checks import Floats, Ints
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_lab.tasks.peg.task import Peg

#: Links of an arm about as large as a Panda: position of each joint on the one before (m), its tilt (degrees), its capsule.
LINKS = (
    ("0 0 0.333", 0, "0 0 -0.1 0 0 0"),
    ("0 0 0", -90, "0 0 0 0 -0.2 0"),
    ("0 -0.316 0", 90, "0 0 -0.05 0 0 0.02"),
    ("0.0825 0 0", 90, "0 0 0 -0.08 0.3 0"),
    ("-0.0825 0.384 0", -90, "0 0 -0.2 0 0.05 0"),
    ("0 0 0", 90, "0 0 0 0.08 0 0"),
    ("0.088 0 0", 90, "0 0 0 0 0 0.2"),
)
PAIRS: list[tuple[Any, Any]] = [
    ("link7", ["floor", "table", "shelf", "wall", "post"]),
    ("link5", ["table", "shelf", "wall", "post"]),
    ("link4", "post"),
]
PEG_PAIRS: list[tuple[Any, Any]] = [("peg", ["left", "right", "table"])]


def arm_scene() -> str:
    """MJCF of a seven-joint arm of capsules at a table, below a shelf, next to a wall and a post."""
    opened = "".join(
        f'<body name="link{i}" pos="{place}" quat="{cos(radians(tilt) / 2)} {sin(radians(tilt) / 2)} 0 0">'
        f'<joint name="joint{i}" axis="0 0 1"/><geom type="capsule" fromto="{capsule}" size="{0.064 - 0.004 * i}"/>'
        for i, (place, tilt, capsule) in enumerate(LINKS, 1)
    )
    return f"""<mujoco><compiler angle="radian"/><worldbody>
      <geom name="floor" type="plane" size="2 2 .1"/>
      <geom name="table" type="box" pos="0.5 0 0.2" size="0.3 0.6 0.02"/>
      <geom name="shelf" type="box" pos="0.6 0 0.7" size="0.2 0.5 0.02"/>
      <geom name="wall" type="box" pos="-0.5 0 0.5" size="0.05 1 0.5"/>
      <geom name="post" type="box" pos="0.3 0.4 0.5" size="0.04 0.04 0.5" euler="0 0 0.4"/>
      {opened}{"</body>" * len(LINKS)}
    </worldbody></mujoco>"""


def arm_configurations(n: int, rng: np.random.Generator) -> Floats:
    """Joint angles (n, 7) of the arm."""
    return rng.uniform(-2.5, 2.5, (n, 7))


# -- the alternative ----------------------------------------------------------------------------------------------------


def row_by_row(strata: ContactStrata, Y: Any, within: float = np.inf) -> Floats:
    """Signed distances (n, pairs) at Y (n, dc) as a loop over rows and pairs, all measured by MuJoCo."""
    mujoco, model, qpos = mujoco_module(), strata.model, strata._rows(Y)
    data, limit = mujoco.MjData(model), min(within, 1e10)
    geoms = [pair for pairs in strata._geoms.values() for pair in pairs]
    distances = np.empty((len(qpos), len(geoms)))
    for i, row in enumerate(qpos):
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        distances[i] = [mujoco.mj_geomDistance(model, data, a, b, limit, None) for a, b in geoms]
    starts = np.cumsum([0, *map(len, strata._geoms.values())])[:-1]
    return np.asarray(np.minimum.reduceat(distances, starts, axis=1))


def labels_row_by_row(strata: ContactStrata, Y: Any) -> Ints:
    """Strata (n,) at Y (n, dc), -1 where infeasible, by the loop."""
    distances = row_by_row(strata, Y, within=2 * strata.tolerance + 1e-9)
    known = {tuple(bits): m for m, bits in enumerate(np.asarray(strata.features).tolist()) if m != strata.rest}
    labels = [known.get(tuple(bits), strata.rest) for bits in (distances <= strata.tolerance).astype(float).tolist()]
    return np.where((distances < -strata.depth).any(axis=1), -1, np.array(labels, dtype=np.int64))


# -- the comparisons ----------------------------------------------------------------------------------------------------


def contact_comparisons(seed: int, rows: int = 20_000) -> Iterator[Comparison]:
    """Labels and distances of contact strata, against the loop over rows and pairs."""
    rng, peg = np.random.default_rng(seed), Peg()
    Y, poses = arm_configurations(rows, rng), peg.strata.sample_starts(rows, rng)
    arm = ContactStrata(arm_scene(), PAIRS, tolerance=0.005)
    swept = SweptStrata(arm_scene(), PAIRS, tolerance=0.005)
    rails = ContactStrata(peg.true_system().model, PEG_PAIRS, tolerance=0.75e-3)
    alternative = "MuJoCo row by row"
    for name, strata, given in (("arm, 10 pairs", arm, Y), ("peg in contact, 3 pairs", rails, poses)):
        for job, ours, theirs in (
            ("labels", strata.index, labels_row_by_row),
            ("all distances", strata.distances, row_by_row),
        ):
            slow = partial(theirs, strata, given)
            yield Comparison(f"{job}: {name}", partial(ours, given), alternative, slow, 10, rounds=3)
    slow = partial(labels_row_by_row, arm, Y)
    yield Comparison("labels: arm, swept", partial(swept.index, Y), alternative, slow, 100, rounds=3)
    yield Comparison("labels: arm, swept", partial(swept.index, Y), "ContactStrata", partial(arm.index, Y), 1)


if __name__ == "__main__":
    print_ratios(contact_comparisons(0), 7)
