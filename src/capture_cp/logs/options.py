"""Options that the commands for a log share, with one help text each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

StateColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the state before.", metavar="COLUMN ...")]
ActionColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the action.", metavar="COLUMN ...")]
NextColumns = Annotated[tuple[str, ...], tyro.conf.arg(help="Columns of the configuration after it.", metavar="COLUMN ...")]
EpisodeColumn = Annotated[
    str | None,
    tyro.conf.arg(help="Column with the run that each row belongs to; steps of a run stay together.", metavar="COLUMN"),
]
TimeColumn = Annotated[
    str | None, tyro.conf.arg(help="Column of times, which must not go backwards within an episode.", metavar="COLUMN")
]
Confidence = Annotated[float | None, tyro.conf.arg(help="Share of calibrations that must not undercover; none by default.")]
Folder = Annotated[Path, tyro.conf.arg(help="Where the modules of --model and --strata lie that are not installed.")]
