"""Coverage of the marble's planner in closed loop after practice, on a GPU: python -m benchmarks.gpu.practice.

For every map and seed, the row `capture-on-policy` practises and is then measured in fresh runs, compared with the regions
of the paper's grid in the same runs. `--save FOLDER` saves the calibrations of seed 0, which the package ships in
src/capture_lab/tasks/marble/practice; `--device cpu --episodes 1` does that without a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.gpu.arguments import at_least_one, result_file
from capture_cp.base.checks import CaptureError
from capture_cp.base.files import write_json
from capture_cp.base.streams import derived_seed
from capture_cp.cuda.device import Device, require_cuda
from capture_cp.data.rollouts import executed
from capture_cp.planning.episode import with_regions
from capture_lab.studies.planning_rows import planning_row, summary
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.rows import fit_row, on_episodes

ALPHA = 0.1


def measured(name: str, seed: int, runs: int, save: Path | None, device: Device = "cuda") -> list[dict[str, Any]]:
    """Rows of one map and seed: for the regions in the planner's cost, and for those after practice."""
    task = Marble(load_map(name))
    fitted = fit_row(task.rows["capture-on-policy"], task, seed)
    acting = fitted.task

    def play(purpose: str, n: int) -> Any:
        seeds = [derived_seed(seed, purpose, acting.place, run) for run in range(n)]
        return list(fitted.play(acting.starts(n), ALPHA, list(zip(seeds, seeds)), device, regions=False))

    promise = on_episodes(acting, fitted.cap, play("practice", fitted.row.practice))  # type: ignore[arg-type]
    if save is not None and seed == 0:
        promise.save(save / f"{name}.capture")
    fresh, rows = play("fresh", runs), []
    steps = executed(fresh, acting.axes)
    for kind, cap in (("capture", fitted.cap), ("capture-on-policy", promise)):
        played = with_regions(fresh, cap, acting.axes, ALPHA, seed)
        row = planning_row(task.name, name, kind, [summary(run, acting) for run in played])
        by_episode = cap.coverage(steps.X, steps.Y, ALPHA, volumes=False, episodes=steps.episodes, rng=seed)  # type: ignore[attr-defined]
        shares = {one.name: [one.coverage, *one.ci95, one.n] for one in (by_episode.all, *by_episode.strata)}
        thresholds = [float(q) for q in cap.group_thresholds(ALPHA)]
        rows.append(row | {"seed": seed, "coverage": shares, "thresholds": thresholds})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Practise and measure, print two lines per map and seed, and write them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", nargs="+", default=MAP_NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--episodes", type=at_least_one, default=1000)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=result_file)
    given = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    try:
        if given.device == "cuda":
            require_cuda()
        for name, seed in product(given.maps, given.seeds):
            for row in measured(name, seed, given.episodes, given.save, given.device):
                found.append(row)
                held = {key: f"{100 * row['held'][key] / max(1, n):.1f} of {n:,}" for key, n in row["landed"].items()}
                print(f"{name:13} {seed:3} {row['method']:18} success {100 * row['success']:5.1f}%, {held}", flush=True)
            if given.out is not None:
                write_json(given.out, {"rows": found})
    except CaptureError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
