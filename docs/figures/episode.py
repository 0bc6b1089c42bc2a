"""A video of one planned episode on the marble labyrinth, made by the commands that a reader would use."""

from __future__ import annotations

import tempfile
from pathlib import Path

from capture_cp.cli import main
from figures.style import IMAGES


def episode_animation() -> None:
    """Regions of executed steps calibrated on practice runs, at half speed."""
    with tempfile.TemporaryDirectory() as folder:
        main(f"plan marble --maps center --methods capture-on-policy --episodes 1 --record {folder}".split())
        (episode,) = Path(folder).glob("*.npz")
        film = "--save", str(IMAGES / "episode.webp"), "--film-speed", "0.5"
        main(["view", "--task", "marble", "--replay", str(episode), *film])
