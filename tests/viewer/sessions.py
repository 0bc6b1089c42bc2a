"""A small marble session that the tests of this folder share."""

from dataclasses import replace

from capture_lab.studies.live import TaskSession
from capture_lab.studies.view import TaskView
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.planner import PLANNER

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
