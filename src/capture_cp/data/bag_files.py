"""Bags, read by rosbags: their topics, and the numbers in their messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from capture_cp.base.checks import CaptureError, shortened
from capture_cp.base.files import existing_file

ENDINGS = (".mcap", ".db3", ".bag")
MOST_FIELDS = 10_000


class Bag:
    """A bag: one .mcap, .db3 or .bag file, or a rosbag2 folder with one or more of them.

    Attributes:
        topics: the type of each topic's messages, and how many there are, by name.
        start: the first time stamp, in ns.
        end: the last one.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._files = path, _files(path)
        self.topics: dict[str, tuple[str, int]] = {}
        times: list[int] = []
        with self._explained():
            for reader in self._readers():
                for one in reader.connections:
                    self.topics[one.topic] = one.msgtype, one.msgcount + self.topics.get(one.topic, ("", 0))[1]
                if reader.message_count:
                    times += [reader.start_time, reader.end_time - 1]
        self.start, self.end = min(times, default=0), max(times, default=0)

    def messages(self, topics: Collection[str], most: int | None = None) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Topic, time stamp in ns and numbers of every message of some topics; of at most so many per topic and file.

        Numbers and lists of numbers are named by the path of their field: header.stamp.sec, points[2].x.
        """
        with self._explained():
            for reader in self._readers():
                chosen = [one for one in reader.connections if one.topic in topics]
                for some in [chosen] if most is None and chosen else [[one] for one in chosen]:
                    for connection, stamp, raw in islice(reader.messages(some), most):
                        message = self._message(reader, connection, raw)
                        yield connection.topic, stamp, dict(islice(_numbers(message, ""), MOST_FIELDS))

    def _message(self, reader: Any, connection: Any, raw: bytes) -> Any:
        if connection.msgtype not in reader.typestore.fielddefs:
            raise CaptureError(
                f"{self.path} has no definition of {connection.msgtype}, the type of {connection.topic}, and ROS 2 does not "
                "ship it; record with a newer ROS 2, or convert the bag to MCAP."
            )
        try:
            return reader.deserialize(raw, connection.msgtype)
        except Exception as error:  # what does not match its definition fails in many ways
            reason = shortened(str(error).rstrip(".") or type(error).__name__)
            raise CaptureError(f"a message of topic {connection.topic} of {self.path} cannot be read: {reason}.") from None

    def _readers(self) -> Iterator[Any]:
        """Each file in turn, opened."""
        try:
            from rosbags.highlevel import AnyReader
            from rosbags.typesys import Stores, get_typestore
        except ImportError:
            raise CaptureError('bags need rosbags; install it with: pip install "capture-cp[ros]".') from None
        for file in self._files:
            with AnyReader([file], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
                yield reader

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn any error of the library into one sentence."""
        try:
            yield
        except (CaptureError, GeneratorExit):
            raise
        except Exception as error:  # a damaged bag fails in many ways
            reason = f": {shortened(str(error).rstrip('.'), 200)}" if str(error) else ""
            raise CaptureError(f"bag {self.path} is not a bag, or is damaged{reason}.") from None


def is_bag(folder: Path) -> bool:
    """Whether a folder was written by rosbag2."""
    return folder.is_dir() and (folder / "metadata.yaml").is_file()


def _files(path: Path) -> list[Path]:
    from capture_cp.data.folders import natural

    if not path.is_dir():
        return [existing_file(path, "bag")]
    entries = sorted(path.iterdir(), key=natural)
    if any(entry.suffix.lower() == ".zstd" for entry in entries):
        raise CaptureError(
            f"bag {path} has files that are compressed as a whole; decompress them first, with: zstd -d FILE."
        )
    found = [existing_file(entry, "bag") for entry in entries if entry.suffix.lower() in ENDINGS]
    if not found:
        raise CaptureError(f"bag {path} has no file that ends in {' or '.join(ENDINGS)}; copy it there.")
    return found


def _numbers(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The numbers in a message, or in a part of one at a path, in the order of its definition."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _numbers(getattr(value, field.name), f"{path}.{field.name}" if path else field.name)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from _numbers(one, f"{path}[{i}]")
    elif not isinstance(value, str):
        yield path, value
