"""Bags: the numbers that rosbags reads, rows at the actions, and what is missing is said or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_cp import CaptureError, read_transitions
from capture_cp.data.bag_files import Bag
from capture_cp.data.cdr import columns_of
from capture_cp.data.logged import LoggedTransitions
from logs.recordings import START, STEP, Runs, bag

pytest.importorskip("rosbags")

COLUMNS = {"state": "/joint_states.position", "action": "/cmd.data", "following": "/joint_states.position"}
STORAGES = ("MCAP", "SQLITE3")


@pytest.fixture
def one():
    runs = Runs.made(runs=1, steps=50)
    return runs.state, runs.action


def by_rosbags(path, topic):
    """Slow and obvious: every message, deserialised by rosbags."""
    from rosbags.highlevel import AnyReader

    with AnyReader([path]) as reader:
        wanted = [connection for connection in reader.connections if connection.topic == topic]
        found = [(stamp, reader.deserialize(raw, c.msgtype)) for c, stamp, raw in reader.messages(connections=wanted)]
    return [stamp for stamp, _ in found], [message for _, message in found]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("names", [False, True], ids=["one layout", "names of changing length"])
def test_numbers_are_those_that_rosbags_reads(tmp_path, one, storage, names):
    path = bag(tmp_path / "bag", *one, storage, names=names)
    found = Bag(path)
    stamps, contents = found.messages(["/joint_states"])["/joint_states"]
    topic = found.topic("/joint_states")
    fields = ["position", "velocity", "effort", "header.stamp.sec", "header.stamp.nanosec"]
    numbers = columns_of(found.definitions(topic), topic.kind, contents, fields)
    expected_stamps, expected = by_rosbags(path, "/joint_states")
    assert stamps.tolist() == expected_stamps
    for field in ("position", "velocity", "effort"):
        assert numbers[field].tolist() == [getattr(message, field).tolist() for message in expected]
    assert numbers["header.stamp.nanosec"].tolist() == [message.header.stamp.nanosec for message in expected]
    assert [found.count(name) for name in ("/joint_states", "/cmd", "/camera")] == [50, 50, 50]


KINDS = {"bool": bool, "int8": int, "uint16": int, "int32": int, "int64": int, "float32": float, "float64": float}


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_message_is_read_as_rosbags_reads_it(data):
    """Definitions of any fields in any order: alignment, texts, lists, arrays, messages in messages."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    base = st.sampled_from([*KINDS, "string", "geometry_msgs/Point"])
    fields = data.draw(st.lists(st.tuples(base, st.sampled_from(["", "[]", "[3]"])), min_size=1, max_size=7))
    text = "".join(f"{kind}{many} f{i}\n" for i, (kind, many) in enumerate(fields))
    if "geometry_msgs/Point" in text:
        text += "=" * 80 + "\nMSG: geometry_msgs/Point\nfloat64 x\nfloat64 y\nfloat64 z\n"
    definitions = get_types_from_msg(text, "test_msgs/msg/Any")
    store = get_typestore(Stores.EMPTY)
    store.register(definitions)
    seed = data.draw(st.integers(0, 2**32))
    length = data.draw(st.integers(0, 3))
    messages = [made(store, fields, np.random.default_rng([seed, i]), length) for i in range(3)]
    little = data.draw(st.booleans())
    raw = [bytes(store.serialize_cdr(m, "test_msgs/msg/Any", little_endian=little)) for m in messages]
    wanted = [f"f{i}" for i, (kind, _) in enumerate(fields) if kind in KINDS]
    found = columns_of(dict(definitions), "test_msgs/msg/Any", raw, wanted)
    for name in wanted:
        expected = np.array([getattr(message, name) for message in messages], dtype=float)
        assert np.array_equal(found[name], expected)


def made(store, fields, rng, length):
    def value(kind):
        if kind == "string":
            return "x" * int(rng.integers(9))
        if kind == "geometry_msgs/Point":
            return store.types["geometry_msgs/msg/Point"](*rng.random(3))
        return KINDS[kind](
            rng.integers(2) if kind == "bool" else np.float32(rng.random()) if "f" in kind else rng.integers(99)
        )

    def values(kind, many):
        n = {"": None, "[]": length, "[3]": 3}[many]
        if n is None:
            return value(kind)
        several = [value(kind) for _ in range(n)]
        return np.array(several, dtype=kind) if kind in KINDS else several

    return store.types["test_msgs/msg/Any"](*(values(*field) for field in fields))


@pytest.mark.parametrize("storage", STORAGES)
def test_a_file_of_a_bag_is_the_bag(tmp_path, one, storage):
    path = bag(tmp_path / "bag", *one, storage)
    file = next(file for file in path.iterdir() if file.suffix in (".mcap", ".db3"))
    assert np.array_equal(read_transitions(path, **COLUMNS).X, read_transitions(file, **COLUMNS).X)
    some = read_transitions(file, "/joint_states.position[1]", "/cmd.data[0:1]", following="/joint_states.position[0]")
    assert some.next_names == ("next_/joint_states.position_0",)
    assert np.array_equal(some.X, np.stack([one[0][:-1, 1], one[1][:-1, 0]], axis=1))


