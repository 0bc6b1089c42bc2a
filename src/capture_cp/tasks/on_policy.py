"""Calibration on a planner's own episodes, in rounds, so that regions hold where the planner goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from capture_cp.base.checks import CaptureError
from capture_cp.capture.capture import Capture
from capture_cp.capture.on_policy import Round, executed, on_policy_rounds
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device
from capture_cp.planning.batch import run_episodes
from capture_cp.planning.episode import Episode, run_episode
from capture_cp.tasks.rows import FittedRow
from capture_cp.tasks.task import Task

#: Plays one episode per seed with a calibrated row.
Play = Callable[[FittedRow, Sequence[int]], Sequence[Episode]]

#: Of calibrations on episodes, some thousand steps at most: few leaves, most episodes left for the thresholds, and a
#: promise by stratum.
TREE = Tree(partition_share=0.3, min_leaf=100)


def calibrated_in_rounds(
    first: FittedRow, play: Play, rounds: int, episodes: int, checks: int = 0, alpha: float = 0.1, seed: int = 0
) -> list[Round[Episode]]:
    """Play with a calibrated row, calibrate it on what was played, and so on; see `on_policy_rounds`."""
    task, cap = first.task, first.cap
    if not isinstance(cap, Capture):
        raise CaptureError("regions of a horizon cannot be calibrated on executed steps; use a row with one-step regions.")

    def fit(runs: Sequence[Episode]) -> Capture:
        return on_episodes(task, cap, runs)

    def played(found: Capture, seeds: list[int]) -> Sequence[Episode]:
        return play(replace(first, cap=found), seeds)

    return on_policy_rounds(cap, played, fit, task.axes, rounds, episodes, checks, alpha, task.seed_here(seed))


def on_episodes(task: Task, like: Capture, runs: Sequence[Episode]) -> Capture:
    """The method `like`, calibrated on the executed steps of episodes, whole episodes as the unit."""
    rows = executed(runs, task.axes)
    cap = Capture(**(like.get_params(deep=False) | {"model": task, "groups": TREE}))
    return cap.fit(rows.X, rows.Y, episodes=rows.episodes)


def play_one_by_one(fitted: FittedRow, seeds: Sequence[int], alpha: float = 0.1) -> list[Episode]:
    """One closed-loop run per seed."""
    return [play_one(fitted, seeds, alpha, number) for number in range(len(seeds))]


def play_one(fitted: FittedRow, seeds: Sequence[int], alpha: float, number: int) -> Episode:
    """The closed-loop run of one of these seeds, from a start of its own."""
    task, seed = fitted.task, seeds[number]
    start = task.starts(len(seeds))[number]
    return run_episode(fitted.planner(alpha, seed), task.closed_loop(start), start, task.max_steps, seed)


def play_together(fitted: FittedRow, seeds: Sequence[int], alpha: float = 0.1) -> list[Episode]:
    """One closed-loop run per seed, all planned together on a GPU."""
    task, systems = fitted.task, fitted.task.closed_loops()
    if systems is None:
        return play_one_by_one(fitted, seeds, alpha)
    planner = fitted.planner(alpha, 0, "cuda")
    return run_episodes(planner, systems, task.starts(len(seeds)), task.max_steps, seeds, seeds)


def player(device: Device, alpha: float = 0.1) -> Play:
    """How episodes are played on a device."""
    return partial(play_one_by_one if device == "cpu" else play_together, alpha=alpha)
