"""The peg's configuration space: the paper's grid of poses, each feasible one in the stratum of its contact fingerprint."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numba import njit, prange

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, whole_number
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata
from capture_lab.tasks.peg.geometry import fingerprint, is_feasible, shape_of
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings

Codes = npt.NDArray[np.int16]

FEATURES = ("v1", "v2", "v3", "v4", "e1", "e2", "e3", "e4")
REGIMES = ("free", "point", "edge", "other")
_POSES = "(n, 3): x, z, theta in metres and radians"
_JITTERS = 8


def peg_grid() -> Grid:
    """The paper's grid: 241 x 241 x 161 poses, 0.25 mm and half a degree apart."""
    lower, upper = (-0.03, -0.01, math.radians(-40)), (0.03, 0.05, math.radians(40))
    return Grid.between(lower, upper, (0.25e-3, 0.25e-3, math.radians(0.5)))


@njit(cache=True)
def code_at(x, z, theta, trim, g):
    """Fingerprint of a pose, -1 where infeasible."""
    c, s = math.cos(theta), math.sin(theta)
    return fingerprint(x, z, c, s, trim, g) if is_feasible(x, z, c, s, g) else INFEASIBLE


@parallel_kernel(cache=True)
def _codes_of(poses, trim, g):
    codes = np.empty(poses.shape[0], dtype=np.int16)
    for i in prange(poses.shape[0]):
        codes[i] = code_at(poses[i, 0], poses[i, 1], poses[i, 2], trim, g)
    return codes


@parallel_kernel(cache=True)
def codes_of_cells(origin, spacing, shape, trim, g):
    """Fingerprint of every cell of a grid, -1 where infeasible: (cells,)."""
    codes = np.empty(shape, dtype=np.int16)
    for row in prange(shape[0] * shape[1]):
        i, j = row // shape[1], row % shape[1]
        for k in range(shape[2]):
            x, z, theta = origin[0] + i * spacing[0], origin[1] + j * spacing[1], origin[2] + k * spacing[2]
            codes[i, j, k] = code_at(x, z, theta, trim, g)
    return codes.ravel()


