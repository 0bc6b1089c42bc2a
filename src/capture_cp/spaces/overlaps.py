"""Exact overlap depths of boxes, capsules and spheres of a MuJoCo model.

Where the axis of a capsule enters a box, MuJoCo reports a depth anywhere between 0 and the correct one, and for a few pairs
of long boxes it is off by a tenth. Both geoms are zonotopes, {c + Σ tᵢ gᵢ : |tᵢ| ≤ 1}, grown by a radius, and so is their
Minkowski difference. The depth of the origin in it is a minimum over finitely many directions: the normals gᵢ × gⱼ of its
faces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.spaces.mujoco_model import mujoco_module

#: Generators this close to parallel (sine of their angle) span no face.
PARALLEL = 1e-9


def is_exact(model: Any, a: int, b: int) -> bool:
    """Whether `overlap_depths` supports the pair of geoms: a box and a box, capsule or sphere."""
    types = mujoco_module().mjtGeom
    box, others = int(types.mjGEOM_BOX), {int(types.mjGEOM_CAPSULE), int(types.mjGEOM_SPHERE)}
    pair = {int(model.geom_type[a]), int(model.geom_type[b])}
    return box in pair and pair <= others | {box}


def overlap_depths(model: Any, a: int, b: int, poses: Floats) -> Floats:
    """Overlap depths (n,) of two geoms at their poses (n, 2, 12), xpos and xmat each.

    Negative where their cores, the geoms without their radius, are apart.
    """
    one, other = (_generators(model, geom, poses[:, i, 3:].reshape(-1, 3, 3)) for i, geom in enumerate((a, b)))
    generators, centre = np.concatenate([one, other], axis=1), poses[:, 0, :3] - poses[:, 1, :3]
    cores = _depth_of_origin(centre, generators)
    return np.where(cores >= 0, cores + _radius(model, a) + _radius(model, b), cores)


def _depth_of_origin(centre: Floats, generators: Floats) -> Floats:
    """Depth of the origin in zonotopes with these centres (n, 3) and generators (n, g, 3): (n,)."""
    i, j = np.triu_indices(generators.shape[1], k=1)
    normals = np.cross(generators[:, i], generators[:, j])
    sizes, lengths = np.linalg.norm(normals, axis=2), np.linalg.norm(generators, axis=2)
    face = sizes > PARALLEL * lengths[:, i] * lengths[:, j]
    normals = normals / np.where(face, sizes, 1.0)[..., None]
    reach = np.abs(np.einsum("ngk,nfk->nfg", generators, normals)).sum(axis=2)
    inside = reach - np.abs(np.einsum("nk,nfk->nf", centre, normals))
    return np.asarray(np.where(face, inside, np.inf).min(axis=1))


def _generators(model: Any, geom: int, turn: Floats) -> Floats:
    """Half edges of a box, half axis of a capsule, nothing for a sphere, rotated by rotations (n, 3, 3): (n, g, 3)."""
    types, size = mujoco_module().mjtGeom, model.geom_size[geom]
    local = {
        int(types.mjGEOM_BOX): np.diag(size),
        int(types.mjGEOM_CAPSULE): np.array([[0.0, 0.0, size[1]]]),
        int(types.mjGEOM_SPHERE): np.zeros((0, 3)),
    }[int(model.geom_type[geom])]
    return np.asarray(np.einsum("nij,gj->ngi", turn, local))


def _radius(model: Any, geom: int) -> float:
    is_box = int(model.geom_type[geom]) == int(mujoco_module().mjtGeom.mjGEOM_BOX)
    return 0.0 if is_box else float(model.geom_size[geom][0])
