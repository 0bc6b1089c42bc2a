"""Contents of pictures of the shelf: the arm as capsules, the shelf from the side and from above, and positions of the jar.

Numbers only; figures, videos and the live page paint them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import prange

from capture_cp.base.checks import Floats, Ints
from capture_cp.capture.region import Region
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.shelf.geometry import angles_of, link_frames, pushed_out
from capture_lab.tasks.shelf.model import glass_clearances
from capture_lab.tasks.shelf.shelves import Shelf
from capture_lab.tasks.shelf.task import ShelfTask

#: Colours of things; strata have the standard ones.
WOOD_COLOUR, GLASS_COLOUR, TOUCHED_COLOUR, GOAL_COLOUR = "#c9a878", "#7fb8d6", "#d62728", "#009e73"
JAR_COLOUR = "#d9733f"
#: Visible surroundings of the shelf: in front of it, where the arm comes from, and elsewhere (m).
BEFORE, AROUND = 0.22, 0.035
#: Iterations that move a configuration off the boxes, and distance from the particles within which a stratum is shown (rad).
ROUNDS, WHOLE = 12, 0.15
#: Draws for each requested member.
SURPLUS = 3


class View(NamedTuple):
    """A direction of view: the axes of the world that point across, up, and towards the viewer."""

    name: str
    across: int
    up: int
    hidden: int
    sign: float  #: 1 if larger values on the hidden axis are nearer

    def flat(self, points: Any) -> Floats:
        """Points (..., 3) of the world as points (..., 2) of the picture."""
        return np.asarray(points)[..., [self.across, self.up]]

    def labels(self) -> tuple[str, str]:
        """Names of the axes."""
        return f"{'xyz'[self.across]} (m)", f"{'xyz'[self.up]} (m)"


SIDE, TOP = View("side view", 0, 2, 1, -1.0), View("top view", 0, 1, 2, 1.0)


# -- the shelf --------------------------------------------------------------------------------------------------------------


class Face(NamedTuple):
    """A board or a wall in a view: lowest and highest corner (2,), and whether it is seen from its broad side."""

    low: Floats
    high: Floats
    broad: bool


def faces(shelf: Shelf, view: View) -> list[Face]:
    """Boards and walls in a view, broad sides first: they are transparent."""
    found = []
    for box in (*shelf.boards.values(), *shelf.walls.values()):
        low, high = np.array(box)
        found.append(Face(view.flat(low), view.flat(high), int(np.argmin(high - low)) == view.hidden))
    return sorted(found, key=lambda face: not face.broad)


def glass_capsules(shelf: Shelf) -> Floats:
    """Glasses as capsules (g, 7): start, end, radius."""
    rows = np.array([glass.segment for glass in shelf.glasses.values()])
    return np.hstack([rows[:, :3], rows[:, :3] + rows[:, 3:6], rows[:, 6:]])


def window(shelf: Shelf, view: View, before: float = BEFORE, around: float = AROUND) -> tuple[Floats, Floats]:
    """Corners (2,) of the part of a view in which the jar moves: the shelf, and the space in front of it."""
    low, high = shelf.corners
    return view.flat(low - [before, around, around]), view.flat(high + around)


def touched_glasses(task: ShelfTask, Y: Floats) -> list[int]:
    """Numbers of the glasses that configurations Y (n, 7) touch; the nearest one if they touch none."""
    glasses = task.params.glasses
    each = [glass_clearances(Y, task.params._replace(glasses=glasses[g : g + 1])).min() for g in range(len(glasses))]
    touched = [g for g, apart in enumerate(each) if apart < 0]
    return touched or [int(np.argmin(each))]


# -- the arm ----------------------------------------------------------------------------------------------------------------


class Arm:
    """The capsules of the arm that are drawn, each carried by a link.

    Attributes:
        links: (p,) number of the link, -1 for fixed parts.
        ends: (p, 2, 3) ends of each axis, in the frame of its link.
        radii: (p,).
        colours: (p, 3), 0 to 1.
        jar: index of the jar.
    """

    def __init__(self, task: ShelfTask) -> None:
        mujoco, model = mujoco_module(), task.system.model
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        drawn = [
            i for i in range(model.ngeom)
            if model.geom_type[i] == mujoco.mjtGeom.mjGEOM_CAPSULE and model.body(model.geom_bodyid[i]).name != "glass"
        ]  # fmt: skip
        self._fixed = task.strata.solids.fixed
        self.links: Ints = np.array([_link_of(model, int(model.geom_bodyid[i])) for i in drawn])
        self.radii: Floats = model.geom_size[drawn, 0].copy()
        self.colours: Floats = model.geom_rgba[drawn, :3].astype(np.float64)
        self.jar = [model.geom(i).name for i in drawn].index("jar")
        half = data.geom_xmat[drawn].reshape(-1, 3, 3)[:, :, 2] * model.geom_size[drawn, 1:2]
        ends = data.geom_xpos[drawn, None] + np.stack([-half, half], axis=1)
        places, turns = self.frames(np.zeros(7))
        self.ends: Floats = np.einsum("pji,pej->pei", turns[self.links], ends - places[self.links, None])

    def frames(self, y: Floats) -> tuple[Floats, Floats]:
        """Origins (8, 3) and rotations (8, 3, 3) of the links at a configuration y (7,), those of the world last."""
        found = np.array(link_frames(self._fixed, tuple(float(angle) for angle in y)))
        places = np.vstack([found[:, :3], np.zeros(3)])
        return places, np.concatenate([found[:, 3:].reshape(7, 3, 3), np.eye(3)[None]])

    def at(self, y: Floats) -> Floats:
        """The capsules at a configuration y (7,): start, end, radius, (p, 7)."""
        places, turns = self.frames(y)
        ends = places[self.links, None] + np.einsum("pij,pej->pei", turns[self.links], self.ends)
        return np.hstack([ends.reshape(-1, 6), self.radii[:, None]])


def _link_of(model: Any, body: int) -> int:
    """Number of the link that carries a body, -1 for the world's."""
    while body and not model.body(body).name.startswith("link"):
        body = int(model.body_parentid[body])
    return int(model.body(body).name.removeprefix("link")) - 1 if body else -1


