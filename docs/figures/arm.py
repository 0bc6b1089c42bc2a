"""The region of a seven-joint arm, by the code of its page."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from typing import Any

from figures.style import DOCS, save

PYTHON = re.compile(r"(?:```|<!-- invisible-code-block: )python.*?\n(.*?)(?:```|-->)", re.DOTALL)


def arm_picture() -> None:
    """Projections on every pair of joints."""
    page = DOCS / "learn" / "arm.md"
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(page)}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        sys.path.insert(0, folder)  # where arm.py will be
        for block in PYTHON.findall(page.read_text().split("## A plan")[0]):
            exec(block, names)
    figure = names["region"].plot_matrix(names["JOINTS"], start=names["start"], rng=0)
    figure.set_size_inches(9, 9)
    save("arm-region", figure)
