"""Contact strata compared with MuJoCo row by row: `python -m benchmarks.contact_strata`, ratios of one interleaved run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, radians, sin
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Comparison
from capture_cp import ContactStrata, SweptStrata
from capture_cp.base.checks import Floats, Ints, whole_number
from capture_cp.report.output import write_rows
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_cp.spaces.pair_strata import PairStrata
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


def row_by_row(strata: PairStrata, Y: Any, within: float = np.inf) -> Floats:
    """Signed distances (n, pairs) at Y (n, dc) as a loop over rows and pairs, all measured by MuJoCo."""
    mujoco, model, qpos = mujoco_module(), strata.model, strata._qpos(Y)
    data, limit = mujoco.MjData(model), min(within, 1e10)
    geoms = [pair for pairs in strata._geoms.values() for pair in pairs]
    distances = np.empty((len(qpos), len(geoms)))
    for i, row in enumerate(qpos):
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        distances[i] = [mujoco.mj_geomDistance(model, data, a, b, limit, None) for a, b in geoms]
    starts = np.cumsum([0, *map(len, strata._geoms.values())])[:-1]
    return np.asarray(np.minimum.reduceat(distances, starts, axis=1))


def labels_row_by_row(strata: PairStrata, Y: Any) -> Ints:
    """Strata (n,) at Y (n, dc), -1 where infeasible, by the loop."""
    distances = row_by_row(strata, Y, within=2 * strata.tolerance + 1e-9)
    known = {tuple(bits): m for m, bits in enumerate(np.asarray(strata.features).tolist()) if m != strata.rest}
    labels = [known.get(tuple(bits), strata.rest) for bits in (distances <= strata.tolerance).astype(float).tolist()]
    return np.where((distances < -strata.depth).any(axis=1), -1, np.array(labels, dtype=np.int64))


# -- the comparisons ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ContactBench:
    """Time labels and distances of contact strata against the loop over rows and pairs, in one interleaved run."""

    rows: Annotated[int, tyro.conf.arg(help="Configurations per batch.")] = 20_000
    rounds: Annotated[int, tyro.conf.arg(help="How often each pair of jobs is timed, alternating.")] = 7
    seed: Annotated[int, tyro.conf.arg(help="Seed of the configurations.")] = 0
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this file.")] = None

    def run(self, console: Console) -> None:
        """Time every pair and print the ratios."""
        whole_number("rows", self.rows, 1)
        rows = [pair.time(whole_number("rounds", self.rounds, 1)) for pair in self._comparisons()]
        table = Table(title=f"Speed-up, median of {self.rounds} interleaved rounds (lowest - highest)")
        for column in ("job", "alternative", "speed-up", "target", "ours, µs per row"):
            table.add_column(column, justify="left" if column in ("job", "alternative") else "right")
        for row in rows:
            low, high = row["range"]
            ratio, taken = f"{row['speed_up']:.1f} ({low:.1f} - {high:.1f})", f"{1e6 * row['seconds'] / self.rows:.2f}"
            table.add_row(row["job"], row["alternative"], ratio, f"{row['wanted']:g}", taken)
        console.print(table)
        if self.json is not None:
            write_rows(self.json, rows, self)

    def _comparisons(self) -> Iterator[Comparison]:
        rng, peg = np.random.default_rng(self.seed), Peg()
        Y, poses = arm_configurations(self.rows, rng), peg.strata.sample_starts(self.rows, rng)
        arm = ContactStrata(arm_scene(), PAIRS, tolerance=0.005)
        swept = SweptStrata(arm_scene(), PAIRS, tolerance=0.005)
        rails = ContactStrata(peg.true_system().model, PEG_PAIRS, tolerance=0.75e-3)
        for name, strata, given in (("arm, 10 pairs", arm, Y), ("peg in contact, 3 pairs", rails, poses)):
            yield Comparison(
                f"labels: {name}", lambda s=strata, y=given: s.index(y),  # type: ignore[misc]
                "MuJoCo row by row", lambda s=strata, y=given: labels_row_by_row(s, y), 10, rounds=3,  # type: ignore[misc]
            )  # fmt: skip
            yield Comparison(
                f"all distances: {name}", lambda s=strata, y=given: s.distances(y),  # type: ignore[misc]
                "MuJoCo row by row", lambda s=strata, y=given: row_by_row(s, y), 10, rounds=3,  # type: ignore[misc]
            )  # fmt: skip
        yield Comparison(
            "labels: arm, swept",
            lambda: swept.index(Y),
            "MuJoCo row by row",
            lambda: labels_row_by_row(arm, Y),
            100,
            rounds=3,
        )
        yield Comparison("labels: arm, swept", lambda: swept.index(Y), "ContactStrata", lambda: arm.index(Y), 1)


if __name__ == "__main__":
    tyro.cli(ContactBench, prog="python -m benchmarks.contact_strata").run(Console())
