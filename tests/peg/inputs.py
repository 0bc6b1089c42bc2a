"""Random control steps of the peg: free ones, and ones that start near contact."""

from __future__ import annotations

import numpy as np

from capture_lab.tasks.peg.geometry import shape_of, way_out
from capture_lab.tasks.peg.planner import insertion_cost
from capture_lab.tasks.peg.settings import ACTION_UNIT

NEAR = 2e-3  # m


def depths(poses, shape):
    """How deep the peg is in receptacle or table at each pose (n, 3), in metres; negative when apart: (n,)."""
    turned = [(x, z, np.cos(theta), np.sin(theta)) for x, z, theta in poses]
    return np.array([max(way_out(number, *pose, shape)[1] for number in range(3)) for pose in turned])


def contact_inputs(n, settings, rng):
    """Poses (n, 3) outside the receptacle but within 2 mm of it, half of them about the hole; any displacements (n, 3)."""
    reach = settings.radius + NEAR
    near = np.empty((0, 3))
    while len(near) < n:
        tried = rng.uniform([-reach, -settings.hole_depth, -0.7], [reach, reach, 0.7], size=(4 * n, 3))
        tried[::2] *= [0.05, 1.0, 0.1]
        gap = -depths(tried, shape_of(settings))
        near = np.concatenate([near, tried[(gap > 0) & (gap < NEAR)]])
    return near[:n], displacements(n, settings, rng)


def free_inputs(n, settings, rng):
    """Poses (n, 3) high enough that displacements (n, 3) stay in free space."""
    move = displacements(n, settings, rng)
    poses = rng.uniform([-0.03, 0.0, -0.7], [0.03, 0.005, 0.7], size=(n, 3))
    poses[:, 1] += settings.radius + np.abs(move[:, 1]) + 1e-3
    return poses, move


def displacements(n, settings, rng):
    bound = settings.gain * settings.bound
    return rng.uniform(-bound, bound, size=(n, 3)) * ACTION_UNIT


def insertion_costs(poses, settings):
    """Ψ of each pose (n, 3): (n,)."""
    shape = shape_of(settings)
    return np.array([insertion_cost(*pose, shape) for pose in poses])


def landed(system, poses, move):
    """Poses (n, 3) after displacements (n, 3), velocities (n, 3) there, and how far the peg is off the plane (n,)."""
    mujoco, site, found = system._mujoco, system.model.site("peg").id, []
    for pose, step in zip(poses, move):
        data, velocity = mujoco.MjData(system.model), np.empty(6)
        system._place(data, pose)
        system._advance(data, pose + step)
        after = system._read(data)
        mujoco.mj_comPos(system.model, data)
        mujoco.mj_comVel(system.model, data)
        mujoco.mj_objectVelocity(system.model, data, mujoco.mjtObj.mjOBJ_SITE, site, velocity, 0)
        lean = abs(data.site_xmat[site][5])
        off = abs(data.site_xpos[site][1]) + system.settings.peg_length / 2 * lean
        found.append((after, velocity[[3, 5, 1]] * [1, 1, -1], off))
    return tuple(map(np.array, zip(*found)))
