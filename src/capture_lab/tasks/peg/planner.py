"""Planning for the peg (Appendix B.4 of the paper): its compiled model and objective, and its planner.

J = Σ γᵗ [Ψ̃ₜ + 0.005 ‖aₜ‖²] + 20 ρ₀ + 0.6 [h₀ - 0.5]₊ ‖a₀‖², t from 0 to H, actions in mm, mm, degrees.

Ψ̃₀, ρ₀ and h₀ are taken over the region of the configuration that a₀ leads to: mean cost, fraction outside the goal's
stratum, and mean fraction of the fingerprint's bits that differ from the goal's. Ψ̃ₜ for t ≥ 1 is taken over the particles
after t steps, which continue from the particles of that region. So the configuration after a₀ counts twice, as region and as
particles, and the one after the last action is the terminal state t = H, which has no action. Its term is added to the last
stage.

A calibration for a horizon has regions of its first steps: the mean over the region of step t replaces Ψ̃ₜ from t = 2 on,
and its fraction outside the goal's stratum is charged like ρ₀, discounted.

Regions of the six methods: for particles, feasible cells whose k-th nearest particle is within the threshold of the cell's
stratum; for `particles`, which has no region, feasible cells in the box of its particles; for `lucca`, cells in the
ellipsoid of its Gaussian, including infeasible ones, as its region ignores contact. Those have no fingerprint, and the paper
does not define their part in h₀: see `PegWeights.infeasible`. If no cell of a region has a fingerprint, h₀ is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from numba import njit, prange

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name
from capture_cp.capture.fitted import Fitted
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.plugin import Called
from capture_cp.planning.settings import PlannerSettings
from capture_cp.planning.steps import StepModel
from capture_cp.planning.sums import RegionSums
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.peg.cspace import FEATURES, PegStrata, code_at
from capture_lab.tasks.peg.geometry import shape_of
from capture_lab.tasks.peg.model import ModelParams, moved
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_lab.tasks.peg.simulator import REACH
from capture_lab.tasks.peg.task import Peg

#: Of the paper's objective; its weights are in `PegWeights`.
DISCOUNT, HAMMING_FREE = 0.95, 0.5
LONGEST = 1000  # steps of a plan; later ones would have no weight
#: The controller's target stays within REACH; inertia and contact may take the peg slightly beyond (m, m, rad).
SLACK: Floats = np.array([5e-3, 5e-3, 0.2])

#: Keypoints (m) along the peg's axis from its base.
_KEYPOINTS = (-75e-3, -25e-3, 25e-3, 75e-3)
#: Largest distance (m) of the base of an inserted or engaged peg from the hole's axis, and largest height above the bottom,
#: as a fraction of the hole's depth.
CENTRED, INSERTED, ENGAGED = 2.5e-3, 0.04, 0.9

Infeasible = Literal["outside", "worst", "nothing"]

#: The paper's where it gives them; the temperature is in the unit of the cost.
PLANNER = PlannerSettings(horizon=15, samples=128, temperature=0.1, repeats=4)


@dataclass(frozen=True)
class PegWeights:
    """Weights of the peg's objective; the paper's where it gives them.

    Attributes:
        spread: standard deviation of the action perturbations (mm, mm, degrees), independent. The paper does not give it;
            here it equals that of the disturbance, half the bound.
        effort: weight of every squared action.
        outside: weight of the fraction of the region outside the goal's stratum.
        caution: weight of a large first action where contacts differ from the goal's.
        bonuses: whether the insertion cost has the Factory suite's bonuses; the paper's does not.
        infeasible: how infeasible cells of LUCCa's ellipsoids count: "outside" the goal's stratum, but not in the mean
            difference of contacts; "worst", outside it and with all contacts different; "nothing", as if the region ended
            where it is infeasible.
    """

    spread: float = 1.5
    effort: float = 0.005
    outside: float = 20.0
    caution: float = 0.6
    bonuses: bool = False
    infeasible: Infeasible = "outside"


class Params(NamedTuple):
    """Parameters of the compiled model and cost: the fields of `ModelParams`, flat, and those of the objective."""

    half_width: float
    half_length: float
    hole: float
    block: float
    depth: float
    radius: float
    bound: float
    noise: float
    move: Floats  # (3, 4), of a `Correction`
    friction: float
    trim: float  # of the tubes, see `PegStrata`
    stratum_of: Ints  # (257,): stratum of every fingerprint, with the infeasible one last
    hamming: Floats  # (M,): fraction of the fingerprint's bits that differ from the goal's
    goal: int  # stratum
    discounts: Floats  # γᵗ
    effort: float
    outside: float
    caution: float
    bonuses: bool
    worst: bool  # whether all bits of an infeasible cell differ from the goal's


@njit(cache=True)
def insertion_cost(x, z, theta, g):
    """Ψ of a pose: -Σ 1 / (e^{ad} + b + e^{-ad}), d (m) the mean distance of the peg's keypoints to their goals.

    `g` has the fields of a `Shape`. Three terms of increasing sharpness act far away, near the hole and inside it.
    """
    c, s = math.cos(theta), math.sin(theta)
    base_x, base_z = x + s * g.half_length, z - c * g.half_length + g.depth
    d = 0.0
    for o in _KEYPOINTS:
        d += 0.25 * math.hypot(base_x - o * s, base_z + o * (c - 1.0))
    cost = 0.0
    for a, b in ((5.0, 4.0), (50.0, 2.0), (100.0, 0.0)):
        grown = math.exp(min(a * d, 700.0))  # beyond this the term is 0 in floating point, and the exponential overflows
        cost -= 1.0 / (grown + b + 1.0 / grown)
    return cost


@njit(cache=True)
def pose_cost(x, z, theta, bonuses, g):
    """Ψ of a pose, optionally less the suite's bonuses: 1 once the peg is engaged and 1 more when it is inserted."""
    cost = insertion_cost(x, z, theta, g)
    if bonuses:
        c, s = math.cos(theta), math.sin(theta)
        above = z - c * g.half_length + g.depth
        if abs(x + s * g.half_length) <= CENTRED:
            cost -= (above <= ENGAGED * g.depth) + (above <= INSERTED * g.depth)
    return cost


