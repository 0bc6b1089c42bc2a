"""Controls of settings: sliders, menus and checkboxes of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from capture_cp.base.checks import CaptureError, known_name

#: Called with the path of a field, such as "alpha" or "planner.horizon", and its new value.
Change = Callable[[str, Any], None]

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
