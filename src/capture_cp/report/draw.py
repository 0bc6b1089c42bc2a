"""Draws panels with matplotlib: into axes, as a figure with one legend, and as the frames of a film."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats
from capture_cp.report.canvas import Picture
from capture_cp.report.panel import Dots, Entry, Image, Line, Panel, Shape
from capture_cp.report.style import ACTION, OUTCOME, PARTICLES, START, STRONG, Mark, label, outcome_look

#: Pixels per inch of a film.
DPI = 100
#: Longest line of a legend in characters, and width of an entry in inches.
WIDE, WIDTH = 40, 1.7


# -- one panel ----------------------------------------------------------------------------------------------------------


def draw(axis: Any, panel: Panel) -> None:
    """Draw a panel into axes of matplotlib."""
    for image in panel.images:
        _show(axis, image)
    for shape in panel.shapes:
        axis.add_patch(_patch(shape))
    for line in panel.lines:
        look = {"lw": line.width, "ls": line.dash, "alpha": line.opacity, "zorder": line.order}
        axis.plot(*np.asarray(line.points).T, color=line.colour, **look)
    for dots in panel.dots:
        deep = {"depthshade": False} if hasattr(axis, "zaxis") else {}
        look = {"s": dots.size, "alpha": dots.opacity, "zorder": dots.order, "linewidths": 0}
        axis.scatter(*np.asarray(dots.points).T, color=dots.colour, **look, **deep)
    for mark, at in panel.marks:
        draw_mark(axis, mark, at, zorder=4)
    _draw_step(axis, panel)
    if panel.frame is not None:
        low, high = panel.frame
        corners = np.array([low, (high[0], low[1]), high, (low[0], high[1]), low])
        axis.plot(*corners.T, color="black", lw=1.0, zorder=6)
    _furnish(axis, panel)


def _show(axis: Any, image: Image) -> None:
    """Show pixels; limits grow where something has been drawn before."""
    before = (*axis.get_xlim(), *axis.get_ylim()) if axis.has_data() or axis.images else None
    (left, bottom), (right, top) = image.low, image.high
    look = {"interpolation": "antialiased" if image.smooth else "nearest", "aspect": axis.get_aspect(), "zorder": 0}
    axis.imshow(image.pixels, extent=(left, right, bottom, top), **look)
    if before is not None and axis.get_autoscale_on():
        axis.set_xlim(min(left, before[0]), max(right, before[1]), auto=None)
        axis.set_ylim(min(bottom, before[2]), max(top, before[3]), auto=None)


def _patch(shape: Shape) -> Any:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Polygon

    fill_colour = "none" if shape.fill is None else to_rgba(shape.fill, shape.opacity)
    look: dict[str, Any] = {"lw": shape.width if shape.edge else 0.0, "ls": shape.dash, "zorder": shape.order}
    return Polygon(shape.points, fc=fill_colour, ec=shape.edge or "none", **look)


def _draw_step(axis: Any, panel: Panel) -> None:
    """Particles, start, action and true outcomes. A start outside the panel is put on its border."""
    outcomes, particles = panel.small
    if panel.particles is not None and len(panel.particles):
        draw_mark(axis, PARTICLES, panel.particles, particles, zorder=4)
        if panel.start is not None:
            start = _entered(panel)
            if panel.arrow:
                _draw_action(axis, start, panel.particles)
            draw_mark(axis, START, start, zorder=5, clip=(start == panel.start).all())
    elif panel.start is not None:
        draw_mark(axis, START, panel.start, zorder=5)
    if panel.outcomes is not None:
        _draw_outcomes(axis, np.atleast_2d(panel.outcomes), panel.inside, outcomes)


def _entered(panel: Panel) -> Floats:
    """The start, or where its way to the mean of the particles enters the panel."""
    assert panel.start is not None
    assert panel.particles is not None
    start = np.asarray(panel.start, dtype=np.float64)
    if panel.low is None or panel.high is None or len(start) != 2:
        return start
    to = np.atleast_2d(panel.particles).mean(axis=0) - start
    with np.errstate(divide="ignore", invalid="ignore"):
        entered = np.where(to > 0, (panel.low - start) / to, np.where(to < 0, (panel.high - start) / to, 0.0))
    share = float(np.clip(np.nanmax(entered), 0.0, 1.0))
    return start + share * to if share else start


def draw_mark(axis: Any, look: Mark, at: Any, times: float = 1.0, zorder: float = 5.0, clip: bool = True) -> None:
    """Mark places (n, 2 or 3), `times` the usual size. Without `clip`, a mark on the border is drawn whole."""
    size = times * look.size
    style: dict[str, Any] = {"marker": look.shape, "ls": "none", "ms": size, "color": look.colour, "zorder": zorder}
    style |= {
        "mec": look.edge,
        "mew": 0.0 if look is PARTICLES else 1.2 if look is START or look.shape == "|" else max(0.3, 0.1 * size),
    }
    axis.plot(*np.atleast_2d(np.asarray(at, dtype=np.float64)).T, clip_on=clip, **style)


def _draw_outcomes(axis: Any, at: Floats, inside: Bools | None, times: float) -> None:
    """Mark true outcomes (n, d), each by whether its region contains it, (n,)."""
    if inside is None:
        draw_mark(axis, OUTCOME, at, times, 6)
        return
    for held in (True, False):
        here = np.atleast_1d(np.asarray(inside, dtype=bool)) == held
        if here.any():
            draw_mark(axis, outcome_look(held), at[here], times, 6)


def _draw_action(axis: Any, tail: Floats, particles: Floats) -> None:
    """An arrow from a place (d,) to the mean of the particles (n, d); none where they coincide."""
    head = np.atleast_2d(particles).mean(axis=0)
    if not (head - tail).any():
        return
    if len(tail) == 3:
        axis.quiver(*tail, *(head - tail), color=ACTION.colour, lw=1.3, arrow_length_ratio=0.12)
    else:
        look = {"arrowstyle": "-|>", "color": ACTION.colour, "lw": 1.3, "shrinkA": 3, "shrinkB": 0, "mutation_scale": 11}
        axis.annotate("", tuple(head), tuple(tail), arrowprops=look, zorder=4.5).arrow_patch.set_clip_box(axis.bbox)


def _furnish(axis: Any, panel: Panel) -> None:
    """Limits, ticks, names and title."""
    if panel.low is not None and panel.high is not None:
        axis.set(**{f"{side}lim": ends for side, ends in zip("xyz", zip(panel.low, panel.high))})
    if panel.rows:
        axis.set(
            yticks=range(len(panel.rows)),
            yticklabels=panel.rows,
            ylim=(-0.6 if panel.particles is None else -1.2, len(panel.rows) - 0.4),
        )
    elif not hasattr(axis, "zaxis"):
        axis.set_aspect("equal" if panel.equal else "auto")
    if not panel.ticks:
        axis.set(xticks=[], yticks=[])
    if panel.bare:
        axis.set_axis_off()
    names = {"xlabel": panel.across, "ylabel": panel.up, "zlabel": panel.deep}
    size = 10 if panel.ticks else 9
    for what, text in names.items():
        if text:
            getattr(axis, f"set_{what}")(text, fontsize=size)
    if panel.title:
        axis.set_title(panel.title, fontsize=10)


# -- legends ------------------------------------------------------------------------------------------------------------


def handles(entries: Iterable[Entry]) -> list[Any]:
    """Entries of a legend for matplotlib."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    found: list[Any] = []
    for one in entries:
        if isinstance(one, Mark):
            style: dict[str, Any] = {"ls": "none", "marker": one.shape, "ms": one.size, "mec": one.edge}
            found.append(Line2D([], [], color=one.colour, label=one.name, **style))
        elif isinstance(one, Line):
            found.append(Line2D([], [], color=one.colour, lw=one.width, ls=one.dash, label=one.name))
        elif isinstance(one, Dots):
            found.append(Line2D([], [], color=one.colour, ls="none", marker="o", ms=4, mec="none", label=one.name))
        elif isinstance(one, Shape):
            look: dict[str, Any] = {"fc": one.fill or "none", "ec": one.edge, "ls": one.dash, "alpha": one.opacity}
            found.append(Patch(**look, label=one.name))
        else:
            found.append(Patch(color=one[1], alpha=STRONG, label=fill(label(one[0]), WIDE, break_long_words=True)))
    return found


