"""Columns are recognised by names and values, and matched to a model's joints; bad input is refused in one sentence."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from capture_cp import CaptureError
from capture_cp.data.recognise import Joint, StateColumns, match, recognise
from capture_cp.data.roles import meaning, wraps
from capture_cp.data.source import open_log

RUNS, STEPS = 5, 40
FREE = [Joint("cube", "free")]
HINGES = [Joint(name, "hinge") for name in "abc"]


class Tumble:
    """Episodes of a body that turns: positions, quaternions w x y z, velocities and body rates, one row per step."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        n = RUNS * STEPS
        self.run, self.time = np.repeat(np.arange(RUNS) + 7, STEPS), np.tile(np.arange(STEPS) * 0.01, RUNS)
        self.p, self.v = rng.standard_normal((n, 3)).cumsum(axis=0) * 0.01, rng.standard_normal((n, 3))
        self.w, self.q = np.repeat(rng.standard_normal((RUNS, 3)), STEPS, axis=0), np.empty((n, 4))
        for i in range(n):
            before = rng.standard_normal(4) if i % STEPS == 0 else self._turned(self.q[i - 1], self.w[i])
            self.q[i] = before / np.linalg.norm(before)

    @staticmethod
    def _turned(q, w):
        turn = np.concatenate([[1.0], w * 0.005])
        v = q[0] * turn[1:] + turn[0] * q[1:] + np.cross(q[1:], turn[1:])
        return np.concatenate([[q[0] * turn[0] - q[1:] @ turn[1:]], v])

    @property
    def xyzw(self):
        return self.q[:, [1, 2, 3, 0]]

    @property
    def clock(self):
        return {"toss": self.run, "time": self.time}


@pytest.fixture(scope="module")
def body():
    return Tumble()


def lettered(start, letters, columns):
    return {f"{start}{letter}": columns[:, i] for i, letter in enumerate(letters)}


@pytest.fixture
def read(tmp_path):
    """Recognises columns that are written to a file: arrays (n,), or (n, d) as name_0, ..."""

    def written(**columns):
        np.savez(tmp_path / "log.npz", **columns)
        return recognise(open_log(tmp_path / "log.npz"))

    return written


# -- a body -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "quaternion", "velocity", "rates"),
    [
        ("p", "q", "v", "w"),
        ("cube_p", "cube_q", "cube_v", "cube_w"),
        ("cube.pos.", "cube.quat.", "cube.vel.", "cube.ang_vel."),
        ("odom.pose.position.", "odom.pose.orientation.", "odom.twist.linear.", "odom.twist.angular."),
    ],
)
@pytest.mark.parametrize("letters", ["wxyz", "xyzw"])
def test_a_pose_is_found_by_names_in_either_order(read, body, position, quaternion, velocity, rates, letters):
    four = body.q if letters == "wxyz" else body.xyzw
    columns = lettered(position, "xyz", body.p) | lettered(quaternion, letters, four)
    found = read(**body.clock, **columns, **lettered(velocity, "xyz", body.v), **lettered(rates, "xyz", body.w))
    (pose,) = found.poses
    assert (pose.fits, pose.frame, pose.ordered) == ("wxyz", "body", True)
    states = match(found, FREE)
    assert states.qpos == (*(f"{position}{a}" for a in "xyz"), *(f"{quaternion}{a}" for a in "wxyz"))
    assert states.qvel == (*(f"{velocity}{a}" for a in "xyz"), *(f"{rates}{a}" for a in "xyz"))
    assert (states.episode, states.time, states.world) == ("toss", "time", ())
    assert ("cube.quaternion", ", ".join(states.qpos[3:]), "w x y z", "unit norm, by name") in states.table()


