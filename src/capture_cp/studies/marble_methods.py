"""The methods of the marble coverage study, calibrated; without the command line, so that benchmarks can do the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.conformal.groups import Tree
from capture_cp.studies.parts import run_parts
from capture_cp.tasks.marble.corrected import corrected
from capture_cp.tasks.marble.task import Design, Marble

#: Test inputs counted at once; it also fixes which particles they get, so it is no setting.
PART = 4096
#: CaPTURe on a model that was corrected with so many transitions of its own.
RESIDUAL, TRAINING = "capture-residual", 20_000


@dataclass(frozen=True)
class MarbleMethods:
    """Which methods, and how each map's are calibrated."""

    methods: tuple[str, ...]
    design: Design = "grid"
    tree: Tree = field(default_factory=lambda: Tree(per_stratum=False, min_leaf=700, max_leaves=None))
    particles: int = 16
    seed: int = 0

    def seed_on(self, task: Marble) -> int:
        """The seed of everything on one map: two maps share no random numbers."""
        return derived_seed(self.seed, "marble", task.map.name)

    def rng(self, task: Marble, purpose: str) -> np.random.Generator:
        """The random numbers of one purpose on one map, such as "calibration", "test", "subsets" or "training"."""
        return stream(self.seed_on(task), purpose)

    def fit(self, task: Marble, X: Floats, Y: Floats) -> dict[str, Capture]:
        """Every method, fitted to the same transitions X (n, 8), Y (n, 2)."""
        shared: dict[str, Any] = {"n_particles": self.particles, "tree": self.tree, "seed": self.seed_on(task)}
        fitted = {}
        for name in self.methods:
            recipe, model = name, task
            if name == RESIDUAL:
                recipe, model = "capture", corrected(task, TRAINING, self.rng(task, "training"))
            fitted[name] = method(recipe, model, task.strata, **shared).fit(X, Y)
        return fitted

    def calibrate(self, task: Marble) -> dict[str, Capture]:
        """Every method, calibrated on transitions of one map: two for each input of the design."""
        data = task.design_transitions(self.design, 2, self.rng(task, "calibration"))
        return self.fit(task, data.X, data.Y)

    def calibrate_all(self, tasks: Mapping[str, Marble], jobs: int) -> Iterator[tuple[str, dict[str, Capture]]]:
        """The methods of every map by name, on `jobs` processes: those of later maps go on while an earlier one is used."""
        names = list(tasks)
        for number, caps in run_parts(_Calibration(self, [tasks[name] for name in names]), range(len(names)), jobs):
            yield names[number], caps


@dataclass(frozen=True)
class _Calibration:
    """The calibration of a map by its number, as work that processes can be sent."""

    methods: MarbleMethods
    tasks: list[Marble]

    def __call__(self, number: int) -> dict[str, Capture]:
        return self.methods.calibrate(self.tasks[number])
