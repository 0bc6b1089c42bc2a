"""Simulated transitions of the peg: the same for any threads, fewer are the first of more, and each part is made once."""

from __future__ import annotations

import numpy as np
import pytest

from capture_lab.tasks.peg import data as module
from capture_lab.tasks.peg.data import peg_data
from capture_lab.tasks.peg.settings import PegSettings
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.task import CALIBRATION, TEST

pytest.importorskip("mujoco")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(module, "PART", 20)
    module._simulated.cache_clear()


TASK = Peg()


def rows(n=50, task=TASK, seed=0, purpose=CALIBRATION, advance=None):
    found, _ = peg_data(task, n, seed, purpose, advance)
    return np.hstack([found.X, found.Y])


def test_fewer_are_the_first_of_more_for_any_threads():
    more = rows(50)
    for n in (7, 20, 33):
        module._simulated.cache_clear()
        assert np.array_equal(rows(n, Peg(threads=3)), more[:n])


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"purpose": TEST},
        {"task": Peg(PegSettings(bound=2.5))},
        {"task": Peg(PegSettings(friction=0.5))},
        {"task": Peg(trim=1.5e-3)},
        {"task": Peg(system="arm")},
    ],
    ids=str,
)
def test_another_configuration_has_other_transitions(other):
    mine = rows(5)
    assert not np.array_equal(rows(5, **other), mine)
    assert np.array_equal(rows(5), mine)


def test_each_part_is_simulated_once_and_progress_adds_up():
    done = []
    rows(45, advance=done.append)
    assert done == [20, 20, 5]
    rows(45)
    assert module._simulated.cache_info().misses == 3
