"""Finished parts of long work, saved to disk, so that the work continues after a stop."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError, CaptureWarning
from capture_cp.base.files import written_whole
from capture_cp.report.output import output_folder


class PartStore:
    """Finished parts of one job, a JSON line each, in a file named after a fingerprint of the job's settings.

    Every line has a checksum. A file with a line that does not agree with its own is set aside, and its parts are computed
    again; a last line cut short, as a killed run leaves it, is dropped.
    """

    def __init__(self, folder: Path | None, name: str, settings: Mapping[str, Any]) -> None:
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
        self.name = f"{name}-{digest}"
        self.file = None if folder is None else output_folder(folder) / f"{self.name}.jsonl"

    def finished(
        self,
        wanted: Sequence[int],
        work: Callable[[list[int]], Iterable[tuple[int, Any]]],
        advance: Callable[[int], object],
    ) -> list[Any]:
        """The results of the wanted parts: `work` makes the missing ones, which are kept one by one."""
        done = self.load()
        missing = [part for part in wanted if part not in done]
        advance(len(wanted) - len(missing))
        for part, result in work(missing) if missing else ():
            done[part] = result
            self.add(part, result)
            advance(1)
        return [done[part] for part in wanted]

    def load(self) -> dict[int, Any]:
        """Finished parts by number."""
        if self.file is None or not self.file.exists():
            return {}
        try:
            *lines, last = self.file.read_bytes().split(b"\n")
        except OSError as error:
            raise CaptureError(f"cannot read {self.file}: {error.strerror}; check its permissions.") from None
        found = [self._record(line) for line in lines]
        if None in found:
            self._set_aside(self.file, lines, found)
        return dict(record for record in (*found, self._record(last)) if record is not None)

    def add(self, part: int, result: Any) -> None:
        """Keep a finished part."""
        if self.file is None:
            return
        line = json.dumps({"part": part, "result": result, "sha256": self._checksum(part, result)})
        try:
            with self.file.open("a+b") as lines:
                lines.seek(max(0, lines.seek(0, os.SEEK_END) - 1))
                if lines.read() not in (b"", b"\n"):  # a killed run has left the beginning of a line
                    lines.seek(0)
                    lines.truncate(lines.read().rfind(b"\n") + 1)
                lines.write(line.encode() + b"\n")
        except OSError as error:
            raise CaptureError(f"cannot write {self.file}: {error.strerror}.") from None

    def _record(self, line: bytes) -> tuple[int, Any] | None:
        """Number and result of a part; None if the line is not one that `add` has written."""
        try:
            record = json.loads(line)
            part, result = int(record["part"]), record["result"]
            return (part, result) if record["sha256"] == self._checksum(part, result) else None
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def _checksum(self, part: int, result: Any) -> str:
        """Of the part and the job it belongs to, so that a line of another job's file is noticed as well."""
        return hashlib.sha256(json.dumps([self.name, part, result]).encode()).hexdigest()

    def _set_aside(self, file: Path, lines: list[bytes], found: list[Any]) -> None:
        """Keep the damaged file under another name, and go on with its sound lines."""
        damaged = file.with_name(f"{file.name}.damaged")
        try:
            file.replace(damaged)
        except OSError as error:
            raise CaptureError(f"cannot set the damaged {file} aside: {error.strerror}; delete it.") from None
        with written_whole(file) as temporary:
            temporary.write_bytes(b"".join(line + b"\n" for line, record in zip(lines, found) if record is not None))
        warnings.warn(
            f"{file} is damaged: {found.count(None)} of {len(lines)} finished parts do not match their checksums "
            f"and are computed again; the damaged file is kept as {damaged.name}.",
            CaptureWarning,
            stacklevel=3,
        )
