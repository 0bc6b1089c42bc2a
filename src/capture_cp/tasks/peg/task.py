"""The peg task: a peg and its hole with their strata, true system, approximate model and transitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, known_name, whole_number
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.data.transitions import Transitions
from capture_cp.spaces.metrics import SE2
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.tasks.peg.cspace import PegStrata
from capture_cp.tasks.peg.model import PegModel, settle
from capture_cp.tasks.peg.settings import PegSettings
from capture_cp.tasks.peg.simulator import PegSystem
from capture_cp.tasks.peg.systems import make_system

SystemName = Literal["planar", "arm"]

STATE_NAMES = ("x", "z", "theta")
ACTION_NAMES = ("move_x", "move_z", "turn")
NEXT_NAMES = ("next_x", "next_z", "next_theta")

#: The paper's particles a prediction; the k-th nearest is half of them.
PARTICLES = 8
#: Fewest transitions in a leaf, chosen on seeds of its own.
MIN_LEAF = 1000


@dataclass(frozen=True)
class Peg:
    """A peg and a hole; callable as the approximate model of the library.

    Inputs X (n, 6) are a pose (m, m, rad) and an action (mm, mm, degrees) a row, outputs Y (n, 3) the next pose.

    Attributes:
        settings: sizes, disturbance and model error.
        system: the true system, "planar" (on rails) or "arm" (in the hand of a Panda); both need MuJoCo.
        trim: metres by which tubes are cut at their ends, see `PegStrata`; 0 is the paper's.
        device: where strata and model are computed, "cpu", "cuda" or "auto"; it makes no other task.
    """

    settings: PegSettings = field(default_factory=PegSettings)
    system: SystemName = "planar"
    trim: float = 0.0
    device: Device = field(default="cpu", repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        known_name("system", self.system, get_args(SystemName))
        chosen_device(self.device)

    @cached_property
    def strata(self) -> PegStrata:
        return PegStrata(self.settings, self.trim, device=self.device)

    @cached_property
    def model(self) -> PegModel:
        return PegModel(self.settings, self.device)

    @property
    def metric(self) -> SE2:
        """The paper's distance of poses, a turn weighed by the peg's half diagonal."""
        return SE2(self.settings.radius)

    def true_system(self, threads: int | None = None) -> PegSystem:
        """The true system in MuJoCo; `threads` (all cores unless told) change how fast it is, nothing else."""
        return make_system(self.system, self.settings, threads)

    # -- the approximate model ----------------------------------------------------------------------------------------

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, 3) of the next pose."""
        return self.model(X, n_particles, rng)

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The next pose as a Gaussian: means (n, 3) and covariances (n, 3, 3)."""
        return self.model.gaussian(X)

    def method(self, name: str, n_particles: int = PARTICLES, tree: Tree | None = None, seed: int = 0) -> Capture:
        """One of the six methods for this task, ready to `fit`: k = L/2 (1 for `capture-k1` and `pcp`), SE(2) distance."""
        return method(
            name,
            self,
            self.strata,
            n_particles=n_particles,
            metric=self.metric,
            tree=tree if tree is not None else peg_tree(),
            seed=seed,
        )

    # -- data ---------------------------------------------------------------------------------------------------------

    def inputs(self, n: int, rng: np.random.Generator) -> Floats:
        """Inputs (n, 6) for calibration: starts uniform over strata, actions uniform up to the bound."""
        starts = self.strata.sample_starts(whole_number("n", n, 1), rng)
        return np.hstack([starts, rng.uniform(-self.settings.bound, self.settings.bound, size=(n, 3))])

    def outcomes(self, X: Floats, rng: np.random.Generator, system: PegSystem | None = None) -> tuple[Floats, int]:
        """Next poses (n, 3) of the true system at inputs X (n, 6), and how many were pushed out of an overlap.

        The simulator's contact gives a little. A landing that overlaps by more than the paper's 0.01 mm² would have no
        stratum, and dropping it would void the guarantee: it is moved to the nearest feasible pose, micrometres away.
        """
        inputs = finite_array("X", X, (None, 6), "(n, 6): x, z, theta, then the action")
        self.check_poses(inputs[:, :3])
        system = system if system is not None else self.true_system()
        landed = system.transitions(inputs[:, :3], system.applied(inputs[:, 3:], rng))
        settled = settle(landed, self.settings)
        return settled, int((settled != landed).any(axis=1).sum())

    def transitions(self, n: int, rng: np.random.Generator, system: PegSystem | None = None) -> tuple[Transitions, int]:
        """n transitions of the true system from the calibration inputs, and how many landings were pushed out."""
        X = self.inputs(n, rng)
        Y, moved = self.outcomes(X, rng, system)
        return as_transitions(X, Y), moved

    def check_poses(self, poses: Floats) -> None:
        """Refuse poses (n, 3) outside the grid, in the receptacle or in the table."""
        given = finite_array("poses", poses, (None, 3), "(n, 3): x, z, theta in metres and radians")
        outside = self.strata.require_grid().cell(given) < 0
        for wrong, where in (
            (outside, "outside the grid (x within 3 cm, z from -1 to 5 cm, theta within 40 degrees)"),
            (self.strata.index(given) == INFEASIBLE, "in the receptacle or the table"),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                raise CaptureError(
                    f"{int(wrong.sum())} of {len(given)} poses lie {where}, first in row {row}: {given[row].tolist()}; "
                    "expected feasible x, z, theta in metres and radians."
                )


def peg_tree() -> Tree:
    """The tree of this task's methods: one a stratum, because a single one need not tell fingerprints apart."""
    return Tree(min_leaf=MIN_LEAF, max_leaves=None)


def as_transitions(X: Floats, Y: Floats) -> Transitions:
    """Inputs X (n, 6) and next poses Y (n, 3) with the names of their columns."""
    return Transitions.from_arrays(X[:, :3], X[:, 3:], Y, STATE_NAMES, ACTION_NAMES, NEXT_NAMES)
