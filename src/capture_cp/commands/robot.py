"""The user's own robot for `capture view`: a saved calibration with names for its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, failure_rate, known_name
from capture_cp.capture.capture import Capture
from capture_cp.commands.options import configuration_columns, plain
from capture_cp.conformal.scores import NearestParticles

#: Inputs that are drawn to see where predictions lie.
INPUTS = 256


@dataclass(frozen=True)
class Robot:
    """A saved calibration, ready to use.

    Attributes:
        name: of its file.
        cap: the calibration.
        inputs: names of state and action, (dx,).
        axes: names of the numbers of a configuration, (dc,).
        before: which entries of the state are the configuration before a step, (dc,); None where that is unknown.
        alpha, confidence: those it was calibrated for.
    """

    name: str
    cap: Capture
    inputs: tuple[str, ...]
    axes: tuple[str, ...]
    before: tuple[int, ...] | None
    alpha: float
    confidence: float | None

    @classmethod
    def of(
        cls, file: Path, cap: Capture, facts: Mapping[str, Any], given: Mapping[str, Sequence[str]], alpha: float | None
    ) -> Self:
        """A calibration with the columns `given`, or else those that its facts name; made-up names without any."""
        known, dx, dc = facts.get("columns", {}), cap.n_inputs_, cap.n_outputs_
        state, action = (tuple(given[part] or known.get(part, ())) for part in ("state", "action"))
        # the configuration after a step may be in the following row, under the names of the configuration itself
        after = next((names for of in (given, known) for part in ("next", "following") if (names := of.get(part))), ())
        action = tuple(f"{name}+{step}" if step else name for step in range(facts.get("steps", 1)) for name in action)
        if not (state or action):
            state = tuple(f"input_{i}" for i in range(dx))
        after = tuple(after or (f"axis_{i}" for i in range(dc)))
        if (len(state) + len(action), len(after)) != (dx, dc):
            raise CaptureError(
                f"{len(state)} columns of the state, {len(action)} of the action and {len(after)} of the next configuration "
                f"are named; calibration {file} has {dx} inputs, state and action together, and configurations "
                f"of {dc}: name the columns that it was calibrated with."
            )
        axes, before = tuple(map(plain, after)), configuration_columns(state, after)
        return cls(
            file.name,
            cap,
            state + action,
            axes if len(set(axes)) == dc else after,
            None if before is None else tuple(before),
            failure_rate(facts.get("alpha", 0.1) if alpha is None else alpha),
            facts.get("confidence"),
        )

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was saved with the calibration."""
        return dict(self.cap.data_.get("robot") or {})

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

    def shown(self, given: Sequence[str]) -> tuple[int, ...]:
        """The axes that pictures show: those given by name, with or without "next_", or the first two."""
        wanted = min(2, len(self.axes))
        names = [name if name in self.axes else plain(name) for name in given or self.axes[:wanted]]
        found = tuple(self.axes.index(known_name("axis", name, self.axes)) for name in names)
        if len(found) != wanted or len(set(found)) != wanted:
            number = "two different axes" if wanted == 2 else "its one axis"
            raise CaptureError(f"axes are {', '.join(given)}; expected {number} of {', '.join(self.axes)}.")
        return found