@njit(cache=True, inline="always")
def _model(params):
    """The model's numbers alone: a tuple without arrays is passed on much faster."""
    return ModelParams(
        params.half_width, params.half_length, params.hole, params.block, params.depth, params.radius, params.bound,
        params.noise,
    )  # fmt: skip


@njit(cache=True)
def peg_step(states, action, noise, params):
    """One step of the approximate model for all particles, states (3, L)."""
    model, move, friction = _model(params), params.move, params.friction
    for l in range(states.shape[1]):
        pose, normals = (states[0, l], states[1, l], states[2, l]), (noise[0, l], noise[1, l], noise[2, l])
        x, z, theta = moved(pose, action, normals, move, friction, model)
        states[0, l], states[1, l], states[2, l] = x, z, theta


@njit(cache=True)
def particle_cost(states, l, params):
    """Ψ of a particle."""
    return pose_cost(states[0, l], states[1, l], states[2, l], params.bonuses, _model(params))


@njit(cache=True)
def particle_stratum(states, l, params):
    """Stratum of a particle, -1 if infeasible."""
    return params.stratum_of[code_at(states[0, l], states[1, l], states[2, l], params.trim, _model(params))]


@njit(cache=True)
def _region_terms(seen, s, params):
    """Mean cost, fraction outside the goal's stratum, and mean fraction of differing bits in the region of step s."""
    strata, fingerprints, differing = params.hamming.shape[0], 0, 0.0
    for m in range(strata):
        fingerprints += seen.cells[s, m]
        differing += seen.cells[s, m] * params.hamming[m]
    cells = fingerprints + seen.cells[s, strata]
    if params.worst:
        differing, fingerprints = differing + seen.cells[s, strata], cells
    hamming = differing / fingerprints if fingerprints > 0 else 1.0
    return seen.sums[s] / cells, 1.0 - seen.cells[s, params.goal] / cells, hamming


@njit(cache=True)
def _pose_term(seen, t, params):
    """Ψ̃ₜ."""
    if t == 0:
        return _region_terms(seen, 0, params)[0]
    if 1 < t <= seen.cells.shape[0]:
        return _region_terms(seen, t - 1, params)[0]
    return seen.particles[t - 1]


@njit(cache=True)
def peg_cost(mean, action, seen, h, horizon, params):
    """The contribution of step h, from 1, to the paper's peg objective."""
    t, effort, charged = h - 1, action[0] * action[0] + action[1] * action[1] + action[2] * action[2], 0.0
    if t < seen.cells.shape[0]:
        _, outside, hamming = _region_terms(seen, t, params)
        charged = params.outside * params.discounts[t] * outside
        if t == 0:
            charged += params.caution * max(hamming - HAMMING_FREE, 0.0) * effort
    cost = params.discounts[t] * (_pose_term(seen, t, params) + params.effort * effort) + charged
    if h == horizon:
        cost += params.discounts[h] * _pose_term(seen, h, params)
    return cost


