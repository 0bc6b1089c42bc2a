"""Learn: compute the cost of regions for a batch of planned steps, with NumPy, PyTorch or JAX arrays, in any planner.

Run: python examples/18_region_cost.py [transitions] (needs torch and jax: make peers)
Explained in: docs/use/other-planners.md
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import torch

from capture_cp import Capture
from capture_cp.planning import RegionCost
from capture_lab.tasks.box import Box

box, rng = Box(), np.random.default_rng(0)
log = box.transitions(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, rng)
cap = Capture(box.model, box.strata, n_particles=16).fit(log.X, log.Y)
x, y = box.strata.grid.centre(np.arange(box.strata.grid.size)).T
cost = RegionCost(cap, hazard=(abs(x - 0.5) < 0.1) & (abs(y - 0.4) < 0.1), alpha=0.1)  # or a function of configurations

# 1000 plans of one step: start states, actions, and the model's particles after the step
states, actions = np.tile([0.4, 0.55], (1000, 1)), rng.uniform(-0.2, 0.2, (1000, 2))
particles = cap.predict(np.hstack([states, actions]), rng)
cells = cost(states, actions, particles)
print(f"NumPy: {type(cells).__name__} {cells.dtype}, {np.mean(cells > 0):.0%} of the regions touch the hazard")

tensors = [torch.from_numpy(part) for part in (states, actions, particles)]  # shares memory, no copy
print(f"PyTorch: {cost(*tensors).dtype} on {cost(*tensors).device}, equal: {bool((cost(*tensors).numpy() == cells).all())}")

arrays = [jnp.asarray(part) for part in (states, actions, particles)]  # float32, the default of JAX
price = jax.jit(lambda s, a, p: 250.0 * cost(s, a, p))(*arrays)
print(f"JAX, compiled: {price.dtype}, equal for {np.mean(np.asarray(price) == 250.0 * cells):.1%}")

# several steps at once, (n, H, ...): cost per step, or their sum
stacked = [np.stack([part, part], axis=1) for part in (states, actions, particles)]
print(f"plans of two steps: {cost.stages(*stacked).shape}, summed {cost(*stacked).shape}")
