"""What is inside a log: printed, proposed and written for `capture calibrate`; nothing where nothing is plausible."""

from __future__ import annotations

import os
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

from capture_cp.cli import main
from capture_cp.commands.inspect import proposed
from capture_cp.data.bags import BagSource
from capture_cp.data.roles import recognise
from capture_cp.data.source import Column, open_log
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


def test_next_or_following_is_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Runs.made(runs=3, steps=5).csv(tmp_path / "log.csv", "run ")
    columns = ("--state", "x", "--action", "push_x")
    assert "neither of next and following are set" in refused(capsys, "calibrate", "log.csv", *columns)
    both = ("--next", "next_x", "--following", "x")
    assert "both of next and following are set" in refused(capsys, "calibrate", "log.csv", *columns, *both)


def choice(folder, *names, **columns):
    rng = np.random.default_rng(0)
    np.savez(folder / "log.npz", **{name: rng.random(20) for name in names}, **columns)
    return proposed(recognise(open_log(folder / "log.npz")))


def test_names_tell_what_a_column_is_for(tmp_path):
    flat = choice(tmp_path, "q0", "q1", "torque_0", "q0_next", "q1_next", time=np.arange(20.0), run=np.arange(20) // 5)
    assert (flat.state, flat.action, flat.next) == (["q0", "q1"], ["torque_0"], ["q0_next", "q1_next"])
    assert (flat.episode, flat.time) == ("run", "time")
    steps = choice(tmp_path, "qpos_0", "qpos_1", "cmd_0", "reward")
    assert (steps.state, steps.action, steps.following) == (["qpos_0", "qpos_1"], ["cmd_0"], ["qpos_0", "qpos_1"])
    passive = choice(tmp_path, "x", "next_x")
    assert (passive.state, passive.action, passive.next) == (["x"], [], ["next_x"])


class Topics(BagSource):
    """A bag with these fields."""

    def __init__(self, *fields):
        super().__init__(Path("bag"))
        self.fields = (Column("time", "number"), *fields)

    def columns(self):
        return self.fields


def test_topics_tell_what_they_are_for():
    axes = [f"{part}.{axis}" for part in ("linear", "angular") for axis in "xyz"]
    twist = [Column(f"/base/cmd_vel.{axis}", "number") for axis in axes]
    arm = [Column(f"/arm/joint_states.{part}", "number", 6) for part in ("position", "velocity", "effort")]
    found = proposed(recognise(Topics(*arm, *twist)))
    assert found.state == ["/arm/joint_states.position", "/arm/joint_states.velocity"]
    assert found.following == ["/arm/joint_states.position"]
    assert found.action == [column.name for column in twist]
    turn = [Column(f"/odom.pose.pose.orientation.{axis}", "number") for axis in "xyzw"]
    place = [Column(f"/odom.pose.pose.position.{axis}", "number") for axis in "xyz"]
    moving = proposed(recognise(Topics(*twist, *turn, *place)))
    assert moving.following == [*(column.name for column in place), turn[3].name, *(column.name for column in turn[:3])]
    assert (moving.action, moving.time, moving.moves) == (found.action, "time", False)
    assert proposed(recognise(Topics(*twist))) is None


def pushes(path):
    """A log of a pusher, as people write it: a heading that wraps, commanded speeds, and whether it touches."""
    rng = np.random.default_rng(0)
    lines = ["episode,t,x,y,theta,v,w,contact"]
    for run in range(40):
        x, y, theta = *rng.random(2), rng.uniform(-3, 3)
        for step in range(30):
            v, w = rng.uniform(0, 0.3), rng.uniform(-1, 1)
            theta = (theta + np.pi) % (2 * np.pi) - np.pi
            lines.append(f"{run},{step * 0.1:.1f},{x:.4f},{y:.4f},{theta:.4f},{v:.4f},{w:.4f},{int(x > 1)}")
            x, y, theta = x + 0.1 * v * np.cos(theta), y + 0.1 * v * np.sin(theta), theta + w * 0.3
    path.write_text("\n".join(lines))


def test_what_is_proposed_for_a_pusher_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pushes(tmp_path / "pushes.csv")
    main(["inspect", "pushes.csv"])
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if "capture calibrate" in line)
    assert line.split("pushes.csv ")[1] == (
        "--state x y theta --action v w --following x y theta --angles next_theta --episode episode --time t"
    )
    assert "contact mode" in printed
    assert "capture gap" not in printed
    main([*shlex.split(line)[1:], "--out", "pushes.capture"])
    assert "full turn" not in capsys.readouterr().out
    assert (tmp_path / "pushes.capture").exists()


DATA = Path(os.environ.get("CAPTURE_DATA", "unset"))
REAL = {
    "cube/tosses.parquet": ("--state px py pz qw qx qy qz vx vy vz wx wy wz", "400 episodes by the column toss"),
    "elbow/tosses.parquet": ("--following px py pz qw qx qy qz hinge --angles next_hinge --episode toss",),
    "so101/sage": ("--action Rotation_ctrl Pitch_ctrl", "--episode motion --time time", "3 episodes by the column motion"),
}


@pytest.mark.skipif(not DATA.is_dir(), reason="CAPTURE_DATA names no folder with cube, elbow and so101")
@pytest.mark.parametrize("name", REAL)
def test_real_logs_get_both_commands(name, capsys):
    main(["inspect", str(DATA / name)])
    printed = capsys.readouterr().out
    for words in (*REAL[name], f"capture gap MODEL.xml {DATA / name}"):
        assert words in printed
