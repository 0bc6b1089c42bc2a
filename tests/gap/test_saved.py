"""A calibration that `capture gap` saves: its thresholds per mode and step, and what check, view and planners do with it."""

import warnings
from pathlib import Path

import mujoco
import numpy as np
import pyarrow.parquet
import pytest

from capture_cp import CaptureError, CaptureWarning, load_calibration, measure_gap
from capture_cp.cli import main
from capture_cp.commands.view import View
from capture_cp.conformal.hierarchical import episode_quantile
from capture_cp.spaces.poses import SE3
from commands import refused
from gap.worlds import ARM, BALL, drops, reaches, write

STEPS = (1, 3, 8)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Balls and arms, each with a calibration of a wrong model beside it, and new logs."""
    folder = tmp_path_factory.mktemp("saved")
    for name, solref in (("soft.xml", 0.06), ("hard.xml", 0.02)):
        (folder / name).write_text(BALL.format(solref=solref))
    for name, kp in (("weak.xml", 2.0), ("arm.xml", 20.0)):
        (folder / name).write_text(ARM.format(kp=kp))
    drops(folder / "drops.parquet", episodes=30, noise=1e-4)
    drops(folder / "new.parquet", episodes=30, noise=1e-4, seed=1)
    drops(folder / "worn.parquet", episodes=60, noise=1e-4, seed=2, solref=0.15)
    reaches(folder / "reaches.parquet", episodes=20, rows=16)
    reaches(folder / "more.parquet", episodes=20, rows=16, seed=1)
    steps, pages = ["--steps", *map(str, STEPS)], ["--report", str(folder / "gap.html")]
    main(["gap", *both(folder, "soft.xml", "drops.parquet"), *steps, *pages, "--out", str(folder / "ball.capture")])
    named = [*steps, *pages, "--save-simulator", "weak.xml", "--out", str(folder / "arm.capture")]
    main(["gap", *both(folder, "arm.xml", "weak.xml", "reaches.parquet"), *named])
    return folder


def both(folder, *names):
    return [str(folder / name) for name in names]


def state_of(path):
    """qpos and qvel (n, 13), as MuJoCo has them, and episodes (n,) of a log of balls."""
    log = measure_gap(path.parent / "soft.xml", path, steps=(1,)).parts[0].log
    return np.hstack([log.qpos, log.qvel]), log.episode


def test_thresholds_are_the_bounds_of_each_mode_and_number_of_steps(saved):
    """Brute force: every start simulated by itself, its distance, and the quantile of each mode."""
    cap, model = load_calibration(saved / "ball.capture"), mujoco.MjModel.from_xml_path(str(saved / "soft.xml"))
    (state, episode), score = state_of(saved / "drops.parquet"), cap.score_.metric.metrics[0]
    assert isinstance(score, SE3)
    assert score.length == pytest.approx(0.05, rel=1e-3)
    for step in STEPS:
        scores, owners, touching = [], [], []
        for row in np.flatnonzero(episode[step:] == episode[:-step]):
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = state[row, :7], state[row, 7:]
            mujoco.mj_step(model, data, 4 * step)
            scores.append(float(score.distance(data.qpos, state[row + step, :7])))
            owners.append(episode[row])
            touching.append(state[row + step, 2] - 0.05 < 3e-3)
        scores, owners, touching = map(np.array, (scores, owners, touching))
        for alpha in (0.1, 0.3):
            with warnings.catch_warnings():
                warnings.simplefilter("error", CaptureWarning)  # that nothing ended in another contact is expected
                q = cap.thresholds(cap.model.x(state[0, :7], state[0, 7:], steps=step)[None], alpha)[0]
            for mode, chosen in (("free", ~touching), ("1 point", touching)):
                expected = episode_quantile(scores[chosen], owners[chosen], alpha)
                assert q[cap.strata.names.index(mode)] == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert cap.strata.names == ("free", "1 point", "other contact")
    assert cap.data_["episodes"] == 30


def test_check_knows_new_logs_drifted_ones_and_its_own(saved, capsys):
    main(["check", *both(saved, "ball.capture", "new.parquet")])
    said = capsys.readouterr().out
    assert "No evidence against the calibration" in said
    assert all(mode in said for mode in ("free", "1 point"))
    with pytest.raises(SystemExit) as stop:
        main(["check", *both(saved, "ball.capture", "worn.parquet")])
    assert stop.value.code == 1
    assert "scores (1 point)" in " ".join(capsys.readouterr().out.split())
    assert "made from" in refused(capsys, "check", *both(saved, "ball.capture", "drops.parquet"))


def test_check_of_an_arm_with_commands(saved, capsys):
    main(["check", *both(saved, "arm.capture", "more.parquet")])
    assert "lift +7" in capsys.readouterr().out
    assert "made from" in refused(capsys, "check", *both(saved, "arm.capture", "reaches.parquet"))


def test_another_model_or_rate_is_refused(saved, capsys, tmp_path):
    new = both(saved, "ball.capture", "new.parquet")
    assert "hard.xml is another model than soft.xml" in refused(capsys, "check", *new, "--model", saved / "hard.xml")
    (tmp_path / "ball.capture").write_bytes((saved / "ball.capture").read_bytes())
    alone = tmp_path / "ball.capture", saved / "new.parquet"
    assert "soft.xml, which is not beside it; give --model" in refused(capsys, "check", *alone)
    main(["check", *map(str, alone), "--model", str(saved / "soft.xml")])
    table = pyarrow.parquet.read_table(saved / "new.parquet").to_pydict()
    write(tmp_path / "slow.parquet", table | {"t": 2 * np.array(table["t"])})
    assert "0.04 s between rows" in refused(capsys, "check", saved / "ball.capture", tmp_path / "slow.parquet")
    write(tmp_path / "short.parquet", {name: column[::30] for name, column in table.items()})
    assert "no episode of the log has two rows" in refused(
        capsys, "check", saved / "ball.capture", tmp_path / "short.parquet"
    )


def test_planners_ask_for_regions_under_commands(saved):
    cap, model = load_calibration(saved / "arm.capture", model=saved / "weak.xml"), ARM.format(kp=2.0)
    model, ctrl = mujoco.MjModel.from_xml_string(model), np.random.default_rng(0).normal(0, 0.3, (3, 2))
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = [0.1, -0.2], [0.3, 0.1]
    region = cap.region(cap.model.x([0.1, -0.2], [0.3, 0.1], ctrl, steps=3), 0.1)
    for sent in ctrl:
        data.ctrl[:] = sent
        mujoco.mj_step(model, data, 2)
    np.testing.assert_allclose(region.prediction[0, 0], data.qpos, atol=1e-12)
    assert region.contains(data.qpos)
    assert not region.contains(data.qpos + 0.5)
    assert region.contains(region.sample(20, rng=0)).all()
    with pytest.raises(CaptureError, match="2 steps ahead is asked for; the calibration has those of 1, 3, 8"):
        cap.model.x([0, 0], [0, 0], ctrl[:2], steps=2)
    with pytest.raises(CaptureError, match="2 steps ahead"):
        cap.region(np.append(cap.model.x([0, 0], [0, 0], ctrl[:1])[:-1], 2.0))
    with pytest.raises(CaptureError, match="one command per step"):
        cap.model.x([0, 0], [0, 0], ctrl[:2], steps=1)


def test_a_mode_that_was_never_seen_is_another_contact(saved, tmp_path):
    high = pyarrow.parquet.read_table(saved / "drops.parquet").to_pydict()
    write(tmp_path / "high.parquet", high | {"pz": np.array(high["pz"]) + 1})
    cap = measure_gap(saved / "soft.xml", tmp_path / "high.parquet", steps=(2,)).calibration()
    assert cap.strata.names == ("free", "other contact")
    down, up = ([0, 0, z, 1, 0, 0, 0] for z in (0.05, 0.5))
    assert cap.strata.index(np.array([down, up])).tolist() == [1, 0]
    region = cap.region(cap.model.x(up, np.zeros(6), steps=2), 0.1)
    assert region.contains(np.array([down]))  # nothing is known there


def test_modes_may_come_from_another_model_and_have_other_names(saved, tmp_path):
    modes = {"modes_from": saved / "hard.xml", "mode_names": {"1 point": "down"}, "touch": 0.02}
    cap = measure_gap(saved / "soft.xml", saved / "drops.parquet", steps=STEPS, **modes).calibration()
    assert cap.strata.names == ("free", "down", "other contact")
    cap.save(tmp_path / "ball.capture")
    with pytest.raises(CaptureError, match=r"hard.xml, which is not beside it; give --strata"):
        load_calibration(tmp_path / "ball.capture", saved / "soft.xml")
    again = load_calibration(tmp_path / "ball.capture", saved / "soft.xml", saved / "hard.xml")
    assert again.strata.index(np.array([[0, 0, 0.065, 1, 0, 0, 0]])).tolist() == [1]
    np.testing.assert_array_equal(again.group_thresholds(0.2), cap.group_thresholds(0.2))


def test_what_cannot_be_saved_is_refused_before_anything_is_written(saved, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = ["--out", "robot.capture"]
    ball = both(saved, "soft.xml", "drops.parquet")
    assert "did you mean 'soft.xml'" in refused(capsys, "gap", *ball, *out, "--save-simulator", "sofd.xml").lower()
    assert "--mode-column" in refused(capsys, "gap", *ball, *out, "--mode-column", "episode")
    assert "and none is" in refused(capsys, "gap", *both(saved, "drops.parquet", "drops.parquet"), *out)
    assert not list(Path().iterdir())
    swing = "<mujoco><worldbody><body name='b'><joint name='hip' type='ball'/><geom size='.1'/></body></worldbody></mujoco>"
    (tmp_path / "swing.xml").write_text(swing)
    rows = {"episode": np.repeat([0, 1], 5), "t": np.tile(np.arange(5) * 0.01, 2)}
    turn = dict(zip(("hip_qw", "hip_qx", "hip_qy", "hip_qz"), np.tile(np.eye(4)[0], (10, 1)).T))
    gap = measure_gap(tmp_path / "swing.xml", write(tmp_path / "log.parquet", rows | turn), steps=(1,))
    with pytest.raises(CaptureError, match="ball joint hip"):
        gap.calibration()


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_view_shows_it_by_hand_and_through_a_log(saved):
    for log in (None, saved / "new.parquet"):
        session = View(calibration=saved / "ball.capture", log=log).session()
        while session.prepare():
            pass
        frame = session.frame()
        assert ("inside the region" in frame.status or "outside" in frame.status) == (log is not None)
        assert "1 point" in frame.tables
        assert len(frame.pictures) == 2
        assert {"geom-0-0", "geom-1-0", "geom-1-1"} <= frame.scene.bodies.keys()  # the plane, the ball, and its start
        assert ("geom-1-2" in frame.scene.bodies) == (log is not None)
        assert "geom-0-1" not in frame.scene.bodies
