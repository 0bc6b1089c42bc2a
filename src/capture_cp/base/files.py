"""Files that are either written whole or not at all, and read with clear errors."""

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Pathlike = str | os.PathLike[str]

#: Bytes that any file may unpack to, and how often its own size beyond that: a log packs tenfold, a bomb a thousandfold.
UNPACKED, PACKING = 1 << 26, 200


def cache_folder() -> Path:
    """Where things that can be made again are kept between runs; it may not exist yet."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(chosen) if chosen else Path.home() / ".cache") / "capture-cp"
    except RuntimeError:  # this user has no home
        return _folder_of_this_run()


@cache
def _folder_of_this_run() -> Path:
    """A folder that nobody else can write to, as what is kept there may be run; it goes with the process."""
    folder = tempfile.mkdtemp(prefix="capture-cp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextmanager
def written_whole(path: Pathlike) -> Iterator[Path]:
    """A temporary file that takes the place of `path` when the block ends well; otherwise nothing changes.

    A link stays a link, and what it leads to is replaced. A file that is replaced keeps its permissions. What is no file but
    a device or a pipe is written into.
    """
    target = _destination(path)
    with _stated(path), _through(Path(path)) if target is None else _beside(path, target) as temporary:
        yield temporary


def check_writable(file: Path | None) -> None:
    """Refuse a result file that cannot be written, before the work and not after it."""
    if file is None:
        return
    target = _destination(file)
    if target is None:
        if not os.access(file, os.W_OK):
            raise CaptureError(f"cannot write {file}: it does not take data from this user; choose another name.")
        return
    with _stated(file):  # a name may be too long to be looked at
        _check_replaceable(file, target)
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise CaptureError(f"cannot write {file}: {target.parent} is not a folder that can be written to.")


def _destination(path: Pathlike) -> Path | None:
    """The file that is to be made or replaced, links followed; None for what must be written into as it is.

    That is a device, a pipe, or an open file such as /dev/stdout, which would go on with the file that was replaced.
    """
    if not Path(path).name or "\0" in os.fspath(path):
        raise CaptureError(f"cannot write {os.fspath(path)!r}: that is not the name of a file; choose one.")
    link = Path(os.path.abspath(path))
    try:
        mode = link.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return None
        while link.is_symlink():
            link = link.parent / link.readlink()
            if link.is_relative_to("/proc"):
                return None
    except OSError:  # nothing there, or nothing that can be looked at: making the temporary file will tell
        pass
    return Path(os.path.realpath(path))


def _check_replaceable(path: Pathlike, target: Path) -> None:
    if target.is_symlink():  # although links were followed
        raise CaptureError(f"cannot write {path}: its links lead in a circle; choose another name.")
    if target.is_dir():
        raise CaptureError(f"cannot write {path}: it is a folder; choose another name.")
    if target.exists() and not os.access(target, os.W_OK):
        raise CaptureError(f"cannot write {path}: the file there is read-only; choose another name.")


@contextmanager
def _stated(path: Pathlike) -> Iterator[None]:
    """Failures of the system as one sentence about the file that was meant."""
    try:
        yield
    except OSError as error:
        raise CaptureError(f"cannot write {path}: {error.strerror or error}.") from error


@contextmanager
def _beside(path: Pathlike, target: Path) -> Iterator[Path]:
    """A temporary file in the folder of `target`, which it replaces in the end; it is locked as long as we live."""
    _check_replaceable(path, target)
    _remove_abandoned(target)
    temporary = target.with_name(f"{_prefix(target)}{os.getpid()}.{secrets.token_hex(6)}{target.suffix}")
    before = target.stat() if target.exists() else None
    try:
        mark = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if before is None else 0o600)
    except OSError as error:
        raise CaptureError(f"cannot write {path}: {error.strerror}; choose a folder that exists and is writable.") from None
    with _held(mark, before):
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _through(path: Path) -> Iterator[Path]:
    """A temporary file whose content is written into `path` in the end."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / f"written{path.suffix}"
        temporary.touch()
        yield temporary
        with temporary.open("rb") as whole, path.open("wb") as sink:
            shutil.copyfileobj(whole, sink)


@contextmanager
def _held(mark: int, before: os.stat_result | None) -> Iterator[None]:
    """Keep an open file locked while the block lasts, with permissions and owner of the one that it replaces, if any.

    As far as system and disk know of such things: Windows does not, and lets no open file be replaced.
    """
    if fcntl is None:
        os.close(mark)
        yield
        return
    try:
        with suppress(OSError):
            _lock(mark)
        if before is not None:
            with suppress(OSError):
                os.fchown(mark, before.st_uid, before.st_gid)
            with suppress(OSError):
                os.fchmod(mark, stat.S_IMODE(before.st_mode) & 0o777)
        yield
    finally:
        os.close(mark)


def _prefix(target: Path) -> str:
    """How the names of temporary files for a target begin; of its name if there is room for more."""
    name = target.name if len(os.fsencode(target.name)) < 200 else hashlib.sha256(os.fsencode(target.name)).hexdigest()
    return f".{name}."


def _remove_abandoned(target: Path) -> None:
    """Delete temporary files for a target whose makers were killed: no such process runs, and nobody holds their lock."""
    if fcntl is None:
        return
    pattern = re.compile(rf"{re.escape(_prefix(target))}(\d+)\.[0-9a-f]{{12}}{re.escape(target.suffix)}")
    with suppress(OSError):
        for file in target.parent.iterdir():
            found = pattern.fullmatch(file.name)
            if found is not None and not _is_running(int(found[1])):
                with suppress(OSError):
                    _remove_unlocked(file)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _remove_unlocked(file: Path) -> None:
    mark = os.open(file, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        _lock(mark)
        file.unlink()
    finally:
        os.close(mark)


def _lock(mark: int) -> None:
    """Take the lock of an open file, or raise OSError if another process has it."""
    fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_json(path: Pathlike, content: Any) -> None:
    """The content as one JSON file, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def existing_file(path: Pathlike, kind: str) -> Path:
    """`path`, known to be a file with something in it."""
    file = Path(path)
    try:
        there, readable = file.is_file(), os.access(file, os.R_OK)
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot read {kind} {file}: {_reason(error)}; check the path.") from None
    if not there:
        raise CaptureError(f"{kind} {file} does not exist or is not a file; check the path.")
    if not readable:
        raise CaptureError(f"cannot read {kind} {file}: you have no permission to; change it, or copy the file.")
    if file.stat().st_size == 0:
        raise CaptureError(f"{kind} {file} is empty; write it again.")
    return file


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def check_unpacked(file: Path, kind: str, size: int) -> None:
    """Refuse a file that claims to unpack to `size` bytes if that is out of proportion."""
    if not 0 <= size <= UNPACKED + PACKING * file.stat().st_size:
        raise CaptureError(
            f"{kind} {file} claims to hold {size:,} bytes in {file.stat().st_size:,}, which no log or recording does; "
            "if it is right, write it again without compression."
        )
