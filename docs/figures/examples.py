"""Pictures of the worked examples, from the scripts in examples/ and fresh outcomes of the true systems."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
import tempfile
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from make_examples import driven, pushed
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon

from capture_cp.report.regions import plot_strata
from capture_cp.report.style import STRATA_COLOURS
from figures.style import DOCS, INK, save

OUTCOMES = 60


def wheels_picture() -> None:
    """Slow and fast: the region, and the true outcomes."""
    cap, rng = _example("10_two_wheels")["cap"], np.random.default_rng(0)
    figure, panels = plt.subplots(1, 2, figsize=(7.6, 2.6), sharex=True, sharey=True)
    for ax, x in zip(panels, ([1.5, 1.5, 0.5, 0.1, 0.2], [1.5, 1.5, 0.5, 0.9, 0.4])):
        cap.region(x, alpha=0.1).plot(ax)
        state, command = np.tile(x[:3], (OUTCOMES, 1)), np.tile(x[3:], (OUTCOMES, 1))
        _outcomes(ax, driven(state, command, rng))
        _robot(ax, np.array(x[:3]), [(0.09, 0), (-0.06, 0.06), (-0.06, -0.06)])
        ax.set(xlim=(1.38, 1.98), ylim=(1.36, 1.7), xlabel="x (m)", title=f"wheels at {x[3]} and {x[4]} m/s")
    panels[0].set_ylabel("y (m)")
    _legend(figure, ["region, any heading"], -0.09)
    save("example-wheels", figure)


def block_picture() -> None:
    """Pushed into a corner: the region by contact, seen from above."""
    example, rng = _example("11_block_among_walls"), np.random.default_rng(0)
    cap, strata = example["cap"], example["strata"]
    x = [0.05, 0.03, 0.4, 5.0, 6.0]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.1), width_ratios=[1.4, 1])
    after = pushed(np.tile(x[:3], (OUTCOMES, 1)), np.tile(x[3:], (OUTCOMES, 1)), rng)
    corners = [(0.04, 0.03), (-0.04, 0.03), (-0.04, -0.03), (0.04, -0.03)]
    for pose, m in zip(after[:12], strata.index(after[:12])):
        _robot(left, pose, corners, edge=STRATA_COLOURS[m], lw=0.9)
    _robot(left, np.array(x[:3]), corners, face="#dddddd")
    left.add_patch(plt.Rectangle((-0.16, -0.12), 0.32, 0.24, fill=False, ec=INK, lw=1.5))
    left.set(xlim=(-0.17, 0.17), ylim=(-0.13, 0.13), aspect="equal", xlabel="x (m)", ylabel="y (m)", title="twelve outcomes")
    plot_strata(strata, right)
    cap.region(x, alpha=0.1).plot(right)
    _outcomes(right, after)
    right.set(xlim=(0.03, 0.14), ylim=(0.0, 0.1), xlabel="x (m)", title="region of the block's centre, any heading")
    _legend(figure, strata.names, -0.1)
    figure.tight_layout()
    save("example-block", figure)


def panda_picture() -> None:
    """Pressed down next to the hole: the region by contact."""
    example, rng = _example("12_panda_peg"), np.random.default_rng(0)
    cap, strata, peg = example["cap"], example["strata"], example["peg"]
    x = np.array([0.002, 0.0265, 0.02, 0.5, -2.5, -1.0])
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.3))
    after, _ = peg.landings(np.tile(x, (OUTCOMES, 1)), rng)
    for ax, axes, labels in zip(panels, ((0, 1), (0, 2)), (("x (m)", "z (m)"), ("x (m)", "theta (rad)"))):
        cap.region(x, alpha=0.1).plot(ax, axes=axes)
        _outcomes(ax, after[:, axes])
        ax.set(xlabel=labels[0], ylabel=labels[1], aspect="auto", xlim=(-0.008, 0.012))
    panels[0].set_ylim(0.020, 0.032)
    panels[1].set_ylim(-0.2, 0.2)
    _legend(figure, strata.names, -0.06)
    figure.tight_layout()
    save("example-peg", figure)


def _example(name: str) -> dict[str, Any]:
    """The variables of a script in examples/ after it has run; its files and output are discarded."""
    script = DOCS.parent / "examples" / f"{name}.py"
    sys.argv = [str(script)]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        found = runpy.run_path(str(script), run_name="__main__")
    plt.close("all")
    return found


def _outcomes(ax: plt.Axes, after: np.ndarray) -> None:
    ax.scatter(*after[:, :2].T, s=14, facecolor="white", edgecolor=INK, lw=0.7, zorder=3.5)


def _robot(
    ax: plt.Axes, pose: np.ndarray, corners: list[tuple[float, float]], edge: str = INK, face: str = "none", lw: float = 1.2
) -> None:
    c, s = np.cos(pose[2]), np.sin(pose[2])
    ax.add_patch(Polygon(pose[:2] + np.array(corners) @ [[c, s], [-s, c]], closed=True, ec=edge, fc=face, lw=lw, zorder=4))


def _legend(figure: plt.Figure, names: Any, below: float) -> None:
    handles = [
        *(Patch(color=colour, alpha=0.75, label=name) for colour, name in zip(STRATA_COLOURS, names)),
        Line2D([], [], marker="o", color="black", ms=3, ls="none", label="particles of the model"),
        Line2D([], [], marker="o", color=INK, mfc="white", ms=4, ls="none", label="true outcomes"),
    ]
    figure.legend(handles=handles, loc="lower center", ncol=4, bbox_to_anchor=(0.5, below - 0.05), columnspacing=1.4)
