"""Contents of pictures of the shelf, as numbers: the arm and the shelf as bodies, and positions of the jar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import prange

from capture_cp.base.checks import Floats, Ints
from capture_cp.capture.region import Region
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.report.canvas import rgb
from capture_cp.report.panel import Shape
from capture_cp.report.scene import Body, mujoco_bodies
from capture_cp.report.solids import View, outlines
from capture_cp.report.style import colour_of
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.shelf.geometry import angles_of, pushed_out
from capture_lab.tasks.shelf.model import glass_clearances
from capture_lab.tasks.shelf.shelves import Shelf
from capture_lab.tasks.shelf.task import ShelfTask

#: Colours of things; strata have the standard ones.
WOOD_COLOUR, GLASS_COLOUR, TOUCHED_COLOUR, GOAL_COLOUR = "#c9a878", "#7fb8d6", "#d62728", "#009e73"
JAR_COLOUR, EDGE = "#d9733f", "#55585f"
#: Opacities of walls, of glasses, of the goal, and of boards and walls whose broad side is seen.
WALL, GLASS, GOAL, BROAD = 0.18, 0.7, 0.45, 0.12
#: Visible surroundings of the shelf: in front of it, where the arm comes from, and elsewhere (m).
BEFORE, AROUND = 0.22, 0.035
#: Iterations that move a configuration off the boxes, and distance from the particles within which a stratum is shown (rad).
ROUNDS, WHOLE = 12, 0.15
#: Draws for each requested member.
SURPLUS = 3


# -- bodies -----------------------------------------------------------------------------------------------------------------


def shelf_bodies(task: ShelfTask, y: Floats, touched: Sequence[int] = ()) -> dict[str, Body]:
    """Boards, walls, glasses, the goal of the jar and the arm at a configuration y (7,), by name; touched ones are red."""
    mujoco, model = mujoco_module(), task.system.model
    data = mujoco.MjData(model)
    data.qpos[:] = y
    mujoco.mj_kinematics(model, data)
    bodies = {name: body for name, body in mujoco_bodies(model, data).items() if body.kind != "plane"}
    looks = {"board": (WOOD_COLOUR, 1.0), "wall": (WOOD_COLOUR, WALL), "glass": (GLASS_COLOUR, GLASS)}
    looks["jar"] = JAR_COLOUR, 1.0
    red = [name for name in bodies if name.startswith("glass")]
    for name, body in bodies.items():
        colour, opacity = looks.get(name.split("-")[0], (body.colour, body.opacity))
        hit = name in red and red.index(name) in touched
        bodies[name] = replace(body, colour=TOUCHED_COLOUR if hit else colour, opacity=0.95 if hit else opacity)
    goal = Body("sphere", np.array([task.shelf.within, 0, 0]), np.array(task.shelf.goal), GOAL_COLOUR, opacity=GOAL)
    return bodies | {"goal": goal}


def seen_through(body: Body, view: View) -> Body:
    """A body in a view: boards and walls whose broad side is seen are almost transparent, others are not."""
    if body.colour != WOOD_COLOUR:
        return body
    return replace(body, opacity=BROAD if np.argmin(body.size) == np.argmax(np.abs(view.towards)) else 1.0)


def flat_shapes(
    task: ShelfTask, view: View, y: Floats | None = None, touched: Sequence[int] = (), arm: float = 1.0
) -> tuple[Shape, ...]:
    """The shelf, and the arm at a configuration y (7,) with an opacity, as outlines in a view; and the goal of the jar."""
    parts: dict[str, list[Body]] = {"board": [], "wall": [], "glass": [], "goal": [], "arm": []}
    for name, body in shelf_bodies(task, np.zeros(7) if y is None else y, touched).items():
        kind = name.split("-")[0]
        parts[kind if kind in parts else "arm"].append(seen_through(body, view))
    boards = sorted(parts["board"] + parts["wall"], key=lambda body: body.opacity)
    shapes = [shape for body in boards for shape in outlines([body], view, edge=None if body.opacity < 1 else "#8a6d45")]
    shapes += outlines(parts["glass"], view, edge="#2f6f93", width=1.0)
    shapes += outlines(parts["goal"], view, edge=GOAL_COLOUR, opacity=0.18, width=1.5)
    if y is not None:
        shapes += outlines([replace(body, opacity=arm) for body in parts["arm"]], view, edge=EDGE, width=0.7)
    return tuple(shapes)


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


# -- regions ----------------------------------------------------------------------------------------------------------------


class Cloud(NamedTuple):
    """Possible positions of the jar: its centre (n, 3) in members of a region, and their strata (n,)."""

    points: Floats
    labels: Ints

    @property
    def paint(self) -> Floats:
        """Colours (n, 3) of the points."""
        return np.array([rgb(colour_of(int(m))) for m in self.labels]).reshape(-1, 3)

    def parts(self) -> list[tuple[int, Floats]]:
        """The points of each stratum that has any, infeasible ones as -1, the largest part first."""
        numbers, counts = np.unique(self.labels, return_counts=True)
        return [(int(m), self.points[self.labels == m]) for m in numbers[np.argsort(-counts, kind="stable")]]


def jar_cloud(task: ShelfTask, region: Region | None, n: int, rng: np.random.Generator) -> Cloud:
    """Positions of the jar in some members of a region, up to n for each stratum in which members are found.

    Not a uniform sample, see `Region.sample`, but a fast one. Draws around the particles that are in a board or a wall are
    also moved off it, which finds the thin parts in contact. A stratum that is contained entirely is shown around the
    particles.
    """
    if region is None:
        return Cloud(np.empty((0, 3)), np.empty(0, dtype=np.int64))
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
