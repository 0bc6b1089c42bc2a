"""Options that the commands for a log share, and how a log is divided into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from capture_cp.base.checks import CaptureError, Floats, known_name
from capture_cp.conformal.quantile import size_needed
from capture_cp.data.transitions import Transitions
from capture_cp.spaces.metrics import Euclidean, Metric, Product, Torus, wrap_angle
from capture_cp.spaces.poses import SE2, SE3

#: The built-in model, by the name that --model takes.
LINEAR = "linear"
MetricName = Literal["auto", "se2", "se3"]
#: Fractions of a log that train the built-in model, and that are held out to check on.
TRAIN, CHECK = 0.25, 0.25

StateColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the state before the step.", metavar="COLUMN ...")]
ActionColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the action.", metavar="COLUMN ...")]
NextColumns = Annotated[
    tuple[str, ...], tyro.conf.arg(help="Columns of the configuration after the step.", metavar="COLUMN ...")
]
FollowingColumns = Annotated[
    tuple[str, ...],
    tyro.conf.arg(help="Instead of --next: columns that hold it in the next row of the same episode.", metavar="COLUMN ..."),
]
Clock = Annotated[
    Literal["received", "header"] | None,
    tyro.conf.arg(help="Bags only: time of receipt, the default, or header stamp; a calibration remembers its own."),
]
EpisodeColumn = Annotated[
    str | None,
    tyro.conf.arg(help="Column with the episode of each row; whole episodes are kept together.", metavar="COLUMN"),
]
TimeColumn = Annotated[
    str | None, tyro.conf.arg(help="Column with the time, which must not decrease within an episode.", metavar="COLUMN")
]
Confidence = Annotated[
    float | None,
    tyro.conf.arg(help="Fraction of calibrations that must not undercover, such as 0.95; by default no such requirement."),
]
MinStratum = Annotated[
    int | None,
    tyro.conf.arg(
        help="Merge strata expected to have fewer calibration transitions than this, by default twice as many as alpha "
        "requires; 0 merges none."
    ),
]
Farthest = Annotated[
    float | None,
    tyro.conf.arg(
        help="Largest possible distance between outcome and prediction; regions with an infinite threshold end there.",
        metavar="DISTANCE",
    ),
]
RememberedModel = Annotated[
    str | None, tyro.conf.arg(help="module:object, as in capture calibrate; not needed for the built-in model.")
]
RememberedStrata = Annotated[
    str | None, tyro.conf.arg(help="module:object, as in capture calibrate; not needed for a single stratum.")
]
Trust = Annotated[
    bool, tyro.conf.arg(help="Import the model and strata that the calibration names; only for files that you trust.")
]
Folder = Annotated[Path, tyro.conf.arg(help="Folder with the modules of --model and --strata, if they are not installed.")]


def expected_to_suffice(alpha: float, confidence: float | None) -> int:
    """Calibration transitions that a stratum should expect, so that it very rarely has too few for a finite threshold."""
    return 2 * size_needed(alpha, confidence)


@dataclass(frozen=True)
class Shares:
    """Fractions of a log, or of its episodes, that are not used to calibrate.

    Attributes:
        train: fraction that the linear model is trained on; 0 with your own model.
        check: fraction that is held out to check on.
    """

    train: float
    check: float

    def __post_init__(self) -> None:
        if not (self.train >= 0 and self.check >= 0 and self.train + self.check < 1):
            raise CaptureError(
                f"check-share is {self.check:g} and train-share {self.train:g}; expected fractions that leave part of the "
                "log to calibrate on, such as 0.25."
            )

    def parts(self) -> dict[str, float]:
        """The fraction of each part of the log, by its purpose."""
        every = {"to train": self.train, "to calibrate": 1 - self.train - self.check, "to check": self.check}
        return {name: share for name, share in every.items() if share > 0}

    def scores(self, transitions: int, tree: float) -> int:
        """Transitions of a log that set thresholds, where a fraction `tree` of those to calibrate on grows the tree.

        The parts are rounded as `split_rows` and `Tree` round them, so the number is exact; of logs so long that the tree
        does not grow from its whole share (`Tree(max_growing=)`), more are left.
        """
        calibrate = self.calibrate(transitions)
        return calibrate - int(calibrate * tree)

    def calibrate(self, transitions: int) -> int:
        """Transitions of a log to calibrate on: to grow the tree, and to set thresholds."""
        parts = self.parts()
        ends = np.rint(np.cumsum(list(parts.values())) * transitions).astype(int)
        return int(np.diff(ends, prepend=0)[list(parts).index("to calibrate")])

    def transitions(self, scores: int, tree: float) -> int:
        """Fewest transitions of a log so that it, and every longer one, has at least that many scores."""
        # a part is within one row of its share, and of that part the tree leaves at least its share
        log = int(np.ceil((scores / (1 - tree) + 1) / self.parts()["to calibrate"]))
        while log > 1 and self.scores(log - 1, tree) >= scores:
            log -= 1
        return log


@dataclass(frozen=True)
class Distances:
    """How configurations are compared: numbers and `angles` with `weights`, or poses with the body's `length`."""

    angles: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Columns of the configuration that are angles in radians.", metavar="COLUMN ...")
    ] = ()
    metric: Annotated[
        MetricName, tyro.conf.arg(help="Poses: se2 for x, z, angle; se3 for x, y, z and a quaternion w, x, y, z.")
    ] = "auto"
    length: Annotated[
        float | None, tyro.conf.arg(help="Poses only: the radius of the body, in the unit of its position.")
    ] = None
    weights: Annotated[
        tuple[float, ...], tyro.conf.arg(help="One weight per column of the configuration, if their units differ.")
    ] = ()

    def of(self, names: Sequence[str]) -> Metric | None:
        """The metric of configurations with these columns; None is the plain Euclidean one."""
        for name in self.angles:
            known_name("column among --angles", name, names)
        if self.metric != "auto":
            return self._poses(len(names))
        if self.weights and len(self.weights) != len(names):
            raise CaptureError(f"--weights has {len(self.weights)} numbers; give one for each of {', '.join(names)}.")
        weights = self.weights or (1.0,) * len(names)
        if not self.angles:
            return Euclidean(weights) if self.weights else None
        blocks: list[Metric] = [
            Torus((weight,)) if name in self.angles else Euclidean((weight,)) for name, weight in zip(names, weights)
        ]
        return Torus(weights) if len(self.angles) == len(names) else Product(tuple(blocks), (1,) * len(names))

    def angular(self, names: Sequence[str]) -> tuple[str, ...]:
        """Which of these columns are angles, by name or as part of a pose."""
        metric = self.of(names)
        return () if metric is None else tuple(names[axis] for axis in metric.angles(len(names)))

    def unwrapped(self, log: Transitions) -> Floats:
        """Next configurations (n, dc) whose angles are within half a turn of the state before, where it has them."""
        Y, angles = log.next.copy(), self.angular(log.next_names)
        for after, before in axes_before(log):
            if log.next_names[after] in angles:
                Y[:, after] = log.state[:, before] + wrap_angle(log.next[:, after] - log.state[:, before])
        return Y

    def _poses(self, dims: int) -> Metric:
        if self.length is None or self.angles or self.weights:
            raise CaptureError(
                f"--metric {self.metric} needs --length, the body's radius, and neither --angles nor --weights."
            )
        metric: Metric = SE2(self.length) if self.metric == "se2" else SE3(self.length)
        metric.check(dims, None)
        return metric


def plain(name: str) -> str:
    """The name of a number of the configuration without what says that it is the next one."""
    return name.removeprefix("next_").removesuffix("_next") or name


def axes_before(log: Transitions) -> list[tuple[int, int]]:
    """Columns of next configuration and state that are one thing before and after, by their names."""
    names = map(plain, log.next_names)
    return [(after, log.state_names.index(name)) for after, name in enumerate(names) if name in log.state_names]


def configuration_columns(state: Sequence[str], after: Sequence[str]) -> list[int] | None:
    """Columns of the state that are the configuration: those named like the next one, or all if they are as many."""
    names = list(map(plain, after))
    if all(name in state for name in names):
        return [state.index(name) for name in names]
    return list(range(len(state))) if len(state) == len(names) else None
