"""Controls from a dataclass: what the command line takes as flags, the page offers as sliders, menus and boxes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

#: Called with the path of a field, such as "alpha" or "planner.horizon", and its new value.
Change = Callable[[str, Any], None]

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """In a field's annotation: a slider between two bounds."""

    low: float
    high: float
    step: float


@dataclass(frozen=True)
class Choices:
    """In a field's annotation: a menu."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class Control:
    """One field that a page may change: its path, value, bounds or choices, and help."""

    path: str
    value: Any
    marks: Range | Choices | None
    help: str

    @property
    def label(self) -> str:
        return self.path.rpartition(".")[2].replace("_", " ")


def controls_of(settings: Any, skip: Collection[str] = (), prefix: str = "") -> Iterator[Control]:
    """The numbers, switches and choices of a dataclass, nested ones included; text without choices is left out."""
    hints, described = get_type_hints(type(settings), include_extras=True), _described(type(settings))
    for entry in fields(settings):
        path, value = prefix + entry.name, getattr(settings, entry.name)
        extras = get_args(hints[entry.name])[1:] if get_origin(hints[entry.name]) is Annotated else ()
        marks = next((extra for extra in extras if isinstance(extra, Range | Choices)), None)
        help = next((extra.help for extra in extras if getattr(extra, "help", None)), described.get(entry.name, ""))
        if path in skip:
            continue
        if is_dataclass(value):
            yield from controls_of(value, skip, f"{path}.")
        elif marks is not None or isinstance(value, int | float):
            yield Control(path, value, marks, help)


def replaced(settings: T, path: str, value: Any) -> T:
    """A copy of a dataclass with the field at `path` changed."""
    name, _, rest = path.partition(".")
    inner = replaced(getattr(settings, name), rest, value) if rest else value
    return replace(settings, **{name: inner})  # type: ignore[type-var]


def add_control(gui: Any, control: Control, change: Change) -> Any:
    """Put one control on a viser page; `change` is called when a person moves it, not when a program does."""
    label, hint = control.label, control.help
    if isinstance(control.marks, Choices):
        options = (
            control.marks.options if control.value in control.marks.options else (control.value, *control.marks.options)
        )
        handle = gui.add_dropdown(label, options, initial_value=control.value, hint=hint)
    elif isinstance(control.marks, Range):
        kind = type(control.value)
        low, high = min(control.marks.low, control.value), max(control.marks.high, control.value)
        handle = gui.add_slider(label, kind(low), kind(high), kind(control.marks.step), control.value, hint=hint)
    elif isinstance(control.value, bool):
        handle = gui.add_checkbox(label, control.value, hint=hint)
    else:
        handle = gui.add_number(label, control.value, hint=hint)

    def moved(event: Any) -> None:
        if event.client is not None:
            change(control.path, event.target.value)

    handle.on_update(moved)
    return handle


def _described(kind: type) -> dict[str, str]:
    """What the docstring's `Attributes:` say, by name: first sentences."""
    _, _, section = (kind.__doc__ or "").partition("Attributes:")
    found = re.findall(r"^\s+(\w+): (.+(?:\n(?!\s+\w+: ).+)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).split(". ")[0].rstrip(".") + "." for name, text in found}
