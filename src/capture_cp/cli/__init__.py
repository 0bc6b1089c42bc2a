"""The command line: `capture COMMAND --help` explains each command. Each command imports only what it needs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from inspect import cleandoc
from io import TextIOWrapper
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, NamedTuple, NoReturn

from capture_cp.base.errors import CaptureError, CaptureWarning, known_name, shortened
from capture_cp.base.terminal import Terminal
from capture_cp.cli.interrupts import STATUS, end_quietly, interrupted, watch_interrupts
from capture_lab.tasks.registry import DEFAULT_TASK, find_task, task_names


class Command(NamedTuple):
    """What a command runs.

    Attributes:
        where: the class of its options, as `module:class`.
        summary: one line.
        of_task: whether its first argument is a task.
        compiles: whether it calls kernels.
    """

    where: str
    summary: str
    of_task: bool = False
    compiles: bool = True


OWN = {
    "size": Command(
        "capture_cp.commands.size:Size", "Compute how many transitions to log before you start.", compiles=False
    ),
    "inspect": Command(
        "capture_cp.commands.inspect:Inspect", "List what a log contains and which columns you can name.", compiles=False
    ),
    "calibrate": Command("capture_cp.commands.calibrate:Calibrate", "Turn a log into calibrated regions and a report."),
    "check": Command("capture_cp.commands.check:Check", "Test a calibration or certificate on new data."),
    "extend": Command("capture_cp.commands.extend:Extend", "Add new logs to a calibration without the old logs."),
    "merge": Command("capture_cp.commands.extend:Merge", "Combine the calibrations of several sites.", compiles=False),
    "certify": Command(
        "capture_lab.studies.certify:CertifyStudy", "Bound a planner's failure rate and write a certificate.", of_task=True
    ),
}
SHOWN = {
    "demo": Command("capture_lab.studies.demo:Demo", "Run a two-minute example and write a report.", of_task=True),
    "view": Command("capture_cp.viewer.view:View", "Open a live page for a task or for your own calibration.", of_task=True),
    "video": Command("capture_lab.studies.video:Video", "Make a video of a recorded episode, or of one in your log."),
    "reproduce": Command("capture_lab.studies.reproduce:Reproduce", "Recompute every table and figure of the paper."),
}
STUDIES = {
    "coverage": Command(
        "capture_lab.studies.coverage:CoverageStudy", "Measure coverage and region volume by stratum.", of_task=True
    ),
    "horizon": Command(
        "capture_lab.studies.horizon:HorizonStudy", "Measure coverage of regions several steps ahead.", of_task=True
    ),
    "plan": Command(
        "capture_lab.studies.planning:PlanningStudy", "Plan in closed loop with the regions of each method.", of_task=True
    ),
    "sensitivity": Command(
        "capture_lab.studies.sensitivity:SensitivityStudy", "Plan again with one setting changed at a time.", of_task=True
    ),
    "worth": Command("capture_lab.studies.worth:WorthStudy", "Compare planning with and without regions.", of_task=True),
}
COMPUTER = {
    "bench": Command("capture_cp.cli.bench:Bench", "Measure speed as ratios to named alternatives."),
}
COMMANDS = OWN | SHOWN | STUDIES | COMPUTER

#: Commands of a task that run on the default task where none is named.
WITHOUT_TASK = ("demo", "view")
HELP = {"-h", "--help"}
WIDEST = 100  # columns of text

COMPILING = "compiling numerical code: first use only, a minute or two"
ABOUT = (
    "Calibrated prediction regions for robots in contact: sets that contain the configuration after the next action with a "
    "chosen probability, if the next transition is drawn like the logged ones."
)
START = "Start with `capture demo`, or with `capture inspect` and `capture calibrate` on your own log."
HEADINGS = {
    "Your own robot": OWN,
    "See it work": SHOWN,
    "Studies of a task": STUDIES,
    "This computer": COMPUTER,
}
OPTIONS = (("--help", "Show this page; after a command, its options."), ("--version", "Show the version."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Any failure ends with one sentence and exit status 2; CAPTURE_TRACEBACK=1 shows the traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal's encoding may lack some characters
    if given == ["--version"]:
        print(f"capture-cp {version('capture-cp')}")
        return
    errors = Terminal(stderr=True)
    if arguments is None:
        watch_interrupts()
    try:
        if not given or given[0] in HELP:
            _overview(Terminal())
            raise SystemExit(0 if given else 2)
        _run(given[0], given[1:], errors)
    except KeyboardInterrupt:
        _stopped(errors)
    except BrokenPipeError:
        # the reader of our output has closed it, and Python would complain about the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(2) from None
    except Exception as error:
        if interrupted():
            _stopped(errors)
        if os.environ.get("CAPTURE_TRACEBACK"):
            import traceback

            traceback.print_exc()
        errors.print(f"error: {_sentence(error)}", style="red", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(2) from None


def _stopped(errors: Terminal) -> NoReturn:
    """End after Ctrl+C."""
    end_quietly()
    errors.print("stopped.")
    raise SystemExit(STATUS) from None


def _overview(console: Terminal) -> None:
    """Print the commands, one line each."""
    console.print("usage: capture COMMAND [OPTIONS]", markup=False)
    for text in (ABOUT, START):
        console.print(f"\n{text}", highlight=False)
    for heading, commands in HEADINGS.items():
        lines = [(name, command.summary) for name, command in commands.items()]
        _section(console, heading, lines)
    _section(console, "Options", OPTIONS)
    console.print(f"\n{_tasks()}", highlight=False)


def _section(console: Terminal, heading: str, lines: Iterable[tuple[str, str]]) -> None:
    console.print(f"\n[bold]{heading}:[/bold]")
    for name, text in lines:
        console.print(f"  {name:13}{text}", highlight=False)


def _tasks() -> str:
    return f"Tasks: {', '.join(task_names())}, or your own with --task module:object."


#: What a command runs instead, depending on a file or an option: outcomes in place of a task, a certificate in place of a
#: calibration.
OUTCOMES = Command("capture_cp.commands.certify:CertifyOutcomes", "Certify a planner from logged outcomes.", compiles=False)
ROBOT_VIEW = Command("capture_cp.viewer.log_view:LogView", "Open a live page for your own calibration and log.")
ROBOT_VIDEO = Command("capture_cp.commands.video:LogVideo", "Make a video of an episode in your log.")
CERTIFICATE = Command(
    "capture_cp.commands.check_certificate:CheckCertificate", "Test whether a certificate still holds.", compiles=False
)


def _command(name: str, given: list[str]) -> Command:
    """What a command runs; for some commands the first argument decides."""
    first = given[0] if given and not given[0].startswith("-") else None
    if name == "certify" and first is not None and first not in task_names():
        if "." not in first and "/" not in first:
            known_name("task", first, task_names())  # raises an error that lists the tasks
        return OUTCOMES
    if name == "check" and first is not None and Path(first).is_file():
        from capture_cp.certificates.certificate import read_certificate

        if read_certificate(first) is not None:
            return CERTIFICATE
    if name in ("view", "video") and first is not None and _is_own(name, first):
        return ROBOT_VIEW if name == "view" else ROBOT_VIDEO
    return COMMANDS[known_name("command", name, COMMANDS)]


def _is_own(name: str, first: str) -> bool:
    """Whether the first argument of `view` or `video` is a calibration, not a task or a recorded episode."""
    if name == "view":
        return first not in task_names() and ("." in first or "/" in first or Path(first).is_file())
    if not Path(first).is_file():
        return not first.lower().endswith(".npz")
    with Path(first).open("rb") as file:
        return file.read(2) != b"PK"  # episodes are zip archives, which begin like this


def _run(name: str, given: list[str], errors: Terminal) -> None:
    command = _command(name, given)
    if command.of_task:
        job = _study(name, command, given)
    else:
        kind = _loaded(command.where)
        job = _parsed(kind, f"capture {name}", given if _asks_for_help(given) else _expanded(name, given))
    if command.compiles and _must_compile():
        errors.print(COMPILING, style="dim", highlight=False)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, category, *_: errors.print(
            f"warning: {message}",
            style="yellow" if issubclass(category, CaptureWarning) else "dim",
            highlight=False,
            markup=False,
        )
        job.run(Terminal())


def _must_compile() -> bool:
    """Whether the folder with the compiled code of the most used kernels is empty: the next minute is spent compiling."""
    from capture_cp.kernels.compiler import require_compiler
    from capture_cp.kernels.nearest import kth_nearest

    require_compiler()
    folder = kth_nearest.threaded.stats.cache_path
    return folder is None or not any(Path(folder).glob("*.nbi"))


def _study(name: str, command: Command, given: list[str]) -> Any:
    """The study of a task, as its own class: other processes can import that."""
    from capture_lab.studies.study import study_of

    task, options, hints = _task(name, given)
    study = _loaded(command.where)
    found = _parsed(study_of(study, find_task(task)), f"capture {name} {task}", options, hints)
    return study(**{one.name: getattr(found, one.name) for one in fields(study)})


def _task(name: str, given: list[str]) -> tuple[str, list[str], list[str]]:
    """The task that a study is run on, the remaining options, and sentences for the help."""
    found, hints = _named_task(given), [_tasks()]
    if name == "certify":
        hints += ["To certify from a file of logged episodes: capture certify OUTCOMES.csv, see its --help."]
    if found is not None:
        return *found, hints
    if name in WITHOUT_TASK or _asks_for_help(given):
        hints += [f"These are the options of {DEFAULT_TASK}; `capture {name} TASK --help` shows those of another task."]
        return DEFAULT_TASK, given, hints
    log = ", or a CSV file of outcomes" if name == "certify" else ""
    raise CaptureError(
        f"capture {name} needs a task; name one of {', '.join(task_names())}, or your own with --task module:object{log}."
    )


def _asks_for_help(given: list[str]) -> bool:
    return not HELP.isdisjoint(given)


def _named_task(given: list[str]) -> tuple[str, list[str]] | None:
    """The task that is named, and the remaining options; None if none is."""
    if given and not given[0].startswith("-"):
        return known_name("task", given[0], task_names()), given[1:]
    if "--task" in given:
        at = given.index("--task")
        if at + 1 < len(given):
            return given[at + 1], given[:at] + given[at + 2 :]
    return None


def _parsed(kind: Any, program: str, given: Sequence[str], hints: Sequence[str] = ()) -> Any:
    """The options of a command. Where help is asked for, or an option is wrong, that is printed and the command ends."""
    import tyro

    # error messages then do not mention None, which is accepted all the same
    config = () if "None" in given else (tyro.conf.DisallowNone,)
    return tyro.cli(kind, prog=program, args=given, config=config, description=_description(kind, hints))


def _description(kind: Any, hints: Sequence[str]) -> str:
    """What a command does, in lines as wide as the terminal; tyro keeps those that are indented."""
    width = min(get_terminal_size().columns, WIDEST)
    paragraphs = [*cleandoc(kind.__doc__).split("\n\n"), *hints]
    return "\n\n".join(fill(text, width, initial_indent=" ", subsequent_indent=" ") for text in paragraphs)


def _expanded(name: str, given: list[str]) -> list[str]:
    if name not in OWN or name == "certify":
        return given
    from capture_cp.commands.config import expanded

    return expanded([name, *given])[1:]


def _loaded(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


def _sentence(error: Exception) -> str:
    """What went wrong, for readers who do not know the code."""
    if isinstance(error, CaptureError):
        return str(error)
    where = "CAPTURE_TRACEBACK=1 in the environment shows where."
    if isinstance(error, MemoryError):
        return f"not enough memory; use a smaller log, or fewer particles or samples. {where}"
    if isinstance(error, OSError) and error.strerror:
        file = "" if error.filename is None else f" ({error.filename})"
        return f"the operating system reports: {error.strerror}{file}. {where}"
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return f"this should not have happened: {shortened(words, 500)}. {where}"
