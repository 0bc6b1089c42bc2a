"""Panels of a configuration space of one axis: the regions of all steps so far, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.commands.marks import axis_label, verdict
from capture_cp.commands.replay import Look, Replay
from capture_cp.commands.space import STRONG, Space
from capture_cp.spaces.marks import PARTICLES, START, draw_action, mark, mark_outcomes

#: Margin of a close-up, as a fraction of its height.
ROOM = 0.06


class Strip:
    """Draws steps side by side, each with the part of the axis that its region covers."""

    #: Levels at which strata are evaluated, and steps of the close-up.
    levels, steps = 300, 12

    def __init__(self, space: Space, replay: Replay | None) -> None:
        self.space, self.replay = space, replay
        self._known: tuple[float, Any] | None = None

    def set_up(self, axis: Any, close: bool) -> None:
        """Draw what stays: labels, ticks, and the window on the whole space."""
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
        particles = np.column_stack([np.full(len(at), step + 1.0), at])
        mark(axis, PARTICLES, particles, zorder=4)
        if self.replay is not None:
            steps = np.arange(first, step + 1)
            outcomes = np.column_stack([steps + 1.0, window.placed(self.replay.Y[steps])[:, 0]])
            mark_outcomes(axis, outcomes, self.replay.inside(look.region.alpha)[steps], 0.75, zorder=5)
        elif look.start is not None:
            start = np.array([1.0, window.placed(look.start[None])[0, 0]])
            draw_action(axis, start, particles)
            mark(axis, START, start, zorder=5)
        axis.set(xlim=(first + 0.5, stop + 0.5), ylim=(low, high))

    def _strip(self, look: Look) -> Any:
        """Colours (levels, n, 3) of the regions of all steps, lowest level first; None where strata cannot be evaluated."""
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
