"""Figures of the peg: workspace and slices of the configuration space, contacts, starts, and regions of all methods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.data.transitions import Transitions
from capture_cp.spaces.plotting import INFEASIBLE_COLOUR, pyplot
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.studies.peg_planning_figures import draw_peg, draw_receptacle, planning_figures
from capture_cp.tasks.peg.cspace import REGIMES
from capture_cp.tasks.peg.geometry import shape_of, vertex
from capture_cp.tasks.peg.task import Peg

__all__ = ["coverage_figures", "planning_figures"]

#: Okabe and Ito's colours, told apart by colour-blind readers.
REGIME_COLOURS = dict(zip(REGIMES, ("#0072B2", "#E69F00", "#D55E00", "#CC79A7")))
ANGLES = (-30, -15, 0, 15, 30)  # degrees
OUTCOMES, STARTS = 100, 50
NEAR_SLICE = 1.0  # degrees
_MM = 1e3
_FEASIBLE_SHADE, _REGION_SHADE = 0.15, 0.85
_VIEW = 6.0  # mm around what is shown of a region


def coverage_figures(
    study: Any, tasks: Mapping[str, Peg], caps: Mapping[str, Mapping[str, Capture]], folder: Path
) -> list[Path]:
    """Four PNG files: spaces, contacts, starts, and regions of the calibrated methods on test transitions."""
    ((name, task),) = tasks.items()
    test = task.test(study.seed, study.test)
    assert test.Y is not None
    log = task.as_transitions(test.X, test.Y)
    files = {kind: folder / f"peg-{kind}.png" for kind in ("spaces", "contacts", "starts")}
    files["regions"] = folder / f"peg-{task.system}-regions.png"
    draw_spaces(task, files["spaces"])
    draw_contacts(task, log.Y, files["contacts"])
    draw_starts(task, files["starts"])
    draw_regions(task, caps[name], log, study.alpha, files["regions"])
    return list(files.values())


def figure_data(tasks: Mapping[str, Peg], figure: str) -> Any:
    """Starts, contacts or regimes, for a figure of them."""
    (task,) = tasks.values()
    if figure.endswith("-starts"):
        return {"poses": task.starts(STARTS).tolist(), "units": "m, m, rad"}
    if figure.endswith("-contacts"):
        return [{"stratum": name, "regime": regime} for name, regime in zip(task.strata.names, task.strata.regimes)]
    return {"regimes": list(REGIMES)} if figure.endswith("-spaces") else None


def draw_spaces(task: Peg, file: Path) -> None:
    """The peg as low as it goes over the hole at several angles, and the slice of the configuration space for each."""
    plt = pyplot()
    figure, panels = plt.subplots(2, len(ANGLES), figsize=(2.5 * len(ANGLES), 5.6), layout="constrained", sharey="row")
    for (above, below), angle in zip(panels.T, ANGLES):
        draw_receptacle(task, above)
        draw_peg(task, above, _lowest(task, angle), facecolor="#E69F00", edgecolor="black")
        above.set(title=f"θ = {angle}°", xlim=(-30, 30), ylim=(-26, 54), xticks=[])
        _show_slice(task, below, _layer(task, np.radians(angle)), opacity=0.8)
        below.plot(*(_lowest(task, angle)[:2] * _MM), ".", color="black")
        below.set(xlabel="x of the middle (mm)")
    panels[1][ANGLES.index(0)].plot(
        *(task.strata.goal[:2] * _MM), "*", color="white", markeredgecolor="black", markersize=13
    )
    panels[0][0].set_ylabel("workspace, z (mm)")
    panels[1][0].set_ylabel("slice, z of the middle (mm)")
    _regime_legend(figure, [("*", "white", "goal"), (".", "black", "pose drawn above"), ("s", "#cccccc", "infeasible")])
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_contacts(task: Peg, landings: Floats, file: Path) -> None:
    """One landing (of n, 3) of every stratum among them, with its fingerprint and the regime it is reported in."""
    plt = pyplot()
    labels = task.strata.index(landings)
    found = [m for m in range(len(task.strata.names)) if (labels == m).any()]
    columns = min(len(found), 6)
    rows = -(-len(found) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=(2.1 * columns, 3.0 * rows), squeeze=False, layout="constrained", sharex=True, sharey=True
    )
    for axis in panels.ravel():
        axis.set_axis_off()
    for axis, m in zip(panels.ravel(), found):
        here = landings[labels == m]
        pose = here[np.argmin(np.hypot(here[:, 0], here[:, 2] / 4))]  # near the hole, where there is most to see
        regime = task.strata.regimes[m]
        draw_receptacle(task, axis)
        draw_peg(task, axis, pose, facecolor="#f3ead9", edgecolor="black", linewidth=0.8)
        _mark_contacts(task, axis, pose, np.asarray(task.strata.features)[m] > 0, REGIME_COLOURS[regime])
        axis.set(xlim=(-27, 27), ylim=(-25, 58))
        axis.set_title(f"{regime}\n{task.strata.names[m]}", fontsize=9)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_starts(task: Peg, file: Path, n: int = STARTS) -> None:
    """The starts of the planning study: the first feasible poses of a Halton sequence."""
    plt = pyplot()
    poses = task.strata.halton_starts(n)
    figure, axis = plt.subplots(figsize=(6.0, 5.2), layout="constrained")
    draw_receptacle(task, axis)
    for pose, m in zip(poses, task.strata.index(poses)):
        colour = REGIME_COLOURS[task.strata.regimes[m]]
        draw_peg(task, axis, pose, facecolor=(*_rgb(colour), 0.08), edgecolor=colour, linewidth=0.9)
        axis.plot(*(pose[:2] * _MM), ".", color=colour, markersize=4)
    axis.set(xlim=(-46, 46), ylim=(-25, 76), xlabel="x (mm)", ylabel="z (mm)", title=f"{n} feasible Halton starts")
    figure.savefig(file, dpi=130)
    plt.close(figure)


def draw_regions(task: Peg, caps: Mapping[str, Capture], test: Transitions, alpha: float, file: Path) -> None:
    """Regions of every method for one landing of each regime, in the slice of the landing's own angle."""
    plt = pyplot()
    rows = _situations(task, test)
    figure, panels = plt.subplots(
        len(rows), len(caps), figsize=(2.3 * len(caps), 2.5 * len(rows)), squeeze=False, layout="constrained"
    )
    for axis, name in zip(panels[0], caps):
        axis.set_title(name, fontsize=10)
    for line, (regime, i) in zip(panels, rows.items()):
        after, _ = task.landings(np.tile(test.X[i], (OUTCOMES, 1)), np.random.default_rng(1), task.true_system(1))
        layer = _layer(task, test.Y[i, 2])
        for axis, cap in zip(line, caps.values()):
            region = cap.region(test.X[i], alpha, rng=0)
            _show_region(task, axis, region, layer)
            _show_outcomes(task, axis, after, layer)
            low, high = after[:, :2].min(axis=0) * _MM - _VIEW, after[:, :2].max(axis=0) * _MM + _VIEW
            half = (high - low).max() / 2
            (x, z) = (low + high) / 2
            axis.set(xlim=(x - half, x + half), ylim=(z - half, z + half), xticks=[], yticks=[])
            axis.set_xlabel(f"{len(region.cells()):,} cells", fontsize=8)
        line[0].set_ylabel(f"lands: {regime}, θ = {np.degrees(test.Y[i, 2]):.1f}°", fontsize=8)
    figure.suptitle(f"Regions at {1 - alpha:.0%}: their cells in the slice of one landing's angle")
    _regime_legend(
        figure,
        [
            ("s", INFEASIBLE_COLOUR, "infeasible, in the region"),
            ("s", "#cccccc", "infeasible"),
            ("o", "black", "particles"),
            ("x", "black", f"true outcomes within {NEAR_SLICE:g}° of the slice"),
            (".", "white", "at other angles"),
        ],
    )
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _situations(task: Peg, test: Transitions) -> dict[str, int]:
    """One test transition for each regime: the landing nearest to the hole's mouth after a large move."""
    labels = task.strata.index(test.Y)
    regimes = np.array(task.strata.regimes)[labels]
    mouth = np.array([0.0, shape_of(task.settings).half_length])
    away = np.hypot(*(test.Y[:, :2] - mouth).T)
    away[np.linalg.norm(test.action, axis=1) < task.settings.bound] = np.inf
    return {name: int(np.argmin(np.where(regimes == name, away, np.inf))) for name in REGIMES if (regimes == name).any()}


