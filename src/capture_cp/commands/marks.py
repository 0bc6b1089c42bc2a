"""Marks and colours in pictures of a user's robot: one legend for the page and for videos."""

from __future__ import annotations

from typing import Any

from capture_cp.base.checks import shortened
from capture_cp.commands.replay import Look
from capture_cp.commands.robot import Robot
from capture_cp.commands.space import STRONG, Space
from capture_cp.spaces.marks import ACTION, INSIDE, OUTSIDE, PARTICLES, START, Mark, mark_handles
from capture_cp.spaces.plotting import colour_of, label

#: Longest name of a stratum or an axis in a picture.
LONGEST = 24


def verdict(look: Look) -> str:
    """Whether the true outcome is in the region, in words; empty for an input that was chosen by hand."""
    return "" if look.inside is None else f": outcome {'inside' if look.inside else 'outside'} the region"


def axis_label(space: Space, axis: int) -> str:
    """The name of an axis in a picture; angles have their unit."""
    name = label(shortened(space.robot.axes[axis], LONGEST))
    return f"{name} (rad)" if axis in space.robot.angles else name


def marks_start(robot: Robot, logged: bool) -> bool:
    """Whether pictures mark the start of a step: if it is known, except in a strip, which shows the step before."""
    return robot.before is not None and not (logged and len(robot.axes) == 1)


def marks_shown(robot: Robot, logged: bool) -> list[Mark]:
    """The marks in pictures; `logged` where they show steps of a log."""
    start = [START, ACTION] * marks_start(robot, logged)
    return [PARTICLES, *start, *([INSIDE, OUTSIDE] if logged else [])]


def legend_handles(robot: Robot, logged: bool) -> list[Any]:
    """Entries of a legend of all pictures; `logged` where they show steps of a log."""
    from matplotlib.patches import Patch

    strata: list[Any] = [
        Patch(color=colour_of(m), alpha=STRONG, label=f"region: {label(shortened(name, LONGEST))}")
        for m, name in enumerate(robot.strata)
    ]
    return [*strata, *mark_handles(marks_shown(robot, logged))]