def add_legend(figure: Any, entries: Iterable[Entry], columns: int = 4, size: float = 9) -> None:
    """One legend for all panels, below them."""
    shown = handles(entries)
    if shown:
        columns = max(1, min(columns, int(figure.get_figwidth() / WIDTH)))
        rows = -(-len(shown) // columns)
        look = {"loc": "outside lower center", "frameon": False, "fontsize": size}
        figure.legend(handles=shown, ncols=-(-len(shown) // rows), **look)


def name_things(axis: Any, entries: Iterable[Any]) -> None:
    """Name marks and strata in axes, for a legend that their owner may add."""
    nowhere: Any = [[]] * (3 if hasattr(axis, "zaxis") else 2)
    for one in entries:
        if isinstance(one, Mark):
            axis.plot(*nowhere, ls="none", marker=one.shape, ms=one.size, color=one.colour, mec=one.edge, label=one.name)
        else:
            axis.scatter(*nowhere, marker="s", color=one[1], alpha=STRONG, label=label(one[0]))


# -- figures ------------------------------------------------------------------------------------------------------------


def figure_of(
    rows: Sequence[Sequence[Panel]],
    size: tuple[float, float],
    title: str = "",
    key: Iterable[Entry] = (),
    columns: int = 4,
    **layout: Any,
) -> Any:
    """A figure with these panels, (width, height) in inches, and one legend with the entries `key`.

    A shorter row leaves empty places. `layout` goes to matplotlib's `subplots`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    across = max(map(len, rows))
    grid: Any = figure.subplots(len(rows), across, squeeze=False, **layout)
    for axis in grid.ravel():
        axis.tick_params(labelsize=8)
    for line, panels in zip(grid, rows):
        for axis, panel in zip(line, panels):
            draw(axis, panel)
        for axis in line[len(panels) :]:
            axis.axis("off")
    if title:
        figure.suptitle(title, fontsize=11)
    add_legend(figure, key, columns)
    return figure


def save(figure: Any, file: Path, dpi: int = 130) -> Path:
    """Write a figure to a file."""
    figure.savefig(file, dpi=dpi)
    return file


# -- films --------------------------------------------------------------------------------------------------------------


class Frames:
    """Draws the frames of a film, all of one layout: that of the first.

    Args:
        size: width and height in inches of 100 pixels.
        key: entries of the legend.
        columns: most of them in one row.
        places: letters of the panels as for matplotlib's `subplot_mosaic`, in alphabetical order.
        layout: goes to `subplot_mosaic`.
    """

    def __init__(
        self, size: tuple[float, float], key: Iterable[Entry] = (), columns: int = 4, places: str = "A", **layout: Any
    ) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=size, dpi=DPI, layout="constrained")
        self.figure.set_layout_engine("constrained", wspace=0.04)  # tick labels of close-ups grow and shrink
        self.canvas: Any = FigureCanvasAgg(self.figure)
        self.axes = [axis for _, axis in sorted(self.figure.subplot_mosaic(places, **layout).items())]
        self._heading = self.figure.suptitle(" ", fontsize=12)
        add_legend(self.figure, key, columns)
        self._laid_out = False

    def draw(self, panels: Sequence[Panel], heading: str = " ") -> Picture:
        """The frame (h, w, 3) of these panels under a heading."""
        for axis, panel in zip(self.axes, panels):
            axis.clear()
            axis.tick_params(labelsize=8)
            axis.set_title(" ", fontsize=10)
            draw(axis, panel)
            if panel.ticks and not panel.rows:
                axis.locator_params(nbins=5)
        self._heading.set_text(label(heading))
        self.canvas.draw()
        if not self._laid_out:
            self.figure.set_layout_engine("none")
            self._laid_out = True
        pixels = np.asarray(self.canvas.buffer_rgba())[:, :, :3]
        height, width = (side - side % 2 for side in pixels.shape[:2])  # videos need even sizes
        return np.array(pixels[:height, :width])
