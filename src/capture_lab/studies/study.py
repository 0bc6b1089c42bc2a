"""What all studies share: options and checks before any work is done, and how results are printed, written and drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_type_hints

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import CaptureError, Floats, failure_rate, known_name, whole_number
from capture_cp.base.files import check_writable
from capture_cp.base.progress import stage
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.cuda.device import Device
from capture_cp.report.output import output_folder, write_rows
from capture_cp.report.style import STRATA_COLOURS, pyplot
from capture_lab.tasks.rows import weight_options
from capture_lab.tasks.task import Task

Alpha = Annotated[float, tyro.conf.arg(help="Allowed failure rate of the regions.")]
Particles = Annotated[int, tyro.conf.arg(help="Number of particles L; k is L/2, or 1 for capture-k1 and pcp.")]
MaxLeaves = Annotated[int | None, tyro.conf.arg(help="Largest number of leaves per tree.")]
OnDevice = Annotated[
    Device, tyro.conf.arg(help="Where it is computed: cuda is an NVIDIA GPU, auto uses one if there is one.")
]
Jobs = Annotated[int, tyro.conf.arg(help="Number of processes; the results do not depend on it.")]
Seed = Annotated[int, tyro.conf.arg(help="Random seed; the same seed gives the same results.")]
StateFolder = Annotated[
    Path | None, tyro.conf.arg(help="Folder for finished parts, so that a stopped command can continue.")
]
RowsFile = Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this JSON file.")]
RecordFolder = Annotated[Path | None, tyro.conf.arg(help="Folder for recorded episodes, to replay or to make videos of.")]
Calibration = Annotated[
    float, tyro.conf.arg(help="Calibration data: a fraction up to 1, or a number of transitions or rollouts.")
]
FigureFolder = Annotated[Path | None, tyro.conf.arg(help="Folder for figures.")]


Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Study:
    """A study of any task.

    Class attributes:
        command: its name on the command line, and in the `defaults` of a task.
        unimportant: settings that do not change results.

    Attributes:
        task: the options of a task, see `capture_lab.tasks.registry`; `task.places()` are the tasks to run on.
    """

    command: ClassVar[str]
    unimportant: ClassVar[frozenset[str]] = frozenset({"task", "device", "jobs", "state", "json", "record", "figures"})

    task: Any

    @classmethod
    def of(cls, task: Any, **changes: Any) -> Self:
        """The study of a task with the task's defaults, except for `changes`."""
        known = {entry.name for entry in fields(cls)}
        defaults = {name: value for name, value in task.defaults.get(cls.command, {}).items() if name in known}
        return cls(task, **(defaults | changes))

    def identity(self, task: Task) -> dict[str, Any]:
        """Every setting that the counts in one place depend on, and no other."""
        settings = {key: value for key, value in vars(self).items() if key not in self.unimportant}
        return task.depends_on | settings | {"version": version("capture-cp")}

    def figure_data(self, figure: str, console: Console) -> Any:
        """The JSON-ready numbers behind a figure of this study, by the figure's name; None if its settings are all."""
        return None

    def run(self, console: Console) -> None:
        """Do the work, print the tables, write the requested files."""
        raise NotImplementedError


def study_of(study: type[Study], options: type[Any]) -> type[Any]:
    """A study as a dataclass for one task: the task's options among its own, the task's defaults in place of its own.

    Where both have an option of the same name, the study's is called COMMAND-NAME. If the study has `weights`, the weights
    of the task's objective become options as well.
    """
    of_study, of_task = ({entry.name: entry for entry in fields(part)} for part in (study, options))
    changed: dict[str, Any] = dict(options.defaults.get(study.command, {}))
    unknown = changed.keys() - of_study.keys() - of_task.keys()
    if unknown:
        raise CaptureError(f"{options.name} has defaults for {sorted(unknown)}, which {study.command} does not know.")
    kinds, clashes = get_type_hints(study, include_extras=True), of_study.keys() & of_task.keys()
    of_options = {name: value for name, value in changed.items() if name in of_task and name not in clashes}
    entries: list[Any] = [
        (
            "task",
            Annotated[options, tyro.conf.arg(name="", help="The task.")],
            field(default_factory=lambda: options(**of_options)),
        )
    ]
    for name in [name for name in of_study if name in changed or name in clashes]:
        kind = Annotated[kinds[name], tyro.conf.arg(name=f"{study.command}-{name}")] if name in clashes else kinds[name]
        entries.append((name, kind, field(default=changed.get(name, of_study[name].default))))
    if "weights" in of_study and options.weights is not None:
        weights = weight_options(options.weights)
        entries.append(
            ("weights", Annotated[weights, tyro.conf.arg(name="", help="Weights.")], field(default_factory=weights))
        )
    about = {"__doc__": study.__doc__, "__module__": study.__module__}
    return make_dataclass(f"{study.__name__}Of{options.__name__}", entries, bases=(study,), frozen=True, namespace=about)


