"""What the page needs of a task, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.planning.episode import Episode, System
from capture_cp.planning.mppi import MPPI
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata


@dataclass(frozen=True)
class Ahead:
    """One step of a plan as the model sees it.

    Attributes:
        cloud: particles (L, dc).
        region: theirs, where the planner builds one.
        cells: of the region of the first step, by stratum, infeasible ones last, (M + 1,).
    """

    cloud: Floats
    region: Region | None = None
    cells: Ints | None = None


class World(Protocol):
    """A task with its data, planner and true system. States are (ds,), actions (da,), configurations (dc,)."""

    @property
    def where(self) -> str:
        """The map or the system, by the name that the planning studies seed its episodes with."""

    @property
    def axes(self) -> Sequence[int]:
        """Entries of the state that are the configuration."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """By which coverage is told: names of groups of strata."""

    @property
    def max_steps(self) -> int:
        """After which an episode ends."""

    @property
    def progress(self) -> str:
        """How far a calibration under way has come, in words."""

    @property
    def strata(self) -> GriddedStrata:
        """The stratified configuration space, with its grid."""

    @property
    def stratum_kinds(self) -> Ints:
        """Which of `kinds` each stratum is of: (M,)."""

    def calibrated(self, method_name: str, settings: Any) -> Capture:
        """A method, fitted to the task's calibration transitions; slow."""

    def planner(self, cap: Capture, settings: Any, seed: int) -> MPPI:
        """A planner with the regions of a calibrated method."""

    def system(self, start: Floats) -> System:
        """The true system, about to be stepped from a state."""

    def start(self, episode: int) -> Floats:
        """Where an episode of the planning study starts."""

    def first_look(self) -> tuple[Floats, Floats]:
        """A state and an action worth looking at before anything has moved."""

    def placed(self, state: Floats) -> Floats:
        """The possible state nearest to what a person has asked for."""

    def ahead(self, cap: Capture, state: Floats, plan: Floats, settings: Any, recorded: Floats | None) -> list[Ahead]:
        """The steps of a plan (H, da) from a state; `recorded` particles (L, dc) take the place of the first cloud."""

    def check_episode(self, episode: Episode) -> None:
        """Refuse an episode that is not of this world."""


def kinds_of(world: World, labels: Ints) -> Ints:
    """Which of a world's kinds strata (n,) are of, -1 where infeasible: (n,)."""
    return np.append(world.stratum_kinds, INFEASIBLE)[labels]