def test_a_pose_in_a_list_is_found_by_its_unit_norm(read, body):
    moving = np.hstack([body.p, body.q, body.v, body.w])
    found = read(**body.clock, state=moving)
    assert match(found, FREE).qpos == tuple(f"state_{i}" for i in range(7))
    assert match(found, FREE).qvel == tuple(f"state_{i}" for i in range(7, 13))
    turned = read(**body.clock, pose=np.hstack([body.q, body.p]))  # the quaternion first
    assert match(turned, FREE).qpos == (*(f"pose_{i}" for i in (4, 5, 6)), *(f"pose_{i}" for i in range(4)))
    assert match(turned, FREE).qvel == ("",) * 6
    two = read(**body.clock, eef_pos=body.p, eef_quat=body.q)
    assert match(two, FREE).qpos == (*(f"eef_pos_{i}" for i in range(3)), *(f"eef_quat_{i}" for i in range(4)))


def test_the_order_that_does_not_fit_the_rates_is_refused_with_the_flag(read, body):
    found = read(**body.clock, pose=np.hstack([body.p, body.xyzw]), **lettered("w", "xyz", body.w))
    with pytest.raises(CaptureError, match=r"does not fit the logged rates in the order w x y z.*--quaternion xyzw"):
        match(found, FREE)
    assert match(found, FREE, quaternion="xyzw").qpos[3:] == ("pose_6", "pose_3", "pose_4", "pose_5")
    fine = read(**body.clock, pose=np.hstack([body.p, body.q]), **lettered("w", "xyz", body.w))
    assert match(fine, FREE).qpos[3:] == tuple(f"pose_{i}" for i in range(3, 7))
    with pytest.raises(CaptureError, match="give --quaternion wxyz"):
        match(fine, FREE, quaternion="xyzw")


def test_rates_about_the_axes_of_the_world_are_known(read, body):
    inverse = body.q * [1, -1, -1, -1]  # the body's rates are those of the world as the inverse turns
    found = read(
        **body.clock, **lettered("p", "xyz", body.p), **lettered("q", "wxyz", inverse), **lettered("w", "xyz", -body.w)
    )
    assert found.poses[0].frame == "world"
    assert match(found, FREE).world == ("cube",)


def test_a_quaternion_that_is_not_unit_is_refused(read, body):
    found = read(**body.clock, **lettered("p", "xyz", body.p), **lettered("q", "wxyz", 100 * body.q))
    with pytest.raises(CaptureError, match="is not a unit quaternion: it has a length of 100"):
        match(found, FREE)


def test_poses_are_taken_by_name_and_the_last_one_as_it_is(read, body):
    def pose(name):
        return lettered(f"{name}_p", "xyz", body.p) | lettered(f"{name}_q", "wxyz", body.q)

    found = read(**body.clock, **pose("left"), **pose("right"), **lettered("left_w", "xyz", body.w))
    both = match(found, [Joint("cube", "free"), Joint("left", "free")])
    assert both.qpos[::7] == ("right_px", "left_px")
    assert both.qvel == ("",) * 9 + ("left_wx", "left_wy", "left_wz")
    with pytest.raises(CaptureError, match=r"2 poses, left, right, and none is called as the joint 'cube'.*cube=POSE"):
        match(found, FREE)
    assert match(found, FREE, overrides={"cube": "right"}).qpos[0] == "right_px"
    with pytest.raises(
        CaptureError, match=r"joint 'c' \(free\) of the model is not in .* which has the pose left, the pose"
    ):
        match(found, [Joint("left", "free"), Joint("right", "free"), Joint("c", "free")])


# -- joints ---------------------------------------------------------------------------------------------------------------


