"""Regions of five methods on the marble and on the peg, drawn by the coverage study."""

from __future__ import annotations

import tempfile
from pathlib import Path

from PIL import Image

from capture_cp.cli import main
from figures.style import IMAGES


def marble_regions_picture() -> None:
    """The map Center, and the regions on it."""
    _draw("coverage marble --maps center --mc 1", {"center-spaces": "marble-spaces", "center-regions": "marble-regions"})


def peg_regions_picture() -> None:
    """The peg in the hand of the arm; minutes."""
    _draw(
        "coverage peg --system arm",
        {"peg-arm-regions": "peg-regions", "peg-spaces": "peg-spaces", "peg-contacts": "peg-contacts"},
    )


def _draw(command: str, pictures: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        main([*command.split(), "--figures", folder])
        for file, name in pictures.items():
            image = Image.open(Path(folder) / f"{file}.png").convert("RGB")
            image.quantize(colors=255, method=Image.Quantize.FASTOCTREE).save(IMAGES / f"{name}.png", optimize=True)
            print(f"{name}.png  {(IMAGES / f'{name}.png').stat().st_size / 1000:.0f} kB")
