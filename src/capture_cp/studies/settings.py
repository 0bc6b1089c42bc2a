"""Settings that the studies share, checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from capture_cp.base.checks import CaptureError, failure_rate, known_name, whole_number
from capture_cp.base.files import check_writable
from capture_cp.capture.methods import METHODS
from capture_cp.report.output import output_folder
from capture_cp.spaces.plotting import pyplot

# Options that several studies have, with one help text each.
Jobs = Annotated[int, tyro.conf.arg(help="Processes; the episodes are the same for any number.")]
Seed = Annotated[int, tyro.conf.arg(help="Same seed, same episodes.")]
StateFolder = Annotated[
    Path | None, tyro.conf.arg(help="Folder for finished episodes: the same command goes on from there.")
]
RowsFile = Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this file.")]
RecordFolder = Annotated[Path | None, tyro.conf.arg(help="Folder for the episodes as files that can be replayed.")]


def check_settings(
    study: Any, counts: Sequence[str], folders: Sequence[Path | None], methods: Iterable[str] = METHODS
) -> None:
    """Refuse settings of a study that cannot be worked with.

    `counts` names those that must be whole numbers of at least 1; `folders` are made if they are given; `methods` are those
    that the study knows.
    """
    failure_rate(study.alpha)
    for name in counts:
        whole_number(name, getattr(study, name), 1)
    if whole_number("seed", study.seed, 0) >= 2**63:
        raise CaptureError(f"seed is {study.seed}; expected a whole number below 2^63.")
    for option in ("maps", "methods"):
        if not getattr(study, option, True):
            raise CaptureError(f"no {option} are given; name at least one, or leave --{option} out.")
    for name in getattr(study, "methods", ()):
        known_name("method", name, methods)
    check_writable(study.json)
    for folder in folders:
        if folder is not None:
            output_folder(folder)
    if study.figures is not None:
        pyplot()  # missing matplotlib is told now, not after the work
