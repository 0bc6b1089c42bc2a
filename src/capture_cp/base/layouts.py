"""Records, codes and tuples of arrays that Python code passes to compiled code. Nothing here needs numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# A node of a regression tree. A leaf has feature -1 and a group; an inner node sends values up to `threshold` to the left,
# as in scikit-learn. The record is aligned; otherwise a GPU would read it byte by byte.
NODE = np.dtype([("threshold", "f8"), ("feature", "i4"), ("left", "i4"), ("right", "i4"), ("group", "i4")], align=True)

#: Rules of regions, see `kernels.cells`, and codes of metrics, see `kernels.distance`; the first two are both. `BLOCKS` is a
#: product of spaces, `FUNCTION` a metric that is a function.
EUCLIDEAN, SE2, PARTICLE_BOX, ELLIPSOID, BLOCKS, FUNCTION = range(6)

#: Kinds of axes: of a product of spaces, where `PLANAR` and `SPATIAL` start a block of three and of seven axes; and an axis
#: that sample points move along independently, by its length times the radius.
LINE, CIRCLE, PLANAR, SPATIAL, INTERVAL = range(5)


class Columns(NamedTuple):
    """The cells of a grid, one row per column of cells."""

    labels: Any  # (columns, cells): stratum, -1 where infeasible
    weights: Any  # (columns, cells): summed over the cells of a region; shape (0, 0) for no weights
    present: Any  # bool (columns, M): which strata a column contains
    origin: Any  # (dc,)
    spacing: Any
    shape: Any
    periodic: Any


class Regions(NamedTuple):
    """n regions, described as in `kernels.cells`."""

    rule: int
    length: float
    k: int
    clouds: Any  # (n, L, dc)
    whiten: Any  # (n, dc, dc), or (1, dc, dc) where it is unused
    is_angle: Any  # bool (dc,)
