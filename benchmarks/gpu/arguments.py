"""Command-line arguments of the benchmarks, checked before any work starts."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import check_writable


def at_least_one(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1.")
    return value


def result_file(text: str) -> Path:
    """A writable file."""
    try:
        check_writable(Path(text))
    except CaptureError as error:
        raise ArgumentTypeError(str(error)) from None
    return Path(text)
