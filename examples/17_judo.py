"""Learn: plan with judo on its cylinder-pushing task, with the cost of calibrated regions subtracted from its reward.

Run: python examples/17_judo.py [transitions] (needs judo-rai: make peers)
Explained in: docs/use/other-planners.md
"""

import sys

import judo.tasks.base
import mujoco.rollout
import numpy as np
from judo.controller import Controller, ControllerConfig
from judo.optimizers.mppi import MPPI, MPPIConfig
from judo.tasks.cylinder_push import XML_PATH, CylinderPush

from capture_cp import Capture, FunctionStrata
from capture_cp.planning import JudoReward, RegionCost

judo.tasks.base.download_and_extract_meshes = lambda **_: None  # meshes of other robots, not needed here
EVERY, PIT, RADIUS = 5, (-0.75, 0.25), 0.3  # a region every 0.1 s; a pit next to the path to the goal at 0, 0


def simulate(model, states, controls):
    """States (n, 8) after EVERY steps under controls (n, 2)."""
    begin, held = np.insert(states, 0, 0.0, axis=1), np.repeat(controls[:, None], EVERY, axis=1)
    return mujoco.rollout.rollout(model, mujoco.MjData(model), begin, held)[0][:, -1, 1:]


def spread(states, controls, after, rng):
    """Possible positions of pusher and cylinder (n, 16, 4) around the result of the rollout, (n, 8)."""
    return after[:, None, :4] + 0.005 * rng.standard_normal((len(after), 16, 4))


def pit_distance(Y):
    """Distance of the cylinder from the pit, negative over it."""
    return np.linalg.norm(Y[:, 2:] - PIT, axis=1) - RADIUS


assumed, real = (mujoco.MjModel.from_xml_path(XML_PATH) for _ in range(2))
real.dof_damping[2:] /= 2  # the true cylinder slides farther than in judo's model
rng, n = np.random.default_rng(0), int(sys.argv[1]) if len(sys.argv) > 1 else 6000
angle, place = rng.uniform(0, 2 * np.pi, n), rng.uniform(-2, 1, (n, 2))
around = place + rng.uniform(0.5, 0.7, (n, 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
X = np.hstack([place, around, 0.5 * rng.standard_normal((n, 4)), place + rng.uniform(-1, 1, (n, 2))])
strata = FunctionStrata(lambda Y: (np.hypot(*(Y[:, :2] - Y[:, 2:]).T) < 0.505).astype(int), ("apart", "touching"))
cap = Capture(lambda X, L, rng: spread(X, X, simulate(assumed, X[:, :8], X[:, 8:]), rng), strata, n_particles=16)
cap.fit(X, simulate(real, X[:, :8], X[:, 8:])[:, :4])
for name, regions in (("judo alone", False), ("with regions", True)):
    np.random.seed(0)  # noqa: NPY002 (judo uses it)
    task, state, nearest = CylinderPush(), np.array([-2.1, 0, -1.5, 0, 0, 0, 0, 0]), np.inf
    controller = Controller(ControllerConfig(), task, MPPI(MPPIConfig(num_rollouts=64, sigma=0.3, use_noise_ramp=True), 2))
    if regions:
        JudoReward(RegionCost(cap, pit_distance, weight=100.0), range(4), spread, EVERY).attach(task)
    for t in range(150):
        controller.current_state, controller.time = state, 0.1 * t
        controller.update_action()
        (state,) = simulate(real, state[None], controller.action(0.1 * t)[None])
        nearest = min(nearest, *pit_distance(state[None, :4]))
    print(f"{name:12} nearest to the pit {nearest:+.2f} m, final distance to the goal {np.hypot(*state[2:4]):.2f} m")
