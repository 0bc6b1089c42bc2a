"""Bags: rows at the actions, and what is missing is said or refused."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest

from capture_cp import CaptureError, read_transitions
from capture_cp.data.bags import Bag, BagSource
from capture_cp.data.logged import LoggedTransitions
from logs.recordings import START, STEP, Runs, bag

pytest.importorskip("rosbags")

COLUMNS = {"state": "/joint_states.position", "action": "/cmd.data", "following": "/joint_states.position"}
STORAGES = ("MCAP", "SQLITE3")


@pytest.fixture
def one():
    runs = Runs.made(runs=1, steps=50)
    return runs.state, runs.action


@pytest.mark.parametrize("storage", STORAGES)
def test_numbers_are_those_of_the_messages(tmp_path, one, storage):
    found = Bag(bag(tmp_path / "bag", *one, storage, names=True))
    messages = list(found.messages(["/joint_states"]))
    assert [stamp for _, stamp, _ in messages] == [START + i * STEP for i in range(50)]
    assert np.array_equal([numbers["position"] for _, _, numbers in messages], one[0])
    assert {numbers["velocity"].shape for _, _, numbers in messages} == {(0,)}
    assert [numbers["header.stamp.nanosec"] for _, _, numbers in messages] == [i * STEP % 10**9 for i in range(50)]
    assert {name: count for name, (_, count) in found.topics.items()} == {"/joint_states": 50, "/cmd": 50, "/camera": 50}
    assert (found.start, found.end) == (START, START + 49 * STEP + 1_000_000)


LINE = "=" * 80
ARM = f"""geometry_msgs/Point tip
my_msgs/Joint[] joints
int32[2] counts
bool on
string mode
string[] names
{LINE}
MSG: my_msgs/Joint
float64 angle
float32[] torques
{LINE}
MSG: geometry_msgs/Point
float64 x
float64 y
float64 z
"""


def of_arms(path, ros):
    """A bag of messages of a type that ROS does not know."""
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(ARM, "my_msgs/msg/Arm"))
    arm, joint, point = (store.types[name] for name in ("my_msgs/msg/Arm", "my_msgs/msg/Joint", "geometry_msgs/msg/Point"))
    mcap = rosbag2.StoragePlugin.MCAP
    writer = rosbag1.Writer(path) if ros == 1 else rosbag2.Writer(path, version=9, storage_plugin=mcap)
    with writer:
        to = writer.add_connection("/arm", "my_msgs/msg/Arm", typestore=store)
        for i in range(20):
            joints = [joint(float(10 * i + j), np.full(2, i, np.float32)) for j in range(3)]
            message = arm(point(i, 0.5, -i), joints, np.array([i, -i], np.int32), i % 2 == 0, "m" * i, ["n"] * i)
            serialize = store.serialize_ros1 if ros == 1 else store.serialize_cdr
            writer.write(to, START + i * STEP, serialize(message, "my_msgs/msg/Arm"))
    return path if ros == 1 else next(path.glob("*.mcap"))


@pytest.mark.parametrize("ros", [1, 2])
def test_types_of_ones_own_and_bags_of_ros_1_are_read(tmp_path, ros):
    path = of_arms(tmp_path / ("arms.bag" if ros == 1 else "arms"), ros)
    names = [column.name for column in BagSource(path).columns()]
    assert names[:5] == ["time", "/arm.tip.x", "/arm.tip.y", "/arm.tip.z", "/arm.joints[0].angle"]
    assert names[-2:] == ["/arm.counts", "/arm.on"]
    log = read_transitions(path, ["/arm.tip.x", "/arm.joints[2].angle"], ["/arm.counts", "/arm.on"], following="/arm.tip.z")
    i = np.arange(19.0)
    assert np.array_equal(log.state, np.stack([i, 10 * i + 2], axis=1))
    assert np.array_equal(log.action, np.stack([i, -i, i % 2 == 0], axis=1))
    assert np.array_equal(log.next[:, 0], -i - 1)


def test_a_type_that_nobody_defines_is_one_clear_sentence(tmp_path, one):
    path = bag(tmp_path / "bag", *one, "SQLITE3")
    with closing(sqlite3.connect(next(path.glob("*.db3")))) as data:
        data.executescript("DROP TABLE schema; DELETE FROM message_definitions")
        data.commit()
    assert len(read_transitions(path, **COLUMNS)) == 49  # ROS 2 ships these types
    with closing(sqlite3.connect(next(path.glob("*.db3")))) as data:
        data.execute("UPDATE topics SET type = 'my_msgs/msg/Arm'")
        data.commit()
    with pytest.raises(CaptureError, match=r"has no definition of my_msgs/msg/Arm, the type of /\w+, and ROS 2 does not"):
        read_transitions(path, **COLUMNS)


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
    path = bag(tmp_path / "bag", *one, "MCAP")
    monkeypatch.setitem(sys.modules, "rosbags.highlevel", None)
    with pytest.raises(CaptureError, match=r'pip install "capture-cp\[ros\]"'):
        read_transitions(path, **COLUMNS)
