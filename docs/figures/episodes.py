"""Picture of the effect of correlated steps on a calibration, by step and by episode."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from capture_cp import Capture, CaptureWarning, OneGroup, Transitions, one_stratum
from figures.style import CORNER, FREE, INK, save


def logged_runs(runs: int, rng: np.random.Generator, steps: int = 40) -> Transitions:
    """Runs of a cart, each with a different camera offset: the errors within a run are correlated."""
    run = np.repeat(np.arange(runs), steps)
    off = rng.normal(0.0, 0.05, runs)[run]
    x, push = rng.random(len(run)), rng.uniform(-0.2, 0.2, len(run))
    after = x + push + off + rng.normal(0.0, 0.001, len(run))
    return Transitions.from_arrays(x[:, None], push[:, None], after[:, None], episode=run)


def model(X: np.ndarray, n_particles: int, rng: np.random.Generator) -> np.ndarray:
    """It moves as far as it is pushed."""
    return (X[:, :1] + X[:, 1:])[:, None] + rng.normal(0.0, 0.001, (len(X), n_particles, 1))


def episodes_picture() -> None:
    """Coverage of three hundred calibrations on a dozen runs each."""
    import warnings

    warnings.simplefilter("ignore", CaptureWarning)
    rng = np.random.default_rng(0)
    new = logged_runs(2000, rng, 5)
    cap = Capture(model, one_stratum(), groups=OneGroup(), n_particles=8)
    found: dict[str, list[float]] = {
        "split by step:\nheld-out steps": [],
        "split by step:\nnew runs": [],
        "split by episode:\nnew runs": [],
    }
    claim, wrong, right = found.values()
    for seed in range(300):
        log = logged_runs(12, rng)
        steps = Transitions.from_arrays(log.state, log.action, log.next)
        fit, check = steps.split((0.75, 0.25), seed)
        cap.set_params(seed=seed).fit(fit.X, fit.Y)
        claim.append(cap.contains(check.X, check.Y, 0.1).mean())
        wrong.append(cap.contains(new.X, new.Y, 0.1).mean())
        cap.fit(log.X, log.Y, episodes=log.episode)
        right.append(cap.contains(new.X, new.Y, 0.1).mean())
    figure, ax = plt.subplots(figsize=(7.2, 2.9))
    for row, values in enumerate(found.values()):
        height = 2 - row + rng.uniform(-0.26, 0.26, len(values))
        colour = CORNER if row < 2 else FREE
        ax.scatter(values, height, s=7, color=colour, alpha=0.45, lw=0)
        ax.plot([np.mean(values)] * 2, [1.66 - row, 2.34 - row], color=INK, lw=2)
        note = {"ha": "center", "va": "bottom", "fontsize": 8, "bbox": {"color": "white", "pad": 0.6}}
        ax.text(np.mean(values), 2.37 - row, f"mean {np.mean(values):.1%}", **note)
    ax.axvline(0.9, color=INK, lw=0.8, ls="--")
    ax.set(xlabel="coverage", xlim=(0.5, 1.01), yticks=[2, 1, 0], yticklabels=list(found), ylim=(-0.45, 2.8))
    ax.tick_params(axis="y", length=0)
    figure.tight_layout()
    save("episodes", figure)
