"""The simulation of `capture gap` and a plain threaded loop over `mj_step`: run alone with `python -m benchmarks.gap`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.comparison import Comparison, print_ratios
from capture_cp.base.checks import Floats, Ints

STEPS = tuple(range(1, 21))


def gap_comparisons() -> Iterator[Comparison]:
    """Every step from 1 to 20 from every row of 60 simulated tosses; a ratio of 0.83 is 1.2 times as long."""
    if find_spec("mujoco") is None:
        return
    from capture_cp.gap.measure import joints_of, read_states
    from capture_cp.gap.settings import LogSettings
    from capture_cp.models.simulators import ModelFile, Start
    from capture_cp.spaces.mujoco_model import mujoco_module, read_model
    from capture_lab.tasks.toss import write_example

    mujoco, folder = mujoco_module(), tempfile.TemporaryDirectory()
    simulators, log = write_example(Path(folder.name))
    states = read_states(log, joints_of(read_model(simulators[0])), (), LogSettings())
    simulator, rows = ModelFile.of("toss", simulators[0], states), states.starts()
    start, cores = Start.of(states, rows, STEPS), os.cpu_count() or 1

    def loop(part: Ints) -> Floats:
        found, data = np.full((len(part), len(STEPS), 7), np.nan), mujoco.MjData(simulator.model)
        for i, row in enumerate(part.tolist()):
            mujoco.mj_resetData(simulator.model, data)
            data.qpos[:], data.qvel[:] = states.start[row], states.qvel[row]
            for step in range(min(len(STEPS), int(states.after[row]))):
                mujoco.mj_step(simulator.model, data, simulator.substeps)
                found[i, step] = data.qpos
        return found

    def theirs() -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(loop, np.array_split(rows, cores)))

    job = f"{len(rows):,} starts x {len(STEPS)} steps in MuJoCo"
    yield Comparison(job, lambda: simulator.predict(start, np.random.default_rng(0)), "a loop over mj_step", theirs, 0.83)
    folder.cleanup()


if __name__ == "__main__":
    print_ratios(gap_comparisons(), 5)
