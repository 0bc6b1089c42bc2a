"""Folders of SAGE are logs: a motion per folder, lists in cells, microseconds or seconds; damage is one sentence."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from capture_cp import CaptureError, read_transitions
from capture_cp.cli import main
from capture_cp.data.logged import runs_of
from capture_cp.data.recognise import Joint, match, recognise
from capture_cp.data.source import open_log

JOINTS = ("Rotation", "Jaw")
ROWS = 30


def motion(folder, seed=0, unit=1e6, rows=ROWS, drop=(), commands=slice(None)):
    """A motion as SAGE writes it: 50 rows per second; its arrays (rows, joints) by part."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    times = (np.arange(rows) * 0.02 + 1e-5) * unit
    parts = {name: rng.standard_normal((rows, len(JOINTS))) for name in ("positions", "velocities", "torques", "commands")}
    (folder / "joint_list.txt").write_text("\n".join(JOINTS) + "\n")
    write(folder / "control.csv", "CONTROL", times[commands], {"positions": parts["commands"][commands]})
    kept = {name: values for name, values in parts.items() if name not in (*drop, "commands")}
    write(folder / "state_motor.csv", "STATE_MOTOR", times, kept)
    (folder / "event.csv").write_text("type,timestamp,event\nEVENT,0,MOTION_START\n")
    return parts


def write(file, kind, times, parts):
    with file.open("w", newline="") as text:
        lines = csv.writer(text)
        lines.writerow(["type", "timestamp", *parts])
        lines.writerows(
            [kind, time, *(json.dumps(values[i].tolist()) for values in parts.values())] for i, time in enumerate(times)
        )


def table(source):
    names = [column.name for column in source.columns()]
    pieces = list(source.pieces(names))
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}


@pytest.mark.parametrize("unit", [1e6, 1.0])
def test_a_folder_of_motions_is_a_log(tmp_path, unit):
    made = [motion(tmp_path / "custom" / f"wave {i}", i, unit, rows=ROWS + i) for i in (9, 10)]
    source = open_log(tmp_path)
    assert [column.name for column in source.columns()][:4] == ["time", "Rotation_qpos", "Jaw_qpos", "Rotation_qvel"]
    found = table(source)
    assert source.rows == 2 * ROWS + 19
    assert list(dict.fromkeys(found["motion"])) == ["custom/wave 9", "custom/wave 10"]
    np.testing.assert_allclose(found["time"][: ROWS + 9], np.arange(ROWS + 9) * 0.02 + 1e-5)
    for name, part in (("qpos", "positions"), ("qvel", "velocities"), ("torque", "torques"), ("ctrl", "commands")):
        both = np.vstack([one[part] for one in made])
        np.testing.assert_array_equal(np.stack([found[f"{joint}_{name}"] for joint in JOINTS], axis=1), both)
    assert source.parts().tolist() == [0, ROWS + 9]
    assert source.locate(ROWS + 10) == (tmp_path / "custom" / "wave 10", 1)
    assert len(runs_of(source, "motion").labels) == 2


def test_one_motion_is_a_log_too(tmp_path):
    motion(tmp_path / "wave")
    assert set(table(open_log(tmp_path / "wave"))["motion"]) == {"wave"}


