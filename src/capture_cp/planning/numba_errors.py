"""Numba's errors in a sentence: what is wrong, and in which line of the user's."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

from numba.core.errors import NumbaError, UnsupportedBytecodeError

#: What compiling may raise.
COMPILING = (NumbaError, UnsupportedBytecodeError)

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"^Failed in \w+ mode pipeline|^During: |^File |^<source|^[-^ ]*$")
_PLACE = re.compile(r"(?:at|defined at) (?P<file>\S.*\.py|<[^>]+>) \((?P<line>\d+)\)")
_CALLEE = re.compile(r"resolving callee type: type\(\w+\(<function (?P<name>\w+) at")
_OURS = Path(__file__).parent


def why(error: BaseException) -> str:
    """The cause, and the line of the user's function that it was found in, without a full stop."""
    text = _ESCAPES.sub("", str(error))
    lines = [line.strip() for line in text.splitlines()]
    cause = next((line for line in lines if line and not _FRAME.match(line)), type(error).__name__)
    return re.sub(r"\.*( Raised from None)?$", "", cause) + _where(text)


def _where(text: str) -> str:
    """The innermost line of code that is not of this library, or the innermost function."""
    for place in _PLACE.finditer(text):
        file, line = place["file"], int(place["line"])
        if not file.startswith("<roll-out kernel") and not _is_ours(Path(file)):
            code = linecache.getline(file, line).strip()
            return f", in line {line} of {file}" + (f": `{code}`" if code else "")
    callee = _CALLEE.search(text)
    return f", in the function {callee['name']}" if callee else ""


def _is_ours(file: Path) -> bool:
    return file.parent == _OURS or file.name.startswith("capture_rollout_")
