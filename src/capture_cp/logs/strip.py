"""Panels of a configuration space of one axis: the regions of all steps so far, one beside another."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.logs.marks import HELD, MISSED, axis_label, verdict
from capture_cp.logs.replay import Look, Replay
from capture_cp.logs.space import STRONG, Space

#: By how much of its height a close-up is widened.
ROOM = 0.06


class Strip:
    """Draws steps side by side, each with the part of the axis that its region takes in."""

    #: Levels at which strata are asked for, and steps of the close-up.
    levels, steps = 300, 12

    def __init__(self, space: Space, replay: Replay | None) -> None:
        self.space, self.replay = space, replay
        self._known: tuple[float, Any] | None = None

    def set_up(self, axis: Any, close: bool) -> None:
        """What stays: labels, ticks, and the window on the whole space."""
        axis.set(xlabel="step" if self.replay is not None else "", ylabel=axis_label(self.space, 0), title=" ")
        axis.set_ylim(self.space.window.low[0], self.space.window.high[0])
        axis.locator_params(axis="y", nbins=5)
        axis.tick_params(labelsize=8)
        if self.replay is None:
            axis.set_xticks([])

    def draw_whole(self, axis: Any, look: Look, step: int) -> None:
        """All steps up to this one."""
        axis.set_title("regions so far" if self.replay is not None else "configuration space", fontsize=9)
        self._draw(axis, look, step, 0, max(1, len(self.replay) if self.replay is not None else 1))

    def draw_near(self, axis: Any, look: Look, step: int) -> None:
        """The last of them."""
        axis.set_title(f"close-up{verdict(look)}", fontsize=9)
        first = max(0, step - self.steps + 1) if self.replay is not None else 0
        self._draw(axis, look, step, first, first + (self.steps if self.replay is not None else 1))
        near = self.space.near(look)
        recent = near.placed(self.replay.Y[first : step + 1] if self.replay is not None else look.cloud)
        low, high = min(near.low[0], recent.min()), max(near.high[0], recent.max())
        axis.set_ylim(low - ROOM * (high - low), high + ROOM * (high - low))

    def _draw(self, axis: Any, look: Look, step: int, first: int, stop: int) -> None:
        window, picture = self.space.window, self._strip(look)
        low, high = window.low[0], window.high[0]
        if picture is not None:
            last = step if self.replay is not None else 0
            part = picture[:, first : last + 1]
            axis.imshow(part[::-1], extent=(first + 0.5, last + 1.5, low, high), aspect="auto", interpolation="nearest")
        at = window.placed(look.cloud)[:, 0]
        axis.scatter(np.full(len(at), step + 1.0), at, s=9, color="black", zorder=4, lw=0)
        if self.replay is not None:
            inside = self.replay.inside(look.region.alpha)
            for held, (colour, shape) in ((True, HELD), (False, MISSED)):
                which = np.flatnonzero(inside[first : step + 1] == held) + first
                y = window.placed(self.replay.Y[which])[:, 0]
                axis.plot(which + 1.0, y, shape, color=colour, mec="white", mew=0.6, ms=7, zorder=5)
        elif look.start is not None:
            axis.plot(1.0, window.placed(look.start[None])[0, 0], "D", color="white", mec="black", ms=6, zorder=5)
        axis.set(xlim=(first + 0.5, stop + 0.5), ylim=(low, high))

    def _strip(self, look: Look) -> Any:
        """Colours (levels, n, 3) of the regions of all steps, lowest level first; None where strata cannot be asked."""
        alpha = look.region.alpha
        if self._known is None or self._known[0] != alpha or self.replay is None:
            levels, labels = self.space.levels(self.levels)
            if labels is None:
                return None
            replayed = self.replay is not None
            inside = self.replay.within(levels, alpha).T if self.replay is not None else look.region.within(levels, labels)
            inside = inside if replayed else inside[:, None]  # (levels, n)
            ground = np.repeat(self.space.pale[labels][:, None], inside.shape[1], axis=1)
            strong = STRONG * self.space.paint[labels][:, None] + (1 - STRONG) * ground
            self._known = alpha, np.where(inside[..., None], strong, ground).astype(np.uint8)
        return self._known[1]
