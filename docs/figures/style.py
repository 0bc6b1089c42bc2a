"""The style of the documentation's pictures, and where they are saved."""

from __future__ import annotations

import io
import os
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from capture_cp.report.style import STRATA_COLOURS

DOCS = Path(__file__).parents[1]
IMAGES = DOCS / "images"
FREE, EDGE, CORNER, GREEN = STRATA_COLOURS[:4]
INK = "#222222"
DARK_EDGE = "#9a6a00"  # the colour of edges, dark enough to read as text
MARKERS = ("o", "s", "^")
X_QUERY = np.array([0.72, 0.78, 0.22, 0.15])  # towards the upper right corner

plt.rcParams |= {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.dpi": 200,
}


def save(name: str, figure: plt.Figure) -> None:
    """Write a small palette PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=200, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    image = Image.open(buffer).convert("RGB").quantize(colors=128, dither=Image.Dither.NONE)
    IMAGES.mkdir(exist_ok=True)
    image.save(IMAGES / f"{name}.png", optimize=True)
    print(f"{name}.png  {(IMAGES / f'{name}.png').stat().st_size / 1000:.0f} kB")


def bare(ax: plt.Axes) -> None:
    """Remove ticks: positions in the box need no numbers."""
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_visible(False)


def arrow(ax: plt.Axes, x: np.ndarray) -> None:
    """The current position and the commanded push."""
    ax.annotate("", xy=x[:2] + x[2:], xytext=x[:2], arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.2}, zorder=4)
    ax.plot(*x[:2], marker="D", color="white", mec=INK, ms=5, zorder=5, ls="none")


def close_up(ax: plt.Axes, low: tuple[float, float], high: tuple[float, float]) -> None:
    """Show one window of the box."""
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
