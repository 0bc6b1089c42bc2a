"""What the videos of all tasks share: a figure whose moving parts are drawn anew for every picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.movie import Picture
from capture_cp.spaces.plotting import label

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

DPI = 100
ENDINGS = {"success": "reached the goal", "fell": "fell into a pit", TIMED_OUT: "out of time"}


class MovingFigure:
    """A figure with a still background: what is drawn after `freeze` is gone after the next `clear`."""

    def __init__(self, inches: tuple[float, float], ratios: list[float]) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure: Figure = Figure(figsize=inches, dpi=DPI, layout="constrained")
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.axes: list[Any] = list(self.figure.subplots(1, len(ratios), width_ratios=ratios))
        self._heading = self.figure.suptitle(" ", fontsize=12)
        self._still: set[Artist] = set()

    def picture(self, heading: str) -> Picture:
        """The figure as it is now under a heading, (h, w, 3)."""
        self._heading.set_text(label(heading))
        self.canvas.draw()
        pixels = np.asarray(self.canvas.buffer_rgba())[:, :, :3]
        height, width = (size - size % 2 for size in pixels.shape[:2])  # videos want even sizes
        return np.array(pixels[:height, :width])

    def freeze(self) -> None:
        """Keep all that is drawn so far in every picture, and the panels where they are."""
        self.canvas.draw()
        self.figure.set_layout_engine("none")
        self._still = set(self._artists())

    def clear(self) -> None:
        """Remove what was drawn since `freeze`."""
        for artist in self._artists():
            if artist not in self._still:
                artist.remove()

    def _artists(self) -> Iterable[Artist]:
        return [artist for axis in self.axes for artist in (*axis.lines, *axis.patches, *axis.collections, *axis.images)]


def mark_window(axis: Any, closeup: Any, middle: Floats, half: float) -> None:
    """Show in `closeup` the square of half a side around `middle` (2,), and its outline in `axis`."""
    from matplotlib.patches import Rectangle

    x, y = (float(value) for value in middle)
    closeup.set(xlim=(x - half, x + half), ylim=(y - half, y + half))
    axis.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, fill=False, ec="black", lw=1.0, zorder=6))


def heading(episode: Episode, step: int, rate: float) -> str:
    """Which step of how many, and how it ends."""
    when = f"step {step} of {episode.steps}, {step / rate:.1f} s"
    return when if step < episode.steps else f"{when}: {ENDINGS.get(episode.outcome, episode.outcome)}"


def check_states(episode: Episode, states: int, actions: int, task: str) -> None:
    """Refuse an episode whose arrays do not fit the task it says it is of."""
    if not episode.steps or episode.states.shape[1:] != (states,) or episode.actions.shape[1:] != (actions,):
        raise CaptureError(
            f"the episode says it is of the {task}, but its states are {episode.states.shape} and its actions "
            f"{episode.actions.shape}; expected (T + 1, {states}) and (T, {actions})."
        )
    if not all(np.isfinite(part).all() for part in (episode.states, episode.actions, episode.plans, episode.particles)):
        raise CaptureError("the episode holds NaN or infinite states, actions or particles; record it again.")


def rgb(colour: str) -> tuple[float, float, float]:
    """A colour such as "#0072B2" as three numbers from 0 to 1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
