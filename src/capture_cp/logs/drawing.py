"""The figures of a report, drawn by another process where there is one."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from capture_cp.base.checks import CaptureWarning
from capture_cp.capture.capture import Capture
from capture_cp.data.transitions import Transitions
from capture_cp.logs.report_figures import Chosen, chosen_regions, draw_regions
from capture_cp.report.drawing_process import DrawingProcess

if TYPE_CHECKING:
    from capture_cp.logs.calibrate import Calibrate


class Drawing:
    """The regions of a report, from the time they are known until their figures are needed."""

    def __init__(self, process: DrawingProcess | None) -> None:
        self._process = process
        self._chosen: Chosen | None = None
        self._begun = False

    def begin(self, cap: Capture, kept: Transitions, command: Calibrate) -> None:
        """Choose regions of the transitions `kept` and begin to draw them; once."""
        if self._begun:
            return
        self._begun = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # small groups are reported elsewhere
            self._chosen = chosen_regions(cap, kept, command)
        if self._chosen is not None and self._process is not None:
            self._process.begin(draw_regions, self._chosen)

    @property
    def caption(self) -> str:
        """What the figures show."""
        return "" if self._chosen is None else self._chosen.caption

    def figures(self) -> list[bytes]:
        """The figures as PNG files; none where no region can be drawn."""
        if self._chosen is None:
            return []
        drawn: list[bytes] | None = None if self._process is None else self._process.result()
        return draw_regions(self._chosen) if drawn is None else drawn
