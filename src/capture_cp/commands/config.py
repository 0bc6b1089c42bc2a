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

PATHS = ("data", "out", "report", "json", "folder")


def expanded(command: str, arguments: Sequence[str]) -> list[str]:
    """Arguments of a command with a TOML file replaced by its options; options on the command line override it."""
    file, given = Path(arguments[0]), list(arguments[1:])
    settings, known = read_settings(file), set(_defaults(Calibrate))
    if command == "check":
        first, known = settings["out"], known & set(_defaults(Check)) - {"data", "json", "seed"}
    elif "data" in settings:
        first = settings.pop("data")
    else:
        raise CaptureError(f'{file} names no data; add a line such as data = "log.csv".')
    options = [word for name, value in settings.items() if name in known for word in _option(name, value)]
    later = next((i for i, word in enumerate(given) if word.startswith("-")), len(given))
    return [first, *given[:later], *options, *given[later:]]


def read_settings(file: Path) -> dict[str, Any]:
    """The settings of a TOML file by the names of `Calibrate`, with paths made relative to the current folder."""
    data, defaults = existing_file(file, "settings file").read_bytes(), _defaults(Calibrate)
    try:
        found = tomllib.loads(data.decode("utf-8-sig"))
    except ValueError as error:  # not TOML, not text, or a number too long to be one
        raise CaptureError(f"settings file {file} is not TOML: {shortened(str(error), 200)}.") from None
    except RecursionError:
        raise CaptureError(f"settings file {file} is nested too deeply; expected names and values only.") from None
    known = {name.replace("_", "-"): name for name in defaults}
    settings: dict[str, Any] = {"folder": ".", "out": Calibrate.out}
    for key, value in found.items():
        name = known[known_name(f"setting in {file}", key.replace("_", "-"), known)]
        if isinstance(value, dict) or isinstance(value, bool) != isinstance(defaults[name], bool):
            wanted = "true or false" if isinstance(defaults[name], bool) else "text, a number or a list of them"
            raise CaptureError(f"{key} in {file} is {shortened(repr(value))}; expected {wanted}.")
        settings[name] = value
    return settings | {name: str(file.parent / str(settings[name])) for name in PATHS if name in settings}


def _defaults(command: type) -> dict[str, Any]:
    """The settings of a command by name with their defaults, those of nested options among them; None without one."""
    found: dict[str, Any] = {}
    for field in fields(command):
        nested = field.default_factory if is_dataclass(field.default_factory) else None
        found |= {field.name: field.default} if nested is None else {one.name: one.default for one in fields(nested)}
    return found


def _option(name: str, value: Any) -> list[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
