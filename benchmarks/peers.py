"""The marble by pytorch_mppi with our regions as its cost, compared with our planner: success, falls, and time per plan.

    NUMBA_NUM_THREADS=1 python -m benchmarks.peers --map center --theirs 60 --ours 200 --out peers.json

All plan with the same model, calibration, horizon, samples, particles, noise and temperature, from the same starts, in the
same true system. `torch-particles` has no regions: 250 for every particle in a pit, as in our row `particles`. Runs that
are already in the output file are not played again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from pytorch_mppi import MPPI as TorchMPPI
from scipy import ndimage

from capture_cp.base.checks import Floats
from capture_cp.base.files import written_whole
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.planning import MPPI, RegionCost, TorchMPPICost
from capture_cp.planning.episode import episode_seeds, run_episode
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.planner import marble_params
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.rows import FittedRow, fit_row

ALPHA = 0.1
#: Planners by name: which library, and the row of our planning table that it is calibrated as.
PLANNERS = {
    "torch-capture": ("theirs", "capture"),
    "torch-particles": ("theirs", "particles"),
    "capture": ("ours", "capture"),
    "particles": ("ours", "particles"),
}


class TheirPlanner:
    """pytorch_mppi's controller with the interface of our `MPPI`, so that `run_episode` can play it.

    Its terminal cost is the marble's whole objective: of the mean particle, as in ours, and of the regions.
    """

    def __init__(self, fitted: FittedRow, seed: int, samples: int | None = None) -> None:
        task = fitted.task.in_closed_loop
        assert isinstance(task, Marble)
        self.task, self.seed, self.like = task, seed, fitted.planner(ALPHA, seed)
        self.params = marble_params(task, task.model_gain, fitted.row.weights)
        self.regions = TorchMPPICost(RegionCost(fitted.cap, task.hazard, ALPHA, self.params.pit_weight), task.axes)
        self.bound = torch.from_numpy(self.like.high)
        self.samples, self.particles = samples or self.like.samples, fitted.cap.n_particles
        self.reset()

    def reset(self) -> None:
        """A new controller with the same random numbers; its first plan is zero, as in ours."""
        torch.manual_seed(self.seed % 2**63)
        spread = torch.from_numpy(self.like._spread)
        self.controller = TorchMPPI(
            self.dynamics,
            lambda state, action: state.new_zeros(len(state)),
            nx=6,
            noise_sigma=spread @ spread.T,
            num_samples=self.samples,
            horizon=self.like.horizon,
            terminal_state_cost=self.objective,
            u_min=-self.bound,
            u_max=self.bound,
            U_init=torch.zeros((self.like.horizon, 2), dtype=torch.float64),
            rollout_samples=self.particles,
        )
        self.regions.watch(self.controller)

    def plan(self, state: Floats) -> Floats:
        """The next action (2,) from a state (6,)."""
        self.controller.lambda_ = self.like.temperature_at(state)
        action = self.controller.command(torch.from_numpy(state.copy()))
        self.nominal, self.costs = self.controller.U.numpy(), self.controller.cost_total.numpy()
        return np.asarray(action.numpy(), dtype=np.float64)

    def dynamics(self, states: Any, actions: Any) -> Any:
        """Next states (n, 6) by our compiled model; a marble at the goal is moved to its centre, as in our planner."""
        noise = self.task.noise * torch.randn(actions.shape, dtype=torch.float64)
        before, pushed, eps = (part.contiguous().numpy() for part in (states, actions, noise))
        after, outcomes = self.task.step(before, pushed, eps, self.task.model_gain)
        there = np.flatnonzero(outcomes == dynamics.AT_GOAL)
        after[there[:, None], [0, 2]] = self.params.goal[:2]
        return torch.from_numpy(after)

    def objective(self, states: Any, actions: Any) -> Any:
        """Cost (K,) of states (M, K, T, 6): 30 per remaining metre at each step and 50 at the last, 250 per pit cell."""
        _, means = self.regions.means(states)
        place = (means[..., [0, 2]].numpy() - self.params.origin) / self.params.spacing
        away = ndimage.map_coordinates(self.params.field, np.moveaxis(place, -1, 0), order=1, mode="nearest")
        way = self.params.stage_weight * away.sum(axis=1) + self.params.final_weight * away[:, -1]
        return torch.from_numpy(way) + self.regions(states, actions)


def planner_of(name: str, fitted: FittedRow, seed: int) -> MPPI:
    """A planner of `PLANNERS` for one run."""
    return fitted.planner(ALPHA, seed) if PLANNERS[name][0] == "ours" else cast(MPPI, TheirPlanner(fitted, seed))


def play(name: str, fitted: FittedRow, episode: int) -> dict[str, Any]:
    """One closed-loop run; starts, noise and seeds are those of the planning study."""
    (start,), task = fitted.task.starts(1), fitted.task
    seeds = episode_seeds(0, task.place, episode)
    run = run_episode(planner_of(name, fitted, seeds[0]), task.closed_loop(start), start, task.max_steps, seeds[1])
    return {"planner": name, "episode": episode, "outcome": run.outcome, "steps": run.steps}


def time_per_plan(names: Sequence[str], rows: dict[str, FittedRow], rounds: int) -> dict[str, float]:
    """Median milliseconds of a plan by each planner, in turn on the states of one run of our planner.

    CPU time: with NUMBA_NUM_THREADS=1 all have one thread, and other work on the machine does not count.
    """
    fitted = rows["capture"]
    (start,) = fitted.task.starts(1)
    run = run_episode(fitted.planner(ALPHA, 0), fitted.task.closed_loop(start), start, rounds, 0)
    planners = {name: planner_of(name, rows[PLANNERS[name][1]], 0) for name in names}
    for planner in planners.values():
        planner.plan(start)  # compiles
    times: dict[str, list[float]] = {name: [] for name in names}
    for state in run.states[:-1]:
        for name, planner in planners.items():
            began = time.process_time()
            planner.plan(state)
            times[name].append(1e3 * (time.process_time() - began))
    return {name: float(np.median(found)) for name, found in times.items()}


def keep(done: dict[str, Any], path: Path) -> None:
    """Write the results atomically."""
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(done))


def show(runs: list[dict[str, Any]], names: Sequence[str]) -> None:
    """Rates with exact 95% intervals, as rows of a table."""
    for name in names:
        mine = [run for run in runs if run["planner"] == name]
        if not mine:
            continue
        counts, n = Counter(run["outcome"] for run in mine), len(mine)
        rates = [(counts[kind], *clopper_pearson(counts[kind], n)) for kind in ("success", "fell")]
        shares = " | ".join(f"{100 * k / n:.1f} ({100 * low:.1f} - {100 * high:.1f})" for k, low, high in rates)
        steps = [run["steps"] for run in mine if run["outcome"] == "success"]
        print(f"| `{name}` | {n} | {shares} | {np.mean(steps) if steps else np.nan:.1f} |")


def main() -> None:
    """Play the missing runs, one of each planner in turn, until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--map", default="center")
    parser.add_argument("--variant", action="store_true", help="the mirrored map, for choosing settings")
    parser.add_argument("--planners", nargs="+", default=list(PLANNERS), choices=list(PLANNERS))
    parser.add_argument("--theirs", type=int, default=60, help="runs of pytorch_mppi")
    parser.add_argument("--ours", type=int, default=200, help="runs of our planner")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after this many seconds")
    parser.add_argument("--rounds", type=int, default=20, help="timed plans of each planner")
    parser.add_argument("--out", type=Path, default=Path("peers.json"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    task = MarbleOptions(variant=chosen.variant).at(chosen.map)
    needed = {"capture", *(PLANNERS[name][1] for name in chosen.planners)}
    rows = {name: fit_row(task.rows[name], task, 0) for name in sorted(needed)}
    done = json.loads(chosen.out.read_text()) if chosen.out.is_file() else {"runs": []}
    runs, began = done["runs"], time.perf_counter()
    played = {(run["planner"], run["episode"]) for run in runs}
    for episode in range(max(chosen.ours, chosen.theirs)):
        for name in chosen.planners:
            most = chosen.ours if PLANNERS[name][0] == "ours" else chosen.theirs
            if episode < most and (name, episode) not in played and time.perf_counter() - began < chosen.seconds:
                runs.append(play(name, rows[PLANNERS[name][1]], episode))
                keep(done, chosen.out)
    show(runs, chosen.planners)
    if chosen.rounds:
        done["plan_ms"] = time_per_plan(chosen.planners, rows, chosen.rounds)
        keep(done, chosen.out)
        print({name: f"{ms:.1f} ms" for name, ms in done["plan_ms"].items()})


if __name__ == "__main__":
    main()
