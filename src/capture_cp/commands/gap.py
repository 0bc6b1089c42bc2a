"""The command that measures how far simulators are from the robot of a log, contact by contact."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError
from capture_cp.base.files import check_writable, write_json, written_whole
from capture_cp.base.progress import stage
from capture_cp.commands import options
from capture_cp.commands.computing import Computing, ComputingOptions
from capture_cp.commands.user_objects import named_object
from capture_cp.data.source import kind_of
from capture_cp.gap.measure import FARTHEST
from capture_cp.gap.result import Gap, measure_gap
from capture_cp.gap.settings import amounts
from capture_cp.models.simulators import PROGRAM
from capture_cp.report.html import report_trouble
from capture_cp.report.output import table_of
from capture_cp.spaces.modes import TOUCH

#: What makes the example of `--example`: it returns simulator files and a log.
EXAMPLE = "capture_lab.tasks.toss", "write_example"
SIMULATED = "The robot of this page is simulated: an example to try, not a measurement."


@dataclass(frozen=True)
class MeasureGap:
    """Measure how far simulators are from a real robot: per contact mode and number of steps, with a guarantee.

    Example: capture gap cube.xml tosses.parquet --tolerance 10mm 5deg

    The last name is the log, those before it are simulators: MJCF or URDF files, logs of another engine that replay the same
    episodes (recordings), or module:object for any other engine. Predictions that cost nothing, such as "keeps its
    velocity", always stand beside them. Columns of the log are recognised by their names and values; the table that is
    printed shows how, and options change it.

    For each mode and number of steps, 90% of errors of a new episode are at most the bound, over the log and that episode.
    With --tolerance, the page says for how many steps each simulator can be trusted.
    """

    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(name="simulators-log", help="Simulators, then the log.", metavar="SIMULATOR ... LOG"),
    ] = ()
    example: Annotated[bool, tyro.conf.arg(help="Run on simulated tosses of a cube instead of files.")] = False
    steps: Annotated[tuple[int, ...], tyro.conf.arg(help="Numbers of steps ahead.")] = (1, 2, 5, 10, 20)
    every: Annotated[int, tyro.conf.arg(help="Start from each so-many-th row of an episode.")] = 1
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate of each bound.")] = 0.1
    confidence: Annotated[
        float | None,
        tyro.conf.arg(help="Probability, over the draw of the log, with which each bound holds; by default over both."),
    ] = None
    tolerance: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Errors that you can live with, all at once: 10mm 5deg, or NAME=10mm.")
    ] = ()
    jointly: Annotated[bool, tyro.conf.arg(help="Statements with confidence hold together, not each by itself.")] = False
    resolution: Annotated[float, tyro.conf.arg(help="Relative difference of errors up to which rows are tied.")] = 0.01
    joints: Annotated[
        tuple[str, ...], tyro.conf.arg(help="The model's joint names in the log's order, where the log has others.")
    ] = ()
    columns: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="What columns hold: cube.position=px,py,pz hinge.velocity=w.", metavar="WHAT=COLUMN"),
    ] = ()
    columns_file: Annotated[
        Path | None,
        tyro.conf.arg(help="TOML file with the columns; it is written if it does not exist, and read if it does."),
    ] = None
    episode: options.EpisodeColumn = None
    time: options.TimeColumn = None
    units: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Units that are not m and rad: elbow=deg.", metavar="JOINT=UNIT")
    ] = ()
    quaternion: Annotated[
        Literal["", "wxyz", "xyzw"], tyro.conf.arg(help="Order of quaternions that names do not tell.")
    ] = ""
    start: Annotated[
        Literal["logged", "fit"],
        tyro.conf.arg(help="Start from the logged states, or from lines fitted to the rows up to them."),
    ] = "logged"
    without: Annotated[
        Path | None,
        tyro.conf.arg(help="Text file with episodes to leave out, one per line: those a simulator was fitted on."),
    ] = None
    modes: Annotated[
        Literal["bodies", "count"] | None,
        tyro.conf.arg(help="Modes by which bodies touch, or by the number of touching points."),
    ] = None
    modes_from: Annotated[
        Path | None, tyro.conf.arg(help="Model file for contact modes; by default the first simulator.")
    ] = None
    mode_column: Annotated[str | None, tyro.conf.arg(help="Column of the log with the mode of each row.")] = None
    mode_code: Annotated[str | None, tyro.conf.arg(help="module:object with names and index(qpos).")] = None
    mode_names: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help='Other names for modes: "1 point=corner"; equal names merge.', metavar="MODE=NAME"),
    ] = ()
    touch: Annotated[float, tyro.conf.arg(help="Gap in m up to which bodies touch.")] = TOUCH
    site: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Sites of the model to measure; by default all if there are at most three.")
    ] = ()
    randomise: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Ranges of factors on parameters: friction=0.5:1.5.", metavar="NAME=LOW:HIGH")
    ] = ()
    noise: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="Start noise: position=0.3mm rotation=4mrad velocity=0.03.", metavar="NAME=AMOUNT"),
    ] = ()
    particles: Annotated[int, tyro.conf.arg(help="Number of particles, with --randomise or --noise.")] = 16
    k: Annotated[int | None, tyro.conf.arg(help="The error is that of the k-th nearest particle, by default half.")] = None
    out: Annotated[
        Path | None,
        tyro.conf.arg(help="Also save a calibration of a model file, for capture check and view, and for planners."),
    ] = None
    save_simulator: Annotated[
        str | None, tyro.conf.arg(help="The simulator that --out saves, by default the first model file.", metavar="NAME")
    ] = None
    report: Annotated[Path, tyro.conf.arg(help="File for the page.")] = Path("gap.html")
    json: Annotated[Path | None, tyro.conf.arg(help="Also write rows and the content of the page to this JSON file.")] = None
    folder: options.Folder = Path()
    computing: ComputingOptions = field(default_factory=Computing)
    seed: Annotated[int, tyro.conf.arg(help="Random seed of particles and start noise.")] = 0

    def run(self, console: Console) -> None:
        """Recognise, simulate, state; print the table and write the page."""
        for file in (self.report, self.json, self.columns_file, self.out):
            check_writable(file)
        if self.example:
            self._run_example(console)
            return
        if len(self.names) < 2:
            raise CaptureError(
                "capture gap needs a simulator and a log: capture gap MODEL.xml LOG; or try capture gap --example."
            )
        *simulators, log = self.names
        self._measure(console, [self._simulator(name) for name in simulators], Path(log), {})

    def _run_example(self, console: Console) -> None:
        import tempfile

        module, function = EXAMPLE
        if self.names:
            raise CaptureError("--example has simulators and a log of its own; leave the names out.")
        with tempfile.TemporaryDirectory() as folder:
            simulators, log = getattr(import_module(module), function)(Path(folder))
            named = [(Path(one).name, Path(one)) for one in simulators]
            self._measure(console, named, Path(log), {"first_line": SIMULATED})

    def _measure(self, console: Console, simulators: list[tuple[str, Any]], log: Path, more: dict[str, Any]) -> None:
        if self.out is not None:
            from capture_cp.gap.saved import chosen_simulator

            files = [name for name, one in simulators if isinstance(one, Path) and kind_of(one) == "model"]
            chosen_simulator(files, self.save_simulator, bool(self.mode_column or self.mode_code))
        with self.computing.running(self.folder) as running:
            gap = measure_gap(
                simulators,
                log,
                steps=self.steps,
                tolerance=self.tolerance,
                alpha=self.alpha,
                confidence=self.confidence,
                jointly=self.jointly,
                resolution=self.resolution,
                **self._settings(),
                run=running("simulating"),
                config=self._config(log) | more,
            )
        self._print(console, gap)
        with stage("stating and drawing"):
            document = gap.document()
            if self.json is not None:
                write_json(self.json, document)
            trouble = report_trouble()
            if trouble is None:
                from capture_cp.gap.page import write_page

                write_page(self.report, document)
        if self.out is not None:
            with stage("calibrating"):
                gap.calibration(self.save_simulator).save(self.out)
            console.print(f"Saved calibration: {self.out}", markup=False)
        console.print(
            f"No page: {trouble}" if trouble else f"Page: {self.report} (one file; open it in any browser)", markup=False
        )

    def _simulator(self, name: str) -> tuple[str, Any]:
        """A file, or the user's own object in code."""
        if Path(name).exists() or ":" not in name:
            return Path(name).name, Path(name)
        return name, named_object("simulator", name, self.folder, PROGRAM)

    def _settings(self) -> dict[str, Any]:
        """The settings of `measure_gap` that are neither numbers of steps nor levels."""
        file, code = self.columns_file, self.mode_code
        ranges = {name: _range(name, text) for name, text in _pairs("randomise", self.randomise).items()}
        return {
            "joints": self.joints,
            "columns": _pairs("columns", self.columns),
            "episode": self.episode,
            "time": self.time,
            "units": _pairs("units", self.units),
            "fit_start": self.start == "fit",
            "without": self._left_out(),
            "every": self.every,
            "quaternion": self.quaternion,
            "mapping": file.read_text(encoding="utf-8") if file is not None and file.exists() else None,
            "modes_from": self.modes_from,
            "touch": self.touch,
            "modes_by": self.modes,
            "mode_column": self.mode_column,
            "mode_code": None if code is None else named_object("--mode-code", code, self.folder, MODES),
            "mode_names": _pairs("mode-names", self.mode_names),
            "sites": self.site or None,
            "randomise": ranges or None,
            "noise": amounts("--noise", _pairs("noise", self.noise)),
            "particles": self.particles,
            "k": self.k,
            "seed": self.seed,
        }

    def _left_out(self) -> tuple[str, ...]:
        """The episodes that a file lists, one per line."""
        if self.without is None:
            return ()
        try:
            lines = self.without.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise CaptureError(
                f"cannot read {self.without}; expected a text file with one episode's name per line."
            ) from None
        return tuple(line.strip() for line in lines if line.strip())

    def _config(self, log: Path) -> dict[str, Any]:
        """The options that differ from their defaults, and the command that repeats the run."""
        chosen = {one.name: getattr(self, one.name) for one in fields(self)[1:]}
        defaults = {one.name: one.default for one in fields(self)}
        aside = {
            "example",
            "computing",
            "folder",
            "report",
            "json",
            "without",
            *(n for n, v in chosen.items() if v == defaults[n]),
        }
        given = {name: value for name, value in chosen.items() if name not in aside}
        words = ["capture", "gap", *(["--example"] if self.example else self.names)]
        for name, value in {**given, **({"without": self.without} if self.without else {})}.items():
            values = () if value is True else value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
        settings = {"steps": list(self.steps), "alpha": self.alpha, **plain, "without": len(self._left_out())}
        return {"log": log.name, "simulators": list(self.names[:-1]), **settings, "command": shlex.join(words)}

    def _print(self, console: Console, gap: Gap) -> None:
        part = gap.parts[0]
        columns = part.log.columns
        if self.columns_file is not None and not self.columns_file.exists():
            with written_whole(self.columns_file) as temporary:
                temporary.write_text(columns.toml(), encoding="utf-8")
        console.print(table_of("Columns of the log", ("holds", "columns", "unit", "recognised"), columns.table(), left=_ALL))
        notes = [*part.log.notes, *part.diverged(), *(f"{one.name}: {one.note}." for one in part.simulators if one.note)]
        for note in notes:
            console.print(f"note: {note}", highlight=False, markup=False)
        for table in tables(gap):
            console.print(table)


