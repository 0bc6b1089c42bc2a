"""What errors show, with a guarantee: bounds, trust and comparisons by contact mode and number of steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import (
    CaptureError,
    Floats,
    Ints,
    confidence_level,
    failure_rate,
    known_name,
    positive_number,
    whole_number,
)
from capture_cp.base.files import Pathlike
from capture_cp.conformal.drift import drift, holm
from capture_cp.conformal.hierarchical import (
    betting_passes,
    confident_quantile,
    episode_quantiles,
    episodes_needed,
    few_rows,
    trusted_steps,
)
from capture_cp.conformal.paired import Comparison, compare, verdicts
from capture_cp.data.transitions import Runner
from capture_cp.gap.measure import Errors, prepared
from capture_cp.gap.settings import ErrorSettings, LogSettings, ModeSettings, parsed_tolerance

if TYPE_CHECKING:
    from capture_cp.capture.capture import Capture

#: Probability that trust reaches too far, and that a comparison is wrong.
DELTA = 0.05
DRIFT_LEVEL = 0.05
Row = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """What is to be stated.

    Attributes:
        steps: numbers of steps that tables show.
        alpha: allowed failure rate of every bound.
        confidence: of bounds over the draw of the log; None for bounds over log and episode together.
        tolerance: by quantity, in its unit; empty for no table of trust.
        jointly: whether all bounds with confidence, and all statements of trust, hold together.
        resolution: relative difference of errors up to which a row is tied.
    """

    steps: tuple[int, ...]
    alpha: float = 0.1
    confidence: float | None = None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    jointly: bool = False
    resolution: float = 0.01


@dataclass(frozen=True)
class Gap:
    """How far each simulator is from the robot.

    Attributes:
        parts: errors from every row, and, with recordings, from the start of every episode.
        stated: what is stated.
        config: the options, as the JSON keeps them.
        reading, labelled: how the log was read, and where contact modes came from.
    """

    parts: tuple[Errors, ...]
    stated: Statement
    config: Mapping[str, Any] = field(default_factory=dict)
    reading: LogSettings = field(default_factory=LogSettings)
    labelled: ModeSettings = field(default_factory=ModeSettings)

    @cached_property
    def rows(self) -> list[Row]:
        """One row per simulator, mode at the end or start, number of steps and quantity: errors and their bounds."""
        return [row for part in self.parts for at in ("end", "start") for row in self._rows(part, at)]

    @cached_property
    def trust(self) -> list[Row]:
        """For how many steps each simulator can be trusted in each mode, if there is a tolerance."""
        if not self.stated.tolerance:
            return []
        return [row for part in self.parts for at in ("end", "start") for row in self._trust(part, at)]

    @cached_property
    def comparisons(self) -> list[Row]:
        """Which simulator is closer to the robot, in each mode at the end and number of steps."""
        found = [row for part in self.parts for row in self._comparisons(part)]
        said = verdicts([comparison for _, comparison in found])
        return [{**row, "verdict": verdict} for (row, _), verdict in zip(found, said)]

    @cached_property
    def drifts(self) -> list[Row]:
        """Modes in which the errors of early and late episodes differ, with p-values after Holm's correction."""
        part, name = self.parts[0], next(iter(self.parts[0].errors))
        step = self.stated.steps[0]
        tested = []
        for m, mode in enumerate(part.modes):
            rows = part.rows_in(step, "end", m)
            errors, episodes = part.main(name)[rows, part.steps.index(step)], part.log.episode[part.starts[rows]]
            if len(rows) and not np.isnan(errors).any():
                late = episodes > np.median(np.unique(episodes))
                halves = [float(np.median(errors[part])) if part.any() else math.nan for part in (~late, late)]
                tested.append((mode, drift(errors, episodes), halves))
        p = holm([one for _, one, _ in tested])
        return [
            {"simulator": name, "mode": mode, "steps": step, "p": float(each), "early": early, "late": late}
            for (mode, _, (early, late)), each in zip(tested, p)
            if each <= DRIFT_LEVEL
        ]

    def document(self) -> dict[str, Any]:
        """All of it as JSON-compatible data, from which the page is drawn."""
        from capture_cp.gap.scene import page_of

        return {
            "schema": 1,
            "rows": self.rows,
            "trust": self.trust,
            "comparisons": self.comparisons,
            "config": dict(self.config),
            "page": page_of(self),
        }

    def save(self, path: Pathlike) -> None:
        """Write the page, one HTML file."""
        from capture_cp.gap.page import write_page

        write_page(path, self.document())

    def calibration(self, simulator: str | None = None) -> Capture:
        """The regions of the first simulator that is a model file, or of the one with that name; save it with `.save`."""
        from capture_cp.gap.saved import calibration_of

        return calibration_of(self, simulator)

    def plot(self, **settings: Any) -> Any:
        """A figure of errors against steps, by mode."""
        from capture_cp.gap.page import plot

        return plot(self.document(), **settings)

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise CaptureError("pandas is not installed; install it with: pip install pandas, or use .rows.") from None
        return pandas.DataFrame(self.rows)

    # -- cells ------------------------------------------------------------------------------------------------------------

    def _cell(self, part: Errors, name: str, step: int, at: str, mode: int, q: int) -> tuple[Floats, Ints]:
        """Errors (n,) of one simulator and quantity after so many steps, where the mode is that one; episodes (n,)."""
        rows = part.rows_in(step, at, mode)
        errors = part.errors[name][rows, part.steps.index(step), q]
        if np.isnan(errors).any():  # it predicts fewer steps, or a recording ends early
            rows, errors = rows[~np.isnan(errors)], errors[~np.isnan(errors)]
        return errors, part.log.episode[part.starts[rows]]

    def _rows(self, part: Errors, at: str) -> list[Row]:
        found = []
        for name in part.errors:
            for m, mode in enumerate(part.modes):
                for step in self.stated.steps:
                    cells = [self._cell(part, name, step, at, m, q) for q in range(len(part.quantities))]
                    if len(cells[0][0]):
                        found += [
                            {
                                "simulator": name,
                                "mode": mode,
                                "mode_at": at,
                                "steps": step,
                                "seconds": step * part.log.period,
                                "alpha": self.stated.alpha,
                                "confidence": self.stated.confidence,
                                "quantity": quantity.name,
                                "unit": quantity.unit,
                                **self._bound(*cell),
                                **({"from": "episode start"} if part.replayed else {}),
                            }
                            for quantity, cell in zip(part.quantities, cells)
                        ]
        return found

    def _bound(self, errors: Floats, episodes: Ints) -> Row:
        """The bound on the errors of one cell, null while unknown, and how many episodes it needs then."""
        delta, count = self._delta(self._cells), len(np.unique(episodes))
        if delta is None:
            bound = float(episode_quantiles(errors, episodes, [self.stated.alpha])[0])
        else:
            bound = confident_quantile(errors, episodes, self.stated.alpha, delta)
        needed = episodes_needed(self.stated.alpha, delta, delta is not None and few_rows(episodes))
        finite = errors[np.isfinite(errors)]
        return {
            "bound": bound if math.isfinite(bound) else None,
            "needed": max(needed - count, 0),
            "rmse": float(np.sqrt(np.mean(finite**2))) if len(finite) else None,
            "diverged": len(errors) - len(finite),
            "episodes": count,
            "rows": len(errors),
        }

    def _delta(self, cells: int) -> float | None:
        """The allowed failure of one statement of confidence, of which there are so many."""
        if self.stated.confidence is None:
            return None
        return (1 - self.stated.confidence) / (cells if self.stated.jointly else 1)

    @cached_property
    def _cells(self) -> int:
        return sum(2 * len(p.errors) * len(p.modes) * len(self.stated.steps) * len(p.quantities) for p in self.parts)

    # -- trust ------------------------------------------------------------------------------------------------------------

    def _trust(self, part: Errors, at: str) -> list[Row]:
        """Steps 1, 2, ... tested in order; by the mode at the start also for the whole way there."""
        places = [q for q, one in enumerate(part.quantities) if one.name in self.stated.tolerance]
        limits = np.array([self.stated.tolerance[part.quantities[q].name] for q in places])
        delta = DELTA / (2 * len(part.errors) * len(part.modes) if self.stated.jointly else 1)  # by start and by end
        found = []
        for name, errors in part.errors.items():
            within = np.asarray((errors[:, :, places] <= limits).all(axis=2))
            predicted = np.asarray(~np.isnan(errors[:, :, places]).any(axis=2))
            if at == "start":
                within = np.logical_and.accumulate(within, axis=1)
            for m, mode in enumerate(part.modes):
                passes, count = [], 0
                for s, step in enumerate(part.steps):
                    rows = part.rows_in(step, at, m)
                    rows = rows[predicted[rows, s]]
                    episodes = part.log.episode[part.starts[rows]]
                    count = max(count, len(np.unique(episodes)))
                    passes.append(betting_passes(within[rows, s], episodes, self.stated.alpha, delta))
                    if not passes[-1]:
                        break
                trust = trusted_steps(passes)
                found.append(
                    {
                        "simulator": name,
                        "mode": mode,
                        "mode_at": at,
                        "whole_way": at == "start",
                        "trusted_steps": trust.steps,
                        "ended": trust.ended,
                        "of_steps": part.steps[-1],
                        "seconds": None if trust.steps is None else trust.steps * part.log.period,
                        "alpha": self.stated.alpha,
                        "confidence": 1 - DELTA,
                        "episodes": count,
                        "needed": max(episodes_needed(self.stated.alpha, delta) - count, 0),
                        **({"from": "episode start"} if part.replayed else {}),
                    }
                )
        return found

    # -- comparisons ------------------------------------------------------------------------------------------------------

    def _comparisons(self, part: Errors) -> list[tuple[Row, Comparison]]:
        names = list(part.errors)
        files = [one.name for one in part.simulators if one.kind != "rule" and one.name in names]
        free = [one.name for one in part.simulators if one.kind == "rule" and one.name in names]
        pairs = [(one, other) for i, one in enumerate(files) for other in files[:i]]
        pairs += [(one, other) for one in files for other in free]
        found = []
        for one, other in pairs:
            for m, mode in enumerate(part.modes):
                for step in self.stated.steps:
                    rows, s = part.rows_in(step, "end", m), part.steps.index(step)
                    a, b = (part.main(name)[rows, s] for name in (one, other))
                    both = ~(np.isnan(a) | np.isnan(b))
                    if not both.any():
                        continue
                    episodes = part.log.episode[part.starts[rows[both]]]
                    comparison = compare(a[both], b[both], episodes, self.stated.resolution)
                    row = {"simulator": one, "against": other, "mode": mode, "steps": step, "quantity": part.primary}
                    found.append(({**row, **_figures(comparison)}, comparison))
        return found


