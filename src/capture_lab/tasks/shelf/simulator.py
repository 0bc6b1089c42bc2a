"""The true system: the arm in MuJoCo, held by an impedance controller, with a jar of unknown mass in its hand."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints, finite_rows, same_length, whole_number
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_lab.tasks.shelf.mjcf import Physics, scene_model
from capture_lab.tasks.shelf.model import RATE
from capture_lab.tasks.shelf.shelves import Shelf

#: Parts of a step after which contact with a glass is checked.
LOOKS = 10


class ShelfSystem:
    """Arms in front of one shelf, each stepped from its own state: angles and velocities (14).

    The controller's target is the present joint angles plus the action, held for a control step: sagging and blocked motion
    are not made up for later. Bit-identical for any batch and any number of threads.

    Attributes:
        model: MuJoCo's model, for drawing.
    """

    def __init__(self, shelf: Shelf, physics: Physics, threads: int | None = None) -> None:
        self.shelf, self.physics = shelf, physics
        self.threads = (os.cpu_count() or 1) if threads is None else whole_number("threads", threads, 1)
        self._mujoco = mujoco_module()
        self.model = scene_model(shelf, physics)
        self.limits: Floats = self.model.jnt_range.T.copy()
        self._substeps = round(1 / (RATE * self.model.opt.timestep))
        self._spare: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process is built again."""
        return type(self), (self.shelf, self.physics, self.threads)

    def step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """States (n, 14) one control step after states (n, 14), under actions (n, 7) with noise."""
        given, asked = _rows("states", states, 14), _rows("actions", actions, 7)
        same_length("states", given, "actions", asked)
        targets = self._targets(given, asked, rng)
        after = np.empty_like(given)

        def work(rows: Ints) -> None:
            data = self._data()
            for i in rows:
                self._place(data, given[i], targets[i])
                self._mujoco.mj_step(self.model, data, self._substeps)
                after[i, :7], after[i, 7:] = data.qpos, data.qvel
            self._spare.append(data)

        threads = min(self.threads, max(1, len(given) // 8))
        if threads == 1:
            work(np.arange(len(given)))
        else:
            with ThreadPoolExecutor(threads) as pool:  # MuJoCo releases Python's lock while it steps
                list(pool.map(work, np.array_split(np.arange(len(given)), threads)))
        return after

    def watched(self, state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """The state (14,) after a step, and configurations (LOOKS, 7) on the way there, including the last."""
        data, seen = self._data(), np.empty((LOOKS, 7))
        self._place(data, state, self._targets(state[None], action[None], rng)[0])
        for i in range(LOOKS):
            self._mujoco.mj_step(self.model, data, self._substeps // LOOKS)
            seen[i] = data.qpos
        after = np.concatenate([data.qpos, data.qvel])
        self._spare.append(data)
        return after, seen

    def _targets(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Target angles (n, 7) of the controller."""
        disturbed = actions + self.physics.noise * rng.standard_normal(actions.shape)
        return np.clip(states[:, :7] + disturbed, *self.limits)

    def _data(self) -> Any:
        """An MjData for a thread, reused: making one takes longer than a step."""
        try:
            return self._spare.pop()
        except IndexError:  # caught instead of checked first: another thread may take the last one
            return self._mujoco.MjData(self.model)

    def _place(self, data: Any, state: Floats, target: Floats) -> None:
        self._mujoco.mj_resetData(self.model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = state[:7], state[7:], target


def _rows(name: str, rows: Floats, width: int) -> Floats:
    return finite_rows(name, rows, width, f"(n, {width})")