def _layer(task: Peg, angle: float) -> int:
    """Number of the grid's layer nearest to an angle (rad)."""
    grid = task.strata.require_grid()
    return int(np.clip(np.rint((angle - grid.origin[2]) / grid.spacing[2]), 0, grid.shape[2] - 1))


def _lowest(task: Peg, degrees: float) -> Floats:
    """The lowest feasible pose (3,) over the middle of the hole, free all the way up, at an angle."""
    heights = np.arange(0.05, -0.01, -1e-4)
    poses = np.stack([np.zeros_like(heights), heights, np.full_like(heights, np.radians(degrees))], axis=1)
    blocked = np.flatnonzero(task.strata.index(poses) == INFEASIBLE)
    return np.asarray(poses[(blocked[0] if len(blocked) else len(poses)) - 1])


def _mark_contacts(task: Peg, axis: Any, pose: Floats, touching: Any, colour: str) -> None:
    """Thick edges and dots for what touches: `touching` (8,) is v1 to v4, e1 to e4."""
    x, z, theta = pose
    g = shape_of(task.settings)
    corners = np.array([vertex(i, x, z, np.cos(theta), np.sin(theta), g) for i in range(4)]) * _MM
    for i in range(4):
        if touching[4 + i]:
            axis.plot(*corners[[i, (i + 1) % 4]].T, color=colour, lw=2.5, solid_capstyle="butt")
        if touching[i]:
            axis.plot(*corners[i], "o", color=colour, markeredgecolor="black", markersize=6, zorder=4)


