"""Pictures of any task: its configuration space by stratum, regions, paths and particles, as figures and films.

A task with more to show derives from `Drawing`, and from `Storyboard` for its films.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_draws import part_volumes, particles_of
from capture_cp.planning.episode import TIMED_OUT, Episode
from capture_cp.report.canvas import Picture
from capture_cp.report.draw import Frames, figure_of, save
from capture_cp.report.panel import Line, Panel
from capture_cp.report.space import Space, Step, Window
from capture_cp.report.style import (
    INFEASIBLE_COLOUR,
    OUTCOME,
    START,
    STEP_MARKS,
    WALL_COLOUR,
    colour_of,
    label,
)
from capture_cp.spaces.strata import grid_of, has_grid
from capture_lab.tasks.recorded import recorded_method, recorded_region
from capture_lab.tasks.task import Task

#: Random inputs among which the situations of a figure are found, outcomes drawn in each, and slices of a space.
INPUTS, OUTCOMES, SLICES = 20_000, 200, 5
#: Opacity of strata that are the subject of a figure, and size of many outcomes and of particles.
STRATA, SMALL = 0.8, (0.75, 1.0)
#: A window on a region grows up to this many times to include the start of the step; margin of windows.
MOST_GROWTH, MARGIN = 1.5, 0.08
#: Half a side of a close-up without regions, in small lengths of the task; how much wider it is than most regions.
CLOSE, ROOM = 12.0, 1.3
SUCCESS, FAILED, LATE = ("#0072B2", "-"), ("#D55E00", "--"), ("#555555", ":")


class Drawing:
    """Draws one task in one place."""

    #: The two axes of the configuration that pictures show.
    shown: tuple[int, int] = (0, 1)
    #: Title of the figure of all paths, and what a path that failed did.
    paths_title, failed = "Paths of all episodes", "failed"

    def __init__(self, task: Task) -> None:
        self.task: Any = task

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

    def storyboard(self, episode: Episode) -> Storyboard:
        """The object that draws a recorded episode of this task, step by step."""
        return Storyboard(self, episode)

    # -- the configuration space --------------------------------------------------------------------------------------

    @cached_property
    def space(self) -> Space:
        """The configuration space in pictures."""
        task = self.task
        names = [str(task.states[axis]) for axis in task.axes]
        return Space(task.strata, self.window, names, checked_shown(self.shown, len(names)))

    @property
    def window(self) -> Window:
        """The whole grid of the strata; without a grid, the range of random inputs."""
        task, angles = self.task, self.task.metric.angles(len(self.task.axes))
        if not has_grid(task.strata):
            return Window(task.extent.low, task.extent.high, angles)
        grid = grid_of(task.strata).require_grid()
        low = grid.origin - grid.spacing / 2
        return Window(low, low + grid.spacing * np.array(grid.shape), angles)

    @property
    def middle(self) -> Floats:
        """The configuration (dc,) of the slice behind paths."""
        if not has_grid(self.task.strata):
            return np.asarray(self.task.extent.middle)
        return (self.window.low + self.window.high) / 2

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
        after = self.task.outcomes(x[None], OUTCOMES, seed=1)[0]
        start, space, whole = np.asarray(x)[list(self.task.axes)], self.space, self.window
        boxes = [np.clip(region.finite_box(), whole.low, whole.high) for region in regions.values()]
        window = space.squared(Window.around(np.vstack([after, *boxes]), whole.angles, MARGIN))
        window = with_start(space, window, start)
        return [
            space.panel(
                after.mean(axis=0),
                window,
                region,
                particles=space.flat(particles_of(region.prediction), window),
                start=space.flat(start, window)[0],
                outcomes=space.flat(after, window),
                inside=region.contains(after),
                across=size_of(region),
                up="",
                ticks=False,
                small=SMALL,
            )
            for region in regions.values()
        ]

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
                rows.append([replace(panels[0], up=f"{label(task.place)}{panels[0].up}"), *panels[1:]])
        rows[0] = with_titles(rows[0], methods)
        heights = [float((row[0].high - row[0].low)[1]) for row in rows]  # type: ignore[operator]
        size = max(2.3 * len(methods), 6.0), 2.5 * len(rows) + 0.4
        figure = figure_of(rows, size, self.paths_title, self.path_key(), 3, height_ratios=heights)
        save(figure, file, 150)

    def path_key(self) -> list[Any]:
        """Legend entries of paths."""
        ends = {"reached the goal": SUCCESS, self.failed: FAILED, "timed out": LATE}
        return [Line(np.empty((0, 2)), look[0], 1.5, look[1], name=name) for name, look in ends.items()]


class Storyboard:
    """Draws a recorded episode, one picture per control step: other panels, the space with its region, and a close-up.

    Attributes:
        rate: control steps per second.
        cap: the episode's method, not fitted; None for an episode without regions.
    """

    #: Size of the figure in inches, letters of its panels, their layout, and most entries of the legend in one row.
    inches: tuple[float, float] = (10.4, 5.4)
    places: str = "AB"
    layout: Mapping[str, Any] = MappingProxyType({})
    columns = 4
    #: Whether the space has ticks.
    ticks = False
    #: Words for an outcome in the heading of the last picture.
    ends: Mapping[str, str] = {"success": "reached the goal", TIMED_OUT: "out of time"}

    def __init__(self, drawing: Any, episode: Episode) -> None:
        self.drawing, self.task, self.episode = drawing, drawing.task, episode
        self.task.check_episode(episode)
        self.rate: float = self.task.rate
        self.cap = recorded_method(episode, self.task)
        self.frames = Frames(self.inches, self.key(), self.columns, self.places, **self.layout)

    def draw(self, step: int) -> Picture:
        """The picture (h, w, 3) of a step, 0 to T: the state, and the region of the action taken there."""
        when = f"{self.title}: step {step} of {self.episode.steps}, {step / self.rate:.1f} s"
        outcome = self.ends.get(self.episode.outcome, self.episode.outcome)
        return self.frames.draw(self.panels(step), when if step < self.episode.steps else f"{when}: {outcome}")

    @property
    def title(self) -> str:
        """The place and the method of the episode."""
        return f"{self.task.place}, {self.episode.info.get('method', '')}"

    def key(self) -> list[Any]:
        """Entries of the legend: colours of strata, and marks."""
        return [*self.drawing.strata_key(), *self.marks()]

    def marks(self) -> list[Any]:
        """The marks of steps."""
        return [START, OUTCOME] if self.cap is None else [*STEP_MARKS]

    def panels(self, step: int) -> list[Panel]:
        """All panels of a step."""
        whole, near = self.drawing.space.whole_and_near(self.step(step), self.half)
        bare: dict[str, Any] = {} if self.ticks else {"ticks": False, "across": "", "up": ""}
        return [*self.workspace(step), replace(whole, **bare), replace(near, **bare)]

    def workspace(self, step: int) -> list[Panel]:
        """The panels before the configuration space."""
        return []

    def step(self, step: int) -> Step:
        """A step as far as the episode has it."""
        run, axes, going = self.episode, list(self.task.axes), step < self.episode.steps
        cloud = run.particles[step] if step < len(run.particles) else np.empty((0, len(axes)))
        inside = bool(run.inside[step]) if step < len(run.inside) else None
        path = run.states[: step + 1][:, axes]
        return Step(self.region(step), cloud, path[-1], run.states[step + 1][axes] if going else None, inside, path)

    def region(self, step: int) -> Region | None:
        """The region of a step; None if there is none."""
        return None if self.cap is None else recorded_region(self.episode, self.cap, step)

    @cached_property
    def half(self) -> float:
        """Half a side of the close-up, enough to show most regions whole."""
        regions = [region for step in range(len(self.episode.particles)) if (region := self.region(step)) is not None]
        if not regions:
            return CLOSE * float(self.task.cell)
        shown, size = list(self.drawing.space.shown), self.drawing.window.size
        widths = [np.minimum(np.diff(region.finite_box(), axis=0)[0], size)[shown].max() for region in regions]
        return ROOM * float(np.quantile(widths, 0.9)) / 2


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
