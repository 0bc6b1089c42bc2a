"""Shifts of the input distribution: ratios of new to logged densities, known by design or guessed by a named person."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from capture_cp.base.checks import CaptureError, Floats, finite_array, positive_number, printable, shortened
from capture_cp.conformal.weighted import Ratios

Density = Callable[[Floats], Any]

LEVEL = 1e-3  # largest probability of rejecting a log that was drawn as claimed
ROUNDING = 1e-9  # relative amount by which a ratio may exceed its bound
LONGEST_NAME = 200
ESTIMATES = ("predict_proba", "score_samples", "decision_function", "set_bandwidth")  # attributes that identify an estimator
BETS = 0.5 ** np.arange(1, 25)
GUESS = 'Shift.guessed(ratios, largest, responsible="name of a person")'


@dataclass(frozen=True)
class ShiftClaim:
    """What a calibration's guarantee assumes: a bound of the ratios, and who is responsible for them if guessed."""

    largest: float
    responsible: str | None = None

    @property
    def kind(self) -> str:
        return "known" if self.responsible is None else "guessed"

    def __str__(self) -> str:
        if self.responsible is None:
            return f"a shift known by design, ratios up to {self.largest:g}"
        return f"GUESSED ratios up to {self.largest:g}, for which {self.responsible} is responsible"

    def facts(self) -> dict[str, Any]:
        """The claim as JSON-compatible data."""
        return {"kind": self.kind, "responsible": self.responsible, "largest": self.largest}

    @classmethod
    def from_facts(cls, facts: Any) -> ShiftClaim:
        """The claim described by `facts`; all of it is checked, since a file may contain anything."""
        if not isinstance(facts, Mapping) or facts.get("kind") not in ("known", "guessed"):
            raise CaptureError("it does not state whether its shift is known or guessed; save it again.")
        largest, name = positive_number("largest", facts.get("largest")), facts.get("responsible")
        if facts["kind"] == "known" and name is not None:
            raise CaptureError("it states that its shift is known, but also who guessed it; save it again.")
        return cls(largest, None if facts["kind"] == "known" else _responsible(name))


class Shift:
    """A known change of the input distribution: the densities of logged and new inputs are known by design.

    Pass it to `Capture.fit(X, Y, shift=...)`: coverage then holds for inputs of the *new* distribution, given their group.
    The distribution of the outcome given the input must be the same as in the log, and only the variables covered by the
    densities may change: if these are densities of actions, states must be distributed as in the log.

    Args:
        logged: `logged(X) -> (n,)`, the density (or probability) from which logged inputs X (n, dx), or just their actions,
            were drawn: the density the experiment was designed with, not an estimate.
        new: `new(X) -> (n,)`, the density from which new inputs will be drawn.
        largest: a bound of new / logged everywhere, not just in the log. It is used as the weight of a new row, so a
            needlessly large bound makes regions larger.

    `fit` checks what can be checked on a log: that `logged` is positive on all rows, that no ratio exceeds `largest`, and
    that the mean ratio is 1, as it is for two densities. A log that contradicts this is rejected; a log that was drawn as
    claimed is rejected with a probability of at most 0.1%.
    """

    def __init__(self, logged: Density, new: Density, largest: float) -> None:
        for name, density in (("logged", logged), ("new", new)):
            _check_design(name, density)
        if positive_number("largest", largest) < 1.0:
            raise CaptureError(
                f"largest is {largest:g}, but the mean ratio of two densities is 1, so the bound must be at least 1; pass a "
                "bound that new / logged never exceeds."
            )
        self.logged, self.new = logged, new
        self.claim = ShiftClaim(float(largest))
        self._guess: Any = None

    @classmethod
    def guessed(cls, ratios: Any, largest: float, responsible: str | None = None) -> Shift:
        """A shift with estimated ratios, for example from a classifier or kernel densities, and a named person responsible.

        The guarantee then rests on a guess that the library cannot check. The name is stored with the calibration and its
        file, and `coverage` prints it.

        Args:
            ratios: one per row of the log, (n,), or a function `ratios(X) -> (n,)`; up to a common factor.
            largest: a bound of the ratio, in the same unit, that also holds for new inputs.
            responsible: name of the person responsible for the ratios.
        """
        shift = cls.__new__(cls)
        shift.claim = ShiftClaim(positive_number("largest", largest), _responsible(responsible))
        shift._guess = ratios
        return shift

    def __repr__(self) -> str:
        if self.claim.responsible is None:
            return f"Shift(logged={self.logged!r}, new={self.new!r}, largest={self.claim.largest:g})"
        return f"Shift.guessed(..., largest={self.claim.largest:g}, responsible={self.claim.responsible!r})"

    def ratios(self, X: Floats) -> Ratios:
        """Checked weights of the rows of a log with inputs X (n, dx)."""
        if self.claim.responsible is not None:
            guess = self._guess(X) if callable(self._guess) else self._guess
            return _bounded(_not_negative("the guessed ratios", guess, len(X)), self.claim.largest)
        logged, new = (_not_negative(name, getattr(self, name)(X), len(X)) for name in ("logged", "new"))
        if not logged.all():
            row = int(np.flatnonzero(logged == 0)[0])
            raise CaptureError(
                f"`logged` is 0 in {int((logged == 0).sum())} of {len(X)} rows of the log, first in row {row}: they cannot "
                "have been drawn from it; pass the density from which the log was actually drawn."
            )
        with np.errstate(over="ignore"):
            ratios = _bounded(new / logged, self.claim.largest)
        _check_mean(ratios)
        return ratios


