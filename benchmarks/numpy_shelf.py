"""The shelf's geometry and model in NumPy, on whole arrays: the straightforward version to measure against."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_lab.tasks.shelf.mjcf import PARTS
from capture_lab.tasks.shelf.model import PARTS_OF_STEP, RATE, ROUNDS, ShelfParams

HALVINGS = 30  # bisection steps that find the nearest point on a segment
_JAR, _FOREARM = PARTS.index("jar"), PARTS.index("forearm")


def numpy_shelf_step(states: Floats, commanded: Floats, params: ShelfParams) -> Floats:
    """Next states (n, 14) of states (n, 14) under noisy actions (n, 7), by the uncorrected model."""
    q, after, stopped = states[:, :7], states[:, :7], np.zeros(len(states), dtype=bool)
    for _ in range(PARTS_OF_STEP):
        after, pushed = _pushed_out(np.clip(after + commanded / PARTS_OF_STEP, *params.limits), params)
        stopped |= pushed
    return np.hstack([after, RATE * np.where(stopped[:, None], after - q, commanded)])


def numpy_strata(Y: Floats, params: ShelfParams) -> Ints:
    """Strata of configurations Y (n, 7), -1 where infeasible: (n,)."""
    starts, ways = _segments(_frames(Y, params), params)
    distances = _box_distances(starts, ways, params)[0]
    touching, wall = distances <= params.tolerance, params.boxes[:, 6] == 1
    hand = [c for c in range(len(PARTS)) if c not in (_JAR, _FOREARM)]
    on = [touching[:, part][:, :, kind].any(axis=(1, 2)) for part in ([_JAR], hand) for kind in (~wall, wall)]
    bits = np.stack([*on, touching[:, _FOREARM].any(axis=1)], axis=1)
    several = np.where(bits.sum(axis=1) > 1, 5, 1 + bits.argmax(axis=1))
    found = np.where(bits.any(axis=1), several, 0)
    return np.asarray(np.where((distances < -params.depth).any(axis=(1, 2)), -1, found), dtype=np.int64)


def numpy_clearances(Y: Floats, params: ShelfParams) -> Floats:
    """Signed distances of configurations Y (n, 7) from touching a glass: (n,)."""
    starts, ways = _segments(_frames(Y, params), params)
    start, way = starts[:, :, None] - params.glasses[:, :3], ways[:, :, None]
    tall = params.glasses[:, 5]

    def away(t: Floats) -> Floats:
        points = start + t[..., None] * way
        points[..., 2] -= np.clip(points[..., 2], 0.0, tall)  # glasses stand upright
        return np.asarray(points)

    apart = np.linalg.norm(away(_nearest(away, way, start.shape[:-1])), axis=-1)
    return np.asarray((apart - params.capsules[:, 7:8] - params.glasses[:, 6]).min(axis=(1, 2)) - params.margin)


def numpy_jars(Y: Floats, params: ShelfParams) -> Floats:
    """The centre of the jar at configurations Y (n, 7), and how upright it is: (n, 4)."""
    origins, turns = _frames(Y, params)
    upright = np.abs(turns[:, 6, 2, 0] - turns[:, 6, 2, 1]) * np.sqrt(0.5)
    return np.hstack([origins[:, 6] + turns[:, 6] @ params.tool, upright[:, None]])


# -- parts ------------------------------------------------------------------------------------------------------------------


def _frames(Y: Floats, params: ShelfParams) -> tuple[Floats, Floats]:
    """Origins (n, 7, 3) and rotations (n, 7, 3, 3) of the links."""
    n = len(Y)
    origins, turns = np.empty((n, 7, 3)), np.empty((n, 7, 3, 3))
    place, turn = np.zeros((n, 3)), np.tile(np.eye(3), (n, 1, 1))
    for k in range(7):
        place = place + turn @ params.fixed[k, :3]
        turned = np.tile(np.eye(3), (n, 1, 1))
        turned[:, 0, 0] = turned[:, 1, 1] = np.cos(Y[:, k])
        turned[:, 1, 0] = np.sin(Y[:, k])
        turned[:, 0, 1] = -turned[:, 1, 0]
        turn = turn @ params.fixed[k, 3:].reshape(3, 3) @ turned
        origins[:, k], turns[:, k] = place, turn
    return origins, turns


def _segments(frames: tuple[Floats, Floats], params: ShelfParams) -> tuple[Floats, Floats]:
    """Starts and vectors (n, c, 3) of the capsules' axes."""
    links = params.capsules[:, 0].astype(int)
    origins, turns = frames[0][:, links], frames[1][:, links]
    starts, ways = ((turns @ params.capsules[:, i : i + 3, None])[..., 0] for i in (1, 4))
    return origins + starts, ways


