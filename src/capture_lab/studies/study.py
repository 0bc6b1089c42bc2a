"""What all studies share: the task they run on, common options, and checks before any work is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, make_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_type_hints

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, failure_rate, known_name, whole_number
from capture_cp.base.files import check_writable
from capture_cp.capture.methods import METHODS
from capture_cp.cuda.device import Device
from capture_cp.report.output import output_folder
from capture_cp.report.style import pyplot
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
