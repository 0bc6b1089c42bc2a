"""The command line: `capture COMMAND --help` explains each command. Each command imports only what it needs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from inspect import cleandoc
from io import TextIOWrapper
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, NamedTuple, NoReturn

from capture_cp.base.checks import CaptureError, CaptureWarning, known_name, shortened
from capture_cp.base.progress import Terminal
from capture_cp.cli.interrupts import STATUS, end_quietly, interrupted, watch_interrupts


class Command(NamedTuple):
    """What a command runs; classes of options are named as `module:class`, and imported when the command is called.

    Attributes:
        summary: one line.
        own: the class for the user's own files.
        study: the class for a task, which `--task` names.
        named: whether the first argument is the name of the task.
        compiles: whether it calls kernels.
    """

    summary: str
    own: str = ""
    study: str = ""
    named: bool = False
    compiles: bool = True


LAB = "capture_lab.studies"
REGISTRY = "capture_lab.tasks.registry"
COMMANDS = {
    "Test a simulator": {
        "gap": Command(
            "Measure how far simulators are from a robot, per contact.", "capture_cp.commands.gap:MeasureGap", compiles=False
        ),
    },
    "Your own robot": {
        "inspect": Command(
            "List what a log contains and which columns you can name.", "capture_cp.commands.inspect:Inspect", compiles=False
        ),
        "size": Command(
            "Compute how many transitions to log before you start.", "capture_cp.commands.size:Size", compiles=False
        ),
        "calibrate": Command("Turn a log into calibrated regions and a report.", "capture_cp.commands.calibrate:Calibrate"),
        "check": Command("Test a calibration or certificate on new data.", "capture_cp.commands.check:Check"),
        "extend": Command("Add new logs, or calibrations of other sites.", "capture_cp.commands.extend:Extend"),
        "certify": Command(
            "Bound a planner's failure rate and write a certificate.",
            "capture_cp.commands.certify:CertifyOutcomes",
            f"{LAB}.certify:CertifyStudy",
        ),
        "view": Command(
            "Open a live page of a calibration or a task, or save a video.",
            "capture_cp.commands.view:View",
            f"{LAB}.view:TaskView",
        ),
    },
    "See it work": {
        "demo": Command("Run a two-minute example and write a report.", study=f"{LAB}.demo:Demo"),
        "reproduce": Command("Recompute every table and figure of the paper.", f"{LAB}.reproduce:Reproduce"),
    },
    "Studies of a task": {
        "coverage": Command(
            "Measure coverage and region volume by stratum.", study=f"{LAB}.coverage:CoverageStudy", named=True
        ),
        "horizon": Command(
            "Measure coverage of regions several steps ahead.", study=f"{LAB}.horizon:HorizonStudy", named=True
        ),
        "plan": Command(
            "Plan in closed loop with the regions of each method.", study=f"{LAB}.planning:PlanningStudy", named=True
        ),
    },
    "This computer": {
        "bench": Command("Measure speed as ratios to named alternatives.", f"{LAB}.bench:Bench"),
    },
}
EVERY = {name: command for commands in COMMANDS.values() for name, command in commands.items()}
#: What runs instead for a file of another kind than the usual one.
INSTEAD = {
    ("check", "certificate"): "capture_cp.commands.certify:CheckCertificate",
}

#: Former commands, and what to do instead.
FORMER = {
    "merge": "`capture extend A.capture B.capture --out ALL.capture` merges calibrations.",
    "video": "`capture view ... --save FILE` makes videos.",
    "log": "examples/19_gymnasium.py records transitions from a Gymnasium environment; calibrate on its file.",
    "sensitivity": "`capture plan TASK --vary NAME=v1,v2` plans again with one setting changed at a time.",
    "worth": "`capture plan TASK --vary NAME=v1,v2` compares planning with and without regions as an option changes.",
    "online": "`capture_cp.AdaptiveAlpha` makes regions that adapt while the system changes.",
    "rounds": "`capture_cp.executed` and `Capture.fit` recalibrate on the planner's own episodes.",
    "promises": "`capture_cp.executed` and `Capture.coverage` measure coverage on the planner's own episodes.",
    "simulator": "tests/peg/test_systems.py of the source tree tests the accuracy of the peg's simulator.",
}

HELP = {"-h", "--help"}
WIDEST = 100  # columns of text

COMPILING = "compiling numerical code: first use only, a minute or two"
ABOUT = (
    "Calibrated prediction regions for robots in contact: sets that contain the configuration after the next action with a "
    "chosen probability, if the next transition is drawn like the logged ones."
)
START = "Start with `capture gap` if you doubt a simulator, with `capture inspect` on your own log, or with `capture demo`."
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
    lines = {heading: [(name, one.summary) for name, one in commands.items()] for heading, commands in COMMANDS.items()}
    for heading, entries in {**lines, "Options": OPTIONS}.items():
        console.print(f"\n[bold]{heading}:[/bold]")
        for name, text in entries:
            console.print(f"  {name:13}{text}", highlight=False)
    console.print(f"\n{_tasks()}", highlight=False)


def _tasks() -> str:
    return f"Tasks: {', '.join(_registry().task_names())}, or your own as module:object."


def _registry() -> Any:
    """The registry of tasks, which only commands of a task need."""
    return import_module(REGISTRY)


def _run(name: str, given: list[str], errors: Terminal) -> None:
    """Run a command on the user's own files, or on the task that is named."""
    _refuse_former(name, given)
    command = EVERY[known_name("command", name, EVERY)]
    task, rest = _task(name, command, given)
    job = _of_files(name, command, rest) if task is None else _of_task(name, command, task, rest)
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


