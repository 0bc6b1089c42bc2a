"""What the commands for a log share: options with one help text each, and how a log is divided into parts."""

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
#: Shares of a log that train the built-in model, and that are held out to check on.
TRAIN, CHECK = 0.25, 0.25

StateColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the state before.", metavar="COLUMN ...")]
ActionColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the action.", metavar="COLUMN ...")]
NextColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the configuration after it.", metavar="COLUMN ...")]
FollowingColumns = Annotated[
    tuple[str, ...],
    tyro.conf.arg(help="Or columns that hold it in the following row of the same episode.", metavar="COLUMN ..."),
]
Clock = Annotated[
    Literal["received", "header"], tyro.conf.arg(help="Of a bag: the stamps of messages, or those in their headers.")
]
RememberedClock = Annotated[
    Literal["received", "header"] | None,
    tyro.conf.arg(help="Of a bag: the stamps of messages, or those in their headers; by default as calibrated."),
]
EpisodeColumn = Annotated[
    str | None,
    tyro.conf.arg(help="Column with the run that each row belongs to; steps of a run stay together.", metavar="COLUMN"),
]
TimeColumn = Annotated[
    str | None, tyro.conf.arg(help="Column of times, which must not go backwards within an episode.", metavar="COLUMN")
]
Confidence = Annotated[float | None, tyro.conf.arg(help="Share of calibrations that must not undercover; none by default.")]
MinStratum = Annotated[
    int | None,
    tyro.conf.arg(
        help="Merge strata that expect fewer transitions to set thresholds; by default twice what alpha needs, 0 for none."
    ),
]
Farthest = Annotated[
    float | None,
    tyro.conf.arg(
        help="Most that an outcome can be from the prediction, in the unit of the distance; infinite pieces end there.",
        metavar="DISTANCE",
    ),
]
RememberedModel = Annotated[
    str | None, tyro.conf.arg(help="module:object, as in capture calibrate; the built-in one is in the calibration.")
]
RememberedStrata = Annotated[
    str | None, tyro.conf.arg(help="module:object, as in capture calibrate; the single stratum is in the calibration.")
]
Trust = Annotated[
    bool, tyro.conf.arg(help="Import the model and strata that the calibration names; only for files that you trust.")
]
Folder = Annotated[Path, tyro.conf.arg(help="Where the modules of --model and --strata lie that are not installed.")]


def expected_to_suffice(alpha: float, confidence: float | None) -> int:
    """Calibration transitions that a stratum should expect, so that it very rarely has too few for a finite threshold."""
    return 2 * size_needed(alpha, confidence)


@dataclass(frozen=True)
class Shares:
    """Shares of a log that are used for something else than to calibrate; of its episodes, where it has any.

    Attributes:
        train: share that the linear model is trained on; 0 with a model of one's own.
        check: share that is held out to check on.
    """

    train: float
    check: float

    def __post_init__(self) -> None:
        if not (self.train >= 0 and self.check >= 0 and self.train + self.check < 1):
            raise CaptureError(
                f"check-share is {self.check:g} and train-share {self.train:g}; expected shares that leave some of the log "
                "to calibrate on, such as 0.25."
            )

    def parts(self) -> dict[str, float]:
        """The share of every part of the log, by what it is for."""
        every = {"to train": self.train, "to calibrate": 1 - self.train - self.check, "to check": self.check}
        return {name: share for name, share in every.items() if share > 0}

    def scores(self, transitions: int, tree: float) -> int:
        """Transitions of a log that set thresholds, where a share `tree` of those to calibrate on grows the tree.

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
