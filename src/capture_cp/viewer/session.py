"""What a page shows and what people can do with it, for a task or a log alike.

Nothing here depends on a browser. Any thread can call any method at any time: short changes take a lock; slow work
(`prepare`, `advance`) runs outside the lock, and its result is kept only if nothing has changed meanwhile. One thread only
makes frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.report.canvas import Picture
from capture_cp.report.scene import Scene
from capture_cp.viewer.controls import Control, number_between

#: About how many positions a slider has.
POSITIONS = 400


@dataclass(frozen=True)
class Slider:
    """A slider for one entry of the input, state and action in one row, shown as `unit` times its value."""

    label: str
    entry: int
    low: float
    high: float
    step: float
    unit: float = 1.0
    hint: str = ""

    @classmethod
    def between(cls, label: str, entry: int, ends: Floats, unit: float = 1.0, hint: str = "") -> Slider:
        """A slider between `ends` (2,) of the entry, rounded to multiples of its step, which is a round number."""
        low, high = (unit * float(end) for end in ends)
        step = float(10.0 ** np.floor(np.log10(max(high - low, 1e-12) / POSITIONS * 2)))
        first, last = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
        return cls(label, entry, round(float(first), 12), round(float(last), 12), step, unit, hint)

    def shown(self, value: float) -> float:
        """The position that shows a value of the entry."""
        return float(np.clip(round(round(value * self.unit / self.step) * self.step, 12), self.low, self.high))


@dataclass(frozen=True)
class Frame:
    """Everything that a page shows at one time.

    Attributes:
        status, tables: Markdown.
        scene: in three dimensions; None while there is nothing to draw.
        pictures: the whole configuration space, and the part around the step, each with its caption; may be fewer.
        x: the input (dx,), for the sliders.
        waiting: whether slow work is pending.
    """

    status: str
    tables: str
    scene: Scene | None
    pictures: Sequence[tuple[str, Picture]]
    x: Floats
    waiting: bool


class Session(ABC):
    """The subject of one page: a step of a recording, or an input that is chosen by hand.

    Class attributes:
        live: what the menu of recordings calls none of them.
        first: number of the first position of a recording on the page.
        upload: the kind of recordings that people can open from their own machine, such as ".npz"; none if empty.

    Attributes:
        settings: what people can change, with `controls` by path.
        sliders: of the input; their number and labels never change.
        recordings: names of the recordings on the page.
        legend: of the pictures, HTML.
        facts: what does not change, Markdown.
        camera: first position of the scene's camera, and the point that it looks at, both (3,).
        name: of the open recording; None without one.
        time: position in it, from 0.
        playing: whether steps follow one another.
    """

    live: ClassVar[str] = "none: by hand"
    first: ClassVar[int] = 0
    upload: ClassVar[str] = ""
    settings: Any
    controls: Mapping[str, Control]
    sliders: Sequence[Slider]
    recordings: Mapping[str, Any]
    legend: str
    facts: str = ""
    camera: tuple[Floats, Floats] = (np.array([0.0, -0.12, 1.5]), np.zeros(3))

    def __init__(self) -> None:
        self._lock = RLock()
        self.name: str | None = None
        self.time, self.playing = 0, False

    # -- what differs -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def last(self) -> int:
        """The last position of the open recording; 0 without one."""

    @property
    @abstractmethod
    def rest(self) -> float:
        """How long (s) the present step stays in view, at speed 1."""

    @abstractmethod
    def frame(self) -> Frame:
        """The current frame."""

    @abstractmethod
    def prepare(self) -> bool:
        """Do a piece of pending slow work; False if there is none."""

    @abstractmethod
    def change(self, path: str, value: Any) -> None:
        """Change one of the settings; checked as on the command line."""

    @abstractmethod
    def open(self, name: str) -> None:
        """Show a recording, from its first position."""

    @abstractmethod
    def close(self) -> None:
        """Leave the recording."""

    @abstractmethod
    def aim(self, entry: int, value: float) -> None:
        """Set one number of the input by hand."""

    def drag(self, place: Floats) -> None:
        """Set the input by a place (3,) of the scene's handle."""
        raise CaptureError("nothing can be dragged here; move the sliders.")

    def uploaded(self, name: str, content: bytes) -> None:
        """Open a recording that a person sends."""
        raise CaptureError("this page opens no files; start it again with the recording.")

    def act(self) -> None:
        """One step of the robot itself, where there is one."""
        self.playing = False

    # -- in common ----------------------------------------------------------------------------------------------------

    def slide(self, slider: Slider, position: Any) -> None:
        """Set the number of a slider by hand."""
        self.aim(slider.entry, number_between(slider.label, position, slider.low, slider.high) / slider.unit)

    def advance(self) -> None:
        """One step of the recording; without one, of the robot itself."""
        with self._lock:
            if self.name is not None:
                self.seek(self.time + 1)
                self.playing = self.playing and self.time < self.last
                return
        self.act()

    def play(self) -> None:
        """Start playing; a recording from its first position if it was at its end."""
        with self._lock:
            self.playing = True
            if self.name is not None and self.time >= self.last:
                self.time = 0

    def pause(self) -> None:
        self.playing = False

    def back(self) -> None:
        """Go one step back in the recording."""
        self.pause()
        self.seek(self.time - 1)

    def reset(self) -> None:
        """Go back to the beginning."""
        self.pause()
        self.seek(0)

    def seek(self, time: Any) -> None:
        """Go to a position of the recording, or to the nearest."""
        with self._lock:
            if self.name is not None:
                self.time = max(0, min(int(time), self.last))
