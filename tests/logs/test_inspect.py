"""What is inside a log: printed, proposed and written for `capture calibrate`; nothing where nothing is plausible."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from capture_cp.cli import main
from capture_cp.commands.inspect import proposed, proposed_topics
from capture_cp.data.recognise import opened, recognise
from capture_cp.data.source import Column
from commands import refused
from logs.recordings import Runs

MADE = {
    "lerobot": lambda runs, at: runs.lerobot(at, "v3.0"),
    "bags": lambda runs, at: runs.bags(at, "MCAP"),
    "robomimic": lambda runs, at: runs.robomimic(at.with_suffix(".hdf5")),
    "csv": lambda runs, at: runs.csv(at.with_suffix(".csv"), "run "),
}
TOLD = {
    "lerobot": ("observation.state", "1,200 rows in 2 recordings", "40 episodes by the column episode_index"),
    "bags": ("the first of 40 bags", "/joint_states", "position[2]", "99.", "--action /cmd.data"),
    "robomimic": ("obs/robot0_eef_pos", "arrays of shape (4, 4, 3)", "40 episodes by the column demo"),
    "csv": ("push_x", "1,160 rows", "40 episodes by the column run", "--next next_x next_y"),
}


@pytest.mark.parametrize("kind", MADE)
def test_what_is_proposed_can_be_calibrated(tmp_path, monkeypatch, capsys, kind):
    pytest.importorskip("rosbags")
    pytest.importorskip("h5py")
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    path = MADE[kind](Runs.made(runs=40, steps=30), tmp_path / "log")
    main(["inspect", str(path), "--toml", "inside/robot.toml"])
    printed = capsys.readouterr().out
    for words in TOLD[kind]:
        assert words in printed
    assert "capture calibrate" in printed
    assert tomllib.loads((tmp_path / "inside" / "robot.toml").read_text())["data"] == f"../{path.name}"
    main(["calibrate", "inside/robot.toml", "--alpha", "0.2"])
    assert "transitions of whole episodes" in capsys.readouterr().out
    assert (tmp_path / "inside" / "robot.capture").exists()


def test_a_file_is_not_replaced_unless_it_is_wished(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Runs.made(runs=3, steps=5).csv(tmp_path / "log.csv", "run ")
    (tmp_path / "robot.toml").write_text("mine")
    printed = refused(capsys, "inspect", "log.csv", "--toml", "robot.toml")
    assert "robot.toml exists already; choose another name, or overwrite it with --force" in printed
    assert (tmp_path / "robot.toml").read_text() == "mine"
    main(["inspect", "log.csv", "--toml", "robot.toml", "--force"])
    assert (tmp_path / "robot.toml").read_text().startswith('data = "log.csv"')


def test_nothing_is_proposed_where_nothing_is_plausible(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("log.npz", voltage=np.zeros(3), temperature=np.ones(3))
    main(["inspect", "log.npz"])
    printed = capsys.readouterr().out
    assert "No columns are proposed" in printed
    assert "capture calibrate" not in printed
    assert "is not written, as no columns are proposed" in refused(capsys, "inspect", "log.npz", "--toml", "robot.toml")
    assert not (tmp_path / "robot.toml").exists()


def columns(**widths):
    return [Column(name, "number", width) for name, width in widths.items()]


@pytest.fixture
def guess(tmp_path):
    """What is proposed for columns of these names."""

    def proposal(*names):
        np.savez(tmp_path / "log.npz", **{name: np.random.default_rng(0).random(20) for name in names})
        return proposed(recognise(opened(tmp_path / "log.npz")))

    return proposal


def test_names_tell_what_a_column_is_for(guess):
    flat = guess("q0", "q1", "torque_0", "q0_next", "q1_next", "time")
    assert (flat.state, flat.action, flat.next) == (["q0", "q1"], ["torque_0"], ["q0_next", "q1_next"])
    assert flat.time == "time"
    steps = guess("qpos_0", "qpos_1", "cmd_0", "reward")
    assert (steps.state, steps.action, steps.following) == (["qpos_0", "qpos_1"], ["cmd_0"], ["qpos_0", "qpos_1"])
    assert guess("x", "next_x") is None  # no action
    topics = {"/arm/joint_states": "sensor_msgs/msg/JointState", "/arm/cmd_vel": "geometry_msgs/msg/Twist"}
    fields = columns(**{"/arm/joint_states.position": 6})
    fields += columns(**{f"/arm/cmd_vel.{part}": None for part in ("linear.x", "linear.y", "angular.z")})
    found = proposed_topics(fields, topics)
    assert found.state == found.following == ["/arm/joint_states.position"]
    assert found.action == ["/arm/cmd_vel.linear.x", "/arm/cmd_vel.linear.y", "/arm/cmd_vel.angular.z"]
    assert proposed_topics(fields, {"/arm/cmd_vel": topics["/arm/cmd_vel"]}) is None
