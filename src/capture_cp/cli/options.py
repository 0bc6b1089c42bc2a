"""The options of a command, read from the dataclass that `tyro` parses them into, for its help page."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

#: What stands for a value in help, by type.
VALUES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
#: A space at which no line ends.
KEPT = "\N{NO-BREAK SPACE}"
#: Defaults that are no value.
NOTHING = (None, False, "", (), MISSING)


@dataclass(frozen=True)
class Option:
    """One option, or one positional argument.

    Attributes:
        part: the nested dataclass that it belongs to, "" for the command's own.
        name: how it is written, without dashes.
        value: what stands for its value, "" for a flag.
        help: one or two sentences.
        default: its default, MISSING if it is required.
        positional: whether it is written without its name.
    """

    part: str
    name: str
    value: str
    help: str
    default: Any
    positional: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def shown(self) -> str:
        """How it is written; a flag that is on can be turned off."""
        if self.positional:
            return self.value
        if self.value:
            return f"--{self.name} {self.value}"
        return f"--[no-]{self.name}" if self.default is True else f"--{self.name}"

    @property
    def sentence(self) -> str:
        """The help, and the default where there is one."""
        default = _default(self.default)
        return f"{self.help} (default:{KEPT}{default})" if default else self.help


def options_of(kind: type[Any], default: Any = MISSING, part: str = "", prefix: str = "") -> Iterator[Option]:
    """The options of a dataclass in order, with those of the dataclasses nested in it, as `tyro` names them.

    `default` is an instance with the defaults in place of those of its fields.
    """
    import tyro

    hints, described = get_type_hints(kind, include_extras=True), _described(kind)
    for entry in fields(kind):
        plain, more = _unwrapped(hints[entry.name])
        if not entry.init or any(extra is tyro.conf.Suppress for extra in more):
            continue
        argument = {
            key: next((v for extra in more if (v := getattr(extra, key, None)) is not None), None) for key in _ARG_FIELDS
        }
        name = str(entry.name if argument["name"] is None else argument["name"]).replace("_", "-")
        value = _default_of(entry) if default is MISSING else getattr(default, entry.name)
        inner = type(value) if is_dataclass(value) else plain
        if is_dataclass(inner):
            assert isinstance(inner, type)
            yield from options_of(inner, value, entry.name, f"{prefix}{name}." if name else prefix)
            continue
        positional = any(extra is tyro.conf.Positional for extra in more)
        shown = argument["metavar"] or ("" if plain is bool else _value(plain))
        about = argument["help"] or _sentence(described.get(entry.name, ""))
        yield Option(part, prefix + name, shown or name.upper() if positional else shown, about, value, positional)


_ARG_FIELDS = "name", "metavar", "help"  # fields of tyro.conf.arg


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without `None` and without what is annotated, which comes second; the last annotation first."""
    if get_origin(hint) is Annotated:
        plain, more = _unwrapped(get_args(hint)[0])
        return plain, (*reversed(hint.__metadata__), *more)
    inner = [one for one in get_args(hint) if one is not NoneType]
    if len(inner) == 1 and len(inner) < len(get_args(hint)):
        return inner[0], ()
    return hint, ()


def _value(plain: Any) -> str:
    """What stands for a value of a type."""
    if get_origin(plain) is Literal:
        return "{" + ",".join(map(str, get_args(plain))) + "}"
    if get_origin(plain) is tuple:
        inner = get_args(plain)
        return f"{_value(inner[0])} ..." if inner[-1] is Ellipsis else " ".join(map(_value, inner))
    return VALUES.get(plain, "VALUE")


def _default_of(entry: Any) -> Any:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def _default(value: Any) -> str:
    """A default in words, "" where there is none."""
    if any(value is nothing or (type(value) is type(nothing) and value == nothing) for nothing in NOTHING):
        return ""
    if value is True:
        return "on"
    if value == Path():
        return "the current folder"
    return " ".join(shlex.quote(str(one)) for one in value) if isinstance(value, tuple) else str(value)


def _sentence(text: str) -> str:
    """The description of an attribute, as a sentence."""
    text = " ".join(text.split())
    return text and text[0].upper() + text[1:] + ("" if text.endswith((".", "?", ")")) else ".")


def _described(kind: type[Any]) -> dict[str, str]:
    """What the docstrings of a class and of its bases have under "Attributes:", by field."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        section = re.split(r"^Attributes:\n", inspect.cleandoc(base.__doc__ or ""), flags=re.MULTILINE)
        if len(section) == 2:
            body = re.split(r"^\S", section[1], maxsplit=1, flags=re.MULTILINE)[0]
            found |= dict(re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", body, re.MULTILINE))
    return found
