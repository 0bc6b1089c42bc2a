"""Neighbouring squares of a `ContactTable` taken together, for particles that are close together.

Particles of one plan spread over a few squares. Where one box holds all of them, one look-up is sufficient for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Floats

#: Blocks have up to 2**(LEVELS - 1) squares along each side.
LEVELS = 5
_HAIR = 1e-6
_AXES = (0, 0, 1, 1)  # of the four faces of a box
_SIGNS = (1.0, -1.0, 1.0, -1.0)  # as if each face were the lowest


class _Face(NamedTuple):
    """A face of the boxes of all blocks, (rows, columns) each; infinite if no square of a block has it."""

    highest: Floats  # face of the squares that reach it
    lowest: Floats
    edge: Floats  # nearest edge of the squares that do not reach theirs


def blocks_of(unclear: Any, ends: Any, box: Floats, low: Floats, high: Floats) -> tuple[npt.NDArray[np.int32], Floats]:
    """Contents of all blocks, int32 (LEVELS, rows, columns), which begin at each square, and their boxes (b, 4).

    Of each square, (rows, columns): whether clamping is not sufficient, whether a pit or the goal is near, its box, and its
    lowest and highest corner.
    """
    faces = [
        _face(sign * box[..., n], sign * (low, high)[n % 2][..., axis]) for n, (axis, sign) in enumerate(zip(_AXES, _SIGNS))
    ]
    shared, contents = [], []
    for level in range(LEVELS):
        if level:
            half = 2 ** (level - 1)
            unclear, ends = (np.logical_or.reduce([*_quarters(flags, half, False)]) for flags in (unclear, ends))
            faces = [_joined(face, half) for face in faces]
        shared.append(np.stack([sign * face.highest for sign, face in zip(_SIGNS, faces)], axis=-1))
        differ = [((face.highest > face.lowest) | (face.edge <= face.highest + _HAIR)) for face in faces]
        contents.append(np.where(unclear | np.logical_or.reduce(differ), -1, ends))
    return _numbered(np.stack(contents), np.stack(shared))


def _face(face: Floats, edge: Floats) -> _Face:
    reached = edge <= face + _HAIR
    return _Face(np.where(reached, face, -np.inf), np.where(reached, face, np.inf), np.where(reached, np.inf, edge))


def _joined(face: _Face, half: int) -> _Face:
    """The face of blocks twice as large."""
    highest = np.maximum.reduce([*_quarters(face.highest, half, -np.inf)])
    return _Face(highest, *(np.minimum.reduce([*_quarters(part, half, np.inf)]) for part in face[1:]))


def _quarters(values: Any, half: int, beyond: Any) -> Iterator[Any]:
    """The values of the four blocks that a block twice as large consists of; beyond the board there is nothing."""
    rows, columns = values.shape
    padded = np.pad(values, ((0, half), (0, half)), constant_values=beyond)
    for i in (0, half):
        for j in (0, half):
            yield padded[i : i + rows, j : j + columns]


def _numbered(contents: Any, shared: Floats) -> tuple[npt.NDArray[np.int32], Floats]:
    """Numbers of the boxes in the contents, and the boxes; the unbounded one comes first, whatever the order of `unique`."""
    clear = contents >= 0
    unbounded = np.array([[-np.inf, np.inf] * 2])
    boxes, which = np.unique(np.vstack([unbounded, shared[clear]]), axis=0, return_inverse=True)
    first = int(which.reshape(-1)[0])
    boxes[[0, first]] = boxes[[first, 0]]
    order = np.arange(len(boxes))
    order[[0, first]] = first, 0
    contents[clear] += 2 * order[which.reshape(-1)[1:]]
    return contents.astype(np.int32), boxes
