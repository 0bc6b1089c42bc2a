"""Logs in ROS bags, read by rosbags: asynchronous messages, aligned into rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, known_name, shortened
from capture_cp.base.files import existing_file
from capture_cp.data.arrays import TableSource
from capture_cp.data.source import Column, LogSource, Table, base_name, damage_explained, natural

TIME = "time"
STAMP = ("header.stamp.sec", "header.stamp.nanosec")
#: An interval longer than this many median intervals of a topic is a gap.
GAP = 3
#: Fractions of rows without a new value above which a topic is reported, and above which it is an error.
REPORTED, REFUSED = 0.01, 0.5
BAGS = (".mcap", ".db3", ".bag")
MOST_FIELDS = 10_000


class BagSource(TableSource):
    """A bag: once it is arranged, a row for each message of a topic, with the latest values of other topics at that time."""

    def __init__(self, path: Path, labels: str | None = None, arrangement: tuple[Any, ...] | None = None) -> None:
        super().__init__(path)
        self._arrangement, self.messages = arrangement, arrangement is None
        self._found: tuple[Ints, list[str]] | None = None

    def columns(self) -> tuple[Column, ...]:
        """The columns; before they are arranged, fields of all topics, from their first messages."""
        if not self.messages:
            return super().columns()
        bag, found = Bag(self.path), {TIME: Column(TIME, "number")}
        for topic, _, numbers in bag.messages(bag.topics, most=1):
            for name, value in numbers.items():
                column = Column(f"{topic}.{name}", "number", len(value) if np.ndim(value) else None)
                found.setdefault(column.name, column)
        return tuple(found.values())

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        return BagSource(self.path, None, (tuple(names), rows_of, tuple(after), clock))

    def breaks(self) -> Ints:
        return self._odd()[0]

    def notes(self) -> list[str]:
        return list(self._odd()[1])

    def _odd(self) -> tuple[Ints, list[str]]:
        """Rows without a successor, and notes; computed when the bag is read, and retained after `release`."""
        if self._found is None:
            self._table = self._read()
        assert self._found is not None
        return self._found

    def _read(self) -> Table:
        if self._arrangement is None:
            raise CaptureError(f"{self.path} is a bag: its rows are the messages of the action's topic; name one.")
        names, rows_of, after, clock = self._arrangement
        bag, wanted = Bag(self.path), self._by_topic(names)
        topics = {name: _Topic(self.path, name, chosen, clock == "header") for name, chosen in wanted.items()}
        for name in wanted:
            known_name(f"topic in {self.path}", name, bag.topics)
        for name, stamp, numbers in bag.messages(wanted):
            topics[name].add(stamp, numbers)
        for topic in topics.values():
            topic.check_order()
        begin = bag.start if clock == "received" else min(int(topic.stamps[0]) for topic in topics.values())
        rows = topics.pop(_split(self.path, rows_of)[0])
        table, breaks, notes = _Rows(rows, topics, set(self._by_topic(after))).table(bool(after))
        self._found = breaks, notes
        table[TIME] = (table[TIME] - begin) / 1e9
        return table

    def _by_topic(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The fields of each topic among some columns."""
        found: dict[str, list[str]] = {}
        for name in names:
            if name != TIME:
                topic, part = _split(self.path, name)
                found.setdefault(topic, []).append(part)
        return found


@dataclass
class _Topic:
    """The messages of a topic: time stamps in ns, received or with `header` in their headers, and the wanted fields."""

    path: Path
    name: str
    wanted: Sequence[str]
    header: bool
    _stamps: list[int] = field(default_factory=list)
    _values: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, stamp: int, numbers: Mapping[str, Any]) -> None:
        """Append the numbers of a message that was received at `stamp`."""
        if not self._stamps:
            self._values = {name: [] for name in self._chosen(numbers)}
        self._stamps.append(numbers[STAMP[0]] * 1_000_000_000 + numbers[STAMP[1]] if self.header else stamp)
        for name, values in self._values.items():
            if name not in numbers or np.shape(numbers[name]) != np.shape((values or [numbers[name]])[0]):
                raise CaptureError(
                    f"field {name!r} of message {len(self._stamps)} of {self.name} in {self.path} has another length than "
                    "before; it must be the same in every message."
                )
            values.append(numbers[name])

    def _chosen(self, known: Mapping[str, Any]) -> list[str]:
        """The wanted fields, checked; an entry of a list stands for the list: position for position_3."""
        if self.header and not known.keys() >= set(STAMP):
            raise CaptureError(f"messages of {self.name} in {self.path} have no header; choose --clock received.")
        found = []
        for name in self.wanted:
            whole, _, entry = name.rpartition("_")
            found.append(whole if name not in known and whole in known and entry.isdecimal() else name)
            if found[-1] not in known:
                listed = shortened(", ".join(known), 300)
                raise CaptureError(f"topic {self.name} of {self.path} has no numbers {shortened(name)!r}; it has {listed}.")
        return list(dict.fromkeys(found))

    @property
    def stamps(self) -> Ints:
        """Time stamps (n,) in ns."""
        return np.array(self._stamps, dtype=np.int64)

    def check_order(self) -> None:
        """Raise an error if there are no messages, or if their stamps go backwards."""
        stamps = self.stamps
        if not len(stamps):
            raise CaptureError(f"topic {self.name} of {self.path} has no messages; name another.")
        back = np.flatnonzero(np.diff(stamps) < 0)
        if len(back):
            at, by = int(back[0]), (stamps[back[0]] - stamps[back[0] + 1]) / 1e9
            raise CaptureError(
                f"stamps of {self.name} in {self.path} go backwards in message {at + 2}, by {by:g} s; cut the bag there, or "
                f"choose the other clock with --clock {'received' if self.header else 'header'}."
            )

    @property
    def longest(self) -> float:
        """The longest interval between messages, or age of a message, that is not a gap; in ns."""
        intervals = np.diff(self.stamps)
        intervals = intervals[intervals > 0]  # simultaneous messages carry no information about the rate
        return float(GAP * np.median(intervals)) if len(intervals) else np.inf

    def columns(self, messages: Ints) -> dict[str, Floats]:
        """Values (n,) of some messages by name."""
        found: dict[str, Floats] = {}
        for part, values in self._values.items():
            name, chosen = f"{self.name}.{part}", np.array(values, dtype=np.float64)[messages]
            found |= {name: chosen} if chosen.ndim == 1 else {f"{name}_{i}": one for i, one in enumerate(chosen.T)}
        return found


