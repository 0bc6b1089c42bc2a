"""Practice: closed-loop runs of a planner, on which the regions of its executed steps are calibrated.

The regions in the planner's cost stay the same, so practice does not change its behaviour. New runs are then exchangeable
with the practice runs: in a stratum that one visits, a random one of its steps there lies in its region with probability at
least 1 - alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from capture_cp.base.checks import CaptureError
from capture_cp.base.streams import derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.capture.on_policy import executed
from capture_cp.conformal.groups import OneGroup, PerStratum, Tree
from capture_cp.cuda.device import Device
from capture_cp.planning.episode import Episode
from capture_lab.tasks.rows import FittedRow
from capture_lab.tasks.task import Advance, Task


def practised(
    fitted: FittedRow,
    task: Task,
    alpha: float = 0.1,
    seed: int = 0,
    device: Device = "cpu",
    advance: Advance | None = None,
) -> FittedRow:
    """A row whose regions of executed steps are calibrated on `row.practice` runs of its planner.

    `task` is the task that the row was fitted to. Nothing is played if a saved calibration exists, see `Task.practice_file`.
    """
    if not isinstance(fitted.cap, Capture):
        raise CaptureError("executed steps calibrate one-step regions; use a row without regions for a horizon.")
    ready = ready_promise(fitted, task, seed) if alpha == 0.1 else None
    if ready is not None:
        return replace(fitted, promise=ready)
    seeds = [derived_seed(seed, "practice", fitted.task.place, run) for run in range(fitted.row.practice)]
    runs = []
    for run in fitted.play(fitted.task.starts(len(seeds)), alpha, list(zip(seeds, seeds)), device, regions=False):
        runs.append(run)
        if advance is not None:
            advance(1)
    return replace(fitted, promise=on_episodes(fitted.task, fitted.cap, runs))


def ready_promise(fitted: FittedRow, task: Task, seed: int) -> Capture | None:
    """The saved calibration on practice runs of exactly this row, fitted to `task`, at alpha = 0.1; None if missing."""
    cap, file = fitted.cap, task.practice_file(fitted.row)
    if file is None or seed != 0 or cap.groups != task.tree or cap.data_["rows"] != task.calibration_size:
        return None
    promise = Capture.load(file, model=fitted.task, strata=task.strata)
    return promise if (promise.score_, promise.n_particles) == (cap.score_, cap.n_particles) else None


def on_episodes(task: Task, like: Capture, runs: Sequence[Episode]) -> Capture:
    """The method `like`, calibrated on the executed steps of whole episodes, which are too few for a tree.

    The tree is replaced by one threshold per stratum, or by a single one if the method ignores strata.
    """
    groups, rows = like.groups_, executed(runs, task.axes)
    if isinstance(groups, Tree):
        groups = OneGroup() if groups.stratum_input == "none" else PerStratum()
    cap = Capture(**(like.get_params(deep=False) | {"model": task, "groups": groups}))
    return cap.fit(rows.X, rows.Y, episodes=rows.episodes)
