"""Controls from a dataclass: flags of the command line as sliders, menus and checkboxes of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from capture_cp.base.checks import CaptureError, known_name

#: Called with the path of a field, such as "alpha" or "planner.horizon", and its new value.
Change = Callable[[str, Any], None]

T = TypeVar("T")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Range:
    """In a field's annotation: a slider between two bounds, or without a step a number field."""

    low: float
    high: float
    step: float | None = None


@dataclass(frozen=True)
class Choices:
    """In a field's annotation: a menu."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class Control:
    """One field that a page can change: its path, value, bounds or choices, and help."""

    path: str
    value: Any
    marks: Range | Choices | None
    help: str

    @property
    def label(self) -> str:
        return self.path.rpartition(".")[2].replace("_", " ")

    @property
    def options(self) -> tuple[str, ...]:
        """Options of a menu: its choices, and the initial value."""
        assert isinstance(self.marks, Choices)
        return self.marks.options if self.value in self.marks.options else (self.value, *self.marks.options)

    @property
    def bounds(self) -> tuple[Any, Any]:
        """Bounds of a number, widened to include the initial value."""
        assert isinstance(self.marks, Range)
        kind = type(self.value)
        return kind(min(self.marks.low, self.value)), kind(max(self.marks.high, self.value))

    def checked(self, value: Any) -> Any:
        """A value sent by a page, checked: any program can send anything."""
        if isinstance(self.marks, Choices):
            return known_name(self.label, value, self.options)
        if isinstance(self.value, bool):
            return bool(value)
        return number_between(self.label, value, *self.bounds)


def number_between(name: str, value: Any, low: Number, high: Number) -> Number:
    """`value` as a number of the type of its bounds, checked to lie between them."""
    kind = type(low)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or kind(value) != value:
        what = "a whole number" if kind is int else "a number"
        raise CaptureError(f"{name} is {value!r}; expected {what} from {low:g} to {high:g}.")
    return kind(value)


def controls_of(
    settings: Any, skip: Collection[str] = (), prefix: str = "", bounds: Mapping[str, Range] = MappingProxyType({})
) -> Iterator[Control]:
    """The numbers, switches and choices of a dataclass, nested ones included; text without choices is left out.

    `bounds` are for numbers without bounds in their annotation, by path.
    """
    hints, described = get_type_hints(type(settings), include_extras=True), _described(type(settings))
    for entry in fields(settings):
        path, value = prefix + entry.name, getattr(settings, entry.name)
        extras = get_args(hints[entry.name])[1:] if get_origin(hints[entry.name]) is Annotated else ()
        marks = next((extra for extra in extras if isinstance(extra, Range | Choices)), bounds.get(path))
        help = next((extra.help for extra in extras if getattr(extra, "help", None)), described.get(entry.name, ""))
        if path in skip:
            continue
        if is_dataclass(value):
            yield from controls_of(value, skip, f"{path}.", bounds)
        elif marks is not None or isinstance(value, int | float):
            yield Control(path, value, marks, help)


def replaced(settings: T, path: str, value: Any) -> T:
    """A copy of a dataclass with the field at `path` changed."""
    name, _, rest = path.partition(".")
    inner = replaced(getattr(settings, name), rest, value) if rest else value
    return replace(settings, **{name: inner})  # type: ignore[type-var]


def add_control(gui: Any, control: Control, change: Change) -> Any:
    """Add one control to a viser page; `change` is called when the user moves it, not when the page sets it."""
    label, hint = control.label, control.help
    if isinstance(control.marks, Choices):
        handle = gui.add_dropdown(label, control.options, initial_value=control.value, hint=hint)
    elif isinstance(control.value, bool):
        handle = gui.add_checkbox(label, control.value, hint=hint)
    elif isinstance(control.marks, Range) and control.marks.step is not None:
        step = type(control.value)(control.marks.step)
        handle = gui.add_slider(label, *control.bounds, step, control.value, hint=hint)
    else:
        low, high = control.bounds
        handle = gui.add_number(label, control.value, min=low, max=high, hint=hint)

    def moved(event: Any) -> None:
        if event.client is not None:
            change(control.path, event.target.value)

    handle.on_update(moved)
    return handle


def _described(kind: type) -> dict[str, str]:
    """The first sentences of the docstring's `Attributes:`, by name."""
    _, _, section = (kind.__doc__ or "").partition("Attributes:")
    found = re.findall(r"^\s+(\w+): (.+(?:\n(?!\s+\w+: ).+)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).split(". ")[0].rstrip(".") + "." for name, text in found}