def test_joints_are_found_by_their_endings(read, body):
    one, two, three = body.v.T
    found = read(
        **body.clock, a=one, va=two, a_ctrl=three, b_qpos=one, b_qvel=two, b_target=two, c_position=one, dc=three,
        c_torque=two, reward=one, frame_index=np.tile(np.arange(STEPS), RUNS),
    )  # fmt: skip
    states = match(found, HINGES, [("a", "a"), ("motor", "b"), ("other", "c")])
    assert states.qpos == ("a", "b_qpos", "c_position")
    assert states.qvel == ("va", "b_qvel", "dc")
    assert states.ctrl == ("a_ctrl", "b_target", "")
    assert found.joints["torque"] == {"c": "c_torque"}
    assert found.roles["frame_index"] == found.roles["reward"] == "counter"
    named = read(**body.clock, **{"state.x.pos": one, "x.vel": two, "action.x.pos": three, "y.pos": one, "y_action": two})
    states = match(named, [Joint("x", "hinge"), Joint("y", "slide")], [("x", "x"), ("y", "y")])
    assert (states.qpos, states.qvel) == (("state.x.pos", "y.pos"), ("x.vel", ""))
    assert states.ctrl == ("action.x.pos", "y_action")


def test_names_that_differ_are_matched_by_the_order_given(read, body):
    found = read(**body.clock, **{"observation.state": body.v, "action": body.w})
    acts = [(name, name) for name in "abc"]
    with pytest.raises(CaptureError, match=r"joint 'a' \(hinge\) .* which has observation.state_0, .*--joints"):
        match(found, HINGES, acts)
    states = match(found, HINGES, acts, names=("b", "a", "c"))
    assert states.qpos == tuple(f"observation.state_{i}" for i in (1, 0, 2))
    assert states.ctrl == tuple(f"action_{i}" for i in (1, 0, 2))
    with pytest.raises(CaptureError, match=r"--joints names 2 joints, but .* has 3: observation.state_0"):
        match(found, HINGES, acts, names=("a", "b"))
    with pytest.raises(CaptureError, match="unknown joint in --joints 'd'; known: a, b, c"):
        match(found, HINGES, acts, names=("a", "b", "d"))


def test_lists_as_long_as_the_models_own_are_taken_as_they_are(read, body):
    joints = [*FREE, Joint("hinge", "hinge")]
    spin = np.linspace(0, 1, len(body.run))[:, None]
    found = read(
        **body.clock, qpos=np.hstack([body.p, body.q, spin]), qvel=np.hstack([body.v, body.w, spin]), ctrl=body.v[:, :2]
    )
    states = match(found, joints, [("x", "hinge"), ("y", "hinge")])
    assert states.qpos == tuple(f"qpos_{i}" for i in range(8))
    assert states.qvel == tuple(f"qvel_{i}" for i in range(7))
    assert states.ctrl == ("ctrl_0", "ctrl_1")


def test_lists_of_parquet_are_read_by_their_width(tmp_path, body):
    lists = {"observation.state": list(body.v), "action": list(body.w)}
    table = {"episode_index": body.run, "timestamp": body.time, "index": np.arange(len(body.run)), **lists}
    parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    found = recognise(open_log(tmp_path / "log.parquet"))
    assert (found.episode, found.time) == ("episode_index", "timestamp")
    assert list(found.joints["position"].values()) == [f"observation.state_{i}" for i in range(3)]
    assert list(found.joints["command"]) == list(found.joints["position"])
    alone = match(found, None)
    assert [joint.kind for joint in alone.joints] == ["hinge"] * 3
    assert alone.ctrl == ("action_0", "action_1", "action_2")


@pytest.mark.parametrize("nested", [False, True])
def test_names_in_a_lerobot_data_set_are_those_of_the_joints(tmp_path, body, nested):
    (tmp_path / "meta").mkdir()
    (tmp_path / "data").mkdir()
    names = ["a.pos", "b.pos", "c.pos"]
    feature = {"dtype": "float32", "shape": [3], "names": {"motors": names} if nested else names}
    features = {"observation.state": feature, "action": feature, "timestamp": {"shape": [1], "names": None}}
    (tmp_path / "meta" / "info.json").write_text(json.dumps({"codebase_version": "v3.0", "features": features}))
    lists = {"observation.state": list(body.v), "action": list(body.w)}
    parquet.write_table(pyarrow.table({"episode_index": body.run, **lists}), tmp_path / "data" / "file-000.parquet")
    states = match(recognise(open_log(tmp_path)), HINGES[::-1], [(name, name) for name in "cba"])
    assert states.qpos == tuple(f"observation.state_{i}" for i in (2, 1, 0))
    assert states.ctrl == tuple(f"action_{i}" for i in (2, 1, 0))
    for broken in ("{", "[]", json.dumps({"features": {"observation.state": {"names": 3}, "action": []}}), "{}"):
        (tmp_path / "meta" / "info.json").write_text(broken)
        assert list(recognise(open_log(tmp_path)).joints["position"]) == [f"observation.state_{i}" for i in range(3)]


