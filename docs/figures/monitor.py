"""The picture of the page on checks: the capital of a monitor before and after the floor becomes slippery."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from capture_cp import Capture, Monitor, Tree
from capture_lab.tasks.box import Box
from figures.style import CORNER, FREE, INK, save

CHANGE, STEPS, LEVEL = 300, 420, 0.01


def monitor_picture() -> None:
    """Twenty monitors of an unchanged system, twenty of one that changes after 300 pushes."""
    rng = np.random.default_rng(0)
    box, slippery = Box(), Box(true_gain=1.8)
    log = box.transitions(1500, rng)
    cap = Capture(box.model, box.strata, groups=Tree(min_leaf=100)).fit(log.X, log.Y)
    figure, ax = plt.subplots(figsize=(6.6, 3.0))
    for colour, later in ((FREE, box), (CORNER, slippery)):
        for number in range(20):
            before, after = box.transitions(CHANGE, rng), later.transitions(STEPS - CHANGE, rng)
            monitor, capital = Monitor(cap), [1.0]
            for x, y in zip(np.vstack([before.X, after.X]), np.vstack([before.Y, after.Y])):
                monitor.update(x[None], y[None])
                capital.append(monitor.capital)
            label = ("no change" if later is box else "slippery from push 300") if number == 0 else None
            ax.plot(capital, color=colour, lw=0.8, alpha=0.7, label=label)
    ax.axhline(1 / LEVEL, color=INK, ls="--", lw=1)
    ax.text(5, 1.3 / LEVEL, "alarm at level 0.01: capital 100", fontsize=8)
    ax.axvline(CHANGE, color=INK, lw=0.8, ls=":")
    ax.set(yscale="log", ylim=(1e-3, 1e6), xlim=(0, STEPS), xlabel="push", ylabel="capital of the martingale")
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.78), fontsize=8)
    save("monitor", figure)
