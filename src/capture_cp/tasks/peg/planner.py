"""Planning for the peg (Appendix B.4 of the paper): roll-out, objective, planner, and the true system in closed loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import CaptureError, Floats, finite_array
from capture_cp.capture.fitted import Fitted
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.kernels.parallel import parallel_kernel
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.planning.episode import System
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.rollout import Rollout
from capture_cp.planning.settings import PlannerSettings
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.tasks.peg.corrected import NO_CORRECTION, Correction, corrected_move
from capture_cp.tasks.peg.cspace import PegStrata
from capture_cp.tasks.peg.first_step import FirstStepRegions, Infeasible, on_host
from capture_cp.tasks.peg.model import settle
from capture_cp.tasks.peg.objective import pose_cost
from capture_cp.tasks.peg.simulator import REACH, PegSystem
from capture_cp.tasks.peg.task import Peg

#: Of the paper's objective; its weights are in `PegWeights`.
DISCOUNT, HAMMING_FREE = 0.95, 0.5
MAX_STEPS = 75
#: The controller sends the peg no farther than REACH; inertia and contact may take it a little beyond (m, m, rad).
SLACK: Floats = np.array([5e-3, 5e-3, 0.2])


#: The paper's where it gives them; the temperature is in the unit of the cost.
PLANNER = PlannerSettings(horizon=15, samples=128, temperature=0.1, repeats=4)


@dataclass(frozen=True)
class PegWeights:
    """Weights of the peg's objective; the paper's where it gives them.

    Attributes:
        spread: standard deviation of the action perturbations (mm, mm, degrees), independent. The paper does not give it;
            here it is that of the disturbance, half the bound.
        effort: weight of every squared action.
        outside: weight of the share of the region outside the goal's stratum.
        caution: weight of a large first action where contacts differ from the goal's.
        bonuses: whether the insertion cost has the Factory suite's bonuses; the paper's has not.
        infeasible: what infeasible cells of LUCCa's ellipsoids count as: "outside" the goal's stratum, and not in the mean
            difference of contacts; "worst", outside it and with all contacts different; "nothing", as if the region ended
            where it is infeasible.
    """

    spread: float = 1.5
    effort: float = 0.005
    outside: float = 20.0
    caution: float = 0.6
    bonuses: bool = False
    infeasible: Infeasible = "outside"


@njit(cache=True)
def rolled(x, z, theta, action, key, number, move, friction, params):  # type: ignore[no-untyped-def]
    """A pose after an action (3,), under the normals that a stream has for this number: x, z, theta."""
    first, second = normal_pair(key, 2 * number)
    third, _ = normal_pair(key, 2 * number + 1)
    return corrected_move((x, z, theta), action, (first, second, third), move, friction, params)


@parallel_kernel(cache=True)
def roll_particles(start, sequences, n_particles, kept, seed, bonuses, move, friction, params):  # type: ignore[no-untyped-def]
    """Particles (N, kept, L, 3) after each of the first steps of sequences (N, H, 3) from a pose (3,), and mean Ψ (N, H).

    Sequence i draws its noise from stream i of the seed. `move` (3, 4) and `friction` are a `Correction`.
    """
    samples, horizon, _ = sequences.shape
    clouds, costs = np.empty((samples, kept, n_particles, 3)), np.zeros((samples, horizon))
    for i in prange(samples):
        key = stream(seed, i)
        states = np.empty((3, n_particles))
        for axis in range(3):
            states[axis, :] = start[axis]
        for h in range(horizon):
            for l in range(n_particles):
                number, pose = h * n_particles + l, (states[0, l], states[1, l], states[2, l])
                x, z, theta = rolled(*pose, sequences[i, h], key, number, move, friction, params)
                states[0, l], states[1, l], states[2, l] = x, z, theta
                costs[i, h] += pose_cost(x, z, theta, bonuses, params) / n_particles
                if h < kept:
                    clouds[i, h, l, 0], clouds[i, h, l, 1], clouds[i, h, l, 2] = x, z, theta
    return clouds, costs


class PegRollout(Rollout):
    """Stage costs of the paper's peg objective, with a region for the first step only, unless a horizon was calibrated.

    J = Σ γᵗ [Ψ̃ₜ + 0.005 ‖aₜ‖²] + 20 ρ₀ + 0.6 [h₀ - 0.5]₊ ‖a₀‖², t from 0 to H, actions in mm, mm, degrees.

    Ψ̃₀, ρ₀ and h₀ are taken over the region of the configuration that a₀ leads to; Ψ̃ₜ for t ≥ 1 over the particles after t
    steps, which carry on from the particles of that region. So the configuration after a₀ counts twice, as region and as
    particles, and the one after the last action is the terminal state t = H, which has no action. Its term is added to the
    last stage.

    A calibration for a horizon has regions of its first steps: the mean over the region of step t stands for Ψ̃ₜ from t = 2
    on, and its share outside the goal's stratum is charged as ρ₀ is, discounted.

    Args:
        cap: predictor of the peg, calibrated by one of the six methods, or for the first steps of a horizon.
        task: the peg, with the model that plans.
        alpha: failure rate of the regions.
        weights: 0.005, 20 and 0.6 are its `effort`, `outside` and `caution`.
        device: where particles are rolled and cells looked at, "cpu", "cuda" or "auto".
    """

    def __init__(
        self,
        cap: Fitted,
        task: Peg,
        alpha: float = 0.1,
        weights: PegWeights | None = None,
        device: Device = "cpu",
    ) -> None:
        cap.check_fitted()
        self.device = chosen_device(device)
        strata, model = cap.strata, getattr(cap.model_, "__self__", cap.model_)
        same = isinstance(strata, PegStrata) and strata.fingerprint() == task.strata.fingerprint()
        if not same or getattr(model, "settings", None) != task.settings or _correction(model) != _correction(task):
            raise CaptureError(
                f"the calibration was made for another peg, hole, bound, noise or model than {task!r}; make one for it."
            )
        self.task, self.cap, self.weights = task, cap, weights or PegWeights()
        self.bonuses = self.weights.bonuses
        steps = cap.steps_
        if steps != tuple(range(1, len(steps) + 1)):
            raise CaptureError(f"regions were calibrated for steps {list(steps)}; the peg's planner needs all from 1 on.")
        chosen = cap, task.strata, alpha, self.bonuses, self.weights.infeasible
        self.by_step = [FirstStepRegions(*chosen, s, self.device) for s in range(len(steps))]
        super().__init__(cap.plan_thresholds(alpha))

    @property
    def thresholds(self) -> Floats:
        return super().thresholds

    @thresholds.setter
    def thresholds(self, given: Any) -> None:
        Rollout.thresholds.fset(self, given)  # type: ignore[attr-defined]
        partition = self.cap.partition_
        table, strata = self._thresholds, np.arange(len(self._thresholds))
        self.regions.thresholds = lambda X: np.asarray(table[strata, partition.groups_everywhere(X)])

    def check(self, state: Floats) -> None:
        self._checked(state, np.zeros((1, 1, 3)))

    @property
    def regions(self) -> FirstStepRegions:
        """Those of the first step."""
        return self.by_step[0]

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, 3) from a pose (3,)."""
        pose, actions = self._checked(state, sequences)
        kept = min(len(self.by_step), actions.shape[1])
        clouds, psi = self._roll(pose, actions, kept, seed)
        effort = (actions**2).sum(axis=2)
        discount = DISCOUNT ** np.arange(actions.shape[1] + 1)
        terms, charged = np.empty((len(actions), actions.shape[1] + 1)), np.zeros(actions.shape[:2])
        before, found = np.tile(pose, (len(actions), 1)), []
        for s in range(kept):
            found.append(self.by_step[s](np.hstack([before, actions[:, s]]), clouds[s]))
            if s + 1 < kept:
                before = on_host(clouds[s]).mean(axis=1)
        terms[:, 1:] = on_host(psi)  # Ψ̃ₜ, t from 0 to H
        for s, region in enumerate(found):
            terms[:, s + 1 if s else 0] = region.cost
            charged[:, s] = self.weights.outside * discount[s] * region.outside
        charged[:, 0] += self.weights.caution * np.maximum(found[0].hamming - HAMMING_FREE, 0.0) * effort[:, 0]
        costs: Floats = discount[:-1] * (terms[:, :-1] + self.weights.effort * effort) + charged
        costs[:, -1] += discount[-1] * terms[:, -1]
        return costs

    def _roll(self, pose: Floats, actions: Floats, kept: int, seed: int) -> tuple[Any, Any]:
        """Particles (N, L, 3) after each of the first steps, and mean Ψ (N, H) of all: where the device is."""
        particles, correction, params = self.cap.n_particles, _correction(self.task), self.task.model.params
        if self.device == "cuda":
            from capture_cp.tasks.peg import cuda

            return cuda.roll_particles(pose, actions, particles, kept, seed, self.bonuses, correction, params)
        chosen = particles, kept, np.uint64(seed), self.bonuses, np.array(correction.move), correction.friction, params
        clouds, psi = roll_particles(pose, actions, *chosen)
        return np.ascontiguousarray(clouds.swapaxes(0, 1)), psi

    def _checked(self, state: Floats, sequences: Floats) -> tuple[Floats, Floats]:
        pose = finite_array("state", state, (3,), "(3,): x, z, theta in metres and radians")
        actions = finite_array("sequences", sequences, (None, None, 3), "(N, H, 3): actions in mm, mm, degrees")
        if (pose < REACH[0] - SLACK).any() or (pose > REACH[1] + SLACK).any():
            raise CaptureError(
                f"the state {pose.tolist()} is out of reach; expected x, z, theta (m, m, rad) between {REACH[0].tolist()} "
                f"and {REACH[1].tolist()}."
            )
        if self.task.strata.index(pose[None])[0] == INFEASIBLE:
            raise CaptureError(
                f"the state {pose.tolist()} lies in the receptacle or the table; settle measured poses before planning."
            )
        return pose, actions