def test_a_row_has_the_command_that_was_sent_last(tmp_path):
    made = motion(tmp_path / "wave", drop=("torques",), commands=slice(2, None, 3))  # sent at rows 2, 5, 8 ...
    found = table(open_log(tmp_path))
    sent = np.maximum((np.arange(ROWS) - 2) // 3 * 3 + 2, 2)
    np.testing.assert_array_equal(found["Jaw_ctrl"], made["commands"][sent, 1])
    assert "Jaw_torque" not in found


def test_joints_of_other_names_are_matched_in_the_order_given(tmp_path):
    motion(tmp_path / "wave")
    found = recognise(open_log(tmp_path))
    joints, acts = [Joint("jaw", "hinge"), Joint("pan", "hinge")], [("jaw", "jaw"), ("pan", "pan")]
    states = match(found, joints, acts, names=("pan", "jaw"))
    assert states.qpos == ("Jaw_qpos", "Rotation_qpos")
    assert states.ctrl == ("Jaw_ctrl", "Rotation_ctrl")
    assert (states.episode, states.time) == ("motion", "time")


def test_commands_read_it_like_any_log(tmp_path, monkeypatch, capsys):
    for i in range(12):
        motion(tmp_path / "sage" / f"wave {i}", i)
    names = {"state": [f"{joint}_qpos" for joint in JOINTS], "action": [f"{joint}_ctrl" for joint in JOINTS]}
    log = read_transitions(tmp_path / "sage", **names, following=names["state"], episode="motion", time="time")
    assert len(log.X) == 12 * (ROWS - 1)
    monkeypatch.chdir(tmp_path)
    options = ("--state", *names["state"], "--action", *names["action"], "--following", *names["state"])
    main(["calibrate", "sage", *options, "--episode", "motion", "--time", "time", "--alpha", "0.3", "--out", "arm.capture"])
    assert (tmp_path / "arm.capture").exists()


def damaged(folder, name, change):
    text = (folder / name).read_text()
    (folder / name).write_text(change(text))


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("state_motor.csv", lambda text: text.replace('"[', '"open(', 1), "positions in data row 1 .* is 'open"),
        ("state_motor.csv", lambda text: text.replace("]", ", 1]", 1), r"data row 1 .*; expected a list of 2 numbers"),
        ("control.csv", lambda text: text.replace('"[', '"[[[', 1), "positions in data row 1 .* expected a list of 2"),
        ("control.csv", lambda text: text.replace("[", "[null, ", 1), "expected a list of 2 numbers"),
        ("state_motor.csv", lambda text: text.replace("STATE_MOTOR,10.0", "STATE_MOTOR,soon", 1), "no finite numbers"),
        ("state_motor.csv", lambda text: text.replace("STATE_MOTOR,10.0", "STATE_MOTOR,9e9", 1), "go back after data row 1"),
        ("state_motor.csv", lambda text: text.replace("timestamp", "stamp", 1), "no columns timestamp and positions"),
        ("control.csv", lambda text: text + "CONTROL,1\n", "data row 31 of .* has 2 values under 3 names"),
        ("control.csv", lambda text: text.splitlines()[0], "holds no transitions"),
        ("control.csv", lambda text: "", "control.csv is empty"),
        ("control.csv", lambda text: text.replace("[", "[[", 1).replace("]", "]]", 1), "data row 1 .* a list of 2 numbers"),
        ("joint_list.txt", lambda text: "Jaw\nJaw\n", "does not name every joint of the robot once"),
        ("joint_list.txt", lambda text: "Jaw\n", "expected a list of 1 numbers"),
        ("state_motor.csv", lambda text: text.replace("torques", "heat"), "column 'Rotation_torque', which is missing"),
    ],
)
def test_damage_is_one_sentence(tmp_path, name, change, sentence):
    motion(tmp_path / "one")
    motion(tmp_path / "two")
    damaged(tmp_path / "two", name, change)
    with pytest.raises(CaptureError, match=sentence) as found:
        table(open_log(tmp_path))
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("name", "sentence"), [("control.csv", "not a CSV file of SAGE"), ("joint_list.txt", "every joint")]
)
def test_what_is_no_text_is_refused(tmp_path, name, sentence):
    motion(tmp_path / "one")
    (tmp_path / "one" / name).write_bytes(b"\xff\xfe\x00" * 9)
    with pytest.raises(CaptureError, match=sentence):
        table(open_log(tmp_path))


def test_other_folders_are_refused_as_before(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    with pytest.raises(CaptureError, match="contains no log"):
        open_log(tmp_path)


DATA = Path(os.environ.get("CAPTURE_DATA", "unset")) / "so101"


@pytest.mark.skipif(not DATA.is_dir(), reason="CAPTURE_DATA names no folder with so101")
def test_published_motions_are_those_of_the_table():
    found, same = table(open_log(DATA / "sage")), pyarrow.parquet.read_table(DATA / "motions.parquet").to_pydict()
    names = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
    logged = (DATA / "sage" / "slow_precision" / "joint_list.txt").read_text().split()
    for label in set(found["motion"]):
        here, there = found["motion"] == label, np.array(same["motion"]) == label
        np.testing.assert_allclose(found["time"][here], np.array(same["time"])[there], atol=1e-9)
        for joint, name in zip(logged, names):
            for part in ("qpos", "qvel", "torque", "ctrl"):
                there_too = np.array(same[f"{name}_{part}"])[there]
                np.testing.assert_allclose(found[f"{joint}_{part}"][here], there_too, atol=1e-6)
