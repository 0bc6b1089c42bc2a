"""Adaptive regions: updated after every executed step, with long-run coverage even if the system changes.

Every stratum has a dial. A miss turns it towards larger regions, a hit turns it back a little, so that it settles only where
the fraction of misses is alpha. Nothing is assumed about the system, the planner or the model.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, failure_rate, finite_array, positive_number
from capture_cp.base.params import Params
from capture_cp.base.streams import Randomness
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region

EMPTY = -1.0  # a threshold that no score passes
MOST = 500.0  # largest exponent of a factor, so that it stays finite


class Adaptive(Params, ABC):
    """Base class of adaptive regions: one dial per stratum, turned after each executed step.

    A step that ends in stratum m is tested against the part of the region in m, and turns only the dial of m.

    Attributes:
        dials: current positions of the dials, (M,); the same for all strata without `per_stratum`.
        steps: number of executed steps that ended in each stratum, (M,).
        misses: number of these steps that the region did not contain, (M,).
    """

    #: Direction in which the dial turns after a miss: up (1) or down (-1).
    _direction: int

    def __init__(self, cap: Capture, alpha: float, per_stratum: bool, never_smaller: bool) -> None:
        cap.check_fitted()
        self.cap, self.alpha = cap, failure_rate(alpha)
        self.per_stratum, self.never_smaller = per_stratum, never_smaller
        self.reset()

    def reset(self) -> None:
        """Return to the calibrated regions, discarding all observations."""
        count, (_, start, _) = len(self.cap.strata.names), self._course
        self.dials: Floats = np.full(count, start)
        self.steps: Ints = np.zeros(count, dtype=np.int64)
        self.misses: Ints = np.zeros(count, dtype=np.int64)
        self._table: Floats = np.tile(self._row(start), (count, 1))

    # -- queries -------------------------------------------------------------------------------------------------------

    def group_thresholds(self) -> Floats:
        """Threshold of every group of the calibration in every stratum, at the current dials: (M, J)."""
        return self._table.copy()

    def thresholds(self, X: Any) -> Floats:
        """Threshold of every input X (n, dx) in every stratum: (n, M)."""
        groups = self.cap.partition_.groups_everywhere(self.cap.inputs(X))
        return np.asarray(self._table[np.arange(len(self._table)), groups])

    def region(self, x: Any, prediction: Any = None, rng: Randomness = None) -> Region:
        """Region of one input x (dx,); `prediction` and `rng` are as in `Capture.region`."""
        region = self.cap.region(x, self.alpha, prediction=prediction, rng=rng)
        region.thresholds = self.thresholds(np.asarray(x, dtype=np.float64)[None])[0]
        return region

    # -- updates -----------------------------------------------------------------------------------------------------

    def observe(self, x: Any, y: Any, prediction: Any = None, rng: Randomness = None) -> bool:
        """Whether the region of x (dx,) contained the next configuration y (dc,); then turns the dial of y's stratum."""
        y = finite_array("y", y, (self.cap.n_outputs_,), "(dc,): the configuration that followed")
        label = self.cap.feasible_index(y[None], "y")
        held = y in self.region(x, prediction, rng)
        self.update(held, int(label[0]))
        return held

    def update(self, held: bool, m: int) -> None:
        """Turn the dial of stratum m after a step that ended there; `held` is whether the region contained it."""
        if not 0 <= m < len(self.dials):
            raise CaptureError(f"stratum {m} does not exist; strata run from 0 to {len(self.dials) - 1}.")
        self.steps[m] += 1
        self.misses[m] += not held
        rate, start, _ = self._course
        dial = float(self.dials[m]) + self._direction * rate * ((not held) - self.alpha)
        if self.never_smaller and self._direction * (dial - start) < 0:
            dial = start
        turned = m if self.per_stratum else slice(None)
        self.dials[turned], self._table[turned] = dial, self._row(dial)

    def bound(self, steps: Any) -> Any:
        """Largest difference between the fraction of misses and alpha after that many steps, per stratum if `per_stratum`.

        With `never_smaller` the fraction can be further below alpha, but not further above.
        """
        rate, _, span = self._course
        return (span + rate) / (rate * np.maximum(steps, 1))

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _course(self) -> tuple[float, float, float]:
        """Step size of a dial, its calibrated position, and how far it can move while both hits and misses are possible."""

    @abstractmethod
    def _row(self, dial: float) -> Floats:
        """Threshold of every group at this position of a dial: (J,)."""