def log_evidence(weights: Floats, largest: float) -> float:
    """Logarithm of an e-value against the claim that weights (n,) in [0, largest] have mean 1.

    It is the mean capital of several betting strategies. Each bets the same fraction on every row that the mean is larger,
    or that it is smaller. If the mean is 1, no strategy has a positive expected gain, so the capital reaches c with
    probability at most 1 / c.
    """
    bets = np.concatenate([BETS, -BETS / max(largest - 1.0, 1.0)])  # sized so that no row costs more than half the capital
    capital = [np.log1p(bet * (weights - 1.0)).sum() for bet in bets]
    return float(scipy.special.logsumexp(capital) - math.log(len(capital)))


def checked_shift(shift: Any, episodes: Any = None) -> Shift:
    """A `Shift` of independent rows; anything else raises an error with the reason."""
    if not isinstance(shift, Shift):
        raise CaptureError(
            f"shift is a {type(shift).__name__}, that is, ratios without a stated origin: a guarantee based on estimates is "
            "only as good as the estimates; pass Shift(logged, new, largest) if both densities are known by design, else "
            f"{GUESS}."
        )
    if episodes is not None:
        raise CaptureError(
            "shift needs independent rows, but episodes marks these rows as dependent; pass only one of the two, or one row "
            "of each episode with the shift."
        )
    return shift


def _check_mean(ratios: Ratios) -> None:
    """Raise an error if the log contradicts the claim."""
    if log_evidence(*ratios) >= -math.log(LEVEL):
        raise CaptureError(
            f"the log was not drawn from `logged`: the mean of new / logged is {ratios.weights.mean():.4g} over "
            f"{len(ratios.weights)} rows where 1 is expected, which happens by chance in fewer than 1 of 1,000 logs; pass "
            "the densities from which inputs are actually drawn, each with integral 1 and `new` positive only where "
            "`logged` is."
        )


def _bounded(weights: Floats, largest: float) -> Ratios:
    """Weights (n,) checked against their bound, which is raised where they exceed it only by rounding."""
    most = float(weights.max())
    if not most <= largest * (1 + ROUNDING):
        row, beyond = int(np.argmax(weights)), int((weights > largest * (1 + ROUNDING)).sum())
        raise CaptureError(
            f"largest is {largest:g}, but {beyond} of {len(weights)} rows of the log have larger ratios, up to {most:.4g} "
            f"in row {row}; pass a bound that holds everywhere."
        )
    if most == 0:
        raise CaptureError(
            "all ratios are 0: no row of the log is like the new inputs; collect transitions where new inputs will be."
        )
    return Ratios(weights, max(largest, most))


def _not_negative(name: str, values: Any, n: int) -> Floats:
    found = finite_array(name, values, (n,), "(n,): one number per row of the log")
    if (found < 0).any():
        row = int(np.argmax(found < 0))
        raise CaptureError(f"{name} is {found[row]:.4g} in row {row}; expected numbers of at least 0.")
    return found


def _responsible(name: Any) -> str:
    """The checked name of the person responsible for guessed ratios."""
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise CaptureError(
            f"guessed ratios need a responsible person, but responsible is {shortened(repr(name))}; the guarantee rests on "
            'these ratios, which cannot be checked: pass responsible="name of a person".'
        )
    return printable(" ".join(name.split()))


def _check_design(name: str, density: Any) -> None:
    """Raise an error unless `density` is a function that is not estimated from data."""
    if any(hasattr(part, sign) for part in _parts(density) for sign in ESTIMATES):
        raise CaptureError(
            f"`{name}` is estimated from data, so the ratios are a guess; Shift needs densities that are known by design; "
            f"for estimates, use {GUESS}."
        )
    if not callable(density):
        raise CaptureError(
            f"`{name}` is a {type(density).__name__}; expected a function {name}(X) -> (n,), the density of each row of X."
        )


def _parts(density: Any) -> list[Any]:
    """A callable, the object it is bound to, and the objects its function refers to: any may be an estimator."""
    parts = [density, getattr(density, "__self__", None)]
    if isinstance(density, functools.partial):
        parts += [density.func, getattr(density.func, "__self__", None), *density.args, *density.keywords.values()]
    if inspect.isfunction(density):
        try:
            names = inspect.getclosurevars(density)
        except ValueError:  # a variable of the enclosing function that has no value yet
            return parts
        parts += [*names.nonlocals.values(), *names.globals.values()]
        parts += [getattr(part, "__self__", None) for part in parts]
    return [part for part in parts if not isinstance(part, type) and not inspect.ismodule(part)]
