"""Figures of studies, for any task: its configuration space by stratum, regions in a few situations, paths of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import part_volumes, particles_of
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.draw import figure_of, save
from capture_cp.report.panel import Line, Panel
from capture_cp.report.space import Space, Window
from capture_cp.report.style import INFEASIBLE_COLOUR, STEP_MARKS, WALL_COLOUR, Mark, colour_of, label
from capture_cp.spaces.strata import grid_of, has_grid
from capture_lab.tasks.task import Task

#: Random inputs among which the situations of a figure are found, outcomes drawn in each, and slices of a space.
INPUTS, OUTCOMES, SLICES = 20_000, 200, 5
#: Opacity of strata that are the subject of a figure.
STRATA = 0.8
#: A window on a region grows up to this many times to include the start of the step; margin of windows.
MOST_GROWTH, MARGIN = 1.5, 0.08
SUCCESS, FAILED, LATE = ("#0072B2", "-"), ("#D55E00", "--"), ("#555555", ":")


class Figures:
    """Draws one task in one place: the half of `Drawing` that studies use."""

    #: The two axes of the configuration that pictures show.
    shown: tuple[int, int] = (0, 1)
    #: Title of the figure of all paths, and what a path that failed did.
    paths_title, failed = "Paths of all episodes", "failed"
    #: The mark of outcomes farther than a distance from the slice, where it is used; sizes of outcomes and particles.
    elsewhere: tuple[Mark, float] | None = None
    small: tuple[float, float] = (0.75, 1.0)

    def __init__(self, task: Task) -> None:
        self.task: Any = task
        self._axes = list(task.axes)

    # -- the configuration space --------------------------------------------------------------------------------------

    @cached_property
    def space(self) -> Space:
        names = [str(self.task.states[axis]) for axis in self._axes]
        return Space(self.task.strata, self.window, names, checked_shown(self.shown, len(names)))

    @property
    def window(self) -> Window:
        """The whole grid of the strata; without a grid, the range of random inputs."""
        return Window(*self.corners(), self.task.metric.angles(len(self._axes)))

    def corners(self) -> tuple[Floats, Floats]:
        """Outer corners (dc,) of the space."""
        if not has_grid(self.task.strata):
            return self.task.extent.low, self.task.extent.high
        grid = grid_of(self.task.strata).require_grid()
        low = grid.origin - grid.spacing / 2
        return low, low + grid.spacing * np.array(grid.shape)

    @property
    def middle(self) -> Floats:
        if not has_grid(self.task.strata):
            return np.asarray(self.task.extent.middle)
        return (self.window.low + self.window.high) / 2

    # -- figures of studies -------------------------------------------------------------------------------------------

    def coverage_figures(
        self, study: Any, tasks: Mapping[str, Task], caps: Mapping[str, Mapping[str, Capture]], folder: Path
    ) -> list[Path]:
        """Write PNG files of every place and of the regions of calibrated methods there; `caps` are by place and method."""
        files = []
        for name, task in tasks.items():
            spaces, regions = (folder / f"{Path(name).stem}-{kind}.png" for kind in ("spaces", "regions"))
            task.drawing().draw_spaces(spaces)
            task.drawing().draw_regions(caps[name], study.alpha, regions)
            files += [spaces, regions]
        return files

    def planning_figures(
        self, study: Any, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], folder: Path
    ) -> list[Path]:
        """Write a PNG file of the paths of every episode; `results` are summaries of episodes by place and method."""
        file = folder / "trajectories.png"
        self.draw_trajectories(tasks, results, file)
        return [file]

    def figure_data(self, tasks: Mapping[str, Task], figure: str) -> Any:
        """The JSON-ready numbers behind a figure, by its name without ending; None if its settings say it all."""
        return None

    def player_data(self, caps: Mapping[str, Capture], episodes: Mapping[str, Sequence[Episode]]) -> Any:
        """JSON-ready data for the player of a page, which shows episodes by method; None if there is no player."""
        return None

    def slices(self) -> list[Floats]:
        """Configurations of a few slices across the first hidden axis, through the middle of the others."""
        hidden = [axis for axis in range(len(self.middle)) if axis not in self.space.shown][:1]
        found = np.tile(self.middle, (SLICES if hidden else 1, 1))
        for axis in hidden:
            found[:, axis] = np.linspace(self.window.low[axis], self.window.high[axis], SLICES + 2)[1:-1]
        return list(found)

    # -- single figures -----------------------------------------------------------------------------------------------

    def strata_key(self) -> list[Any]:
        """Legend entries of strata."""
        return [(name, colour_of(m)) for m, name in enumerate(self.task.strata.names)]

    def region_key(self) -> list[Any]:
        """Legend entries of regions: their strata, infeasible cells of theirs and of the space, marks of steps."""
        strata = [(f"region: {name}", colour) for name, colour in self.strata_key()]
        return [*strata, ("region: infeasible", INFEASIBLE_COLOUR), ("infeasible", WALL_COLOUR), *STEP_MARKS]

    def draw_spaces(self, file: Path) -> None:
        """The configuration space by stratum, or slices of it."""
        hidden = [axis for axis in range(len(self.middle)) if axis not in self.space.shown]
        more = ", others in the middle" if len(hidden) > 2 else ""
        panels = []
        for rest in self.slices():
            title = self.space.place(rest, hidden if len(hidden) < 3 else hidden[:1]) + more
            panels.append(self.space.panel(rest, pale=STRATA, title=title or "configuration space"))
        size = 4.2 * len(panels), 4.6 if len(panels) == 1 else 5.2
        save(figure_of([panels], size, key=[*self.strata_key(), ("infeasible", WALL_COLOUR)]), file)

    def draw_regions(self, caps: Mapping[str, Capture], alpha: float, file: Path) -> None:
        """Regions of every method, one row of panels per situation."""
        rows = []
        for number, (situation, x) in enumerate(self.situations().items()):
            panels = self.region_panels(x, {name: cap.region(x, alpha, rng=0) for name, cap in caps.items()})
            panels[0] = replace(panels[0], up=situation)
            rows.append(with_titles(panels, caps) if number == 0 else panels)
        title = f"{label(self.task.place)}: regions at {1 - alpha:.0%}"
        save(figure_of(rows, (2.3 * len(caps), 2.5 * len(rows)), title, self.region_key(), 5), file)

    def region_panels(self, x: Floats, regions: Mapping[str, Region]) -> list[Panel]:
        """The regions of one input x (dx,), with true outcomes, in one window."""
        after, rest = self.landed(x)
        start, space = np.asarray(x)[list(self.task.axes)], self.space
        window, marks = with_start(space, self.region_window(after, regions), start), space.marks
        near: Bools = np.ones(len(after), dtype=bool)
        if self.elsewhere is not None:
            mark, distance = self.elsewhere
            far = np.abs(np.delete(after - rest, space.shown, axis=1)).max(axis=1)
            near = np.asarray(far <= distance)
            marks = (*marks, (mark, space.flat(after[~near], window)))
        return [
            space.panel(
                rest,
                window,
                region,
                particles=space.flat(particles_of(region.prediction), window),
                start=space.flat(start, window)[0],
                outcomes=space.flat(after[near], window),
                inside=region.contains(after[near]),
                across=size_of(region),
                up="",
                ticks=False,
                small=self.small,
                marks=marks,
            )
            for region in regions.values()
        ]

    def landed(self, x: Floats) -> tuple[Floats, Floats]:
        """True outcomes (n, dc) of an input x (dx,), and the slice (dc,) that shows them."""
        after = self.task.outcomes(x[None], OUTCOMES, seed=1)[0]
        return after, after.mean(axis=0)

    def region_window(self, after: Floats, regions: Mapping[str, Region]) -> Window:
        """The window on outcomes (n, dc) and the regions around them."""
        whole = self.window
        boxes = [np.clip(region.finite_box(), whole.low, whole.high) for region in regions.values()]
        return self.space.squared(Window.around(np.vstack([after, *boxes]), whole.angles, MARGIN))

    def situation_inputs(self, rng: np.random.Generator) -> Floats:
        """Random inputs (n, dx) among which situations are found."""
        return np.asarray(self.task.inputs(INPUTS, rng))

    def situations(self) -> dict[str, Floats]:
        """Inputs whose regions are drawn, by name: one per regime in which the true system ends."""
        X = self.situation_inputs(np.random.default_rng(7))
        regimes = self.task.stratum_regimes[self.task.strata.index(self.task.outcomes(X, 1, seed=3)[:, 0])]
        firsts = {name: np.flatnonzero(regimes == number)[:1] for number, name in enumerate(self.task.regimes)}
        return {name: X[first[0]] for name, first in firsts.items() if len(first)}

    def path_panels(self, runs: Sequence[Any]) -> list[Panel]:
        """Paths of episodes, drawn one above the other if there are several panels; `runs` are summaries of episodes."""
        lines = tuple(self._path(run, self.space.flat(np.array(run["path"]))) for run in runs)
        background = self.background()
        return [replace(background, lines=(*background.lines, *lines), ticks=False, across=reached(runs), up="")]

    def background(self) -> Panel:
        """What paths are drawn on."""
        return self.space.panel(self.middle)

    def _path(self, run: Any, points: Floats) -> Line:
        colour, dash = {"success": SUCCESS, TIMED_OUT: LATE}.get(run["outcome"], FAILED)
        return Line(points, colour, 0.8, dash, 0.7, order=3)

    def draw_trajectories(
        self, tasks: Mapping[str, Task], results: Mapping[tuple[str, str], Sequence[Any]], file: Path
    ) -> None:
        """Paths of every episode, one column per method."""
        methods = list(dict.fromkeys(name for _, name in results))
        rows: list[list[Panel]] = []
        for place, task in tasks.items():
            columns = [task.drawing().path_panels(results[place, name]) for name in methods]
            for panels in zip(*columns):
                first = replace(panels[0], up=f"{label(task.place)}{panels[0].up}")
                rows.append([first, *(replace(panel, up="") for panel in panels[1:])])
        rows[0] = with_titles(rows[0], methods)
        heights = [float((row[0].high - row[0].low)[1]) for row in rows]  # type: ignore[operator]
        size = max(2.3 * len(methods), 6.0), 2.5 * len(rows) + 0.4
        figure = figure_of(rows, size, self.paths_title, self.path_key(), 3, height_ratios=heights)
        save(figure, file, 150)

    def path_key(self) -> list[Any]:
        """Legend entries of paths."""
        ends = {"reached the goal": SUCCESS, self.failed: FAILED, "timed out": LATE}
        return [Line(np.empty((0, 2)), look[0], 1.5, look[1], name=name) for name, look in ends.items()]


def checked_shown(shown: tuple[int, int], dims: int) -> tuple[int, int]:
    """The two axes that pictures show, checked to be different axes of the configuration's `dims`."""
    if len(shown) != 2 or len(set(shown)) != 2 or not all(0 <= axis < dims for axis in shown):
        raise CaptureError(f"shown is {tuple(shown)}; expected two different axes of the configuration, 0 to {dims - 1}.")
    return shown


def size_of(region: Region) -> str:
    """The size of a region as text."""
    if has_grid(region.strata):
        return f"{len(region.cells()):,} cells"
    volume = part_volumes(region, stream(0, "picture")).sum()
    return f"volume {volume:.3g}" if np.isfinite(volume) else "whole strata"


def with_titles(panels: Sequence[Panel], titles: Any) -> list[Panel]:
    """Panels with titles."""
    return [replace(panel, title=title) for panel, title in zip(panels, titles)]


def with_start(space: Space, window: Window, start: Floats) -> Window:
    """The window, enlarged to include a start (dc,) if that does not make it much larger."""
    both = np.vstack([window.low, window.high, window.placed(start)])
    wide = space.squared(Window.around(both, window.angles, MARGIN / 2))
    grown = (wide.size / window.size)[list(space.shown)].max()
    inside = ((both[2] > both[0]) & (both[2] < both[1]))[list(space.shown)].all()
    return wide if not inside and grown <= MOST_GROWTH else window


def reached(runs: Sequence[Any]) -> str:
    """How many episodes reached the goal, in words."""
    return f"{sum(run['outcome'] == 'success' for run in runs)} of {len(runs)} reach the goal"
