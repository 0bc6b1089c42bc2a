"""Options that the commands for a log share, and how a log is divided into parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from capture_cp.base.checks import CaptureError
from capture_cp.conformal.quantile import size_needed

#: The built-in model, by the name that --model takes.
LINEAR = "linear"
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
    Literal["received", "header"],
    tyro.conf.arg(help="Bags only: use the time when messages were received, or the stamp in their headers."),
]
RememberedClock = Annotated[
    Literal["received", "header"] | None,
    tyro.conf.arg(help="Bags only: time of receipt or header stamp; by default the one used to calibrate."),
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
