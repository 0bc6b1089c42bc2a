"""Robots of users, small: logs and calibrations of one, two, three and five axes, for the page and the films."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from capture_cp import Transitions, write_transitions
from capture_cp.cli import main
from capture_cp.spaces.metrics import wrap_angle
from capture_lab.tasks.box import Box

HERE = Path(__file__).parent


@contextmanager
def inside(folder):
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)


def box_runs(runs, length, seed):
    """A log of episodes in a box with walls."""
    rng, task, rows = np.random.default_rng(seed), Box(), []
    for run in range(runs):
        state = task.inputs(1, rng)[0, :2]
        for time in range(length):
            push = rng.uniform(-0.3, 0.3, 2)
            after = task.true_step(state[None], push[None], rng)[0]
            rows.append((state, push, after, f"run {run + 1}", 0.1 * time))
            state = after
    state, push, after, episode, time = zip(*rows)
    names = ["x", "y"], ["push_x", "push_y"], ["next_x", "next_y"]
    return Transitions.from_arrays(state, push, after, *names, episode=episode, time=time, episode_name="run", time_name="t")


def turns(n, seed, start=np.pi):
    """A log of a wheel that turns about ±π: one axis, an angle."""
    rng = np.random.default_rng(seed)
    angle, turn = start + 0.4 * rng.standard_normal(n), rng.uniform(-0.3, 0.3, n)
    after = angle + turn + 0.05 * rng.standard_normal(n)
    parts = (wrap_angle(part)[:, None] for part in (angle, turn, after))
    return Transitions.from_arrays(
        *parts, ["angle"], ["turn"], ["next_angle"], episode=np.arange(n) // 20, episode_name="run"
    )


def moves(n, axes, seed):
    """A log of a robot of several axes, the last of them an angle, without episodes."""
    rng = np.random.default_rng(seed)
    state, action = rng.uniform(-1, 1, (n, axes)), rng.uniform(-0.2, 0.2, (n, axes))
    state[:, -1] *= np.pi
    after = state + action + 0.02 * rng.standard_normal((n, axes))
    after[:, -1] = wrap_angle(after[:, -1])
    names = [[f"{part}{i}" for i in range(axes)] for part in ("q", "u", "next_q")]
    return Transitions.from_arrays(state, action, after, *names)


def options_of(log, **more):
    """The command-line options that name a log's columns."""
    columns = {"state": log.state_names, "action": log.action_names, "next": log.next_names}
    columns |= {name: (value,) for name, value in more.items()}
    return [word for name, names in columns.items() for word in (f"--{name.replace('_', '-')}", *names)]


def made(folder):
    """In a folder: box, wheel, pose and arm, each with a calibration, its log and a new one."""
    shutil.copy(HERE / "logs" / "pusher.py", folder)
    shutil.copy(HERE.parent / "docs" / "assets" / "pushes.csv", folder)
    logs = {
        "box": (box_runs(60, 20, 0), box_runs(4, 12, 1)),
        "wheel": (turns(1200, 0), turns(60, 1)),
        "pose": (moves(900, 3, 0), moves(40, 3, 1)),
        "arm": (moves(900, 5, 0), moves(30, 5, 1)),
    }
    extra = {
        "box": "--model pusher:model --strata pusher:strata --episode run --time t --min-stratum 0",
        "wheel": "--angles next_angle --episode run",
        "pose": "--angles next_q2",
        "arm": "--angles next_q4",
    }
    with inside(folder):
        for name, (log, new) in logs.items():
            write_transitions(f"{name}.csv", log)
            write_transitions(f"{name}-new.csv", new)
            main(["calibrate", f"{name}.csv", *options_of(log), *extra[name].split(), "--out", f"{name}.capture"])
    return folder
