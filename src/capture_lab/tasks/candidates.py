"""Settings of a task's planner that can be certified: parsed from text, calibrated, with fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from capture_cp.base.arrays import identity
from capture_cp.base.checks import CaptureError, failure_rate, known_name, shortened
from capture_cp.planning.settings import PlannerSettings
from capture_lab.tasks.rows import FittedRow, Row, fit_row
from capture_lab.tasks.task import Task

METHOD = "capture"
ALPHA = 0.1


@dataclass(frozen=True)
class CandidateRow:
    """A row of the planning table with its own settings, to be certified.

    Attributes:
        row: how it plans.
        method: name of the row that it is based on.
        alpha: failure rate of the regions in the planner's cost.
    """

    row: Row
    method: str
    alpha: float

    @classmethod
    def of(cls, task: Task, settings: Mapping[str, Any]) -> CandidateRow:
        """The task's row with other settings: method, alpha, settings of the planner, weights of the objective."""
        method = known_name("method", str(settings.get("method", METHOD)), task.rows)
        row = task.rows[method]
        known = {"method", "alpha", *(entry.name for entry in fields(PlannerSettings)), *_weights_of(row)}
        for name in settings:
            known_name("setting of a candidate", name, sorted(known))
        planner = {entry.name: settings[entry.name] for entry in fields(PlannerSettings) if entry.name in settings}
        weights = {name: settings[name] for name in _weights_of(row) if name in settings}
        changed = replace(row, planner=replace(row.planner, **_like(asdict(row.planner), planner)))
        if weights:
            changed = replace(changed, weights=replace(row.weights, **_like(asdict(row.weights), weights)))
        return cls(changed, method, failure_rate(settings.get("alpha", ALPHA)))

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, including unchanged ones, as JSON values."""
        weights = {} if self.row.weights is None else asdict(self.row.weights)
        return {"method": self.method, "alpha": self.alpha} | asdict(self.row.planner) | weights


def parsed(text: str) -> dict[str, Any]:
    """Settings from text: "method=capture,speed=30"."""
    found: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not (name and equals and value) or name in found:
            raise CaptureError(
                f"the candidate {shortened(text)!r} cannot be read; expected settings such as "
                "method=capture,alpha=0.1,horizon=6."
            )
        found[name] = _value(value)
    return found


def _value(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(word.lower(), word)


def _like(own: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Chosen settings converted to the number types of the row; others raise an error."""
    found = {}
    for name, value in chosen.items():
        kind = type(own[name])
        right = (
            isinstance(value, int | float) and not isinstance(value, bool)
            if kind in (int, float)
            else isinstance(value, kind)
        )
        if own[name] is not None and (not right or (kind is int and value != int(value))):
            raise CaptureError(
                f"{name} is {value!r}; expected {'a number' if kind in (int, float) else kind.__name__}, such as "
                f"{own[name]!r}."
            )
        found[name] = kind(value) if kind in (int, float) else value
    return found


def _weights_of(row: Row) -> tuple[str, ...]:
    return () if row.weights is None else tuple(entry.name for entry in fields(row.weights))


def fit_candidate(task: Task, candidate: CandidateRow, seed: int, calibration: float = 1.0) -> FittedRow:
    """A candidate, calibrated in one place."""
    fitted = fit_row(candidate.row, task, seed, calibration=calibration)
    if fitted.row.practice or fitted.row.online:
        raise CaptureError(
            f"{candidate.method} practises or adapts, so its episodes are not identically distributed; certify {METHOD}, or "
            "another row without either."
        )
    return fitted


def fingerprints(fitted: FittedRow, alpha: float) -> dict[str, str]:
    """Digests of planner, task and calibration."""
    cap = fitted.cap
    planner = fitted.planner(alpha)
    scores = [value for name, value in sorted(vars(cap.calibration_).items()) if not name.startswith("_")]
    return {
        "planner": planner.identity(),
        "task": identity({name: str(value) for name, value in fitted.task.depends_on.items()}, fitted.task.max_steps),
        "calibration": identity(cap.partition_.nodes, cap.partition_.roots, scores),
    }
