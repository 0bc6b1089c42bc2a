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
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.tasks.peg.corrected import NO_CORRECTION, Correction, corrected_move
from capture_cp.tasks.peg.cspace import PegStrata
from capture_cp.tasks.peg.first_step import FirstStepRegions, Infeasible, on_host
from capture_cp.tasks.peg.model import settle
from capture_cp.tasks.peg.objective import pose_cost
from capture_cp.tasks.peg.simulator import REACH, PegSystem
from capture_cp.tasks.peg.task import Peg

#: Of the paper's objective; its weights are in `PlannerSettings`.
DISCOUNT, HAMMING_FREE = 0.95, 0.5
MAX_STEPS = 75
#: The controller sends the peg no farther than REACH; inertia and contact may take it a little beyond (m, m, rad).
SLACK: Floats = np.array([5e-3, 5e-3, 0.2])


@dataclass(frozen=True)
class PlannerSettings:
    """MPPI settings of the peg and weights of its objective; the paper's where it gives them.

    Attributes:
        horizon: steps of a plan.
        samples: action sequences rolled out for a plan, those that are rolled out again included.
        temperature: in the unit of the cost.
        spread: standard deviation of the action perturbations (mm, mm, degrees), independent. The paper does not give it;
            here it is that of the disturbance, half the bound.
        elites: best samples that are rolled out again beside their average, see `MPPI`; the paper has none.
        repeats: roll-outs of each of them.
        effort: weight of every squared action.
        outside: weight of the share of the region outside the goal's stratum.
        caution: weight of a large first action where contacts differ from the goal's.
    """

    horizon: int = 15
    samples: int = 128
    temperature: float = 0.1
    spread: float = 1.5
    elites: int = 0
    repeats: int = 4
    effort: float = 0.005
    outside: float = 20.0
    caution: float = 0.6

    @property
    def sampled(self) -> int:
        """Action sequences tried at random."""
        again = (self.elites + 1) * self.repeats if self.elites else 0
        if again >= self.samples:
            raise CaptureError(
                f"{self.elites} elites rolled out {self.repeats} times again leave none of {self.samples} samples; "
                "take fewer elites or more samples."
            )
        return self.samples - again


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


class PegRollout:
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
        bonuses: whether Ψ has the Factory suite's bonuses; the paper's has not.
        infeasible: what infeasible cells of LUCCa's regions count as, see `FirstStepRegions`.
        settings: where the weights 0.005, 20 and 0.6 are, as `effort`, `outside` and `caution`.
        device: where particles are rolled and cells looked at, "cpu", "cuda" or "auto".
    """

    def __init__(
        self,
        cap: Fitted,
        task: Peg,
        alpha: float = 0.1,
        bonuses: bool = False,
        infeasible: Infeasible = "outside",
        settings: PlannerSettings | None = None,
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
        self.task, self.cap, self.bonuses = task, cap, bonuses
        self.settings = settings or PlannerSettings()
        steps = cap.steps_
        if steps != tuple(range(1, len(steps) + 1)):
            raise CaptureError(f"regions were calibrated for steps {list(steps)}; the peg's planner needs all from 1 on.")
        chosen = cap, task.strata, alpha, bonuses, infeasible
        self.by_step = [FirstStepRegions(*chosen, s, self.device) for s in range(len(steps))]

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
            charged[:, s] = self.settings.outside * discount[s] * region.outside
        charged[:, 0] += self.settings.caution * np.maximum(found[0].hamming - HAMMING_FREE, 0.0) * effort[:, 0]
        costs: Floats = discount[:-1] * (terms[:, :-1] + self.settings.effort * effort) + charged
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


def peg_planner(rollout: PegRollout, settings: PlannerSettings, seed: int) -> MPPI:
    """An MPPI planner for the peg."""
    bound = np.full(3, rollout.task.settings.bound)
    noise = np.eye(3) * settings.spread**2
    return MPPI(
        rollout,
        settings.horizon,
        settings.sampled,
        settings.temperature,
        noise,
        -bound,
        bound,
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