def _show_slice(task: Peg, axis: Any, layer: int, opacity: float) -> None:
    """One layer of the grid by regime, infeasible cells in grey."""
    grid = task.strata.require_grid()
    labels = task.strata.labels.reshape(grid.shape)[:, :, layer]
    _show(task, axis, _picture(task, labels, np.full((*labels.shape, 4), [0.8, 0.8, 0.8, 1.0]), opacity))


def _show_region(task: Peg, axis: Any, region: Region, layer: int) -> None:
    """What a region has in one layer of the grid, over that layer in pale; particles of all angles."""
    grid = task.strata.require_grid()
    _show_slice(task, axis, layer, _FEASIBLE_SHADE)
    x, z, theta = np.unravel_index(region.cells(), grid.shape)
    here = theta == layer
    labels = np.full(grid.shape[:2], INFEASIBLE - 1)  # outside the region
    labels[x[here], z[here]] = task.strata.labels[region.cells()[here]]
    picture = np.zeros((*labels.shape, 4))
    picture[labels == INFEASIBLE] = (*_rgb(INFEASIBLE_COLOUR), _REGION_SHADE)
    _show(task, axis, _picture(task, labels, picture, _REGION_SHADE))
    particles = region.prediction[0] if isinstance(region.prediction, np.ndarray) else region.prediction.mean
    axis.scatter(*(particles[:, :2].T * _MM), s=9, color="black", zorder=3)


def _show_outcomes(task: Peg, axis: Any, after: Floats, layer: int) -> None:
    """True outcomes (n, 3): crosses near the slice, faint dots at other angles, whose walls are elsewhere."""
    grid = task.strata.require_grid()
    near = np.abs(after[:, 2] - grid.origin[2] - layer * grid.spacing[2]) <= np.radians(NEAR_SLICE)
    x, z = after[:, :2].T * _MM
    axis.plot(x[~near], z[~near], ".", color="white", markeredgecolor="black", markeredgewidth=0.3, markersize=4, alpha=0.7)
    axis.plot(x[near], z[near], "x", color="black", markersize=4)


def _picture(task: Peg, labels: npt.NDArray[np.integer[Any]], picture: Floats, opacity: float) -> Floats:
    for m, regime in enumerate(task.strata.regimes):
        picture[labels == m] = (*_rgb(REGIME_COLOURS[regime]), opacity)
    return picture


def _show(task: Peg, axis: Any, picture: Floats) -> None:
    grid = task.strata.require_grid()
    low = (grid.origin - grid.spacing / 2) * _MM
    high = low + grid.spacing * np.array(grid.shape) * _MM
    axis.imshow(picture.swapaxes(0, 1), origin="lower", extent=(low[0], high[0], low[1], high[1]), interpolation="nearest")


def _regime_legend(figure: Any, others: list[tuple[str, str, str]]) -> None:
    marks = [("s", colour, regime) for regime, colour in REGIME_COLOURS.items()] + others
    axis = figure.axes[0]
    style = {"edgecolors": "black", "linewidths": 0.3}
    handles = [
        axis.scatter([], [], marker=mark, color=colour, **({} if mark == "x" else style)) for mark, colour, _ in marks
    ]
    figure.legend(handles, [name for _, _, name in marks], fontsize=8, loc="outside lower center", ncols=len(marks))


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