# -- episodes, times and angles -------------------------------------------------------------------------------------------


def test_episodes_and_times_are_found_by_values(read, body):
    found = read(
        attempt=body.run, clock=body.time + 3, tick=np.tile(np.arange(STEPS), RUNS), label=body.run % 2, x=body.p[:, 0]
    )
    assert (found.episode, found.why["attempt"]) == ("attempt", "constant over runs of rows")
    assert (found.time, found.why["clock"]) == ("clock", "grows within episodes")
    assert found.why["tick"] == "counts rows"
    assert found.roles["label"] == "contact mode"
    odd = read(run=body.p[:, 0], label=body.run % 2)  # fractions; values that come again
    assert (odd.episode, odd.time) == (None, None)


def test_text_names_episodes(tmp_path, body):
    rows = "\n".join(f"{name},{x}" for name, x in zip(np.repeat(["one", "two"], 30), body.p[:, 0]))
    (tmp_path / "log.csv").write_text(f"push,x\n{rows}\n")
    assert recognise(open_log(tmp_path / "log.csv")).episode == "push"
    rows = "\n".join(
        f"{i},{word},a{i % 7},{i // 9} " for i, word in enumerate(["face", "free"] * 30)
    )  # several columns of it
    (tmp_path / "log.csv").write_text(f"x,touching,note,attempt\n{rows}\n")
    found = recognise(open_log(tmp_path / "log.csv"))
    assert (found.episode, [column.kind for column in found.columns]) == ("attempt", ["number", "text", "text", "number"])
    source = open_log(tmp_path / "log.csv").arranged(["x", "touching", "attempt"], "", (), "")
    with pytest.raises(CaptureError, match=r"line 2, column 'touching' contains 'face'"):
        list(source.pieces(["x", "touching"]))


def test_an_angle_is_what_wraps(read, body):
    turning = (0.3 * np.arange(len(body.run)) + np.pi) % (2 * np.pi) - np.pi
    found = read(**body.clock, hinge=turning, vhinge=body.v[:, 0], x=3 * turning, theta=0.1 * turning, y=turning + np.pi)
    assert found.angles == ["hinge", "theta", "y"]
    assert found.why["hinge"] == "wraps at a full turn"
    jumps = np.array([0.0, 0.2, 7.0]), np.array([0.1, 6.4, 7.1])  # a position that is carried away by about a full turn
    assert wraps(*jumps) == 0
    assert wraps(np.array([3.1, 0.0]), np.array([-3.1, 0.1])) == 1


def test_names_say_what_they_hold():
    said = {
        "arm_qpos": ("position", "arm"), "qvel_2": ("velocity", "2"), "action.lift.pos": ("command", "lift"),
        "observation.state.lift.pos": ("position", "lift"), "lift_effort": ("torque", "lift"),
        "action": ("command", "action"), "temperature": ("", "temperature"), "push_x": ("command", "x"),
        "/cmd.data": ("command", "data"),
    }  # fmt: skip
    assert {name: meaning(name) for name in said} == said


