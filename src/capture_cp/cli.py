"""The command line: `capture COMMAND --help` explains each command."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.errors import MarkupError
from rich.text import Text

from capture_cp import __version__
from capture_cp.base.checks import CaptureError, CaptureWarning, printable, shortened
from capture_cp.logs.calibrate import Calibrate
from capture_cp.logs.check import Check
from capture_cp.logs.config import expanded
from capture_cp.logs.size import Size
from capture_cp.studies.coverage import CoverageStudy
from capture_cp.studies.demo import Demo
from capture_cp.studies.horizon import HorizonStudy
from capture_cp.studies.marble_sensitivity import MarbleSensitivity
from capture_cp.studies.online import OnlineStudy
from capture_cp.studies.online_rounds import RoundsStudy
from capture_cp.studies.peg_coverage import PegCoverageStudy
from capture_cp.studies.peg_horizon import PegHorizonStudy
from capture_cp.studies.peg_planning import PegPlanningStudy
from capture_cp.studies.peg_sensitivity import PegSensitivity
from capture_cp.studies.peg_simulator import SimulatorCheck
from capture_cp.studies.planning import PlanningStudy
from capture_cp.studies.reproduce import Reproduce
from capture_cp.studies.study import study_of
from capture_cp.studies.video import Video
from capture_cp.tasks.marble.options import MarbleOptions
from capture_cp.tasks.peg.options import PegOptions
from capture_cp.viewer.view import View

DESCRIPTION = """Calibrated prediction regions for robots in contact: where will it be after its next action?

Start with: capture demo"""

COVERAGE = "Empirical coverage of the methods on a task, stratum by stratum, beside the paper's figures."

HORIZON = "Coverage of regions several steps ahead: the paper's recursion beside regions calibrated on roll-outs."

ONLINE = "Regions in closed loop: adapting to a system that changes, and calibrated on what the planner does."

PLAN = "Closed-loop planning with the regions of each method on a task, beside the paper's figures."

VIEW = "A live page in the browser: the task in 3D, its configuration space, regions of any method, planning and replay."

PlanCommand = (
    Annotated[PlanningStudy, tyro.conf.subcommand("marble")]
    | Annotated[MarbleSensitivity, tyro.conf.subcommand("marble-sensitivity")]
    | Annotated[PegPlanningStudy, tyro.conf.subcommand("peg")]
    | Annotated[PegSensitivity, tyro.conf.subcommand("peg-sensitivity")]
)

CoverageCommand = (
    Annotated[CoverageStudy, tyro.conf.subcommand("marble")] | Annotated[PegCoverageStudy, tyro.conf.subcommand("peg")]
)

HorizonCommand = (
    Annotated[HorizonStudy, tyro.conf.subcommand("marble")] | Annotated[PegHorizonStudy, tyro.conf.subcommand("peg")]
)

OnlineCommand = (
    Annotated[OnlineStudy, tyro.conf.subcommand("marble")] | Annotated[RoundsStudy, tyro.conf.subcommand("marble-rounds")]
)

MarbleView: Any = study_of(View, MarbleOptions)
PegView: Any = study_of(View, PegOptions)
ViewCommand = Annotated[MarbleView, tyro.conf.subcommand("marble")] | Annotated[PegView, tyro.conf.subcommand("peg")]

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[CoverageCommand, tyro.conf.subcommand("coverage", description=COVERAGE)]
    | Annotated[HorizonCommand, tyro.conf.subcommand("horizon", description=HORIZON)]
    | Annotated[PlanCommand, tyro.conf.subcommand("plan", description=PLAN)]
    | Annotated[OnlineCommand, tyro.conf.subcommand("online", description=ONLINE)]
    | Annotated[Size, tyro.conf.subcommand("size")]
    | Annotated[Calibrate, tyro.conf.subcommand("calibrate")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
    | Annotated[Video, tyro.conf.subcommand("video")]
    | Annotated[ViewCommand, tyro.conf.subcommand("view", description=VIEW, default=MarbleView())]
    | Annotated[SimulatorCheck, tyro.conf.subcommand("simulator")]
)


class Terminal(Console):
    """A console that shows what it is given: control characters are not obeyed, and what is no markup is text."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """One piece of text, such as the cell of a table."""
        try:
            return super().render_str(printable(text), **options)
        except MarkupError:
            return super().render_str(printable(text), **(options | {"markup": False}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Whatever fails ends in one sentence and exit status 2; CAPTURE_TRACEBACK=1 shows where."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack the characters of a table, or of a name
    if list(arguments) == ["--version"]:
        print(f"capture-cp {__version__}")
        return
    errors = Terminal(stderr=True)
    try:
        _run(arguments, errors)
    except KeyboardInterrupt:
        errors.print("stopped.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        # whoever read our output has gone, and Python would complain about what is left of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(2) from None
    except Exception as error:
        if os.environ.get("CAPTURE_TRACEBACK"):
            traceback.print_exc()
        errors.print(f"error: {_sentence(error)}", style="red", highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(2) from None


def _run(arguments: Sequence[str], errors: Console) -> None:
    command = tyro.cli(Command, prog="capture", description=DESCRIPTION, args=expanded(arguments))
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, category, *_: errors.print(
            f"warning: {message}",
            style="yellow" if issubclass(category, CaptureWarning) else "dim",
            highlight=False,
            markup=False,
        )
        command.run(Terminal())


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
