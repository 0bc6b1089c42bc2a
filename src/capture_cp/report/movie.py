"""Pictures written to a video file.

.mp4 is written through imageio-ffmpeg, .webp and .gif through Pillow, which comes with matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import check_writable, written_whole
from capture_cp.base.progress import progress_bar
from capture_cp.report.canvas import Picture
from capture_cp.report.style import pyplot

ENDINGS = (".mp4", ".webp", ".gif")
#: How long the last picture stays (s).
HOLD = 1.0


def check_film(file: Path, speed: float) -> None:
    """Reject a video that could not be written, before any picture is drawn."""
    if not 0.01 <= speed <= 10:
        raise CaptureError(f"speed is {speed}; expected a number from 0.01 to 10, 1 for real time.")
    pyplot()  # missing matplotlib is reported now
    if file.suffix.lower() not in ENDINGS:
        raise CaptureError(f"cannot write {file}: a video ends in {', '.join(ENDINGS)}.")
    if file.suffix.lower() == ".mp4":
        _ffmpeg()
    check_writable(file)


def write_film(file: Path, drawn: Callable[[int], Picture], steps: int, fps: float) -> None:
    """Draw and write a picture of every step, counted from 0."""
    with progress_bar() as progress:
        write_movie(file, (drawn(step) for step in progress.track(range(steps), description="drawing")), fps)


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
