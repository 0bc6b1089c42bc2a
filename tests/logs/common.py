"""A log of pushes, its columns, and what a command prints."""

from __future__ import annotations

from pathlib import Path

from capture_cp.cli import main

HERE = Path(__file__).parent
PUSHES = HERE.parents[1] / "docs" / "assets" / "pushes.csv"
COLUMNS = ("--state", "x", "y", "--action", "push_x", "push_y", "--next", "next_x", "next_y")
NAMES = ["x", "y"], ["push_x", "push_y"], ["next_x", "next_y"]


def said(capsys, *arguments):
    """What a command prints, in one line."""
    main([str(argument) for argument in arguments])
    return " ".join(capsys.readouterr().out.split())