def _nearest(away: Any, way: Floats, shape: tuple[int, ...]) -> Floats:
    """Positions (0 to 1) on segments where the distance to an obstacle, given by `away`, is smallest."""
    low, high = np.zeros(shape), np.ones(shape)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        before = (away(middle) * way).sum(axis=-1) < 0.0
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return 0.5 * (low + high)


def _box_distances(starts: Floats, ways: Floats, params: ShelfParams) -> tuple[Floats, Floats, Floats]:
    """Signed distances (n, c, b) of capsules to boxes, nearest points (n, c, b, 3) on their axes, and directions away."""
    half = params.boxes[:, 3:6]
    start, way = starts[:, :, None] - params.boxes[:, :3], ways[:, :, None]

    def away(t: Floats) -> Floats:
        points = start + t[..., None] * way
        return np.asarray(points - np.clip(points, -half, half))

    t = _nearest(away, way, start.shape[:-1])
    off, points = away(t), start + t[..., None] * way
    apart = np.linalg.norm(off, axis=-1)
    inside = apart <= 1e-7  # the axis itself is in the box
    if inside.any():
        rows, capsules, boxes = np.nonzero(inside)
        apart[inside] = -_depths(start[inside], ways[rows, capsules], half[boxes])
        room = half[boxes] - np.abs(points[inside])
        sides = room.argmin(axis=1)
        off[inside] = np.eye(3)[sides] * np.sign(points[inside])
    off /= np.maximum(np.linalg.norm(off, axis=-1, keepdims=True), 1e-300)
    return apart - params.capsules[:, 7:8], points + params.boxes[:, :3], off


def _depths(start: Floats, way: Floats, half: Floats) -> Floats:
    """How far segments (m) that intersect boxes must move to leave them: the minimum over all separating directions."""
    middle, sides = start + 0.5 * way, np.eye(3)
    least = (half + 0.5 * np.abs(way) - np.abs(middle)).min(axis=1)
    for side in sides:
        across = np.cross(way, side)
        length = np.linalg.norm(across, axis=1)
        across /= np.maximum(length, 1e-300)[:, None]
        reach = (half * np.abs(across)).sum(axis=1) - np.abs((middle * across).sum(axis=1))
        least = np.where(length > 1e-9, np.minimum(least, reach), least)
    return np.asarray(least)


def _pushed_out(q: Floats, params: ShelfParams) -> tuple[Floats, Any]:
    """Angles (n, 7) moved off boxes, the deepest contact first, and whether they had to be (n,)."""
    q, pushed, rows = q.copy(), np.zeros(len(q), dtype=bool), np.arange(len(q))
    for _ in range(ROUNDS):
        frames = _frames(q[rows], params)
        distances, points, off = _box_distances(*_segments(frames, params), params)
        flat = distances.reshape(len(rows), -1)
        deepest, each = flat.argmin(axis=1), np.arange(len(rows))
        met = flat[each, deepest] < 0.0
        if not met.any():
            break
        rows, each, deepest = rows[met], each[met], deepest[met]
        point, away = (part.reshape(len(flat), -1, 3)[each, deepest] for part in (points, off))
        links = params.capsules[deepest // len(params.boxes), 0]
        levers = np.cross(frames[1][each, :, :, 2], point[:, None] - frames[0][each])
        slopes = (levers * away[:, None]).sum(axis=2) * (np.arange(7) <= links[:, None])
        share = (1e-4 - flat[each, deepest]) / np.maximum((slopes**2).sum(axis=1), 1e-3)
        q[rows] += share[:, None] * slopes
        pushed[rows] = True
    return q, pushed
