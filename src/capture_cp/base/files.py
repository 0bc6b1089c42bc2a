"""Atomic writing of files, and reading with clear error messages."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError

Pathlike = str | os.PathLike[str]

#: Bytes that any file may unpack to, plus a multiple of its own size: logs compress about tenfold, zip bombs a
#: thousandfold.
UNPACKED, PACKING = 1 << 26, 200
#: Seconds after which a temporary file counts as left by a killed process.
ABANDONED = 86_400


@cache
def folder_of_this_run() -> Path:
    """A folder that no other user can write to, since code in it may be run; it is deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix="capture-cp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextmanager
def written_whole(path: Pathlike) -> Iterator[Path]:
    """A temporary file that replaces `path` when the block succeeds; on an error, `path` is left unchanged.

    If `path` is a link, its target is replaced and the link stays. A replaced file keeps its permissions. A device or a
    pipe is written to directly.
    """
    target = _destination(path)
    with _clear_errors(path), _through(Path(path)) if target is None else _beside(path, target) as temporary:
        yield temporary


def check_writable(file: Path | None) -> None:
    """Raise an error if a result file cannot be written: call it before a long computation."""
    if file is None:
        return
    target = _destination(file)
    if target is None:
        if not os.access(file, os.W_OK):
            raise CaptureError(f"cannot write {file}: you have no permission to write to it; choose another name.")
        return
    with _clear_errors(file):  # a name may be too long for the file system
        _check_replaceable(file, target)
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise CaptureError(f"cannot write {file}: {target.parent} is not a folder that can be written to.")


def _destination(path: Pathlike) -> Path | None:
    """The file to create or replace, with links followed; None for anything that must be written to directly.

    That is a device, a pipe, or an open file such as /dev/stdout, which would keep writing to the replaced file.
    """
    if not Path(path).name or "\0" in os.fspath(path):
        raise CaptureError(f"cannot write {os.fspath(path)!r}: it is not a file name; choose one.")
    link = Path(os.path.abspath(path))
    try:
        mode = link.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return None
        while link.is_symlink():
            link = link.parent / link.readlink()
            if link.is_relative_to("/proc"):
                return None
    except OSError:  # missing or inaccessible: creating the temporary file will raise the error
        pass
    return Path(os.path.realpath(path))


def _check_replaceable(path: Pathlike, target: Path) -> None:
    if target.is_symlink():  # even after links were followed
        raise CaptureError(f"cannot write {path}: its links lead in a circle; choose another name.")
    if target.is_dir():
        raise CaptureError(f"cannot write {path}: it is a folder; choose another name.")
    if target.exists() and not os.access(target, os.W_OK):
        raise CaptureError(f"cannot write {path}: the file there is read-only; choose another name.")


@contextmanager
def _clear_errors(path: Pathlike) -> Iterator[None]:
    """Turn an OSError into one sentence about the file."""
    try:
        yield
    except OSError as error:
        raise CaptureError(f"cannot write {path}: {error.strerror or error}.") from error


@contextmanager
def _beside(path: Pathlike, target: Path) -> Iterator[Path]:
    """A temporary file next to `target`, which it replaces at the end, with the owner and permissions of that."""
    _check_replaceable(path, target)
    _remove_abandoned(target)
    temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}{target.suffix}")
    before = target.stat() if target.exists() else None
    try:
        mark = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if before is None else 0o600)
    except OSError as error:
        raise CaptureError(f"cannot write {path}: {error.strerror}; choose a folder that exists and is writable.") from None
    try:
        if before is not None and hasattr(os, "fchown"):  # not every file system has owners and modes
            with suppress(OSError):
                os.fchown(mark, before.st_uid, before.st_gid)
            with suppress(OSError):
                os.fchmod(mark, stat.S_IMODE(before.st_mode) & 0o777)
        os.close(mark)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _through(path: Path) -> Iterator[Path]:
    """A temporary file whose content is copied into `path` at the end."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / f"written{path.suffix}"
        temporary.touch()
        yield temporary
        with temporary.open("rb") as whole, path.open("wb") as sink:
            shutil.copyfileobj(whole, sink)


def _prefix(target: Path) -> str:
    """Prefix of the names of temporary files for a target: its name, or a digest of a long name."""
    name = target.name if len(os.fsencode(target.name)) < 200 else hashlib.sha256(os.fsencode(target.name)).hexdigest()
    return f".{name}."


def _remove_abandoned(target: Path) -> None:
    """Delete temporary files for a target that a killed process has left: nothing was written to them for a day."""
    pattern = re.compile(rf"{re.escape(_prefix(target))}[0-9a-f]{{16}}{re.escape(target.suffix)}")
    with suppress(OSError):
        for file in target.parent.iterdir():
            if pattern.fullmatch(file.name) and not file.is_symlink() and time.time() - file.stat().st_mtime > ABANDONED:
                file.unlink(missing_ok=True)


def write_json(path: Pathlike, content: Any) -> None:
    """Write the content as a JSON file, atomically."""
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def existing_file(path: Pathlike, kind: str) -> Path:
    """`path`, checked to be a readable, non-empty file."""
    file = Path(path)
    try:
        there, readable = file.is_file(), os.access(file, os.R_OK)
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot read {kind} {file}: {_reason(error)}; check the path.") from None
    if not there:
        raise CaptureError(f"{kind} {file} does not exist or is not a file; check the path.")
    if not readable:
        raise CaptureError(
            f"cannot read {kind} {file}: you have no read permission; change the permission, or copy the file."
        )
    if file.stat().st_size == 0:
        raise CaptureError(f"{kind} {file} is empty; write it again.")
    return file


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def check_unpacked(file: Path, kind: str, size: int) -> None:
    """Raise an error if `size`, the unpacked size a file states, is out of proportion to the file."""
    if not 0 <= size <= UNPACKED + PACKING * file.stat().st_size:
        raise CaptureError(
            f"{kind} {file} states {size:,} unpacked bytes in a file of {file.stat().st_size:,}, far more than any log or "
            "recording; if the size is right, write the file again without compression."
        )
