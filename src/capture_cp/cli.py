"""The command line: `capture COMMAND --help` explains each command. What a command does not need is not imported."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from capture_cp.base.checks import CaptureError, CaptureWarning, known_name, shortened
from capture_cp.base.terminal import Terminal
from capture_cp.tasks.registry import DEFAULT_TASK, TASK_COMMANDS, find_task, task_names


class Command(NamedTuple):
    """What a command runs, `module:class`, and one line about it; `of_task` takes the name of a task first."""

    where: str
    summary: str
    of_task: bool = False


OWN = {
    "size": Command("capture_cp.logs.size:Size", "How many transitions to log, before logging any."),
    "inspect": Command("capture_cp.logs.inspect:Inspect", "What is inside a log, and which columns to name."),
    "log": Command("capture_cp.logs.record_env:LogEnv", "Log transitions of a Gymnasium environment."),
    "calibrate": Command("capture_cp.logs.calibrate:Calibrate", "From a log of transitions to regions and a report."),
    "check": Command("capture_cp.logs.check:Check", "Does a new log still satisfy a calibration, or a certificate?"),
    "extend": Command("capture_cp.logs.extend:Extend", "More logs for a calibration, without keeping the old ones."),
    "merge": Command("capture_cp.logs.extend:Merge", "Calibrations of several sites as one."),
    "certify": Command(
        "capture_cp.studies.certify:CertifyStudy", "How often will a planner fail? A certificate.", of_task=True
    ),
}
SHOWN = {
    "demo": Command("capture_cp.studies.demo:Demo", "See what this is about in two minutes, with a report.", of_task=True),
    "view": Command("capture_cp.viewer.view:View", "A live page of a task, or of your own calibration.", of_task=True),
    "video": Command("capture_cp.studies.video:Video", "A recorded episode, or one of your own log, as a film."),
    "reproduce": Command("capture_cp.studies.reproduce:Reproduce", "Every table and figure of the paper, ours beside."),
}
STUDIES = {
    "coverage": Command("capture_cp.studies.coverage:CoverageStudy", "How often regions hold, by stratum.", of_task=True),
    "horizon": Command("capture_cp.studies.horizon:HorizonStudy", "Regions several steps ahead.", of_task=True),
    "plan": Command("capture_cp.studies.planning:PlanningStudy", "Planning in closed loop with regions.", of_task=True),
    "sensitivity": Command(
        "capture_cp.studies.sensitivity:SensitivityStudy", "Planning when one setting differs.", of_task=True
    ),
    "worth": Command("capture_cp.studies.worth:WorthStudy", "When regions help a planner, and when not.", of_task=True),
    "online": Command("capture_cp.studies.online:OnlineStudy", "Regions that adapt to a system that changes.", of_task=True),
    "rounds": Command("capture_cp.studies.rounds:RoundsStudy", "Calibration on the planner's own episodes.", of_task=True),
    "promises": Command(
        "capture_cp.studies.promises:PromisesStudy", "What regions promise a planner, and keep.", of_task=True
    ),
}
COMMANDS = OWN | SHOWN | STUDIES | {name: Command(*brought[1:]) for name, brought in TASK_COMMANDS.items()}

HEADINGS = {
    "Your own robot": OWN,
    "See it work": SHOWN,
    "Studies of a task": STUDIES,
    "Studies that one task brings": {name: COMMANDS[name] for name in TASK_COMMANDS},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Whatever fails ends in one sentence and exit status 2; CAPTURE_TRACEBACK=1 shows where."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack the characters of a table, or of a name
    if given == ["--version"]:
        from importlib.metadata import version

        print(f"capture-cp {version('capture-cp')}")
        return
    errors = Terminal(stderr=True)
    try:
        if not given or given[0] in ("-h", "--help"):
            print(_overview(), flush=True)
            raise SystemExit(0 if given else 2)
        _run(given[0], given[1:], errors)
    except KeyboardInterrupt:
        errors.print("stopped.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        # whoever read our output has gone, and Python would complain about what is left of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(2) from None
    except Exception as error:
        if os.environ.get("CAPTURE_TRACEBACK"):
            import traceback

            traceback.print_exc()
        errors.print(f"error: {_sentence(error)}", style="red", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(2) from None


def _overview() -> str:
    lines = ["usage: capture COMMAND ...", "", "Calibrated prediction regions for robots in contact: where will it be after"]
    lines += ["its next action, with a guarantee. Start with: capture demo"]
    for heading, commands in HEADINGS.items():
        lines += ["", f"{heading}:", *(f"  {name:<12} {command.summary}" for name, command in commands.items())]
    lines += ["", f"Tasks: {', '.join(task_names())}, or one of your own: --task module:object."]
    lines += ["`capture COMMAND --help` explains a command and its options; `capture --version` prints the version."]
    return "\n".join(lines)


#: What a command runs instead where a file or an option decides: outcomes in place of a task, a certificate in place of a
#: calibration, an environment in place of a log.
OUTCOMES = Command("capture_cp.logs.certify:CertifyOutcomes", "A certificate from logged outcomes.")
ROBOT_VIEW = Command("capture_cp.viewer.log_view:LogView", "A live page of your own calibration and log.")
ROBOT_VIDEO = Command("capture_cp.logs.video:LogVideo", "An episode of your own log as a film.")
ENVIRONMENT = Command("capture_cp.logs.calibrate_env:CalibrateEnv", "From a Gymnasium environment to regions and a report.")
CERTIFICATE = Command("capture_cp.logs.check_certificate:CheckCertificate", "Does a certificate still stand?")


def _command(name: str, given: list[str]) -> Command:
    """What a command runs; for some their first argument decides."""
    first = given[0] if given and not given[0].startswith("-") else None
    if name == "certify" and first is not None and first not in task_names():
        if "." not in first and "/" not in first:
            known_name("task", first, task_names())  # says which there are
        return OUTCOMES
    if name == "calibrate" and any(word == "--env" or word.startswith("--env=") for word in given):
        if first is not None:
            raise CaptureError(f"both {first} and --env are given; calibrate on a log or on an environment, not on both.")
        return ENVIRONMENT
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
        return file.read(2) != b"PK"  # how the archives begin that episodes are


def _run(name: str, given: list[str], errors: Terminal) -> None:
    command = _command(name, given)
    if command.of_task:
        job = _study(name, command, given)
    else:
        if name in TASK_COMMANDS and given[:1] == [TASK_COMMANDS[name][0]]:
            given = given[1:]
        job = _parsed(_loaded(command.where), f"capture {name}", _expanded(name, given))
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, category, *_: errors.print(
            f"warning: {message}",
            style="yellow" if issubclass(category, CaptureWarning) else "dim",
            highlight=False,
            markup=False,
        )
        job.run(Terminal())


def _study(name: str, command: Command, given: list[str]) -> Any:
    """The study of a task, as its own class: other processes can import that."""
    from capture_cp.studies.study import study_of

    task, options = _task(name, given)
    study, chosen = _loaded(command.where), find_task(task)
    found = _parsed(study_of(study, chosen), f"capture {name} {task}", options)
    return study(**{entry.name: getattr(found, entry.name) for entry in fields(study)})


def _task(name: str, given: list[str]) -> tuple[str, list[str]]:
    """The task that a study is asked for, and the options that are left."""
    if given and not given[0].startswith("-"):
        return known_name("task", given[0], task_names()), given[1:]
    if "--task" in given:
        at = given.index("--task")
        if at + 1 < len(given):
            return given[at + 1], given[:at] + given[at + 2 :]
    asks_help = given[:1] in (["-h"], ["--help"])
    if name == "demo" or (name == "view" and not asks_help):
        return DEFAULT_TASK, given
    if asks_help:
        print(f"usage: capture {name} TASK [OPTIONS]\n\n{COMMANDS[name].summary}\n")
        print(f"Tasks: {', '.join(task_names())}, or one of your own: --task module:object.")
        print(f"`capture {name} TASK --help` lists the options.")
        if name == "certify":
            print("Of logged episodes: capture certify OUTCOMES.csv [OPTIONS]; --help lists these.")
        raise SystemExit(0)
    log = ", or a CSV file of outcomes" if name == "certify" else ""
    raise CaptureError(
        f"capture {name} needs a task; name one of {', '.join(task_names())}, or your own with --task module:object{log}."
    )


def _parsed(kind: Any, program: str, given: Sequence[str]) -> Any:
    import tyro

    return tyro.cli(kind, prog=program, args=given)


def _expanded(name: str, given: list[str]) -> list[str]:
    if name not in OWN or name == "certify":
        return given
    from capture_cp.logs.config import expanded

    return expanded([name, *given])[1:]


def _loaded(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


def _sentence(error: Exception) -> str:
    """What went wrong, for someone who has not read the code."""
    if isinstance(error, CaptureError):
        return str(error)
    where = "CAPTURE_TRACEBACK=1 in the environment shows where."
    if isinstance(error, MemoryError):
        return f"not enough memory; use a smaller log, or fewer particles or samples. {where}"
    if isinstance(error, OSError) and error.strerror:
        file = "" if error.filename is None else f" ({error.filename})"
        return f"the system refuses: {error.strerror}{file}. {where}"
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return f"this should not have happened: {shortened(words, 500)}. {where}"


if __name__ == "__main__":  # python -m capture_cp.cli, where no script is installed
    main()
