"""A small marble session that the tests of this folder share, its episode as recorded, and a peg without a simulator."""

from dataclasses import replace

import pytest

from capture_cp.planning.episode import episode_seeds, run_episode
from capture_lab.studies.live import TaskSession
from capture_lab.studies.view import TaskView
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.planner import PLANNER
from capture_lab.tasks.marble.task import POSITION
from capture_lab.tasks.rows import acting_row

VIEW = TaskView.of(MarbleOptions(), place="bottom-right", planner=replace(PLANNER, samples=256), port=8731)


def ready(**changes):
    """A session whose methods are calibrated."""
    return calibrated(TaskSession(replace(VIEW, **changes)))


def calibrated(session):
    while session.prepare():
        pass
    return session


def played(session, steps=100):
    """The outcome after so many steps at most, or None."""
    for _ in range(steps + 1):
        session.advance()
        if session.now.outcome is not None:
            break
    return session.now.outcome


def recorded(session):
    """An episode as `capture plan marble` records it."""
    fitted = session._rows["bottom-right", "capture", 8, 16, 0]
    task, seeds = fitted.task, episode_seeds(0, fitted.task.place, 0)
    planner = task.planner(fitted.cap, VIEW.planner, VIEW.weights, VIEW.alpha, seeds[0])
    info = {"task": "marble", "options": {}, "map": "bottom-right", "method": "capture"}
    start = task.starts(1)[0]
    run = run_episode(planner, task.closed_loop(start), start, task.max_steps, seeds[1], info)
    return run.with_regions(fitted.executed, POSITION, VIEW.alpha)


def peg_view(monkeypatch):
    """The page of the peg, calibrated on simulations that are kept."""
    pytest.importorskip("mujoco", reason="MuJoCo is not installed (extra sim)")
    from capture_lab.tasks.peg.options import PegOptions
    from capture_lab.tasks.peg.planner import PLANNER
    from peg.calibrated import calibrated

    def quick(session, task, name, settings):
        return acting_row(task.rows[name], task, calibrated(name))

    monkeypatch.setattr(TaskSession, "_calibrated", quick)
    return TaskView.of(PegOptions(), port=8741, planner=replace(PLANNER, samples=16, horizon=4))