def nearest_last(capsules: Floats, view: View) -> Ints:
    """The order (p,) in which to paint capsules (p, 7), so that near ones cover far ones."""
    depth = view.sign * (capsules[:, view.hidden] + capsules[:, 3 + view.hidden]) / 2
    return np.argsort(depth, kind="stable")


def stadium(capsule: Floats, view: View, points: int = 16) -> Floats:
    """The outline (2 points, 2) of a capsule (7,) in a view."""
    a, b, radius = view.flat(capsule[:3]), view.flat(capsule[3:6]), float(capsule[6])
    along = b - a
    turned = np.arctan2(along[1], along[0]) + np.linspace(np.pi / 2, 3 * np.pi / 2, points)
    arc = radius * np.stack([np.cos(turned), np.sin(turned)], axis=1)
    return np.concatenate([a + arc, b - arc])


# -- regions ----------------------------------------------------------------------------------------------------------------


class Cloud(NamedTuple):
    """Possible positions of the jar: its centre (n, 3) in members of a region, and their strata (n,)."""

    points: Floats
    labels: Ints

    def parts(self) -> list[tuple[int, Floats]]:
        """The points of each stratum that has any, infeasible ones as -1, the largest part first."""
        numbers, counts = np.unique(self.labels, return_counts=True)
        return [(int(m), self.points[self.labels == m]) for m in numbers[np.argsort(-counts, kind="stable")]]


def jar_cloud(task: ShelfTask, region: Region, n: int, rng: np.random.Generator) -> Cloud:
    """Positions of the jar in some members of a region, up to n for each stratum in which members are found.

    Not a uniform sample, see `Region.sample`, but a fast one. Draws around the particles that are in a board or a wall are
    also moved off it, which finds the thin parts in contact. A stratum that is contained entirely is shown around the
    particles.
    """
    parts: Ints = np.append(np.arange(len(region.thresholds)), INFEASIBLE)
    limits = region.limits(parts)
    found, labels = [np.empty((0, 7))], [np.empty(0, dtype=np.int64)]
    for limit in np.unique(limits[limits >= 0]):
        Y, drawn = _drawn(task, region, WHOLE if np.isinf(limit) else float(limit), SURPLUS * n, rng)
        for part in parts[limits == limit]:
            here = Y[drawn == part]
            here = here[region.within(here, np.full(len(here), part))][:n]
            found.append(here)
            labels.append(np.full(len(here), part))
    return Cloud(task.jars(np.concatenate(found))[:, :3], np.concatenate(labels))


def _drawn(task: ShelfTask, region: Region, reach: float, n: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Configurations (m, 7) within a threshold, some of them moved off obstacles; their strata (m,)."""
    drawn = region.score.propose(region.prediction, reach, n, region.dims, rng)
    Y = np.ascontiguousarray(drawn.Y[rng.random(n) * drawn.largest < drawn.weights])
    labels = task.strata.index(Y)
    blocked = Y[labels == INFEASIBLE][: n // SURPLUS]
    off = pushed(task, blocked)
    return np.concatenate([Y, off]), np.concatenate([labels, task.strata.index(off)])


def pushed(task: ShelfTask, Y: Floats) -> Floats:
    """Configurations Y (n, 7) moved off boards and walls, within the limits of joints: (n, 7)."""
    solids = task.strata.solids
    moved = _pushed(np.ascontiguousarray(Y), solids.fixed, solids.capsules, solids.boxes)
    return np.asarray(np.clip(moved, *task.strata.limits))


@parallel_kernel(cache=True)
def _pushed(Y, fixed, capsules, boxes):  # type: ignore[no-untyped-def]
    found = np.empty_like(Y)
    for i in prange(Y.shape[0]):
        q, _ = pushed_out(fixed, capsules, boxes, angles_of(Y[i]), ROUNDS)
        for j in range(7):
            found[i, j] = q[j]
    return found


def jar_paths(task: ShelfTask, paths: Sequence[Any]) -> list[Floats]:
    """Paths of configurations, (t, 7) each, as paths of the jar's centre, (t, 3) each."""
    return [task.jars(np.asarray(path, dtype=np.float64)[:, :7])[:, :3] for path in paths]
