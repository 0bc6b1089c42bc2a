"""What a page shows of one task: a scene in 3D, a picture of the configuration space, and dials for state and action."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import Canvas, Picture
from capture_cp.viewer.frame import Frame
from capture_cp.viewer.session import Session
from capture_cp.viewer.world import Ahead

#: Opacity of the region of the first step of a plan, and of the last.
NEAR, FAR = 0.85, 0.25
#: Width of the enlarged picture, and how many pixels of the page its pixels are wide.
LENS, COARSE = 156, 3


@dataclass(frozen=True)
class Dial:
    """A slider for one number of the state or of the action, shown as `unit` times the number."""

    label: str
    of: str  # "state" or "action"
    index: int
    low: float
    high: float
    step: float
    unit: float = 1.0
    hint: str = ""


class Stage(ABC):
    """One task on a viser server. Drawn by one thread only.

    Args:
        server: viser's.
        session: what is looked at; told when a person drags something in the scene.
        moved: called after that.
    """

    #: Which axes of the configuration are drawn, and the least height of the enlarged picture on them.
    axes: tuple[int, int] = (0, 1)
    smallest_lens: float
    #: Names of the parts of the legend, with their colours.
    legend: tuple[tuple[str, str], ...]

    def __init__(self, server: Any, session: Session, moved: Any) -> None:
        self.server, self.session, self.moved = server, session, moved

    @property
    @abstractmethod
    def camera(self) -> tuple[Floats, Floats]:
        """Where a camera stands at first, and what it looks at, both (3,)."""

    @abstractmethod
    def dials(self) -> list[Dial]:
        """Sliders for the state and the action of the present world."""

    @abstractmethod
    def build(self, frame: Frame) -> None:
        """Set up the scene of a world, in place of the one before."""

    @abstractmethod
    def draw(self, frame: Frame) -> None:
        """Bring the scene up to date."""

    @abstractmethod
    def picture(self, frame: Frame, ahead: list[Ahead]) -> Picture:
        """The configuration space with the regions of one method."""

    @abstractmethod
    def lens_canvas(self, frame: Frame, low: Floats, high: Floats) -> Canvas:
        """A canvas for the part of the picture between two corners (2,)."""

    @abstractmethod
    def lens(self, canvas: Canvas, frame: Frame, ahead: list[Ahead]) -> Picture:
        """The part of the picture that a canvas shows."""

    @abstractmethod
    def reading(self, frame: Frame) -> str:
        """The state in words, as Markdown."""


def strengths(steps: int) -> Floats:
    """Opacity of each step of a plan, the nearest strongest: (H,)."""
    return np.linspace(NEAR, FAR, steps) if steps > 1 else np.array([NEAR])


def paint_plan(canvas: Canvas, ahead: list[Ahead], rest: Floats) -> Picture:
    """The strata with the regions of a plan over them, the next step's on top; `rest` (dc,) tells which slice."""
    picture = canvas.ground(rest)[1].copy()
    for step, strength in reversed(list(zip(ahead, strengths(len(ahead))))):
        if step.region is not None:
            canvas.region(picture, step.region, rest, float(strength))
    return picture


def lens_window(frame: Frame, axes: tuple[int, int], smallest: float, wide: bool) -> tuple[Floats, Floats] | None:
    """Corners (2,) of a window around the first steps of all methods, particles and regions; None if there are none.

    At least `smallest` high; as wide as high, or twice as wide.
    """
    firsts = [ahead[0] for ahead in frame.ahead.values() if ahead]
    if not firsts:
        return None
    corners = [first.cloud for first in firsts]
    for region in (first.region for first in firsts if first.region is not None):
        finite = region.thresholds[np.isfinite(region.thresholds)]
        if len(finite):
            corners += region.score.box(region.prediction, finite.max(keepdims=True), region.dims)
    shown = np.concatenate(corners)[:, list(axes)]
    shown = shown[np.isfinite(shown).all(axis=1)]
    middle, reach = (shown.min(axis=0) + shown.max(axis=0)) / 2, np.ptp(shown, axis=0)
    half = max(smallest, 1.15 * float(reach.max())) / 2 * np.array([2.0 if wide else 1.0, 1.0])
    return middle - half, middle + half
