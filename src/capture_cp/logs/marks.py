"""What marks and colours mean in pictures of one's own robot: one legend for the page and for films."""

from __future__ import annotations

from typing import Any

from capture_cp.base.checks import shortened
from capture_cp.logs.replay import Look
from capture_cp.logs.robot import Robot
from capture_cp.logs.space import STRONG, Space
from capture_cp.spaces.plotting import colour_of, label

#: Colour and shape of what a region held, and of what it missed; shapes for those who cannot tell the colours.
HELD, MISSED = ("#00A000", "P"), ("#D00000", "X")
TRAIL = "#777777"
#: Longest name of a stratum or an axis in a picture.
LONGEST = 24


def mark_of(inside: bool | None) -> tuple[str, str]:
    """Colour and shape of the mark where the robot went."""
    return HELD if inside else MISSED


def verdict(look: Look) -> str:
    """Whether the region held what followed, in words; nothing for an input that was chosen by hand."""
    return "" if look.inside is None else ": the region held" if look.inside else ": the region missed"


def axis_label(space: Space, axis: int) -> str:
    """The name of an axis as a picture shows it; angles with their unit."""
    name = label(shortened(space.robot.axes[axis], LONGEST))
    return f"{name} (rad)" if axis in space.robot.angles else name


def marks_start(robot: Robot, logged: bool) -> bool:
    """Whether pictures show where a step began: where that is known, and a strip of steps does not show it anyway."""
    return robot.before is not None and not (logged and len(robot.axes) == 1)


def legend_handles(robot: Robot, logged: bool) -> list[Any]:
    """What the colours and marks of all pictures mean; `logged` where steps of a log are drawn."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    strata: list[Any] = [
        Patch(color=colour_of(m), alpha=STRONG, label=f"region: {label(shortened(name, LONGEST))}")
        for m, name in enumerate(robot.strata)
    ]
    looks = [("o", 4, "black", "black", "particles")]
    looks += [("D", 6, "white", "black", "before")] * marks_start(robot, logged)
    if logged:
        looks += [(HELD[1], 9, HELD[0], "white", "went there: inside"), (MISSED[1], 9, MISSED[0], "white", "outside")]
    marks = [Line2D([], [], marker=m, ls="none", ms=ms, color=c, mec=e, label=name) for m, ms, c, e, name in looks]
    return [*strata, *marks]