_ALL = ("columns", "unit", "recognised")
MODES = "an object with names and index(qpos) -> (n,), the number of the mode of each row"


def tables(gap: Gap) -> list[Any]:
    """The bounds of the primary quantity per mode, and for how many steps each simulator can be trusted."""
    found = []
    for part in gap.parts:
        shown = part.primary if part.primary != FARTHEST else part.quantities[0].name
        rows = [row for row in gap.rows if row["mode_at"] == "end" and ("from" in row) == part.replayed]
        own = [row for row in rows if row["quantity"] == shown]
        title = f"{shown}: {100 * (1 - gap.stated.alpha):g}% of errors are at most, in {own[0]['unit']}" if own else shown
        title += ", from the start of each episode" if part.replayed else ""
        steps = gap.stated.steps
        cells = {(row["mode"], row["simulator"], row["steps"]): _cell(row) for row in own}
        lines = [
            [mode, name, *(cells.get((mode, name, step), "") for step in steps)]
            for mode, name in dict.fromkeys(
                (mode, row["simulator"]) for mode in part.modes for row in own if row["mode"] == mode
            )
        ]
        headings = ("mode", "simulator", *(f"{step} step{'s' if step > 1 else ''}" for step in steps))
        others = [one.name for one in part.quantities if one.name != shown]
        caption = f"The page and --json also have {', '.join(others)}." if others else None
        found.append(table_of(title, headings, lines, caption, left=("simulator",)))
    trusted = {(row["mode"], row["simulator"]): row for row in gap.trust if row["mode_at"] == "end"}
    if trusted:
        limits = gap.stated.tolerance
        words = ", ".join(f"{limits[one.name]:g} {one.unit}" for one in gap.parts[0].quantities if one.name in limits)
        order = sorted(trusted, key=lambda key: gap.parts[0].modes.index(key[0]))
        lines = [[*key, _trusted(trusted[key])] for key in order]
        title = f"Trusted within {words}: steps, by the mode at the end"
        found.append(table_of(title, ("mode", "simulator", "steps"), lines, left=("simulator",)))
    return found


def _cell(row: dict[str, Any]) -> str:
    if row["bound"] is not None:
        return f"{row['bound']:.3g}"
    return f"{row['needed']} more episodes" if row["needed"] else "unbounded"


def _trusted(row: dict[str, Any]) -> str:
    if row["trusted_steps"] is None:
        return f"unknown: {row['needed']} more episodes"
    return f"{row['trusted_steps']}{'+' if row['ended'] == 'all passed' else ''}"


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words by name."""
    found = {}
    for word in given:
        name, sign, value = word.partition("=")
        if not (name and sign and value):
            raise CaptureError(f"--{option} {word} is not understood; expected NAME=VALUE.")
        found[name] = value
    return found


def _range(name: str, text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        found = float(low), float(high)
    except ValueError:
        found = math.nan, math.nan
    if not 0 <= found[0] <= found[1] < math.inf:
        raise CaptureError(f"--randomise {name}={text} is not understood; expected factors as LOW:HIGH, such as 0.5:1.5.")
    return found
