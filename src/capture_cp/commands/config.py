"""A TOML file in place of options: it uses the options' names, and its paths are relative to the file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError, known_name, shortened
from capture_cp.base.files import existing_file
from capture_cp.commands.calibrate import Calibrate
from capture_cp.commands.check import Check

NUMBERS = int | float
LISTS_OF_NUMBERS = ("weights",)
PATHS = ("data", "out", "report", "json", "folder")


def expanded(command: str, arguments: Sequence[str]) -> list[str]:
    """Arguments of a command with a TOML file replaced by its options; options on the command line override it."""
    given = list(arguments)
    settings = read_settings(Path(given[0]))
    if command == "calibrate":
        if "data" not in settings:
            raise CaptureError(f'{given[0]} names no data; add a line such as data = "log.csv".')
        first, known = settings.pop("data"), set(_defaults())
    else:
        first, known = settings.pop("out"), {field.name for field in fields(Check)} - {"data", "json", "seed"}
    options = [word for name, value in settings.items() if name in known for word in _option(name, value)]
    later = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    return [first, *given[1:later], *options, *given[later:]]


def read_settings(file: Path) -> dict[str, Any]:
    """The settings of a TOML file by the names of `Calibrate`, with paths made relative to the current folder."""
    data = existing_file(file, "settings file").read_bytes()
    try:
        found = tomllib.loads(data.decode("utf-8-sig"))
    except ValueError as error:  # not TOML, not text, or a number too long to be one
        raise CaptureError(f"settings file {file} is not TOML: {shortened(str(error), 200)}.") from None
    except RecursionError:
        raise CaptureError(f"settings file {file} is nested too deeply; expected names and values only.") from None
    known = {name.replace("_", "-"): name for name in _defaults()}
    settings: dict[str, Any] = {"folder": ".", "out": Calibrate.out}
    for key, value in found.items():
        name = known[known_name(f"setting in {file}", key.replace("_", "-"), known)]
        settings[name] = _checked(file, key, name, value)
    for name in PATHS:
        if name in settings:
            settings[name] = str(file.parent / str(settings[name]))
    return settings


def _defaults() -> dict[str, Any]:
    """The settings by name with their defaults, those of nested options among them; None where there is none."""
    found: dict[str, Any] = {}
    for field in fields(Calibrate):
        if is_dataclass(field.default_factory):
            found |= {inner.name: inner.default for inner in fields(field.default_factory)}
        else:
            found[field.name] = getattr(Calibrate, field.name, None)
    return found


def _checked(file: Path, key: str, name: str, value: Any) -> Any:
    flag = isinstance(_defaults()[name], bool)
    if flag and not isinstance(value, bool):
        raise CaptureError(f"{key} in {file} is {value!r}; expected true or false.")
    plain = flag or (isinstance(value, str | int | float) and not isinstance(value, bool))
    inner = NUMBERS if name in LISTS_OF_NUMBERS else str
    if not plain and not (isinstance(value, list) and all(isinstance(v, inner) and not isinstance(v, bool) for v in value)):
        wanted = "a list of numbers" if name in LISTS_OF_NUMBERS else "text, a number or a list of column names"
        raise CaptureError(f"{key} in {file} is {shortened(repr(value))}; expected {wanted}.")
    return value


def _option(name: str, value: Any) -> list[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