class PegStrata(GriddedStrata):
    """Strata of the peg: one for each contact fingerprint (v1..v4, e1..e4) that occurs on the grid, free space first.

    The index of a pose is computed from the pose itself, on and off the grid: the cell that contains it may be infeasible
    exactly where contact matters. A fingerprint so rare that no cell has it counts as the nearest that occurs: fewest bits
    changed, then most contacts in common, then the lower number. Cells, and so regions, end where the grid does.

    Args:
        settings: sizes of peg and receptacle.
        trim: length (m) by which the segment inside a tube is cut at both ends. 0 is the paper's definition, with about a
            dozen strata; 1.5e-3 distinguishes a peg in the hole from one that lies flush on the rim.
        grid: cells of the space, the paper's by default.

    Attributes:
        codes: fingerprint of each stratum as a number, bit i for FEATURES[i], (M,).
        features: the same as bits, (M, 8).
        stratum_of_code: stratum of every fingerprint, with the infeasible one last, (257,).
    """

    def __init__(self, settings: PegSettings | None = None, trim: float = 0.0, grid: Grid | None = None) -> None:
        self.settings = settings or PegSettings()
        self.shape = shape_of(self.settings)
        if not 0.0 <= trim < self.shape.half_width:
            raise CaptureError(f"trim is {trim!r}; expected metres, at least 0 and less than half the peg's width.")
        self.trim = float(trim)
        grid = grid or peg_grid()
        cells = np.asarray(codes_of_cells(grid.origin, grid.spacing, grid.shape, self.trim, self.shape))
        self.codes: Ints = np.flatnonzero(np.bincount(cells + 1, minlength=257)[1:])
        if not len(self.codes):
            raise CaptureError(f"no pose of the {grid!r} is feasible; its axes are x, z (metres) and theta (radians).")
        names = [" ".join(np.array(FEATURES)[bits]) or "free" for bits in _bits(self.codes)]
        super().__init__(names, grid, _bits(self.codes))
        self.stratum_of_code = _nearest_codes(self.codes)
        self.labels = self.stratum_of_code[cells].astype(np.int32)

    def index(self, Y: Floats) -> Ints:
        """Stratum of each pose Y (n, 3), -1 where infeasible: (n,)."""
        return self.stratum_of_code[self.fingerprints(Y)]

    def fingerprints(self, poses: Floats) -> Codes:
        """Fingerprint of each pose (n, 3) as a number, -1 where infeasible: (n,)."""
        given = finite_array("poses", poses, (None, 3), _POSES)
        return np.asarray(_codes_of(given, self.trim, self.shape))

    @cached_property
    def regimes(self) -> tuple[str, ...]:
        """Regime of each stratum as reported in the paper's Table 3, one of REGIMES: (M,)."""
        return tuple(_regime(bits[:4], bits[4:]) for bits in _bits(self.codes))

    # -- the goal -----------------------------------------------------------------------------------------------------

    @property
    def goal(self) -> Floats:
        """The pose of a peg upright on the bottom of the hole: (3,)."""
        return np.array([0.0, self.shape.half_length - self.shape.depth, 0.0])

    @cached_property
    def goal_stratum(self) -> int:
        """Number of the stratum of the goal."""
        return int(self.index(self.goal[None])[0])

    @cached_property
    def hamming_to_goal(self) -> Ints:
        """Bits, of eight, in which each stratum differs from the goal's: (M,)."""
        goal = self.fingerprints(self.goal[None]).astype(np.int64)
        return np.asarray(_bits(self.codes ^ goal).sum(axis=1))

    def success(self, poses: Floats) -> Bools:
        """Whether the peg is inserted in each pose (n, 3), by the rule of the Factory suite: bool (n,).

        Its base is within 2.5 mm of the hole's axis and at most 4% of the hole's depth above the bottom.
        """
        x, z, theta = finite_array("poses", poses, (None, 3), _POSES).T
        base_x, base_z = x + np.sin(theta) * self.shape.half_length, z - np.cos(theta) * self.shape.half_length
        return np.asarray((np.abs(base_x) <= 2.5e-3) & (base_z + self.shape.depth <= 0.04 * self.shape.depth))

    # -- starts -------------------------------------------------------------------------------------------------------

    def sample_starts(self, n: int, rng: np.random.Generator, margin: float = 1.5) -> Floats:
        """Poses (n, 3) for calibration: a stratum, one of its cells and a position in the cell, each drawn uniformly.

        A position outside the cell's stratum is drawn again, a few times, before the cell's centre is used. All stay
        `margin` times the largest action inside the grid; strata that occur only nearer to its edge are left out.
        """
        grid, inner = self.require_grid(), self._inner_cells(margin)
        stratum = rng.integers(len(inner), size=whole_number("n", n, 1))
        share = rng.random(n)
        cells = np.array([inner[m][int(u * len(inner[m]))] for m, u in zip(stratum, share)])
        centres = grid.centre(cells)
        poses, waiting = centres.copy(), np.arange(n)
        for _ in range(_JITTERS):
            tried = centres[waiting] + grid.spacing * (rng.random((len(waiting), 3)) - 0.5)
            same = self.index(tried) == self.labels[cells[waiting]]
            poses[waiting[same]] = tried[same]
            waiting = waiting[~same]
        return poses

    def halton_starts(self, n: int = 50, margin: float = 1.5) -> Floats:
        """The first n feasible poses (n, 3) of a Halton sequence over the box that `sample_starts` draws from."""
        from scipy.stats import qmc

        lower, upper = self._inner_box(margin)
        sequence, found = qmc.Halton(d=3, scramble=False), np.empty((0, 3))
        while len(found) < whole_number("n", n, 1):
            poses = lower + (upper - lower) * sequence.random(max(4 * n, 64))
            found = np.concatenate([found, poses[self.index(poses) != INFEASIBLE]])
        return found[:n]

    def _inner_box(self, margin: float) -> tuple[Floats, Floats]:
        grid = self.require_grid()
        inset = margin * self.settings.bound * ACTION_UNIT
        lower, upper = grid.origin + inset, grid.origin + grid.spacing * (np.array(grid.shape) - 1) - inset
        if margin < 0 or (lower > upper).any():
            raise CaptureError(
                f"margin is {margin!r} times a bound of {self.settings.bound!r} (mm, mm, degrees); expected at least 0, "
                "and small enough to leave some of the grid inside."
            )
        return lower, upper

    def _inner_cells(self, margin: float) -> list[Ints]:
        """Cells, by stratum, that lie entirely in the inner box."""
        grid = self.require_grid()
        lower, upper = self._inner_box(margin)
        inside = np.ones(grid.shape, dtype=bool)
        for axis, cells in enumerate(grid.shape):
            centre = grid.origin[axis] + np.arange(cells) * grid.spacing[axis]
            half = grid.spacing[axis] / 2
            within = (centre - half >= lower[axis]) & (centre + half <= upper[axis])
            inside &= np.expand_dims(within, [other for other in range(3) if other != axis])
        kept = [cells[inside.ravel()[cells]] for cells in self._cells]
        return [cells for cells in kept if len(cells)]


def _bits(codes: Ints) -> Bools:
    """Bits of fingerprints (n,): bool (n, 8)."""
    return (np.asarray(codes)[:, None] >> np.arange(8) & 1).astype(bool)


def _nearest_codes(codes: Ints) -> Ints:
    """Number of the stratum for every fingerprint, and -1 for the infeasible one, which looks up the last: (257,)."""
    every, occurring = _bits(np.arange(256))[:, None], _bits(codes)
    changed, shared = (every != occurring).sum(axis=2), (every & occurring).sum(axis=2)
    return np.append(np.argmin(16 * changed - shared, axis=1), INFEASIBLE)


def _regime(vertices: Bools, edges: Bools) -> str:
    """Free, point (one vertex, or one edge alone), edge (two adjacent vertices and the edges that meet them), or other.

    An edge counts as part of a vertex contact if it ends there: the paper's tubes extend around every touching vertex.
    """
    touching = np.flatnonzero(vertices)
    own = np.zeros(4, dtype=bool)
    own[touching], own[touching - 1] = True, True
    if len(touching) == 0:
        return ("free", "point", "other")[min(int(edges.sum()), 2)]
    if (edges & ~own).any() or len(touching) > 2:
        return "other"
    if len(touching) == 1:
        return "point"
    between = touching[0] if touching[1] == touching[0] + 1 else touching[1]
    return "edge" if own.sum() == 3 and edges[between] else "other"