@dataclass(frozen=True)
class _Rows:
    """Rows at the messages of one topic, with values of the others; topics in `ahead` are read from the following row."""

    rows: _Topic
    others: dict[str, _Topic]
    ahead: set[str]

    def table(self, follows: bool) -> tuple[Table, Ints, list[str]]:
        """Columns (n,) with the time in ns, rows without a successor, and notes."""
        times, notes = self.rows.stamps, []
        held = {name: np.searchsorted(other.stamps, times, "right") - 1 for name, other in self.others.items()}
        first = max((int(np.sum(index < 0)) for index in held.values()), default=0)
        if first == len(times):
            raise CaptureError(f"no message of {self.rows.name} in {self.rows.path} comes after one of every other topic.")
        if first:
            late = max(held, key=lambda name: int(np.sum(held[name] < 0)))
            rows = f"{first:,} row{'s' if first > 1 else ''}"
            notes.append(f"{rows} of {self.rows.name} dropped, before the first message of {late}.")
        times, held = times[first:], {name: index[first:] for name, index in held.items()}
        for name, index in held.items():
            share = float(np.mean(np.diff(index) == 0)) if len(index) > 1 else 0.0
            finding = f"{name} has no new message in {share:.0%} of the rows of {self.rows.name}"
            if share > REFUSED:
                raise CaptureError(f"{finding}; record it at the rate of the actions, or name a slower topic as the action.")
            notes += [f"{finding}: it is slower than the actions."] if share > REPORTED else []
        old = {name: times - self.others[name].stamps[index] > self.others[name].longest for name, index in held.items()}
        never = np.zeros(len(times), dtype=bool)
        stale = np.any([*old.values(), never], axis=0)
        kept, breaks = np.flatnonzero(~stale), np.empty(0, dtype=np.int64)
        lost = len(times) - len(kept)
        if follows:  # too long before the next row, with old values, or before a row with old values
            ahead = np.any([*(old[name] for name in self.ahead if name in old), never], axis=0)
            breaks = np.flatnonzero((np.diff(times) > self.rows.longest) | stale[:-1] | ahead[1:])
            kept = np.arange(len(times))
            lost = len(breaks)
        if lost:
            notes.append(
                f"{lost:,} transition{'s' if lost > 1 else ''} dropped at gaps: an interval, or the age of a value, above "
                f"{GAP} times the median interval of its topic."
            )
        if not len(kept):
            raise CaptureError(
                f"{self.rows.path} has gaps at all messages of {self.rows.name}; record its topics at steady rates."
            )
        columns = self.rows.columns(kept + first)
        for name, other in self.others.items():
            columns |= other.columns(held[name][kept])
        return {**columns, TIME: times[kept]}, breaks, notes


def _split(path: Path, name: str) -> tuple[str, str]:
    """Topic and field of a column, without entry or slice."""
    topic, dot, part = base_name(name).partition(".")
    if not dot or not part:
        raise CaptureError(f"{shortened(name)!r} is not a field of a topic of {path}; expected a name like /topic.field.")
    return topic, part


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
        with damage_explained(f"bag {self.path}", "a bag"):
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
        with damage_explained(f"bag {self.path}", "a bag"):
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


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [existing_file(path, "bag")]
    entries = sorted(path.iterdir(), key=natural)
    if any(entry.suffix.lower() == ".zstd" for entry in entries):
        raise CaptureError(
            f"bag {path} has files that are compressed as a whole; decompress them first, with: zstd -d FILE."
        )
    found = [existing_file(entry, "bag") for entry in entries if entry.suffix.lower() in BAGS]
    if not found:
        raise CaptureError(f"bag {path} has no file that ends in {' or '.join(BAGS)}; copy it there.")
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