def check_settings(study: Any, counts: Iterable[str], methods: Iterable[str] = METHODS) -> None:
    """Raise an error for invalid settings of a study, and make its folders.

    `counts` names those that must be whole numbers of at least 1, or None; `methods` are those that the study knows.
    """
    for name in counts:
        if getattr(study, name) is not None:
            whole_number(name, getattr(study, name), 1)
    if hasattr(study, "alpha"):
        failure_rate(study.alpha)
    if whole_number("seed", study.seed, 0) >= 2**63:
        raise CaptureError(f"seed is {study.seed}; expected a whole number below 2^63.")
    if not getattr(study, "methods", True):
        raise CaptureError("no methods are given; name at least one, or leave --methods out.")
    for name in getattr(study, "methods", ()):
        known_name("method", name, methods)
    check_writable(study.json)
    for folder in ("figures", "state", "record", "out"):
        if getattr(study, folder, None) is not None:
            output_folder(getattr(study, folder))
    if getattr(study, "figures", None) is not None:
        pyplot()  # missing matplotlib is reported now, not after the work


# -- results --------------------------------------------------------------------------------------------------------------


def plain_table(title: str, words: Sequence[str], numbers: Iterable[str], caption: str = "") -> Table:
    """An empty table with columns of words, then columns of numbers."""
    table = Table(
        title=title, caption=caption or None, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    for column in words:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def write_results(study: Any, rows: Rows, console: Console, draw: Callable[[Path], Iterable[Path]] | None = None) -> None:
    """Write the files that a study was asked for: its rows, and the figures that `draw` makes in a folder."""
    if study.json is not None:
        write_rows(study.json, rows, study)
    if draw is not None and study.figures is not None:
        with stage("drawing figures"):
            files = list(draw(output_folder(study.figures)))
        console.print(f"Figures: {', '.join(map(str, files))}", markup=False)


class Panel(NamedTuple):
    """A panel of a figure: by label the mean, low and high end at each value, (3, n); and a target, drawn as a line."""

    title: str
    curves: Mapping[str, Any]
    target: float | None = None


def percentages(counts: Iterable[tuple[float, int]]) -> Floats:
    """Fractions in % with their exact 95% intervals, (3, n); NaN where nothing was counted."""
    found = [(held / of, *clopper_pearson(int(held), of)) if of else (np.nan,) * 3 for held, of in counts]
    return 100 * np.array(found, dtype=np.float64).T


def save_curves(file: Path, panels: Sequence[Panel], values: Sequence[Any], label: str, columns: int = 3) -> Path:
    """Draw `curves_figure` to a file."""
    figure = curves_figure(panels, values, label, columns)
    figure.savefig(file, dpi=130)
    pyplot().close(figure)
    return file


def curves_figure(panels: Sequence[Panel], values: Sequence[Any], label: str, columns: int = 3) -> Any:
    """Curves with whiskers against evenly spaced values, whose name is `label`."""
    columns = min(columns, len(panels))
    lines = -(-len(panels) // columns)
    size = (max(3.2 * columns, 6.0), 2.4 * lines + 0.6)
    figure, axes = pyplot().subplots(lines, columns, figsize=size, sharex=True, squeeze=False, layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels):
        for (name, ends), colour, marker in zip(panel.curves.items(), cycle(STRATA_COLOURS), cycle("os^Dv")):
            mean, low, high = np.asarray(ends)
            look = {"color": colour, "marker": marker, "ms": 4, "lw": 1.4}
            axis.errorbar(range(len(values)), mean, np.maximum((mean - low, high - mean), 0.0), label=name, **look)
        if panel.target is not None:
            axis.axhline(panel.target, color="#222222", lw=0.8, ls="--")
        if "%" in panel.title:
            axis.set_ylim(-2, 103)
        axis.set_title(panel.title, fontsize=9)
        axis.set_xticks(range(len(values)), list(map(str, values)), fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(label)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure
