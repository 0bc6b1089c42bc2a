"""A task at one time: its state, the path so far, and the steps of a plan with their regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import part_volumes
from capture_cp.planning.episode import Episode
from capture_cp.report.canvas import rgb
from capture_cp.report.scene import Points
from capture_cp.report.style import OUTSIDE, PARTICLES, PATH_COLOUR
from capture_cp.spaces.strata import has_grid


@dataclass(frozen=True)
class PlanStep:
    """One step of a plan, as predicted by the model.

    Attributes:
        cloud: particles (L, dc).
        region: of the step, where the planner builds one.
        cells: cells of the first step's region by stratum, infeasible ones last, (M + 1,); volumes without a grid.
    """

    cloud: Floats
    region: Region | None = None
    cells: Ints | Floats | None = None


@dataclass(frozen=True)
class Moment:
    """A task at one time.

    Attributes:
        state: (ds,).
        trail: states so far, the current one last, (t + 1, ds).
        missed: whether each state of the trail was outside the region of its step, (t + 1,).
        plan: actions from here on, (H, da); empty when the episode is over.
        outcome: how the episode ended, or None.
        plan_ms: time spent on the plan.
        particles: recorded particles of the first step (L, dc), or None.
        plans: steps ahead with their regions, by method.
        after: the state (ds,) after the next step, where it is known.
        inside: whether the region of the next step contains it, or None.
    """

    state: Floats
    trail: Floats
    missed: Bools
    plan: Floats
    outcome: str | None = None
    plan_ms: float | None = None
    particles: Floats | None = None
    plans: Mapping[str, list[PlanStep]] = field(default_factory=dict)
    after: Floats | None = None
    inside: bool | None = None

    @property
    def steps(self) -> list[PlanStep]:
        """The steps ahead with the first method."""
        return next(iter(self.plans.values()), [])

    def points(self, size: float, place: Any) -> dict[str, Points]:
        """Particles and path in the scene; `place` makes points (n, 3) of configurations or states (n, d)."""
        clouds = [np.empty((0, 3)), *(place(step.cloud) for step in self.steps)]
        paint = np.where(self.missed[:, None], rgb(OUTSIDE.colour), rgb(PATH_COLOUR))
        particles = Points(np.concatenate(clouds), PARTICLES.colour, size)
        return {"particles": particles, "trail": Points(place(self.trail), paint, 1.3 * size)}


def plan_step(cap: Capture, x: Floats, cloud: Floats, region: Region, count: bool = True) -> PlanStep:
    """A step with the region of its input x (ds + da,), and with `count` its cells, or volumes."""
    if not count:
        return PlanStep(cloud, region)
    if not has_grid(cap.strata):
        return PlanStep(cloud, region, part_volumes(region, stream(0, "picture")))
    return PlanStep(cloud, region, cap.count_cells(x[None], region.alpha, prediction=region.prediction)[0])


def recorded_moment(episode: Episode, step: int) -> Moment:
    """A recorded episode at a step, 0 to T, without what follows it."""
    state, trail = episode.states[step], episode.states[: step + 1]
    missed = np.append(False, ~episode.inside[:step]) if len(episode.inside) else np.zeros(step + 1, dtype=bool)
    if step >= episode.steps:
        return Moment(state, trail, missed, np.empty((0, episode.actions.shape[1])), episode.outcome)
    particles = episode.particles[step] if len(episode.particles) else None
    return Moment(state, trail, missed, episode.plans[step], None, float(episode.plan_ms[step]), particles)
