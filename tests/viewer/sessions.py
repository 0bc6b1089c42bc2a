"""A small marble session that the tests of this folder share."""

from dataclasses import replace

from capture_cp.viewer.session import Session
from capture_cp.viewer.view import View
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.planner import PLANNER

VIEW = View.of(MarbleOptions(), place="bottom-right", planner=replace(PLANNER, samples=256), port=8731)


def ready(**changes):
    """A session whose methods are calibrated."""
    return calibrated(Session(replace(VIEW, **changes)))


def calibrated(session):
    while session.prepare():
        pass
    return session


def played(session, steps=100):
    """The outcome after so many steps at most, or None."""
    for _ in range(steps + 1):
        session.advance()
        if session.moment().outcome is not None:
            break
    return session.moment().outcome