class _Called(Called, cached=True):
    step, stage_cost, particle_cost, particle_stratum = peg_step, peg_cost, particle_cost, particle_stratum


def peg_rollout(cap: Fitted, task: Peg, alpha: float = 0.1, weights: PegWeights | None = None) -> FusedRollout:
    """Stage costs of the paper's objective, with the region of the first step, or of those that `cap` was calibrated for."""
    cap.check_fitted()
    _check_calibration(cap, task)
    weights = weights or PegWeights()
    infeasible = known_name("infeasible", weights.infeasible, get_args(Infeasible))
    sums = RegionSums(
        _costs_of(task.strata, weights.bonuses),
        particle_cost,
        particle_stratum,
        infeasible=infeasible != "nothing",
        covariance=np.diag((task.settings.noise * ACTION_UNIT) ** 2),
    )
    model = StepModel(peg_step, 3, task.axes, noise_dims=3, params=_params(task, weights))
    return FusedRollout(cap, model, peg_cost, sums, alpha, check=partial(_check_state, task))


def _params(task: Peg, weights: PegWeights) -> Params:
    strata, correction = task.strata, task.correction
    return Params(
        *task.model.params,
        move=np.array(correction.move),
        friction=correction.friction,
        trim=strata.trim,
        stratum_of=strata.stratum_of_code,
        hamming=strata.hamming_to_goal / len(FEATURES),
        goal=strata.goal_stratum,
        discounts=np.asarray(DISCOUNT ** np.arange(LONGEST + 1), dtype=np.float64),
        effort=weights.effort,
        outside=weights.outside,
        caution=weights.caution,
        bonuses=weights.bonuses,
        worst=weights.infeasible == "worst",
    )


@lru_cache(maxsize=2)  # all methods share one grid
def _costs_of(strata: PegStrata, bonuses: bool) -> npt.NDArray[np.float32]:
    return cell_costs(strata.require_grid(), strata.settings, bonuses)


@parallel_kernel(cache=True)
def _cell_costs(origin, spacing, shape, bonuses, g):
    costs = np.empty(shape, dtype=np.float32)
    for i in prange(shape[0]):
        for j in range(shape[1]):
            for k in range(shape[2]):
                x, z, theta = origin[0] + i * spacing[0], origin[1] + j * spacing[1], origin[2] + k * spacing[2]
                costs[i, j, k] = pose_cost(x, z, theta, bonuses, g)
    return costs.ravel()


def cell_costs(grid: Grid, settings: PegSettings, bonuses: bool = False) -> npt.NDArray[np.float32]:
    """Ψ at the centre of every cell of a grid of poses: float32 (cells,), for averages over regions."""
    return np.asarray(_cell_costs(grid.origin, grid.spacing, grid.shape, bonuses, shape_of(settings)))


def _check_calibration(cap: Fitted, task: Peg) -> None:
    strata, model = cap.strata, getattr(cap.model_, "__self__", cap.model_)
    same = isinstance(strata, PegStrata) and strata.digest() == task.strata.digest()
    believed = getattr(model, "settings", None), getattr(model, "correction", None)
    if not same or believed != (task.settings, task.correction):
        raise CaptureError(
            f"the calibration was made for another peg, hole, bound, noise or model than {task!r}; make one for it."
        )


def _check_state(task: Peg, state: Floats) -> None:
    """Reject a pose (3,) out of reach, in the receptacle or in the table."""
    pose = finite_array("state", state, (3,), "(3,): x, z, theta in metres and radians")
    if (pose < REACH[0] - SLACK).any() or (pose > REACH[1] + SLACK).any():
        raise CaptureError(
            f"the state {pose.tolist()} is out of reach; expected x, z, theta (m, m, rad) between {REACH[0].tolist()} "
            f"and {REACH[1].tolist()}."
        )
    if code_at(pose[0], pose[1], pose[2], task.strata.trim, task.strata.shape) == INFEASIBLE:  # without waking threads
        raise CaptureError(
            f"the state {pose.tolist()} lies in the receptacle or the table; settle measured poses before planning."
        )