def _correction(model: object) -> Correction:
    return getattr(model, "correction", NO_CORRECTION)


def peg_planner(
    cap: Fitted,
    task: Peg,
    settings: PlannerSettings = PLANNER,
    alpha: float = 0.1,
    seed: int = 0,
    weights: PegWeights | None = None,
    device: Device = "cpu",
) -> MPPI:
    """An MPPI planner for the peg that uses the regions of `cap`."""
    weights = weights or PegWeights()
    bound = np.full(3, task.settings.bound)
    return MPPI(
        PegRollout(cap, task, alpha, weights, device),
        settings.horizon,
        settings.sampled,
        settings.temperature,
        noise=np.eye(3) * weights.spread**2,
        low=-bound,
        high=bound,
        iterations=settings.iterations,
        elites=settings.elites,
        repeats=settings.repeats,
        seed=seed,
    )


def closed_loop(task: Peg, system: PegSystem, start: Floats) -> System:
    """The true system, placed at a feasible pose (3,) and ready to step; the episode ends when the peg is inserted.

    The simulator keeps its own state. What the planner is told is the measured pose, pushed out of the micrometres by which
    contact may leave it too deep.
    """
    task.check_poses(np.asarray(start, dtype=np.float64)[None])
    system.reset(start)

    def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        measured = system.step(action, rng)[None]
        inserted = bool(task.strata.success(measured)[0])
        return settle(measured, task.settings)[0], "success" if inserted else None

    return act