def _figures(one: Comparison) -> Row:
    known = math.isfinite(one.share)
    return {
        "closer": one.closer,
        "tied": one.tied,
        "farther": one.farther,
        "share": one.share if known else None,
        "ci95": list(one.ci95) if known else None,
        "ratio": _finite(one.ratio),
        "ratio_ci95": [_finite(end) for end in one.ratio_ci95],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def measure_gap(
    simulators: Any,
    log: Any,
    *,
    steps: Sequence[int] = (1, 2, 5, 10, 20),
    tolerance: Sequence[str] = (),
    alpha: float = 0.1,
    confidence: float | None = None,
    jointly: bool = False,
    resolution: float = 0.01,
    run: Runner[Any] = map,
    config: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Gap:
    """How far simulators are from the robot of a log, by contact mode and number of steps, with a guarantee.

    Args:
        simulators: one or several: MJCF or URDF files, recordings (logs of another engine), callables, or (name, any of
            these).
        log: a log in any readable format.
        steps: numbers of steps that tables show.
        tolerance: such as ("10mm", "5deg"), or by quantity, "cube.surface=20mm"; asks for how many steps to trust.
        alpha: allowed failure rate of each bound.
        confidence: if set, bounds hold with this probability over the draw of the log.
        jointly: whether all statements with confidence hold together.
        resolution: relative difference of errors up to which a row is tied.
        run: shares out the simulation, as `Runner`.
        config: what the document keeps of the options.
        settings: those of `LogSettings`, `ModeSettings` and `ErrorSettings`, by name.
    """
    failure_rate(alpha), confidence_level(confidence), positive_number("resolution", resolution, or_zero=True)
    shown = tuple(sorted({whole_number("steps", step, 1) for step in steps}))
    if not shown:
        raise CaptureError("no numbers of steps are given; name some, such as 1 2 5 10 20.")
    kinds = LogSettings, ModeSettings, ErrorSettings
    known = {kind: [one.name for one in fields(kind) if one.name != "steps"] for kind in kinds}
    for name in settings:
        known_name("setting", name, [name for names in known.values() for name in names])
    chosen = {kind: {name: settings[name] for name in names if name in settings} for kind, names in known.items()}
    every = tuple(range(1, shown[-1] + 1)) if tolerance else shown  # trust is tested at every step
    reading, modes = LogSettings(**chosen[LogSettings]), ModeSettings(**chosen[ModeSettings])
    work = prepared(_named(simulators), log, reading, modes, ErrorSettings(every, **chosen[ErrorSettings]))
    limits = parsed_tolerance(tolerance, work.quantities)
    stated = Statement(shown, alpha, confidence, limits, jointly, resolution)
    return Gap(tuple(work(run)), stated, {"log": str(log), **dict(config or {})}, reading, modes)


def _named(simulators: Any) -> list[tuple[str, Any]]:
    """Simulators with their names, each once."""
    given = simulators if isinstance(simulators, list | tuple) and not _pair(simulators) else [simulators]
    if not given:
        raise CaptureError("no simulator is given; name at least one: a model file, a recording or a callable.")
    found: dict[str, Any] = {}
    for one in given:
        name, what = one if _pair(one) else (_called(one), one)
        if name in found:
            raise CaptureError(f"two simulators are called {name}; pass (name, simulator) with another name.")
        found[name] = what
    return list(found.items())


def _pair(one: Any) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) and not isinstance(one[1], str)


def _called(one: Any) -> str:
    name = Path(one).name if isinstance(one, str | Path) else getattr(one, "__name__", type(one).__name__)
    return str(name)
