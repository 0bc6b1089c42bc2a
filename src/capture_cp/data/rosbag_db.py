"""Messages from the SQLite files of rosbag2."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from capture_cp.data.mcap import Damaged, Topic

MAGIC = b"SQLite format 3\0"


class DatabaseFile:
    """One .db3 file, opened read-only; nothing defined in its schema is run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self.path.open("rb") as file:
            head = file.read(100)
        if head[: len(MAGIC)] != MAGIC or len(head) < 100:
            raise Damaged("it does not start like an SQLite file")
        page, pages = int.from_bytes(head[16:18]), int.from_bytes(head[28:32])
        if pages * (65536 if page == 1 else page) > self.path.stat().st_size:
            raise Damaged("it is cut short")
        with closing(self._opened()) as data:
            tables = {name for (name,) in data.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not {"topics", "messages"} <= tables:
                raise Damaged("it has no tables of topics and messages")
            definitions: dict[str, tuple[str, str]] = {}
            if "message_definitions" in tables:
                query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
                definitions = {str(kind): (str(language), str(text)) for kind, language, text in data.execute(query)}
            found = data.execute("SELECT id, name, type, serialization_format FROM topics ORDER BY id").fetchall()
            self.topics = {
                int(number): Topic(int(number), str(name), str(kind), str(way), *definitions.get(str(kind), ("", "")))
                for number, name, kind, way in found
            }
            query = "SELECT topic_id, count(*), min(timestamp), max(timestamp) FROM messages GROUP BY topic_id"
            counted = data.execute(query).fetchall()
        self.counts = {int(number): int(count) for number, count, _, _ in counted}
        self.start = min((int(first) for _, _, first, _ in counted), default=1 << 63)
        self.end = max((int(last) for _, _, _, last in counted), default=0)

    def messages(self, wanted: Collection[int]) -> Iterator[tuple[int, int, bytes]]:
        """Topic number, time stamp in ns and content of every message of the wanted topics, in file order."""
        marks = ", ".join("?" * len(wanted))
        query = f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY id"
        with closing(self._opened()) as data:
            yield from data.execute(query, list(wanted))

    def _opened(self) -> sqlite3.Connection:
        data = sqlite3.connect(f"file:{quote(str(self.path.absolute()))}?mode=ro&immutable=1", uri=True)
        data.execute("PRAGMA trusted_schema = OFF")
        data.execute("PRAGMA query_only = ON")
        data.execute("PRAGMA cell_size_check = ON")
        return data
