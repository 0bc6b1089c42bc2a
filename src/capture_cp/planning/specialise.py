"""The rollout kernel compiled with the user's functions and cached on disk, and numba's errors in one sentence."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from numba.core.errors import NumbaError, UnsupportedBytecodeError

from capture_cp.base.files import cache_folder
from capture_cp.planning import kernel, plugin

#: The line of a template that imports the functions which the user's functions replace.
_PLUGIN = re.compile(r"^from capture_cp\.planning\.plugin import .*$", re.MULTILINE)


class Functions(NamedTuple):
    """The user's numba functions that a kernel calls, see `capture_cp.planning.plugin`."""

    step: Any
    stage_cost: Any
    particle_cost: Any = plugin.particle_cost
    particle_stratum: Any = plugin.particle_stratum
    hazard: Any = plugin.hazard
    stratum: Any = plugin.stratum
    squared: Any = plugin.squared
    hazards: Any = plugin.hazards
    strata: Any = plugin.strata


@cache
def specialise(functions: Functions, params: type = tuple, template: ModuleType = kernel) -> ModuleType:
    """The module `kernel`, or another template, compiled for a user's functions and the class of their parameters."""
    return _specialised(template, functions, inspect.getsource(template) + _told_apart(params))


def _told_apart(params: type) -> str:
    """A comment that gives every class of parameters its own file.

    Numba's index of a compiled file names these classes, and cannot be read if one of them is missing.
    """
    script = getattr(sys.modules["__main__"], "__file__", "") if params.__module__ == "__main__" else ""
    return f"\n# {params.__module__} {script} {params.__qualname__} {getattr(params, '_fields', ())}\n"


def _specialised(template: ModuleType, functions: Functions, source: str) -> ModuleType:
    """A template with the user's functions in it.

    Numba caches compiled code on disk only for functions that live in a file, so a copy of the template's source with the
    user's import in it is written to a cache folder. Functions of a notebook or a script cannot be imported: they are
    compiled again in each session.
    """
    own = [_module_of(part) for part in functions]
    if None in own:
        module = ModuleType(f"{template.__name__}_in_memory")
        vars(module).update(functions._asdict())
        code = _PLUGIN.sub("", source).replace("cache=True", "cache=False")
        exec(compile(code, "<rollout kernel>", "exec"), vars(module))
        return module
    parts = zip(own, functions, functions._fields)
    imports = "\n".join(f"from {name} import {function.__name__} as {role}" for name, function, role in parts)
    kernels = [vars(template)[name] for name in template.KERNELS]
    return _from_file(_PLUGIN.sub(imports, source), _fingerprint(*kernels, *functions))


def _module_of(function: Any) -> str | None:
    """Module from which the function can be imported by its name, if there is one."""
    module = sys.modules.get(function.__module__)
    found = module is not None and getattr(module, function.__name__, None) is function
    return function.__module__ if found and function.__module__ != "__main__" else None


def _fingerprint(*functions: Any) -> str:
    """Digest of every source file with a function that the rollout calls."""
    files = {Path(inspect.getfile(function)) for function in _reachable(functions)}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:24]


def _reachable(functions: Any) -> list[Any]:
    """The functions and every compiled function that they call by name, at any depth."""
    found: dict[int, Any] = {}
    waiting = [function.py_func for function in functions]
    while waiting:
        function = waiting.pop()
        if id(function) not in found:
            found[id(function)] = function
            names = function.__code__.co_names
            called = [function.__globals__.get(name) for name in names]
            called += [getattr(module, name, None) for module in called if isinstance(module, ModuleType) for name in names]
            waiting += [part.py_func for part in called if hasattr(part, "py_func")]
    return list(found.values())


def _from_file(source: str, fingerprint: str) -> ModuleType:
    name = f"capture_rollout_{hashlib.sha256(source.encode()).hexdigest()[:12]}_{fingerprint}"
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        file = _written(cache_folder() / f"{name}.py", source)
    except OSError:
        file = _written(Path(tempfile.mkdtemp(prefix="capture-cp-")) / f"{name}.py", source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _written(file: Path, source: str) -> Path:
    """The file, written whole if it does not exist; its name is a digest of its content."""
    if not file.exists():
        temporary = file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(source, encoding="utf-8")
        temporary.replace(file)
    return file


# -- errors ---------------------------------------------------------------------------------------------------------------

#: Exceptions that compiling may raise.
COMPILING = (NumbaError, UnsupportedBytecodeError)

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"^Failed in \w+ mode pipeline|^During: |^File |^<source|^[-^ ]*$")
_PLACE = re.compile(r"(?:at|defined at) (?P<file>\S.*\.py|<[^>]+>) \((?P<line>\d+)\)")
_CALLEE = re.compile(r"resolving callee type: type\(\w+\(<function (?P<name>\w+) at")
_OURS = Path(__file__).parent


def why(error: BaseException) -> str:
    """The cause, and the line of the user's function where it was found, without a full stop."""
    text = _ESCAPES.sub("", str(error))
    lines = [line.strip() for line in text.splitlines()]
    cause = next((line for line in lines if line and not _FRAME.match(line)), type(error).__name__)
    return re.sub(r"\.*( Raised from None)?$", "", cause) + _where(text)


def _where(text: str) -> str:
    """The innermost line of code outside this library, or the innermost function."""
    for place in _PLACE.finditer(text):
        file, line = place["file"], int(place["line"])
        if not file.startswith("<rollout kernel") and not _is_ours(Path(file)):
            code = linecache.getline(file, line).strip()
            return f", in line {line} of {file}" + (f": `{code}`" if code else "")
    callee = _CALLEE.search(text)
    return f", in the function {callee['name']}" if callee else ""


def _is_ours(file: Path) -> bool:
    return file.parent == _OURS or file.name.startswith("capture_rollout_")
