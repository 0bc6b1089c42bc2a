"""The files of a bag as one: its topics with their definitions, and the messages of selected topics."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Ints, known_name
from capture_cp.base.files import existing_file
from capture_cp.data.cdr import Definitions, Layout, Unreadable, layout_of
from capture_cp.data.mcap import Damaged, McapFile, Topic
from capture_cp.data.rosbag_db import DatabaseFile

READERS: dict[str, Any] = {".mcap": McapFile, ".db3": DatabaseFile}
#: Longest definition of a message type, in characters.
LONGEST = 1 << 20


class Bag:
    """A bag: one .mcap or .db3 file, or a rosbag2 folder with one or more of them."""

    def __init__(self, path: Path) -> None:
        _needs_rosbags()
        self.path = path
        self.files: list[Any] = []
        with _clear(path):
            for file in _files(path):
                self.files.append(READERS[file.suffix.lower()](existing_file(file, "bag")))
        self.topics: dict[str, Topic] = {topic.name: topic for file in self.files for topic in file.topics.values()}
        self.start, self.end = min(file.start for file in self.files), max(file.end for file in self.files)

    def count(self, topic: str) -> int:
        """Number of messages of a topic."""
        return sum(file.counts.get(number, 0) for file in self.files for number, t in file.topics.items() if t.name == topic)

    def definitions(self, topic: Topic) -> Definitions:
        """Fields of a topic's type and of all types in it: from the bag, or the definitions shipped with ROS 2."""
        if topic.encoding != "cdr":
            raise CaptureError(f"topic {topic.name} of {self.path} has the encoding {topic.encoding!r}; expected 'cdr'.")
        if len(topic.definition) > LONGEST:
            raise CaptureError(f"the definition of {topic.kind} in {self.path} has over {LONGEST:,} characters.")
        with _clear(self.path):
            known = _definitions(topic.language, topic.definition, topic.kind)
        if topic.kind not in known:
            raise CaptureError(
                f"{self.path} has no definition of {topic.kind}, the type of {topic.name}, and ROS 2 does not ship it; "
                "record with a newer ROS 2, or convert the bag to MCAP."
            )
        return known

    def messages(self, names: Collection[str]) -> dict[str, tuple[Ints, list[bytes]]]:
        """Receive time stamps (n,) in ns and contents of all messages of some topics."""
        found: dict[str, tuple[list[int], list[bytes]]] = {name: ([], []) for name in names}
        with _clear(self.path):
            for file in self.files:
                into = {number: found[topic.name] for number, topic in file.topics.items() if topic.name in found}
                if into:
                    for number, stamp, data in file.messages(into.keys()):
                        stamps, contents = into[number]
                        stamps.append(stamp)
                        contents.append(data)
            return {name: (np.array(stamps, dtype=np.int64), contents) for name, (stamps, contents) in found.items()}

    def first(self) -> dict[str, bytes]:
        """The first message of every topic with messages."""
        found: dict[str, bytes] = {}
        with _clear(self.path):
            for file in self.files:
                wanted = {n for n, topic in file.topics.items() if file.counts.get(n) and topic.name not in found}
                for number, _, data in file.messages(wanted) if wanted else ():
                    found.setdefault(file.topics[number].name, data)
                    wanted.discard(number)
                    if not wanted:
                        break
        return found

    def topic(self, name: str) -> Topic:
        """A topic by its name."""
        return self.topics[known_name(f"topic in {self.path}", name, self.topics)]

    def layout(self, topic: Topic, content: bytes) -> Layout:
        """The byte layout of a message's fields."""
        try:
            return layout_of(self.definitions(topic), topic.kind, content)
        except Unreadable as error:
            raise CaptureError(f"a message of topic {topic.name} of {self.path} cannot be read: {error}.") from None


def is_bag(folder: Path) -> bool:
    """Whether a folder was written by rosbag2."""
    return folder.is_dir() and (folder / "metadata.yaml").is_file()


def _files(path: Path) -> list[Path]:
    from capture_cp.data.folders import natural

    if not path.is_dir():
        return [path]
    entries = sorted(path.iterdir(), key=natural)
    found = [entry for entry in entries if entry.suffix.lower() in READERS]
    if any(entry.suffix.lower() == ".zstd" for entry in entries):
        raise CaptureError(
            f"bag {path} has files that are compressed as a whole; decompress them first, with: zstd -d FILE."
        )
    if not found:
        raise CaptureError(f"bag {path} has no file that ends in {' or '.join(READERS)}; copy it there.")
    return found


@lru_cache(maxsize=64)
def _definitions(language: str, text: str, kind: str) -> Definitions:
    """A parsed definition, cached: parsing is slow, and the definition is the same in all bags of a folder."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    if language == "ros2msg" and text:
        return dict(get_types_from_msg(text, kind))
    if language in ("ros2idl", "omgidl") and text:
        return _idl(text)
    shipped: Definitions = get_typestore(Stores.ROS2_HUMBLE).fielddefs
    return shipped


def _idl(text: str) -> Definitions:
    """Definitions in IDL: one, or several separated by lines of equal signs."""
    from rosbags.typesys import get_types_from_idl as parse

    line = "=" * 80 + "\n"
    parts = text.split(line)[1:] if text.startswith(f"{line}IDL: ") else [f"\n{text}"]
    found: dict[str, Any] = {}
    for part in parts:
        found |= parse(part.partition("\n")[2])
    return found


def _needs_rosbags() -> None:
    try:
        import rosbags.typesys  # noqa: F401
    except ImportError:
        raise CaptureError('bags need rosbags; install it with: pip install "capture-cp[ros]".') from None


@contextmanager
def _clear(path: Path) -> Iterator[None]:
    """Turn any error while reading a file into one sentence."""
    try:
        yield
    except (CaptureError, GeneratorExit):
        raise
    except Damaged as error:
        raise CaptureError(f"bag {path} is not a bag, or is damaged: {error}.") from None
    except Exception:  # sqlite3, struct, lz4, zstd, the parser of definitions: a damaged bag fails in many ways
        raise CaptureError(f"bag {path} is not a bag, or is damaged.") from None
