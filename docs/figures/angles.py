"""The picture of the page on joint angles: a region across the cut at ±π, by two metrics."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from capture_cp import Euclidean, Metric, Torus
from figures.style import EDGE, FREE, INK, save


def angles_picture() -> None:
    """Configurations within 0.6 rad of a prediction close to ±π, with and without wrap-around."""
    axis = np.linspace(-np.pi, np.pi, 401)
    points = np.stack(np.meshgrid(axis, axis), axis=-1)
    figure, axes = plt.subplots(1, 2, figsize=(6.6, 3.1), sharey=True)
    _panel(axes[0], Euclidean(), points, "Euclidean(): cut off at ±π")
    _panel(axes[1], Torus(), points, "Torus(): wraps around")
    axes[0].set_ylabel("joint 2")
    figure.tight_layout()
    save("angles", figure)


def _panel(ax: plt.Axes, metric: Metric, points: np.ndarray, title: str) -> None:
    mean, outcome = np.array([2.9, 0.6]), np.array([-3.0, 0.4])
    inside = metric.distance(points, mean) <= 0.6
    ax.contourf(points[..., 0], points[..., 1], inside, levels=[0.5, 1.5], colors=[FREE], alpha=0.75)
    ax.plot(*mean, "o", color=INK, ms=4, label="prediction")
    ax.plot(*outcome, "o", color=INK, mfc="white", ms=5, label="outcome")
    ticks = [-np.pi, 0, np.pi]
    ax.set(
        title=title, xlabel="joint 1", xticks=ticks, yticks=ticks, xlim=(-np.pi, np.pi), ylim=(-np.pi, np.pi), aspect="equal"
    )
    ax.set_xticklabels(["-π", "0", "π"])
    ax.set_yticklabels(["-π", "0", "π"])
    ax.axvline(-np.pi, color=EDGE, lw=3)
    ax.axvline(np.pi, color=EDGE, lw=3)
    ax.legend(loc="lower center", fontsize=8)
