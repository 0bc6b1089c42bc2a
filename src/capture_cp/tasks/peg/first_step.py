"""What a region of a step looks like to the objective: mean cost, share outside the goal's stratum, distance in contacts.

The regions themselves are those of `Capture.region`, at 128 inputs a plan instead of one: see `region_cells`. The paper has
regions of the first step only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, failure_rate, known_name
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.spaces.metrics import SE2
from capture_cp.tasks.peg.cspace import FEATURES, PegStrata
from capture_cp.tasks.peg.objective import cell_costs, insertion_costs
from capture_cp.tasks.peg.region_cells import Cells

if TYPE_CHECKING:
    from capture_cp.tasks.peg.cuda_regions import DeviceCells

Infeasible = Literal["outside", "worst", "nothing"]


class FirstStep(NamedTuple):
    """Statistics of n regions, each (n,)."""

    cost: Floats  # mean Ψ over the region
    outside: Floats  # ρ₀: share of the region outside the goal's stratum
    hamming: Floats  # h₀: mean share of the fingerprint's bits that differ from the goal's
    cells: Ints  # cells of the region


class FirstStepRegions:
    """Statistics of the regions of a calibrated predictor over the cells of the peg's grid.

    - Particle methods: feasible cells whose k-th nearest particle is within the threshold of the cell's stratum.
    - `particles`, which has no region: feasible cells in the axis-aligned box of its particles.
    - `lucca`: cells in the ellipsoid of its Gaussian, infeasible ones too, as its region knows nothing of contact. They
      count in the mean cost and as outside the goal's stratum. They have no fingerprint, and the paper does not say what
      becomes of them in h₀: see `infeasible`.

    A region without a cell (a box thinner than one, a region beyond the grid) is stood for by the particles themselves, or
    by the Gaussian's mean. Where nothing of a region has a fingerprint, h₀ is 1.

    Args:
        cap: calibrated predictor of the peg, by one of the six methods, or a calibration for a horizon.
        strata: the strata it was calibrated on.
        alpha: failure rate of the regions.
        bonuses: whether Ψ has the Factory suite's bonuses.
        infeasible: what infeasible cells of LUCCa's ellipsoids count as: "outside" the goal's stratum, and not in h₀;
            "worst", outside it and with all bits different; or "nothing", as if the region ended where it is infeasible.
        step: which of the calibrated steps of a horizon, counted from 0.
        device: where to look at cells, "cpu", "cuda" or "auto".

    Attributes:
        thresholds: gives inputs X (n, 6) their thresholds (n, M); online adaptation puts its own here.
    """

    thresholds: Callable[[Floats], Floats]
    _cells: Cells | DeviceCells

    def __init__(
        self,
        cap: Fitted,
        strata: PegStrata,
        alpha: float = 0.1,
        bonuses: bool = False,
        infeasible: Infeasible = "outside",
        step: int = 0,
        device: Device = "cpu",
    ) -> None:
        score = cap.score_
        metric = getattr(score, "metric_", None)
        if not (type(metric) is SE2 or type(score) in (ParticleBox, Mahalanobis)):
            raise CaptureError(f"no first-step statistics for {score!r}; expected one of the six methods on the SE2 metric.")
        self.cap, self.strata, self.alpha, self.bonuses = cap, strata, failure_rate(alpha), bonuses
        self.infeasible = known_name("infeasible", infeasible, get_args(Infeasible))
        self._hamming = strata.hamming_to_goal / len(FEATURES)
        self._cells = _cells_of(strata, bonuses) if chosen_device(device) == "cpu" else _cells_on_device(strata, bonuses)
        self.thresholds = partial(cap.step_thresholds, alpha=self.alpha, step=step)

    def __call__(self, X: Floats, particles: Any) -> FirstStep:
        """Statistics of the regions at inputs X (n, 6), with the particles (n, L, 3) that follow, here or on the GPU."""
        q, score = self.thresholds(X), self.cap.score_
        if isinstance(score, Mahalanobis):
            _, prediction = self.cap.first_prediction(X[:, :3], X[:, 3:], 0)  # Gaussians have no particles to draw
            counts, costs = self._cells.ellipsoids(prediction, q[:, 0], self.infeasible == "nothing")
            particles = prediction.mean[:, None]
        elif isinstance(score, NearestParticles):
            counts, costs = self._nearest(score, particles, q)
        else:
            counts, costs = self._cells.boxes(particles)
        empty = counts.sum(axis=1) == 0
        if empty.any():
            counts[empty], costs[empty] = self._of_poses(on_host(particles)[empty])
        return self._statistics(counts, costs)

    def _nearest(self, score: NearestParticles, particles: Any, q: Floats) -> tuple[Ints, Floats]:
        whole = np.isinf(q)  # strata with too few calibration points, which belong to the region entirely
        assert isinstance(score.metric_, SE2)
        counts, costs = self._cells.nearest(score, score.metric_, particles, np.where(whole, -1.0, q))
        if whole.any():
            counts[:, :-1] += np.where(whole, self.strata.sizes, 0)
            costs += np.where(whole, self._cells.totals, 0.0).sum(axis=1)
        return counts, costs

    def _of_poses(self, poses: Floats) -> tuple[Ints, Floats]:
        """Poses (n, r, 3) in place of cells: their number by stratum, infeasible ones last, (n, M + 1), and summed cost."""
        n, each, _ = poses.shape
        flat = poses.reshape(-1, 3)
        counts = np.zeros((n, len(self._hamming) + 1), dtype=np.int64)
        np.add.at(counts, (np.repeat(np.arange(n), each), self.strata.index(flat)), 1)
        return counts, insertion_costs(flat, self.strata.settings, self.bonuses).reshape(n, each).sum(axis=1)

    def _statistics(self, counts: Ints, costs: Floats) -> FirstStep:
        cells, differing, fingerprints = counts.sum(axis=1), counts[:, :-1] @ self._hamming, counts[:, :-1].sum(axis=1)
        if self.infeasible == "worst":
            differing, fingerprints = differing + counts[:, -1], cells
        hamming = np.divide(differing, fingerprints, out=np.ones(len(cells)), where=fingerprints > 0)
        return FirstStep(costs / cells, 1.0 - counts[:, self.strata.goal_stratum] / cells, hamming, cells)


def on_host(array: Any) -> Floats:
    """The array as NumPy's, wherever it is."""
    return np.asarray(array.copy_to_host() if hasattr(array, "copy_to_host") else array)


@lru_cache(maxsize=2)  # all methods share one grid
def _cells_of(strata: PegStrata, bonuses: bool) -> Cells:
    grid, names = strata.require_grid(), range(len(strata.names))
    labels = strata.labels.astype(np.int16).reshape(-1, grid.shape[2])
    costs = cell_costs(grid, strata.settings, bonuses).reshape(labels.shape)
    present = np.stack([(labels == m).any(axis=1) for m in names], axis=1)
    totals = np.array([costs[labels == m].sum(dtype=np.float64) for m in names])
    return Cells(labels, costs, present, totals, grid)


@lru_cache(maxsize=2)
def _cells_on_device(strata: PegStrata, bonuses: bool) -> DeviceCells:
    from capture_cp.tasks.peg.cuda_regions import DeviceCells

    return DeviceCells(_cells_of(strata, bonuses))
