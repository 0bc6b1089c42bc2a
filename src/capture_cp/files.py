"""Files that are either written whole or not at all, and read with clear errors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capture_cp.checks import CaptureError

Pathlike = str | os.PathLike[str]


@contextmanager
def written_whole(path: Pathlike) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well; otherwise nothing changes."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise CaptureError(
            f"cannot write {target}: {error.strerror}; choose a folder that exists and is writable."
        ) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise CaptureError(f"cannot write {target}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def existing_file(path: Pathlike, kind: str) -> Path:
    """`path`, known to be a file with something in it."""
    file = Path(path)
    if not file.is_file():
        raise CaptureError(f"{kind} {file} does not exist or is not a file; check the path.")
    if file.stat().st_size == 0:
        raise CaptureError(f"{kind} {file} is empty; write it again.")
    return file


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
