"""Which environments there are, and that nothing of a task is imported to know it."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import gymnasium
import pytest

import capture_lab.gym
from capture_cp import CaptureError
from capture_lab.gym import ids
from capture_lab.tasks import TASKS, find_task, register_task
from capture_lab.tasks.box import Box


def test_the_written_places_and_steps_are_those_of_the_tasks():
    from capture_lab.tasks.peg.task import SystemName

    assert {name: where for name, (where, _, _) in ids.OURS.items()} == TASKS
    for name, (_, places, steps) in ids.OURS.items():
        options = find_task(name)
        assert getattr(options, "task", options).max_steps == steps
        assert places == (get_args(SystemName) if name == "peg" else options().place_names)


def test_every_place_has_an_id():
    found = capture_lab.gym.env_ids()
    assert {"capture/Box-v0", "capture/MarbleTopLeft-v0", "capture/PegArm-v0", "capture/ShelfTwoGlasses-v0"} <= set(found)
    assert set(found) <= set(gymnasium.registry)
    assert len(found) == len(set(found)) == 14
    assert gymnasium.spec("capture/PegPlanar-v0").max_episode_steps == 75


def test_registering_imports_no_task_no_compiler_and_no_simulator():
    code = (
        "import sys, gymnasium, capture_lab.gym\n"
        "heavy = {'numba', 'scipy', 'mujoco', 'matplotlib', 'sklearn', 'capture_lab.tasks.task'}\n"
        "assert 'capture/MarbleCenter-v0' in gymnasium.registry\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_make_imports_us_by_the_name_of_the_module():
    code = "import gymnasium; print(gymnasium.make('capture_lab.gym:capture/Box-v0').reset(seed=0)[0])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[0.1  0.85]"


@pytest.fixture
def pad(monkeypatch):
    """A task that a program registers."""
    monkeypatch.setitem(TASKS, "launch-pad", None)  # so that it is forgotten afterwards

    @register_task
    class Pad(Box):
        name = "launch-pad"
        max_steps = 7

    yield Pad
    gymnasium.registry.pop("capture/LaunchPad-v0", None)


def test_a_registered_task_has_an_environment(pad):
    capture_lab.gym.register_envs()
    capture_lab.gym.register_envs()  # twice is once
    env = gymnasium.make("capture/LaunchPad-v0", noise=0.0)
    assert env.spec.max_episode_steps == 7
    env.reset(seed=0)
    ends = [env.step([0.0, 0.0])[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]


def test_a_task_of_another_package_is_imported_when_its_environment_is_made(monkeypatch):
    monkeypatch.setitem(TASKS, "brought", "capture_lab.tasks.box:Box")
    try:
        capture_lab.gym.register_envs()
        assert gymnasium.spec("capture/Brought-v0").max_episode_steps is None  # known once it is imported
        env = gymnasium.make("capture/Brought-v0")
        env.reset(seed=0)
        assert [env.step([0.0, 0.0])[3] for _ in range(30)] == [False] * 29 + [True]
        together = gymnasium.make_vec("capture/Brought-v0", num_envs=2)
        together.reset(seed=0)
        assert [together.step([[0.0, 0.0]] * 2)[3].any() for _ in range(30)] == [False] * 29 + [True]
    finally:
        gymnasium.registry.pop("capture/Brought-v0", None)


def test_a_task_that_cannot_be_asked_for_its_places_has_one_id(monkeypatch):
    class Shy(Box):
        name = "shy"

        def places(self):
            raise CaptureError("not now.")

    monkeypatch.setitem(TASKS, "shy", Shy)
    assert ids.places()["Shy"] == ids.Place("shy", None, 30)


def test_without_gymnasium_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(CaptureError, match=r'install it with: pip install "capture-cp\[gym\]"'):
        ids.gymnasium_module()


def test_environments_of_one_place_share_its_task_unless_it_has_options():
    first, second, other = (
        gymnasium.make("capture/Box-v0", **options).unwrapped.task for options in ({}, {}, {"noise": 0.0})
    )
    assert first is second
    assert (first.noise, other.noise) == (0.02, 0.0)