def test_many_columns_and_long_names_do_not_hang(tmp_path):
    """Minutes where the time grows as the square of either."""
    names = [*(f"{kind}_{i}" for kind in "abvdqw" for i in range(1200)), *(f"{x * 20_000}" for x in ("_", "q_", "x."))]
    parquet.write_table(pyarrow.table({name: np.arange(8.0) % 3 for name in names}), tmp_path / "log.parquet")
    assert recognise(open_log(tmp_path / "log.parquet")).poses == []


# -- TOML, and flags in place of what is recognised -------------------------------------------------------------------------


def test_a_mapping_is_written_and_read(read, body):
    columns = (
        lettered("p", "xyz", body.p) | lettered("q", "wxyz", body.q) | {"hinge": body.v[:, 0], "hinge_cmd": body.v[:, 1]}
    )
    found = read(**body.clock, **columns, other=body.v[:, 2])
    joints, acts = [*FREE, Joint("hinge", "hinge")], [("motor", "hinge")]
    states = match(found, joints, acts)
    again = StateColumns.from_toml(states.toml(), found, joints, acts)
    assert replace(again, why=states.why) == states
    assert {again.why[name] for name in states.qpos} == {"named by you"}
    edited = states.toml().replace('"hinge.position" = "hinge"', '"hinge.position" = "other"').replace('"toss"', '""')
    again = StateColumns.from_toml(edited, found, joints, acts)
    assert (again.qpos[-1], again.episode) == ("other", None)
    refusals = {
        '"hnge.position" = "other"': "unknown quantity .* 'hnge.position'.*Did you mean 'hinge.position'",
        '"hinge.position" = "othr"': "unknown column in .* 'othr'.*Did you mean 'other'",
        '"cube.rates" = ["other"]': "cube.rates has 1 columns, other; expected 3",
        '"cube.rates" = 3': "cube.rates in mine is 3; expected names of columns",
        "cube =": "mine is not TOML",
    }
    for text, sentence in refusals.items():
        with pytest.raises(CaptureError, match=sentence):
            StateColumns.from_toml(text, found, joints, acts, "mine")
    more = {"hinge.velocity": "other", "cube.velocity": "px, py,pz", "motor.command": "hinge"}
    assert match(found, joints, acts, overrides={"hinge": "other"}).qpos[-1] == "other"
    with pytest.raises(CaptureError, match="unknown pose 'hinge,other'"):
        match(found, joints, acts, overrides={"cube": "hinge,other"})
    told = match(found, joints, acts, overrides=more)
    assert told.qvel == ("px", "py", "pz", "", "", "", "other")
    assert told.ctrl == ("hinge",)


# -- real logs --------------------------------------------------------------------------------------------------------------

DATA = Path(os.environ.get("CAPTURE_DATA", "unset"))
ARM = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")


@pytest.mark.skipif(not DATA.is_dir(), reason="CAPTURE_DATA names no folder with cube, elbow and so101")
def test_real_logs_need_no_flag():
    cube = match(recognise(open_log(DATA / "cube" / "tosses.parquet")), FREE)
    assert cube.qpos == ("px", "py", "pz", "qw", "qx", "qy", "qz")
    assert cube.qvel == ("vx", "vy", "vz", "wx", "wy", "wz")
    assert (cube.episode, cube.time, cube.world) == ("toss", "time", ())
    found = recognise(open_log(DATA / "elbow" / "tosses.parquet"))
    elbow = match(found, [Joint("first", "free"), Joint("hinge", "hinge")])
    assert (elbow.qpos, elbow.qvel) == ((*cube.qpos, "hinge"), (*cube.qvel, "vhinge"))
    assert found.angles == ["hinge"]
    joints = [Joint(name, "hinge") for name in ARM]
    arm = match(recognise(open_log(DATA / "so101" / "motions.parquet")), joints, [(name, name) for name in ARM])
    assert arm.qpos == tuple(f"{name}_qpos" for name in ARM)
    assert arm.ctrl == tuple(f"{name}_ctrl" for name in ARM)
    assert (arm.episode, arm.time) == ("motion", "time")