def _refuse_former(name: str, given: list[str]) -> None:
    """Answer the words of earlier versions with what replaces them."""
    if name in FORMER:
        raise CaptureError(f"there is no `capture {name}` any more: {FORMER[name]}")
    if name == "calibrate" and any(word.partition("=")[0] == "--env" for word in given):
        raise CaptureError(f"there is no `capture calibrate --env` any more: {FORMER['log']}")


def _task(name: str, command: Command, given: list[str]) -> tuple[str | None, list[str]]:
    """The task that a command is called for, None for the user's own files; and the remaining arguments."""
    if not command.study:
        return None, given
    first = given[0] if given and not given[0].startswith("-") else None
    if "--task" in given and (at := given.index("--task")) + 1 < len(given):
        return given[at + 1], given[:at] + given[at + 2 :]
    if command.named and first is not None:
        return first, given[1:]
    if first is not None and not Path(first).exists() and first in _registry().task_names():
        raise CaptureError(f"{first} is a task: capture {name} --task {first}.")
    if command.own and given:
        return None, given
    if command.named and HELP.isdisjoint(given):
        raise CaptureError(f"capture {name} needs a task: capture {name} TASK. {_tasks()}")
    if name == "certify":
        raise CaptureError("capture certify needs a file of outcomes, or a task: capture certify --task NAME.")
    return _registry().DEFAULT_TASK, given


def _of_task(name: str, command: Command, task: str, given: list[str]) -> Any:
    """The study of a task, as its own class: other processes can import that."""
    study = _loaded(command.study)
    called = f"{name} {task}" if command.named else f"{name} --task {task}"
    asked = f"{name} TASK" if command.named else f"{name} --task TASK"
    hints = (_tasks(), f"These are the options of {task}; `capture {asked} --help` shows those of another task.")
    merged = _loaded(f"{LAB}.study:study_of")(study, _registry().find_task(task))
    found = _parsed(merged, f"capture {called}", given, hints)
    return study(**{one.name: getattr(found, one.name) for one in fields(study)})


def _of_files(name: str, command: Command, given: list[str]) -> Any:
    """A command for the user's own files; a file of settings stands for the options in it."""
    where = command.own
    if name in ("calibrate", "check") and given and HELP.isdisjoint(given):
        from capture_cp.data.source import kind_of

        kind = kind_of(given[0])
        where = INSTEAD.get((name, kind), where)
        if kind == "settings":
            from capture_cp.commands.config import expanded

            given = expanded(name, given)
    hints = [f"For a task: capture {name} --task NAME. {_tasks()}"] if command.study else []
    return _parsed(_loaded(where), f"capture {name}", given, hints)


def _must_compile() -> bool:
    """Whether the folder with the compiled code of the most used kernels is empty: the next minute is spent compiling."""
    from capture_cp.kernels.compiler import require_compiler
    from capture_cp.kernels.nearest import kth_nearest

    require_compiler()
    folder = kth_nearest.threaded.stats.cache_path
    return folder is None or not any(Path(folder).glob("*.nbi"))


def _parsed(kind: Any, program: str, given: Sequence[str], hints: Sequence[str] = ()) -> Any:
    """The options of a command. Where help is asked for, or an option is wrong, that is printed and the command ends."""
    import tyro

    # error messages then do not mention None, which is accepted all the same
    config = () if "None" in given else (tyro.conf.DisallowNone,)
    width = min(get_terminal_size().columns, WIDEST)
    # in lines as wide as the terminal; tyro keeps those that are indented
    paragraphs = [*cleandoc(kind.__doc__).split("\n\n"), *hints]
    about = "\n\n".join(fill(text, width, initial_indent=" ", subsequent_indent=" ") for text in paragraphs)
    return tyro.cli(kind, prog=program, args=given, config=config, description=about)


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
