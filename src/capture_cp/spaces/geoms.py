"""The geoms of a MuJoCo model and their pairs, as arrays for compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.kernels.geoms import MESH, Geoms
from capture_cp.kernels.kinematics import Links
from capture_cp.spaces.links import Place, Tree


def compiled_geoms(model: Any, contacts: list[list[tuple[int, int]]]) -> tuple[Links, Geoms]:
    """Links and geoms of a model for contacts, each of which is a list of geom pairs."""
    flat = [pair for pairs in contacts for pair in pairs]
    geoms = sorted({geom for pair in flat for geom in pair})
    tree = Tree(model, [int(model.geom_bodyid[geom]) for geom in geoms])
    places = {geom: tree.place_of_geom(geom) for geom in geoms}
    row = {geom: tree.attach(place) for geom, place in places.items() if place[0] >= 0}
    links, fixed = tree.links(), [geom for geom in geoms if places[geom][0] < 0]
    row |= {geom: len(tree.rows) + i for i, geom in enumerate(fixed)}
    rows = len(tree.rows) + len(fixed)
    kind, size, bound = np.full(rows, -1, dtype=np.int64), np.zeros((rows, 3)), np.zeros(rows)
    corners: list[Floats] = [np.empty((0, 3))] * rows
    for geom in geoms:
        at = row[geom]
        kind[at], size[at], bound[at] = model.geom_type[geom], model.geom_size[geom], model.geom_rbound[geom]
        if kind[at] == MESH:
            corners[at] = hull_corners(model, geom)
    ordered = [sorted(pair, key=lambda geom: int(model.geom_type[geom])) for pair in flat]
    pairs = np.array([[row[a], row[b]] for a, b in ordered], dtype=np.int64)
    group = np.repeat(np.arange(len(contacts)), [len(pairs) for pairs in contacts])
    start = np.cumsum([0, *map(len, corners)])
    still = np.array([frame_row(places[geom]) for geom in fixed]).reshape(-1, 12)
    return links, Geoms(kind, size, bound, still, np.concatenate(corners), start, pairs, group)


def frame_row(place: Place) -> Floats:
    """A place in the world as a row of frames: (12,)."""
    return np.concatenate([place[1], place[2].ravel()])


def hull_corners(model: Any, geom: int) -> Floats:
    """Corners of a mesh's convex hull, which MuJoCo uses for collisions, in the geom's frame: (v, 3)."""
    mesh = int(model.geom_dataid[geom])
    first, graph = int(model.mesh_vertadr[mesh]), int(model.mesh_graphadr[mesh])
    vertices = np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=np.float64)
    if graph < 0:  # the model has no hull: use every vertex
        return vertices
    count = int(model.mesh_graph[graph])
    # the graph holds the numbers of vertices and faces, then a list of edges for each vertex, then the vertices
    return np.asarray(vertices[model.mesh_graph[graph + 2 + count : graph + 2 + 2 * count]])
