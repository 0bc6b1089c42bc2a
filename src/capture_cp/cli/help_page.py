"""The help page of a command: what it does, how it is called, and its options under headings, as wide as the terminal."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from capture_cp.cli.options import KEPT, Option, options_of

#: Widest text, for reading.
WIDEST = 100
#: Columns of the options' names; longer ones have a line to themselves.
NAMES = 24
#: With fewer options than this, one heading is enough.
FEW = 8

REQUIRED, OTHER, COLUMNS, TASK = "Required", "Options", "Columns of the log", "Task"
#: Headings and the options under each: by name, or as `part.` those of a nested dataclass. In the order of the page, after
#: what is required and what is a command's own.
HEADINGS: Mapping[str, tuple[str, ...]] = {
    COLUMNS: ("clock",),
    "Model and strata": ("model", "strata", "deterministic-model", "trust", "folder"),
    "Method": (
        "method", "methods", "beside", "rival", "modes", "alpha", "charged-alpha", "confidence", "particles", "k",
        "calibration", "tree", "per-stratum", "min-leaf", "max-leaves", "max-depth", "min-stratum", "farthest",
    ),
    "Distances between configurations": ("distances.",),
    "Split of the log": ("check-share", "train-share", "tree-share"),
    "Planner": ("samples", "horizon", "temperature", "planners", "brake", "brake-steps", "planner."),
    "Weights of the planner's objective, by default each method's own": ("weights.",),
    TASK: ("task.",),
    "Output": ("out", "report", "json", "figures", "record", "state"),
    "Computing": ("device", "backend", "cluster", "jobs", "seed", "computing."),
}  # fmt: skip


def help_page(kind: type[Any], program: str, width: int, task: str | None = None, hints: Iterable[str] = ()) -> str:
    """The help of a command as text of at most `width` columns.

    `kind` is the dataclass of its options, `task` the name of the task among them, and `hints` are sentences after the text.
    """
    width = min(width, WIDEST)
    options = list(options_of(kind))
    lines = [*_usage(program, options, width), ""]
    for paragraph in [*_paragraphs(kind), *hints]:
        lines += [*wrapped(paragraph, width), ""]
    for heading, some in _grouped(options).items():
        name = f"{heading} ({task})" if heading == TASK and task else heading
        lines += [f"{name}:", *(line for option in some for line in entry(option.shown, option.sentence, width)), ""]
    return "\n".join(lines[:-1])


def entry(name: str, text: str, width: int, column: int = NAMES) -> list[str]:
    """A name and what it means, side by side."""
    indent = " " * (column + 2)
    lines = wrapped(text, width, indent)
    first = f"  {name}"
    if len(first) < len(indent) and lines:
        return [first.ljust(len(indent)) + lines[0].lstrip(), *lines[1:]]
    return [*wrapped(name, width, "  ", "      "), *lines]


def _usage(program: str, options: list[Option], width: int) -> list[str]:
    """How the command is called."""
    named = [f"[{one.shown}]" if not one.required else one.shown for one in options if one.positional]
    needed = [one.shown for one in options if one.required and not one.positional]
    words = " ".join([*named, *needed, "[OPTIONS]"])
    start = f"usage: {program} "
    return wrapped(f"{start}{words}", width, "", " " * min(len(start), 16))


def _paragraphs(kind: type[Any]) -> Iterator[str]:
    """The docstring, without the description of attributes."""
    text = re.split(r"^(?:Attributes|Class attributes):\n", inspect.cleandoc(kind.__doc__ or ""), flags=re.MULTILINE)[0]
    yield from (paragraph for paragraph in text.split("\n\n") if paragraph.strip())


def _grouped(options: list[Option]) -> dict[str, list[Option]]:
    """The options under their headings, in the order of the page."""
    found: dict[str, list[Option]] = {heading: [] for heading in (REQUIRED, OTHER, *HEADINGS)}
    for option in options:
        found[REQUIRED if option.required else OTHER if len(options) < FEW else _heading(option)].append(option)
    return {heading: some for heading, some in found.items() if some}


def _heading(option: Option) -> str:
    if not option.part and option.value.startswith("COLUMN"):
        return COLUMNS
    wanted = f"{option.part}." if option.part else "" if option.positional else option.name
    return next((heading for heading, names in HEADINGS.items() if wanted in names), OTHER)


def wrapped(text: str, width: int, first: str = "", later: str | None = None) -> list[str]:
    """Text in lines of at most `width` columns; only words that are longer themselves are broken."""
    text = re.sub(r"[ \n]+", " ", text)
    later = first if later is None else later
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return [line.replace(KEPT, " ") for line in lines]
