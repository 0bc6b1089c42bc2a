"""Which environments there are, and that nothing of a task is imported to know it."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import gymnasium
import pytest

import capture_lab.gym
from capture_cp import CaptureError
from capture_lab.tasks import TASKS, find_task, register_task
from capture_lab.tasks.box import Box


def test_every_place_has_an_id_and_the_written_places_and_steps_are_those_of_the_tasks():
    from capture_lab.tasks.peg.task import SystemName

    assert capture_lab.gym.OURS.keys() == TASKS.keys()
    for name, (places, steps) in capture_lab.gym.OURS.items():
        options = find_task(name)
        assert getattr(options, "task", options).max_steps == steps
        assert places == (get_args(SystemName) if name == "peg" else options().place_names)
    found = capture_lab.gym.env_ids()
    assert {"capture/Box-v0", "capture/MarbleTopLeft-v0", "capture/PegArm-v0", "capture/ShelfTwoGlasses-v0"} <= set(found)
    assert len(found) == len(set(found) & set(gymnasium.registry)) == 14


def test_registering_imports_no_task_no_compiler_and_no_simulator():
    code = (
        "import sys, gymnasium, capture_lab.gym\n"
        "assert 'capture/MarbleCenter-v0' in gymnasium.registry\n"
        "heavy = {'numba', 'scipy', 'mujoco', 'matplotlib', 'sklearn', 'capture_lab.tasks.task'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert gymnasium.make('capture_lab.gym:capture/Box-v0').reset(seed=0)[0].tolist() == [0.1, 0.85]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_task_that_a_program_registers_has_an_environment(monkeypatch):
    monkeypatch.setitem(TASKS, "launch-pad", None)  # so that it is forgotten afterwards

    @register_task
    class Pad(Box):
        name = "launch-pad"
        max_steps = 7

    capture_lab.gym.register_envs()
    capture_lab.gym.register_envs()  # twice is once
    env = gymnasium.make("capture/LaunchPad-v0", noise=0.0)
    assert env.spec.max_episode_steps == 7
    env.reset(seed=0)
    ends = [env.step([0.0, 0.0])[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]
    del gymnasium.registry["capture/LaunchPad-v0"]


def test_a_task_of_another_package_is_imported_when_its_environment_is_made(monkeypatch):
    monkeypatch.setitem(TASKS, "brought", "capture_lab.tasks.box:Box")
    capture_lab.gym.register_envs()
    assert gymnasium.spec("capture/Brought-v0").max_episode_steps is None  # known once it is imported
    for env, still in (
        (gymnasium.make("capture/Brought-v0"), [0.0, 0.0]),
        (gymnasium.make_vec("capture/Brought-v0", num_envs=1), [[0.0, 0.0]]),
    ):
        env.reset(seed=0)
        assert [bool(env.step(still)[3]) for _ in range(30)] == [False] * 29 + [True]
    del gymnasium.registry["capture/Brought-v0"]


def test_a_task_that_cannot_be_asked_for_its_places_has_one_id(monkeypatch):
    class Shy(Box):
        name = "shy"

        def places(self):
            raise CaptureError("not now.")

    monkeypatch.setitem(TASKS, "shy", Shy)
    capture_lab.gym.register_envs()
    assert gymnasium.registry.pop("capture/Shy-v0").max_episode_steps == 30


def test_without_gymnasium_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(CaptureError, match=r'install it with: pip install "capture-cp\[gym\]"'):
        capture_lab.gym.register_envs()