class AdaptiveAlpha(Adaptive):
    """Adaptive conformal inference (Gibbs and Candès, 2021): αₜ₊₁ = αₜ + γ(α - errₜ), and thresholds read at αₜ.

    For αₜ <= 0 a region includes the whole stratum, for αₜ >= 1 it is empty. Over any T steps of any system the fraction of
    misses is then within (max(α, 1-α) + γ)/(γT) of alpha.

    Args:
        cap: the calibrated predictor to start from.
        alpha: target fraction of misses.
        gamma: step size γ. A large one follows changes quickly; a small one fluctuates less.
        per_stratum: one αₜ per stratum, updated by the steps that end there; False uses one αₜ for all strata.
        never_smaller: keep αₜ at most alpha, so that regions never shrink below the calibrated ones.
    """

    _direction = -1

    def __init__(
        self, cap: Capture, alpha: float = 0.1, gamma: float = 0.05, per_stratum: bool = True, never_smaller: bool = False
    ) -> None:
        self.gamma = positive_number("gamma", gamma)
        super().__init__(cap, alpha, per_stratum, never_smaller)

    @property
    def _course(self) -> tuple[float, float, float]:
        return self.gamma, self.alpha, max(self.alpha, 1.0 - self.alpha)

    def _row(self, dial: float) -> Floats:
        if 0.0 < dial < 1.0:
            return self.cap.calibration_.at(dial)
        return np.full(self.cap.partition_.n_groups, math.inf if dial <= 0.0 else EMPTY)


class AdaptiveScale(Adaptive):
    """Thresholds times a factor f(θₜ) that adapts to the misses: θₜ₊₁ = θₜ + η(errₜ - α), starting at θ = 1.

    f(θ) = θ below 1, down to an empty region, and e^(θ-1) above, where multiplicative steps catch up with any change.
    Regions stay finite however far the system has moved away from its calibration, as a planner requires. If no score is
    ever more than `largest` times its threshold, the fraction of misses over any T steps is within
    (max(1, ln largest) + η)/(ηT) of alpha.

    Args:
        cap: the calibrated predictor to start from.
        alpha: target fraction of misses.
        eta: step size η. A miss multiplies f by e^(η(1-α)) where θ is above 1, and adds η(1-α) to it below.
        floor: smaller thresholds are raised to `floor`, in the unit of the score, since a factor cannot enlarge a threshold
            of zero, which is common in contact. The size of a grid cell is a good choice; by default a thousandth of the
            largest calibration score.
        per_stratum: one factor per stratum, updated by the steps that end there; False uses one factor for all strata.
        never_smaller: keep factors at least 1, so that regions never shrink below the calibrated ones.
        largest: largest possible score, as a multiple of its threshold; only `bound` uses it.
    """

    _direction = 1

    def __init__(
        self,
        cap: Capture,
        alpha: float = 0.1,
        eta: float = 0.2,
        floor: float | None = None,
        per_stratum: bool = True,
        never_smaller: bool = False,
        largest: float = math.inf,
    ) -> None:
        floor = smallest_threshold(cap) if floor is None else floor
        if not (isinstance(floor, int | float) and 0.0 < floor < math.inf):
            raise CaptureError(
                f"floor is {floor!r}; expected a positive number in the unit of the score, since no factor enlarges 0."
            )
        if not (isinstance(largest, int | float) and largest > 0.0):
            raise CaptureError(
                f"largest is {largest!r}; expected a positive number: the largest ratio of score to threshold."
            )
        self.eta, self.floor, self.largest = positive_number("eta", eta), float(floor), float(largest)
        super().__init__(cap, alpha, per_stratum, never_smaller)

    @property
    def factors(self) -> Floats:
        """Factor on the thresholds of each stratum, (M,); negative where the region is empty."""
        return factor_of(self.dials)

    @property
    def _course(self) -> tuple[float, float, float]:
        return self.eta, 1.0, max(1.0, math.log(self.largest))

    def _row(self, dial: float) -> Floats:
        q = np.maximum(self.cap.group_thresholds(self.alpha), self.floor)
        if dial < 0.0:
            return np.full(len(q), EMPTY)
        return np.where(np.isinf(q), math.inf, factor_of(dial) * np.where(np.isinf(q), 0.0, q))


def smallest_threshold(cap: Capture) -> float:
    """A thousandth of the largest calibration score: the default `floor`."""
    cap.check_fitted()
    scores = getattr(cap.calibration_, "scores", np.empty(0))
    largest = float(scores.max()) if len(scores) else 0.0
    if not largest > 0.0:
        raise CaptureError(
            "every calibration score is 0, so there is no scale to start from; pass floor=, a positive number in the unit "
            "of the score, such as the size of a grid cell."
        )
    return 1e-3 * largest


def factor_of(dials: Any) -> Floats:
    """f(θ) of `AdaptiveScale`, of the same shape."""
    theta = np.asarray(dials, dtype=np.float64)
    return np.where(theta < 1.0, theta, np.exp(np.clip(theta - 1.0, 0.0, MOST)))
