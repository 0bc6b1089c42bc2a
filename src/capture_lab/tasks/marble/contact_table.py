"""The obstacles that the marble can meet in each small square of the board, computed once per map.

Most contact is with flat sides of walls, where pushing out is clamping to a box. The table records for each square whether
that holds there, so that the kernels test individual walls only around corners.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Floats

#: Walls, pits and the goal may all be met here: test each.
ANYTHING = -1
#: Nothing can be met here.
NOTHING = 0
#: No wall can be met here, but a pit or the goal.
ONLY_ENDS = 1

SMALLEST_PITCH = 1e-3
MOST_SQUARES = 512  # along the longer side
_HAIR = 1e-6
_UNBOUNDED = -np.inf, np.inf, -np.inf, np.inf


class ContactTable(NamedTuple):
    """Squares of side `pitch` from `corner` on.

    `contents` is `ANYTHING`, `NOTHING`, or 2 b + e: clamp to `boxes[b]`, and with e = 1 a pit or the goal may be near.
    `near[square]` to `near[square + 1]` delimits the walls in `nearby` that can touch a centre in that square.
    """

    contents: npt.NDArray[np.int32]  # (rows, columns)
    boxes: Floats  # (b, 4): lowest and highest x, then y, infinite where no centre can get; the first is unbounded
    near: npt.NDArray[np.int32]  # (rows * columns + 1,)
    nearby: npt.NDArray[np.int32]
    corner: Floats  # (2,)
    per_pitch: float


def count_squares(width: float, height: float, radius: float) -> int:
    """Largest number of squares of a board of that size, with a marble of that radius, all in metres."""
    pitch = _pitch(width, height)
    return math.prod(math.ceil((side + 2 * (radius + pitch)) / pitch) for side in (width, height))


def _pitch(width: float, height: float) -> float:
    return max(SMALLEST_PITCH, max(width, height) / MOST_SQUARES)


def look_up(bounds: Floats, walls: Floats, radius: float, pits: Floats, goal: Floats) -> ContactTable:
    """The squares of a map: `bounds` (4,) of the centre, `walls` (w, 4), `pits` (p, 3), `goal` (3,), in metres.

    They extend a radius beyond the bounds, the farthest that a move in one piece can lead.
    """
    pitch = _pitch(bounds[1], bounds[3])
    corner = bounds[[0, 2]] - radius - pitch
    shape = np.ceil((bounds[[1, 3]] + radius + pitch - corner) / pitch).astype(int)
    numbers = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, 2)
    low, high = corner + numbers * pitch, corner + (numbers + 1) * pitch
    touches, unclear, box = _faces(low, high, bounds, walls, radius)
    landing = np.stack([np.clip(edge, box[:, ::2], box[:, 1::2]) for edge in (low + _HAIR, high - _HAIR)], axis=1)
    spans = np.clip((landing - corner) / pitch, 0, shape - 1).astype(int)
    held: Any = ~(((low > box[:, ::2]) & (high < box[:, 1::2])).all(axis=1))
    unclear |= held & ~_same_at_landing(spans, held & ~unclear, unclear.reshape(shape), box.reshape(*shape, 4))
    ends = _near_ends((low + high) / 2, np.vstack([pits, goal]), radius + 2 * pitch)
    contents, boxes = _numbered(unclear, ends, np.where(held[:, None], box, _UNBOUNDED), low, high)
    near = np.concatenate([[0], np.cumsum(touches.sum(axis=1))])
    walls_near = near.astype(np.int32), np.nonzero(touches)[1].astype(np.int32)
    return ContactTable(contents.reshape(shape), boxes, *walls_near, corner, 1 / pitch)


def _faces(low: Floats, high: Floats, bounds: Floats, walls: Floats, radius: float) -> tuple[Any, Any, Floats]:
    """Which walls can touch in each square (s, w), whether clamping is not sufficient there (s,), the box (s, 4)."""
    lo, hi = low[:, None], high[:, None]
    start, stop = walls[:, :2], walls[:, 2:]
    apart = np.maximum(np.maximum(start - hi, lo - stop), 0.0)  # of the square and the wall, on each axis
    touches = np.square(apart).sum(axis=2) < (radius + _HAIR) ** 2
    # a wall is met flatly where the square lies between its ends along the other axis; the board ends every move
    first = np.where(start <= bounds[::2], -np.inf, start - _HAIR)
    last = np.where(stop >= bounds[1::2], np.inf, stop + _HAIR)
    beside = np.flip((lo >= first) & (hi <= last), axis=2) & touches[..., None]
    above, below = beside & (lo > stop), beside & (hi < start)
    box = np.empty((len(low), 4))
    box[:, ::2] = np.maximum(np.where(above, stop + radius, -np.inf).max(axis=1, initial=-np.inf), bounds[::2])
    box[:, 1::2] = np.minimum(np.where(below, start - radius, np.inf).min(axis=1, initial=np.inf), bounds[1::2])
    # a wall behind a face of the box is never the first to be met
    behind = ((stop + radius <= box[:, None, ::2]) | (start - radius >= box[:, None, 1::2])).any(axis=2)
    inside = np.all((hi >= start) & (lo <= stop), axis=2)
    flat = np.any(above | below, axis=2)
    unclear = (touches & ~flat & (inside | ~behind)).any(axis=1) | (box[:, ::2] > box[:, 1::2]).any(axis=1)
    return touches, unclear, box


def _same_at_landing(spans: Any, wanted: Any, unclear: Any, box: Floats) -> Any:
    """Whether the squares into which a square's centres are clamped list the same walls: (s,), where wanted."""
    same = np.zeros(len(spans), dtype=bool)
    own = box.reshape(-1, 4)
    for square in np.flatnonzero(wanted):
        (i0, j0), (i1, j1) = spans[square]
        there = (slice(i0, i1 + 1), slice(j0, j1 + 1))
        same[square] = not unclear[there].any() and (box[there] == own[square]).all()
    return same


def _numbered(unclear: Any, ends: Any, box: Floats, low: Floats, high: Floats) -> tuple[npt.NDArray[np.int32], Floats]:
    """Contents of all squares (s,), and their boxes (b, 4), the unbounded one first.

    Of each square: whether clamping is not sufficient (s,), whether a pit or the goal is near (s,), its box (s, 4), and its
    lowest and highest corner (s, 2). Faces that a square does not reach do not count.
    """
    lowest = np.where(low <= box[:, ::2] + _HAIR, box[:, ::2], -np.inf)
    highest = np.where(-high <= _HAIR - box[:, 1::2], box[:, 1::2], np.inf)
    reached = np.stack([lowest[:, 0], highest[:, 0], lowest[:, 1], highest[:, 1]], axis=1)[~unclear]
    boxes, which = np.unique(np.vstack([_UNBOUNDED, reached]), axis=0, return_inverse=True)
    first, order = int(which.reshape(-1)[0]), np.arange(len(boxes))
    boxes[[0, first]], order[[0, first]] = boxes[[first, 0]], (first, 0)
    contents = np.full(len(unclear), ANYTHING, dtype=np.int32)
    contents[~unclear] = 2 * order[which.reshape(-1)[1:]] + ends[~unclear]
    return contents, boxes


def _near_ends(centres: Floats, circles: Floats, margin: float) -> npt.NDArray[np.bool_]:
    gaps = np.linalg.norm(centres[:, None] - circles[:, :2], axis=2) - circles[:, 2]
    return np.asarray((gaps <= margin).any(axis=1))
