"""The pictures of the page on the closed loop."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from capture_cp import AdaptiveAlpha, AdaptiveScale, Capture
from capture_lab.tasks.box import Box
from figures.style import CORNER, EDGE, FREE, INK, save

CHANGE, WINDOW = 2000, 200


def closed_loop_picture() -> None:
    """Coverage over the last 200 steps of a stratum, and alpha or the factors, as the gain of the box grows by half."""
    box = Box()
    log = box.transitions(10_000, np.random.default_rng(0))
    cap, rng = Capture(box.model, box.strata).fit(log.X, log.Y), np.random.default_rng(1)
    parts = [task.transitions(CHANGE, rng) for task in (box, replace(box, true_gain=1.5 * box.true_gain))]
    X, Y = np.concatenate([part.X for part in parts]), np.concatenate([part.Y for part in parts])
    m, particles = box.strata.index(Y), cap.predict(X)
    adaptive = {"alpha": AdaptiveAlpha(cap, alpha=0.1, gamma=0.05)}
    adaptive["factor"] = AdaptiveScale(cap, alpha=0.1, eta=0.2, floor=0.01)
    figure, panels = plt.subplots(2, 3, figsize=(7.2, 3.6), sharex=True, layout="constrained")
    _coverage(panels[0, 0], "fixed", cap.contains(X, Y, alpha=0.1, prediction=particles), m)
    panels[1, 0].set_visible(False)
    for (upper, lower), (name, one) in zip(panels[:, 1:].T, adaptive.items()):
        held, dials = [], []
        for x, y, seen in zip(X, Y, particles):
            held.append(one.observe(x, y, seen))
            dials.append(one.factors if name == "factor" else one.dials.copy())
        _coverage(upper, type(one).__name__, np.array(held), m)
        for number, colour in enumerate((FREE, EDGE, CORNER)):
            lower.plot(np.array(dials)[:, number], color=colour, lw=1)
        lower.set(ylabel=name, xlabel="step")
    panels[0, 0].tick_params(labelbottom=True)
    panels[0, 0].set(ylabel=f"inside, last {WINDOW}, %", xlabel="step")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="lower left", fontsize=8, bbox_to_anchor=(0.05, 0.1))
    save("closed-loop", figure)


def _coverage(panel: plt.Axes, title: str, held: np.ndarray, m: np.ndarray) -> None:
    for number, (name, colour) in enumerate(zip(("free", "edge", "corner"), (FREE, EDGE, CORNER))):
        at = np.flatnonzero(m == number)
        share = np.convolve(held[at].astype(float), np.full(WINDOW, 1 / WINDOW), mode="valid")
        panel.plot(at[WINDOW - 1 :], 100 * share, color=colour, lw=1, label=name)
    panel.axhline(90, color=INK, lw=0.8, ls="--")
    panel.axvline(CHANGE, color=INK, lw=0.8, ls=":")
    panel.set(title=title, ylim=(0, 102))
