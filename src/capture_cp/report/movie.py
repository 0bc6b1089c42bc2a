"""Videos: a figure whose moving parts are redrawn for every picture, and pictures written to a file.

.mp4 is written through imageio-ffmpeg, .webp and .gif through Pillow, which comes with matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.files import written_whole
from capture_cp.spaces.plotting import label

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

Picture = npt.NDArray[np.uint8]

ENDINGS = (".mp4", ".webp", ".gif")
#: How long the last picture stays (s).
HOLD = 1.0
DPI = 100


class MovingFigure:
    """A figure with a still background: `clear` removes everything drawn after `freeze`."""

    def __init__(self, inches: tuple[float, float], ratios: list[float]) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure: Figure = Figure(figsize=inches, dpi=DPI, layout="constrained")
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.axes: list[Any] = list(self.figure.subplots(1, len(ratios), width_ratios=ratios, squeeze=False)[0])
        self._heading = self.figure.suptitle(" ", fontsize=12)
        self._still: set[Artist] = set()

    def picture(self, heading: str) -> Picture:
        """The current figure under a heading, (h, w, 3)."""
        self._heading.set_text(label(heading))
        self.canvas.draw()
        pixels = np.asarray(self.canvas.buffer_rgba())[:, :, :3]
        height, width = (size - size % 2 for size in pixels.shape[:2])  # videos need even sizes
        return np.array(pixels[:height, :width])

    def keep_apart(self, share: float) -> None:
        """Set the gap between panels as a fraction of their width; call it before `freeze`."""
        layout: Any = self.figure.get_layout_engine()
        layout.set(wspace=share)

    def freeze(self) -> None:
        """Keep everything drawn so far in every picture, and fix the positions of panels."""
        self.canvas.draw()
        self.figure.set_layout_engine("none")
        self._still = set(self._artists())

    def clear(self) -> None:
        """Remove everything drawn since `freeze`."""
        for artist in self._artists():
            if artist not in self._still:
                artist.remove()

    def _artists(self) -> Iterable[Artist]:
        kinds = "lines", "patches", "collections", "images", "texts"  # arrows are texts
        return [artist for axis in self.axes for kind in kinds for artist in getattr(axis, kind)]


def show_window(closeup: Any, middle: Floats, half: float) -> tuple[float, float]:
    """Show in `closeup` the square of half a side around `middle` (2,), which is returned."""
    x, y = (float(value) for value in middle)
    closeup.set(xlim=(x - half, x + half), ylim=(y - half, y + half))
    return x, y


def mark_window(axis: Any, closeup: Any, middle: Floats, half: float) -> None:
    """Show in `closeup` the square of half a side around `middle` (2,), and its outline in `axis`."""
    from matplotlib.patches import Rectangle

    x, y = show_window(closeup, middle, half)
    axis.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, fill=False, ec="black", lw=1.0, zorder=6))


# -- files ---------------------------------------------------------------------------------------------------------------


def check_ending(file: Path) -> None:
    """Reject a video file of an unknown kind, or one whose writer is not installed, before any picture is drawn."""
    if file.suffix.lower() not in ENDINGS:
        raise CaptureError(f"cannot write {file}: a video ends in {', '.join(ENDINGS)}.")
    if file.suffix.lower() == ".mp4":
        _ffmpeg()


def write_movie(file: Path, pictures: Iterable[Picture], fps: float) -> None:
    """Write pictures (h, w, 3) at a frame rate, all of one size with h and w even. The file is complete or absent."""
    with written_whole(file) as temporary:
        if file.suffix.lower() == ".mp4":
            _write_mp4(temporary, iter(pictures), fps)
        else:
            _write_animation(temporary, list(pictures), fps)


def _write_mp4(file: Path, pictures: Iterator[Picture], fps: float) -> None:
    first = next(pictures)
    height, width, _ = first.shape
    # yuv420p plays everywhere and needs even sizes; the default block of 16 would rescale
    options = {"fps": fps, "codec": "libx264", "pix_fmt_out": "yuv420p", "macro_block_size": 2, "quality": 8}
    writer = _ffmpeg().write_frames(str(file), (width, height), ffmpeg_log_level="error", **options)
    writer.send(None)
    try:
        last = first
        for picture in chain([first], pictures):
            writer.send(np.ascontiguousarray(picture))
            last = picture
        for picture in repeat(last, max(round(HOLD * fps) - 1, 0)):
            writer.send(np.ascontiguousarray(picture))
    finally:
        writer.close()


def _write_animation(file: Path, pictures: list[Picture], fps: float) -> None:
    from PIL import Image, features

    if file.suffix.lower() == ".webp" and not features.check("webp"):
        raise CaptureError(f"cannot write {file}: this Pillow was built without WebP; choose .gif or .mp4.")
    images = [Image.fromarray(picture) for picture in pictures]
    milliseconds = [round(1e3 / fps)] * (len(images) - 1) + [round(1e3 * HOLD)]
    style = {"quality": 80, "method": 4} if file.suffix.lower() == ".webp" else {"optimize": True}
    images[0].save(file, save_all=True, append_images=images[1:], duration=milliseconds, loop=0, **style)


def _ffmpeg() -> Any:
    try:
        return import_module("imageio_ffmpeg")
    except ImportError:
        raise CaptureError(
            'mp4 videos need imageio-ffmpeg; install it with: pip install "capture-cp[view]", or choose .webp or .gif.'
        ) from None
