"""The user's own robot for `capture view`: a saved calibration with names for its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from capture_cp.base.checks import CaptureError, Floats, Ints, failure_rate, known_name, whole_number
from capture_cp.capture.capture import Capture
from capture_cp.commands.bundle import named_calibration, robot_facts
from capture_cp.commands.options import plain
from capture_cp.commands.reading import Remembered
from capture_cp.commands.report_figures import configuration_columns
from capture_cp.conformal.scores import NearestParticles

#: Inputs that are drawn to see where predictions lie.
INPUTS = 256


@dataclass(frozen=True)
class Robot:
    """A saved calibration, ready to use.

    Attributes:
        name: of its file.
        cap: the calibration.
        facts: what `capture calibrate` saved with it; empty for a file of `Capture.save`.
        state_names, action_names: of the inputs, ds and da of them.
        axes: names of the numbers of a configuration, (dc,).
        before: which entries of the state are the configuration before a step, (dc,); None where that is unknown.
        alpha, confidence: those it was calibrated for.
    """

    name: str
    cap: Capture
    facts: Mapping[str, Any]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    axes: tuple[str, ...]
    before: tuple[int, ...] | None
    alpha: float
    confidence: float | None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of state and action, (dx,)."""
        return self.state_names + self.action_names

    @property
    def strata(self) -> tuple[str, ...]:
        return tuple(self.cap.strata.names)

    @property
    def angles(self) -> tuple[int, ...]:
        """Axes of the configuration that are angles."""
        score = self.cap.score_
        if isinstance(score, NearestParticles):
            return score.metric_.angles(self.cap.n_outputs_)
        return tuple(getattr(score, "angles", ()))

    def input_quantiles(self) -> Floats:
        """Order statistics of each input that the calibration keeps, in rising order: (dx, levels)."""
        kept = self.cap.data_.get("inputs", {})
        values = np.asarray(kept.get("values", []) if isinstance(kept, dict) else [], dtype=np.float64)
        if values.ndim != 2 or len(values) != self.cap.n_inputs_ or not values.size or not np.isfinite(values).all():
            raise CaptureError(
                f"calibration {self.name} keeps no quantiles of its inputs, so there are no bounds to choose an input in; "
                "give a log as well, or calibrate again."
            )
        return values

    def start_of(self, x: Floats) -> Floats | None:
        """The configuration (dc,) before a step with input x (dx,), or None where it is unknown."""
        return None if self.before is None else x[list(self.before)]

    def sizes_at(self, x: Floats) -> Ints:
        """How many calibration transitions set the threshold of each stratum at an input x (dx,): (M,)."""
        sizes: Ints = np.asarray(self.cap.calibration_.sizes)[self.cap.partition_.groups_everywhere(x[None])[0]]
        return sizes

    def likely(self, rng: np.random.Generator) -> Floats:
        """Predictions at random inputs between the kept quantiles, (n, dc): where configurations lie, without a log."""
        values = self.input_quantiles()
        X = values[np.arange(len(values)), rng.integers(values.shape[1], size=(INPUTS, len(values)))]
        found: Any = self.cap.predict(X, rng)
        points = found if isinstance(found, np.ndarray) else found.mean
        return np.asarray(points, dtype=np.float64).reshape(-1, self.cap.n_outputs_)

    def axis(self, given: str) -> int:
        """The axis of a name, with or without "next_", or of a number counted from 0."""
        dims = len(self.axes)
        if given.lstrip("-").isdigit():
            if not 0 <= int(given) < dims:
                raise CaptureError(
                    f"axis {given} is out of range; the configuration has {dims}, 0 to {dims - 1}: {', '.join(self.axes)}."
                )
            return int(given)
        return self.axes.index(known_name("axis", given if given in self.axes else plain(given), self.axes))

    def shown(self, given: Sequence[str]) -> tuple[int, ...]:
        """The axes that pictures show: those given by name or number, or the first two; one of a single number."""
        if not given:
            return tuple(range(min(2, len(self.axes))))
        wanted = min(2, len(self.axes))
        found = tuple(self.axis(name) for name in given)
        if len(found) != wanted or len(set(found)) != wanted:
            number = "two different axes" if wanted == 2 else "its one axis"
            raise CaptureError(f"axes are {', '.join(given)}; expected {number} of {', '.join(self.axes)}.")
        return found


@dataclass(frozen=True)
class RobotOptions(Remembered):
    """Options of `capture view` for your own robot."""

    calibration: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(help="Saved calibration.", metavar="CALIBRATION")]
    log: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(help="A log of any kind that capture calibrate accepts.", metavar="LOG"),
    ] = None
    episode_column: Annotated[
        str | None,
        tyro.conf.arg(
            help="Column with the episode of each row; by default the one that the calibration's log had.", metavar="COLUMN"
        ),
    ] = None
    axes: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="The two axes of the configuration to show, by name or number.", metavar="AXIS ..."),
    ] = ()
    seed: Annotated[int, tyro.conf.arg(help="Random seed for the particles; the same seed gives the same pictures.")] = 0

    def robot(self, alpha: float | None = None) -> Robot:
        """The calibration with its model and strata, and the names of its numbers."""
        facts = robot_facts(self.calibration)
        whole_number("seed", self.seed, 0)
        cap = named_calibration(self.calibration, facts, self.model, self.strata, self.folder, self.trust)
        names = {part: self._names(part, facts) for part in ("state", "action", "next")}
        state, action, after = self._fitting(names, cap)
        before = configuration_columns(state, after)
        return Robot(
            self.calibration.name,
            cap,
            facts,
            state,
            action,
            plain_names(after),
            None if before is None else tuple(before),
            failure_rate(alpha if alpha is not None else facts.get("alpha", 0.1)),
            _confidence(facts.get("confidence")),
        )

    def _names(self, part: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
        known = facts.get("columns", {})
        if part == "next":  # which may be in the following row, under the names of the configuration itself
            return tuple(self.next or self.following or known.get("next") or known.get("following", ()))
        return tuple(getattr(self, part) or known.get(part, ()))

    def _fitting(self, names: Mapping[str, tuple[str, ...]], cap: Capture) -> tuple[tuple[str, ...], ...]:
        """Names of state, action and next configuration, as many as the calibration has numbers; made up without any."""
        state, action, after = names["state"], names["action"], names["next"]
        dx, dc = cap.n_inputs_, cap.n_outputs_
        if not (state or action):
            state = tuple(f"input_{i}" for i in range(dx))
        after = after or tuple(f"axis_{i}" for i in range(dc))
        if (len(state) + len(action), len(after)) != (dx, dc):
            raise CaptureError(
                f"{len(state)} columns of the state, {len(action)} of the action and {len(after)} of the next configuration "
                f"are named; calibration {self.calibration} has {dx} inputs, state and action together, and configurations "
                f"of {dc}: name the columns that it was calibrated with."
            )
        return state, action, after


def plain_names(names: Sequence[str]) -> tuple[str, ...]:
    """Plain names of all numbers of a configuration; as they are, where plain ones would repeat."""
    found = tuple(map(plain, names))
    return found if len(set(found)) == len(found) else tuple(names)


def _confidence(value: Any) -> float | None:
    """The confidence of a file, known to be a number between 0 and 1 or none."""
    if value is None or (isinstance(value, float) and 0 < value < 1 and math.isfinite(value)):
        return value
    raise CaptureError("the confidence in the calibration is damaged; calibrate again.")
