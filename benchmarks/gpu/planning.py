"""The paper's Table 2 with many more episodes and calibrations, on a GPU: python -m benchmarks.gpu.planning.

The same rows as `capture plan marble --device cuda --seed SEED`, timed, for several seeds: each has its own calibration
data and episodes. Needs none of the command line's libraries.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from benchmarks.gpu.arguments import at_least_one, result_file
from capture_cp.base.checks import CaptureError
from capture_cp.base.files import write_json
from capture_cp.cuda.device import require_cuda
from capture_cp.planning.episode import episode_seeds
from capture_lab.studies.paper import PLANNING_METHODS
from capture_lab.studies.planning_rows import planning_row, summary
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map, tuning_variant
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.rows import fit_row

ALPHA = 0.1  # as in the study


def rows(
    maps: Sequence[str], methods: Sequence[str], episodes: int, seeds: Sequence[int], variant: bool
) -> Iterator[dict[str, Any]]:
    """A row of the table for every map, method and seed, with the seconds taken by its calibration and its episodes."""
    for map_name in maps:
        task = Marble(tuning_variant(load_map(map_name)) if variant else load_map(map_name))
        for name, seed in product(methods, seeds):
            began = time.perf_counter()
            found = fit_row(task.rows[name], task, seed)
            ready = time.perf_counter()
            numbers = [episode_seeds(seed, task.place, episode) for episode in range(episodes)]
            runs = list(found.play(task.starts(episodes), ALPHA, numbers, "cuda"))
            row = planning_row(task.name, map_name, name, [summary(run, task) for run in runs])
            plans = sum(run.steps for run in runs)
            done = time.perf_counter()
            spent = {"calibrating_seconds": ready - began, "planning_seconds": done - ready}
            yield row | {"seed": seed, "variant": variant, "plans": plans} | spent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the table, print one line per row, and write them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", nargs="+", default=MAP_NAMES)
    parser.add_argument("--methods", nargs="+", default=PLANNING_METHODS, choices=tuple(Marble(load_map(MAP_NAMES[0])).rows))
    parser.add_argument("--episodes", type=at_least_one, default=1000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--variant", action="store_true", help="mirrored maps with moved pits")
    parser.add_argument("--out", type=result_file)
    given = parser.parse_args(arguments)
    try:
        require_cuda()
        began, found = time.perf_counter(), []
        for row in rows(given.maps, given.methods, given.episodes, given.seeds, given.variant):
            found.append(row)
            low, high = (100 * share for share in row["success_ci95"])
            print(
                f"{row['map']:13} {row['method']:12} {row['seed']:4} "
                f"success {100 * row['success']:5.1f}% ({low:.1f}-{high:.1f}), "
                f"fell {100 * row['fell']:5.1f}%, {row['plans']:7,} plans, {row['planning_seconds']:6.1f} s, "
                f"{time.perf_counter() - began:6.1f} s in all",
                flush=True,
            )
            if given.out is not None:
                write_json(given.out, {"seconds": time.perf_counter() - began, "rows": found})
    except CaptureError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
