"""Logs in ROS 2 bags: asynchronous messages, aligned into rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, shortened
from capture_cp.data.bag_files import Bag
from capture_cp.data.cdr import columns_of
from capture_cp.data.selection import base_name
from capture_cp.data.source import Column, LogSource, Table
from capture_cp.data.tables import TableSource

TIME = "time"
#: An interval longer than this many median intervals of a topic is a gap.
GAP = 3
#: Fractions of rows without a new value above which a topic is reported, and above which it is an error.
REPORTED, REFUSED = 0.01, 0.5
_STAMP = ("header.stamp.sec", "header.stamp.nanosec")


class BagSource(LogSource):
    """A bag before the topic that defines its rows is known."""

    messages = True

    def __init__(self, path: Path, labels: str | None = None) -> None:
        self.path = path

    @property
    def rows(self) -> int:
        raise CaptureError(f"{self.path} is a bag: its rows are the messages of the action's topic; name one.")

    def columns(self) -> tuple[Column, ...]:
        """Fields of all topics, from their first messages."""
        bag = Bag(self.path)
        found = [Column(TIME, "number")]
        for name, content in bag.first().items():
            fields = bag.layout(bag.topics[name], content).fields
            found += [Column(f"{name}.{field}", "number", place.count) for field, place in fields.items()]
        return tuple(found)

    def pieces(self, names: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[Table]:
        raise CaptureError(f"{self.path} is a bag: its rows are the messages of the action's topic; name one.")

    def arranged(self, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> LogSource:
        return BagTable(self.path, names, rows_of, after, clock)


class BagTable(TableSource):
    """A bag as rows: one for each message of a topic, with the latest values of other topics at that time."""

    def __init__(self, path: Path, names: Sequence[str], rows_of: str, after: Sequence[str], clock: str) -> None:
        super().__init__(path)
        self.names, self.rows_of, self.after, self.clock = tuple(names), rows_of, tuple(after), clock
        self._found: tuple[Ints, list[str]] | None = None

    def breaks(self) -> Ints:
        return self._odd()[0]

    def notes(self) -> list[str]:
        return list(self._odd()[1])

    def release(self) -> None:
        self._table = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_table": None}

    def _odd(self) -> tuple[Ints, list[str]]:
        """Rows without a successor, and notes; computed when the bag is read, and retained after `release`."""
        if self._found is None:
            self._table = self._read()
        assert self._found is not None
        return self._found

    def _read(self) -> Table:
        bag = Bag(self.path)
        wanted = self._wanted(bag)
        contents = bag.messages(wanted)
        topics = {name: self._topic(bag, name, fields, *contents.pop(name)) for name, fields in wanted.items()}
        rows = topics.pop(_split(self.path, self.rows_of)[0])
        table, breaks, notes = _Rows(self.path, rows, topics, self._ahead()).table(bool(self.after))
        self._found = breaks, notes
        begin = bag.start if self.clock == "received" else min(int(t.stamps[0]) for t in (rows, *topics.values()))
        table[TIME] = (table[TIME] - begin) / 1e9
        return table

    def _wanted(self, bag: Bag) -> dict[str, list[str]]:
        """The requested fields of each topic."""
        wanted: dict[str, list[str]] = {}
        for name in self.names:
            if name != TIME:
                topic, field = _split(self.path, name)
                bag.topic(topic)
                wanted.setdefault(topic, [])
                if field not in wanted[topic]:
                    wanted[topic].append(field)
        return wanted

    def _ahead(self) -> set[str]:
        return {_split(self.path, name)[0] for name in self.after if name != TIME}

    def _topic(self, bag: Bag, name: str, fields: list[str], stamps: Ints, contents: list[bytes]) -> _Topic:
        """One topic, decoded, with the time stamps of the selected clock."""
        if not contents:
            raise CaptureError(f"topic {name} of {self.path} has no messages; name another.")
        topic = bag.topics[name]
        header = _STAMP if self.clock == "header" else ()
        known = bag.layout(topic, contents[0]).fields
        if header and not known.keys() >= set(header):
            raise CaptureError(f"messages of {name} in {self.path} have no header; choose --clock received.")
        fields = list(dict.fromkeys(_whole(field, known) for field in fields))
        for field in fields:
            if field not in known:
                listed = ", ".join(known)
                raise CaptureError(
                    f"topic {name} of {self.path} has no numbers {shortened(field)!r}; it has {shortened(listed, 300)}."
                )
        found = columns_of(bag.definitions(topic), topic.kind, contents, [*fields, *header])
        if header:
            stamps = found[_STAMP[0]].astype(np.int64) * 1_000_000_000 + found[_STAMP[1]].astype(np.int64)
        back = np.flatnonzero(np.diff(stamps) < 0)
        if len(back):
            at, by = int(back[0]), (stamps[back[0]] - stamps[back[0] + 1]) / 1e9
            raise CaptureError(
                f"stamps of {name} in {self.path} go backwards in message {at + 2}, by {by:g} s; cut the bag there, or "
                f"choose the other clock with --clock {'received' if header else 'header'}."
            )
        return _Topic(name, stamps, {field: found[field] for field in fields})


@dataclass(frozen=True)
class _Topic:
    """Messages of a topic: stamps (n,) in ns, and its fields, (n,) or (n, width)."""

    name: str
    stamps: Ints
    fields: dict[str, npt.NDArray[Any]]

    @property
    def longest(self) -> float:
        """The longest interval between messages, or age of a message, that is not a gap; in ns."""
        intervals = np.diff(self.stamps)
        intervals = intervals[intervals > 0]  # simultaneous messages carry no information about the rate
        return float(GAP * np.median(intervals)) if len(intervals) else np.inf

    def columns(self, messages: Ints) -> dict[str, Floats]:
        """Values (n,) of some messages by name."""
        found: dict[str, Floats] = {}
        for field, values in self.fields.items():
            name, chosen = f"{self.name}.{field}", values[messages]
            found |= {name: chosen} if chosen.ndim == 1 else {f"{name}_{i}": part for i, part in enumerate(chosen.T)}
        return found


@dataclass(frozen=True)
class _Rows:
    """Rows at the messages of one topic, with values of the others; topics in `ahead` are read from the following row."""

    path: Path
    rows: _Topic
    others: dict[str, _Topic]
    ahead: set[str]

    def table(self, follows: bool) -> tuple[Table, Ints, list[str]]:
        """Columns (n,) with the time in ns, rows without a successor, and notes."""
        times, notes = self.rows.stamps, []
        held = {name: np.searchsorted(other.stamps, times, "right") - 1 for name, other in self.others.items()}
        first = max((int(np.sum(index < 0)) for index in held.values()), default=0)
        if first == len(times):
            raise CaptureError(f"no message of {self.rows.name} in {self.path} comes after one of every other topic.")
        if first:
            late = max(held, key=lambda name: int(np.sum(held[name] < 0)))
            notes.append(f"{_rows(first)} of {self.rows.name} dropped, before the first message of {late}.")
        times, held = times[first:], {name: index[first:] for name, index in held.items()}
        for name, index in held.items():
            notes += self._rate(name, index)
        old = {name: times - self.others[name].stamps[index] > self.others[name].longest for name, index in held.items()}
        stale = np.any([*old.values(), np.zeros(len(times), bool)], axis=0)
        kept = np.arange(len(times)) if follows else np.flatnonzero(~stale)
        breaks = self._breaks(times, stale, old) if follows else np.empty(0, dtype=np.int64)
        lost = len(breaks) if follows else len(times) - len(kept)
        if lost:
            notes.append(
                f"{lost:,} transition{'s' if lost > 1 else ''} dropped at gaps: an interval, or the age of a value, above "
                f"{GAP} times the median interval of its topic."
            )
        if not len(kept):
            raise CaptureError(
                f"{self.path} has gaps at all messages of {self.rows.name}; record its topics at steady rates."
            )
        columns = self.rows.columns(kept + first)
        for name, other in self.others.items():
            columns |= other.columns(held[name][kept])
        return {**columns, TIME: times[kept]}, breaks, notes

    def _breaks(self, times: Ints, stale: Bools, old: dict[str, Bools]) -> Ints:
        """Rows without a successor: too long before the next row, with old values, or before a row with old values."""
        behind = np.any([*(old[name] for name in self.ahead if name in old), np.zeros(len(times), bool)], axis=0)
        gaps = (np.diff(times) > self.rows.longest) | stale[:-1] | behind[1:]
        return np.flatnonzero(gaps).astype(np.int64)

    def _rate(self, name: str, index: Ints) -> list[str]:
        """Notes about a topic that has no new message in many rows."""
        share = float(np.mean(np.diff(index) == 0)) if len(index) > 1 else 0.0
        finding = f"{name} has no new message in {share:.0%} of the rows of {self.rows.name}"
        if share > REFUSED:
            raise CaptureError(f"{finding}; record it at the rate of the actions, or name a slower topic as the action.")
        return [f"{finding}: it is slower than the actions."] if share > REPORTED else []


def _whole(field: str, known: Collection[str]) -> str:
    """The list that a field belongs to if it is named by its entry: position for position_3."""
    whole, _, entry = field.rpartition("_")
    return whole if field not in known and whole in known and entry.isdecimal() else field


def _rows(n: int) -> str:
    return f"{n:,} row{'s' if n > 1 else ''}"


def _split(path: Path, name: str) -> tuple[str, str]:
    """Topic and field of a column, without entry or slice."""
    topic, dot, field = base_name(name).partition(".")
    if not dot or not field:
        raise CaptureError(f"{shortened(name)!r} is not a field of a topic of {path}; expected a name like /topic.field.")
    return topic, field
