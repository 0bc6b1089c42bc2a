"""The peg behind the page, calibrated without a simulator; only the episode needs MuJoCo."""

from dataclasses import replace

import pytest

from capture_lab.studies.live import TaskSession
from capture_lab.studies.view import TaskView
from capture_lab.tasks.peg.options import PegOptions
from capture_lab.tasks.peg.planner import PLANNER
from capture_lab.tasks.rows import acting_row
from peg.calibrated import calibrated

pytest.importorskip("mujoco", reason="MuJoCo is not installed (extra sim)")

VIEW = TaskView.of(PegOptions(), planner=replace(PLANNER, samples=16, horizon=4))


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(
        TaskSession, "_calibrated", lambda session, task, name, settings: acting_row(task.rows[name], task, calibrated(name))
    )
    session = TaskSession(VIEW)
    while session.prepare():
        pass
    return session


def test_only_the_next_step_has_a_region_and_every_step_its_particles(session):
    session.advance()
    steps = session.shown().now.plans["capture"]
    assert [step.region is not None for step in steps] == [True, False, False, False]
    assert all(step.cloud.shape == (8, 3) for step in steps)
    assert steps[0].cells.sum() == len(steps[0].region.cells())


def test_a_live_episode_is_counted_by_regime(session):
    for _ in range(4):
        session.advance()
    tally = session.shown().tallies["capture"]
    assert tally.landed.sum() == 3
    assert len(tally.landed) == len(session.task.regimes) == 4


def test_a_peg_dragged_into_the_receptacle_is_lifted_out(session):
    session.put([0.015, -0.01, 0.3])
    assert session.task.strata.index(session.state[None])[0] >= 0
