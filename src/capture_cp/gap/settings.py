"""Settings of `measure_gap`: how the log is read, where modes come from, what is measured; and amounts with units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, known_name, whole_number
from capture_cp.data.states import UNITS
from capture_cp.gap.errors import DEGREES, MM, Quantity
from capture_cp.models.simulators import NOISES
from capture_cp.spaces.modes import TOUCH


@dataclass(frozen=True)
class LogSettings:
    """How the log is read.

    Attributes:
        joints: the model's joint names in the order of the log, where names differ.
        columns: columns of single numbers, by their name in the model; these override what is recognised.
        episode, time: columns, by default recognised.
        units: units of joints that are not in m and rad.
        fit_start: whether start states are fitted to a few rows.
        without: names of episodes to leave out.
        every: only each so-many-th row of an episode is a start.
        quaternion: "wxyz" or "xyzw", where names do not tell.
        mapping: TOML text with all columns, as `StateColumns.toml` writes it.
    """

    joints: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    episode: str | None = None
    time: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    fit_start: bool = False
    without: tuple[str, ...] = ()
    every: int = 1
    quaternion: str = ""
    mapping: str | None = None


@dataclass(frozen=True)
class ModeSettings:
    """Where contact modes come from.

    Attributes:
        modes_from: a model file that modes come from; by default the first simulator that is one.
        touch: gap in m up to which geoms touch.
        modes_by: "bodies" or "count"; by default whichever fits the model.
        mode_column: a column of the log with the mode of each row.
        mode_code: an object with names and index(qpos), instead of a model.
        mode_names: other names for modes; modes with the same name are one.
    """

    modes_from: Any = None
    touch: float = TOUCH
    modes_by: str | None = None
    mode_column: str | None = None
    mode_code: Any = None
    mode_names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorSettings:
    """How simulators predict, and what is measured.

    Attributes:
        steps: numbers of steps, rising.
        sites: sites of the model whose distances are measured too; by default all where they are few.
        randomise: ranges of factors on parameters of model files.
        noise: standard deviations of start noise, by what it concerns.
        particles, k: with either, the error is that of the k-th nearest of so many particles.
        seed: of particles.
    """

    steps: tuple[int, ...]
    sites: tuple[str, ...] | None = None
    randomise: Mapping[str, tuple[float, float]] | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    particles: int = 16
    k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.noise:
            known_name("start noise", name, NOISES)
        whole_number("particles", self.particles, 1)
        if self.k is not None and not 1 <= self.k <= self.particles:
            raise CaptureError(
                f"k is {self.k!r}; expected a whole number from 1 to the number of particles, {self.particles}."
            )


# -- amounts with units --------------------------------------------------------------------------------------------------


def parsed_tolerance(given: Sequence[str], of: Sequence[Quantity]) -> dict[str, float]:
    """Tolerances by quantity, from words such as 10mm, 5deg and cube.surface=20mm."""
    found: dict[str, float] = {}
    for word in given:
        name, _, amount = word.rpartition("=")
        value, unit = _number(word, amount)
        meant = [one for one in of if (one.name == name if name else one.tolerated) and _factor(one.unit, unit)]
        if not meant:
            names = ", ".join(f"{one.name} ({one.unit})" for one in of)
            raise CaptureError(
                f"--tolerance {word} fits nothing that is measured; expected a number with mm or deg for {names}."
            )
        found |= {one.name: value * _factor(one.unit, unit) for one in meant}
    return found


def _number(word: str, amount: str) -> tuple[float, str]:
    unit = next((unit for unit in sorted(UNITS, key=len, reverse=True) if amount.endswith(unit)), "")
    try:
        value = float(amount.removesuffix(unit))
    except ValueError:
        value = -1.0
    if not unit or not 0 < value < np.inf:
        raise CaptureError(
            f"{word!r} is no amount; expected a positive number with one of the units {', '.join(UNITS)}: 10mm."
        )
    return value, unit


def _factor(unit: str, given: str) -> float:
    """How many of `unit` (mm or deg) make one of the unit given; 0 where they are of different kinds."""
    lengths = given in ("m", "mm", "cm")
    return UNITS[given] * ((MM if lengths else DEGREES) if lengths == (unit == "mm") else 0.0)


def amounts(option: str, given: Mapping[str, str]) -> dict[str, float]:
    """Start noise in m and rad from words such as 0.3mm; a plain number is in SI units."""
    found = {}
    for name, word in given.items():
        try:
            found[name] = float(word)
        except ValueError:
            value, unit = _number(f"{option} {name}={word}", word)
            found[name] = value * UNITS[unit]
    return found