def test_time_is_in_seconds_from_the_beginning(tmp_path, one):
    log = read_transitions(bag(tmp_path / "bag", *one, "MCAP"), **COLUMNS, time="time")
    assert log.time == pytest.approx(0.001 + 0.01 * np.arange(49), abs=1e-12)


def test_rows_before_the_first_value_are_dropped_and_told(tmp_path, one):
    state, action = one
    log = LoggedTransitions(bag(tmp_path / "bag", *one, "MCAP", late=4), **COLUMNS)
    assert np.array_equal(log.read().X, np.hstack([state, action])[4:-1])
    assert "4 rows of /cmd dropped, before the first message of /joint_states." in log.notes()


def test_values_that_are_too_old_end_a_transition(tmp_path, one):
    """Of six states that are missing, the first three are still held; what begins or ends in the others is dropped."""
    log = LoggedTransitions(bag(tmp_path / "bag", *one, "MCAP", skip=range(20, 26)), **COLUMNS)
    notes = [note for note in log.notes() if "gaps" in note]
    ages = np.array([1 + STEP // 10**6 * max(0, i - 19) if 20 <= i < 26 else 1 for i in range(50)])  # in ms
    old = ages > 30
    lost = int(np.sum(old[:-1] | old[1:]))
    assert notes[0].startswith(f"{lost} transitions dropped at gaps")
    assert len(log) == 49 - lost
    assert any("has no new message in 12% of the rows of /cmd" in note for note in log.notes())


def test_a_pause_ends_a_transition(tmp_path, one):
    state, action = one
    halves = [
        bag(tmp_path / f"half{i}", s, a, "SQLITE3") for i, (s, a) in enumerate(zip(np.split(state, 2), np.split(action, 2)))
    ]
    import sqlite3

    first, second = (next(half.glob("*.db3")) for half in halves)
    data = sqlite3.connect(second)
    data.execute("UPDATE messages SET timestamp = timestamp + 10000000000")
    data.commit()
    data.close()
    second.rename(first.with_name("z" + first.name))  # two files of one bag
    log = LoggedTransitions(halves[0], **COLUMNS)
    assert len(log) == 48
    assert "1 transition dropped at gaps" in " ".join(log.notes())
    assert np.array_equal(log.read().state, np.delete(state[:-1], 24, axis=0))


def test_states_that_are_too_slow_are_refused(tmp_path, one):
    with pytest.raises(CaptureError, match=r"/joint_states has no new message in \d+% of the rows of /cmd; record it"):
        read_transitions(bag(tmp_path / "bag", *one, "MCAP", every=4), **COLUMNS)


def test_stamps_that_go_backwards_are_refused(tmp_path, one):
    stamps = START + np.arange(50) * STEP
    stamps[30] -= 5 * STEP
    path = bag(tmp_path / "bag", *one, "MCAP", header=stamps)
    columns = {
        "state": "/joint_states.position[0]",
        "action": "/joint_states.position[1]",
        "following": COLUMNS["following"],
    }
    assert len(read_transitions(path, **columns)) == 49
    with pytest.raises(
        CaptureError, match=r"of /joint_states in .* go backwards in message 31, by 0.04 s; cut the bag there"
    ):
        read_transitions(path, **columns, clock="header")
    sound = bag(tmp_path / "sound", *one, "MCAP")
    assert len(read_transitions(sound, **columns, clock="header")) == 49
    with pytest.raises(CaptureError, match=r"messages of /cmd in .* have no header; choose --clock received"):
        read_transitions(sound, **COLUMNS, clock="header")
    with pytest.raises(CaptureError, match="unknown clock 'wall'; known: received, header"):
        read_transitions(path, **COLUMNS, clock="wall")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"action": "/cmds.data"}, r"unknown topic in .* '/cmds'; known: .* Did you mean '/cmd'"),
        ({"action": "/cmd.date"}, r"topic /cmd of .* has no numbers 'date'; it has layout.data_offset, data"),
        ({"action": "cmd"}, r"'cmd' is not a field of a topic of .*; expected a name like /topic.field"),
        ({"state": "/joint_states.name"}, "has no numbers 'name'"),
        ({"state": "/joint_states.position[7]"}, "has entries 0 to 1; name some of those"),
        ({"state": "/joint_states.velocity"}, "/joint_states.velocity"),
    ],
)
def test_a_name_that_is_not_there_is_one_clear_sentence(tmp_path, one, change, sentence):
    with pytest.raises(CaptureError, match=sentence):
        read_transitions(bag(tmp_path / "bag", *one, "MCAP"), **(COLUMNS | change))


def test_bags_without_rosbags_say_how_to_get_it(tmp_path, one, monkeypatch):
    import sys

    path = bag(tmp_path / "bag", *one, "MCAP")
    monkeypatch.setitem(sys.modules, "rosbags.typesys", None)
    with pytest.raises(CaptureError, match=r'pip install "capture-cp\[ros\]"'):
        read_transitions(path, **COLUMNS)
