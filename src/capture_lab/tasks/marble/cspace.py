"""The marble's configuration space: a 1 mm grid of strata, free (2D), edge (1D) and corner (0D)."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numba import njit, prange

from capture_cp.base.checks import Bools, Floats, Ints, finite_array
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import INFEASIBLE, GridStrata
from capture_lab.tasks.marble.contact import TOLERANCE, last_free, wall_gap
from capture_lab.tasks.marble.maps import MILLIMETRE, Map

STRATA = ("free", "edge", "corner")
FREE, EDGE, CORNER = range(3)
TOUCH = 2e-3  # a surface this near (m) acts on the marble


@njit(cache=True)
def _surface(x, y, number, g):
    """Gap and normal of one surface: the four sides of the board, then the walls."""
    if number == 0:
        return x - g.bounds[0], 1.0, 0.0
    if number == 1:
        return g.bounds[1] - x, -1.0, 0.0
    if number == 2:
        return y - g.bounds[2], 0.0, 1.0
    if number == 3:
        return g.bounds[3] - y, 0.0, -1.0
    return wall_gap(x, y, g.walls, number - 4, g.radius)


@njit(cache=True)
def stratum_at(x, y, g):
    """Free, edge (one constraint within reach) or corner (two whose normals differ); -1 in collision."""
    surfaces = 4 + g.walls.shape[0]
    nearest, nx0, ny0 = math.inf, 0.0, 0.0
    for number in range(surfaces):
        gap, nx, ny = _surface(x, y, number, g)
        if gap < nearest:
            nearest, nx0, ny0 = gap, nx, ny
    if nearest < -TOLERANCE:
        return INFEASIBLE
    if nearest > TOUCH:
        return FREE
    # Normals at least 45 degrees apart are two constraints. Flush walls make one: seen from within reach of both, a corner
    # buried in the common face stands at an angle whose cosine is radius / (radius + TOUCH) or more.
    same = min(0.7071, g.radius / (g.radius + TOUCH) - 0.01)
    for number in range(surfaces):
        gap, nx, ny = _surface(x, y, number, g)
        if gap <= TOUCH and nx * nx0 + ny * ny0 < same:
            return CORNER
    return EDGE


@parallel_kernel(cache=True)
def _strata_of(points, g):
    labels = np.empty(points.shape[0], dtype=np.int64)
    for i in prange(points.shape[0]):
        labels[i] = stratum_at(points[i, 0], points[i, 1], g)
    return labels


@njit(cache=True)
def stratum_of(x, y, labels, origin, spacing, g):
    """Stratum of a position: that of its cell in `labels` (rows, columns), or the exact one where the cell has none."""
    u, v = (x - origin[0]) / spacing[0] + 0.5, (y - origin[1]) / spacing[1] + 0.5
    row, column = int(math.floor(u)), int(math.floor(v))
    if 0 <= row < labels.shape[0] and 0 <= column < labels.shape[1] and labels[row, column] != INFEASIBLE:
        return np.int64(labels[row, column])
    return np.int64(stratum_at(x, y, g))


@parallel_kernel(cache=True)
def _indices(points, labels, origin, spacing, g):
    out = np.empty(points.shape[0], dtype=np.int64)
    for i in prange(points.shape[0]):
        out[i] = stratum_of(points[i, 0], points[i, 1], labels, origin, spacing, g)
    return out


@njit(cache=True)
def _towards(points, targets, g):
    moved = np.empty_like(points)
    for i in range(points.shape[0]):
        moved[i] = last_free(points[i, 0], points[i, 1], targets[i, 0], targets[i, 1], g)
    return moved


class MarbleStrata(GridStrata):
    """Strata of one map. A cell belongs to the stratum of its centre, and to none if its centre is in collision.

    The index of a position is looked up. Only in cells cut by a wall, where the centre may be in collision while the
    position is not, is it computed from the exact geometry.

    Some maps have pockets that the marble cannot reach from its start: between walls, or beyond a wall and open only to
    the larger maze. They are part of the configuration space, since a transition there is as valid as elsewhere;
    `reachable` distinguishes them.
    """

    def __init__(self, map: Map) -> None:
        self.map = map
        spacing = MILLIMETRE
        shape = [math.ceil(side) for side in map.size]
        grid = Grid((spacing / 2, spacing / 2), spacing, shape)
        centres = grid.centre(np.arange(grid.size))
        super().__init__(grid, _strata_of(centres, map.geometry), STRATA)

    def index(self, Y: Floats) -> Ints:
        Y = finite_array("Y", Y, (None, 2), "(n, 2): one position per row")
        return np.asarray(_indices(Y, *self.look_up, self.map.geometry))

    @property
    def look_up(self) -> tuple[npt.NDArray[np.int32], Floats, Floats]:
        """The arguments of `stratum_of`: labels (rows, columns), origin and spacing (2,) of the grid."""
        grid = self.require_grid()
        return self.labels.reshape(grid.shape), grid.origin, grid.spacing

    @cached_property
    def reachable(self) -> Bools:
        """Cells (cells,) that the marble can reach from the start of the map."""
        return self._connected(self.labels != INFEASIBLE)

    @cached_property
    def pit_cells(self) -> Bools:
        """Cells (cells,) whose centre lies in a pit."""
        grid = self.require_grid()
        x, y = grid.centre(np.arange(grid.size)).T
        inside = np.zeros(grid.size, dtype=bool)
        for (
            pit_x,
            pit_y,
            radius,
        ) in self.map.geometry.pits:  # one by one: all of them at once would fill the memory for a large board
            inside |= np.hypot(x - pit_x, y - pit_y) <= radius
        return inside

    def nearest_free(self, points: Floats) -> Floats:
        """Positions (n, 2); those in collision are moved to the nearest free ones, against the obstacle."""
        grid = self.require_grid()
        free = grid.centre(np.flatnonzero(self.labels != INFEASIBLE))
        moved = points.copy()
        for i in np.flatnonzero(self.map.clearance(points) < 0):
            nearest = free[np.argmin(((free - points[i]) ** 2).sum(axis=1))]
            moved[i] = _towards(nearest[None], points[i : i + 1], self.map.geometry)[0]
        return moved

    def goal_is_reachable(self) -> bool:
        """Whether a path between walls and pits leads from the start to the goal."""
        passable = (self.labels != INFEASIBLE) & ~self.pit_cells
        return bool(self._connected(passable)[self._cell_of(self.map.goal, passable)])

    def goal_cell(self) -> int:
        """Number of the feasible cell at the goal."""
        return self._cell_of(self.map.goal, self.labels != INFEASIBLE)

    def _connected(self, passable: Bools) -> Bools:
        from scipy import ndimage

        parts, _ = ndimage.label(passable.reshape(self.require_grid().shape), structure=np.ones((3, 3)))
        start = self._cell_of(self.map.start, passable)
        return np.asarray((parts.ravel() == parts.ravel()[start]) & passable)

    def _cell_of(self, point: tuple[float, float], passable: Bools) -> int:
        """The passable cell nearest to a point in millimetres, which may lie on a side of the board or against a wall."""
        cells = np.flatnonzero(passable)
        away = self.require_grid().centre(cells) - np.array(point) * MILLIMETRE
        return int(cells[np.argmin((away**2).sum(axis=1))])
