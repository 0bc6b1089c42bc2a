"""Learn: plan with pytorch_mppi on the marble labyrinth, with calibrated regions in its cost.

Run: python examples/16_pytorch_mppi.py [samples] (needs pytorch_mppi: make peers)
Explained in: docs/use/other-planners.md
"""

import sys

import numpy as np
import torch
from pytorch_mppi import MPPI
from scipy.ndimage import map_coordinates

from capture_cp.planning import RegionCost, TorchMPPICost
from capture_lab.tasks.marble.dynamics import AT_GOAL
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.planner import marble_params

SAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
task = MarbleOptions().at("bottom-right")
data = task.calibration(seed=0)
cap = task.method("capture").fit(data.X, data.Y)  # 16 particles
task = task.in_closed_loop  # pits stop the marble
regions = TorchMPPICost(RegionCost(cap, task.hazard, alpha=0.1, weight=250.0), axes=task.axes)
params = marble_params(task, task.model_gain)  # holds the remaining distance to the goal for every cell


def dynamics(states, actions):
    """Next states of all particles of all samples, (16 * samples, 6), each with its own noise."""
    noise = task.noise * torch.randn(actions.shape, dtype=states.dtype)
    after, outcomes = task.step(states.numpy(), actions.numpy(), noise.numpy(), task.model_gain)
    after[np.ix_(outcomes == AT_GOAL, task.axes)] = params.goal[:2]  # it stops at the rim: no distance remains
    return torch.from_numpy(after)


def running_cost(states, actions):
    """30 per metre of remaining distance to the goal."""
    place = (states[:, [0, 2]].numpy() - params.origin) / params.spacing
    return 30.0 * torch.from_numpy(map_coordinates(params.field, place.T, order=1, mode="nearest"))


torch.manual_seed(0)
bound, noise = torch.from_numpy(task.bounds), torch.tensor([[1.0, 0.1], [0.1, 1.0]], dtype=torch.float64)
controller = MPPI(
    dynamics, running_cost, 6, noise, SAMPLES, horizon=6, u_min=-bound, u_max=bound,
    terminal_state_cost=regions, rollout_samples=cap.n_particles,
)  # fmt: skip
regions.watch(controller)  # reads the state that plans start from
(state,), outcome, steps, rng = task.starts(1), None, 0, np.random.default_rng(1)
act = task.closed_loop(state)
while outcome is None and steps < task.max_steps:
    before = torch.from_numpy(state)
    # the temperature is a fraction of the cost of standing still
    controller.lambda_ = max(0.04 * 6 * running_cost(before[None], None).item(), 0.01)
    state, outcome = act(state, controller.command(before).numpy(), rng)
    steps += 1
print(f"{outcome or 'timed out'} after {steps} steps")
