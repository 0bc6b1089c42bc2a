"""Files that are either written whole or not at all, and read with clear errors."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capture_cp.checks import CaptureError

Pathlike = str | os.PathLike[str]

#: Bytes that any file may unpack to, and how often its own size beyond that: a log packs tenfold, a bomb a thousandfold.
UNPACKED, PACKING = 1 << 26, 200


def cache_folder() -> Path:
    """Where things that can be made again are kept between runs; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "capture-cp"


@contextmanager
def written_whole(path: Pathlike) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well; otherwise nothing changes."""
    target = Path(path)
    if not target.name:
        raise CaptureError(f"cannot write {os.fspath(path)!r}: that is not the name of a file; choose one.")
    # of a long name only the beginning, since names are limited to 255 bytes
    temporary = target.with_name(f".{target.stem[:40]}.{secrets.token_hex(6)}{target.suffix[:20]}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise CaptureError(
            f"cannot write {target}: {_reason(error)}; choose a folder that exists and is writable."
        ) from None
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise CaptureError(f"cannot write {target}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(file: Path | None) -> None:
    """Refuse a result file that cannot be written, before the work and not after it."""
    if file is not None:
        folder = file.absolute().parent
        try:
            good = folder.is_dir() and os.access(folder, os.W_OK) and not file.is_dir()
        except (OSError, ValueError) as error:
            raise CaptureError(f"cannot write {file}: {_reason(error)}; choose another name.") from None
        if not good:
            raise CaptureError(
                f"cannot write {file}: {folder} is not a folder that can be written to, or the name is taken."
            )


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
    """Refuse a file that says it unpacks to `size` bytes if that is out of proportion."""
    if not 0 <= size <= UNPACKED + PACKING * file.stat().st_size:
        raise CaptureError(
            f"{kind} {file} claims to hold {size:,} bytes in {file.stat().st_size:,}, which no log or recording does; "
            "if it is right, write it again without compression."
        )
