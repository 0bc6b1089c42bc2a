"""What `measure_gap` promises: the errors are those of the simulators, in units, per mode and number of steps."""

import json
import sys

import mujoco
import numpy as np
import pyarrow.parquet
import pytest

from capture_cp import CaptureError, measure_gap
from capture_cp.conformal.hierarchical import episode_quantile
from gap.worlds import ARM, BALL, POSE, drops, reaches, write


@pytest.fixture(scope="module")
def balls(tmp_path_factory):
    """Two models, and a log that the first of them made."""
    folder = tmp_path_factory.mktemp("balls")
    for name, solref in (("same.xml", 0.02), ("soft.xml", 0.06)):
        (folder / name).write_text(BALL.format(solref=solref))
    drops(folder / "drops.parquet")
    return folder


@pytest.fixture(scope="module")
def arms(tmp_path_factory):
    """An arm's model with the servos of the log, one with weak ones, and a log."""
    folder = tmp_path_factory.mktemp("arms")
    for name, kp in (("same.xml", 20.0), ("weak.xml", 2.0)):
        (folder / name).write_text(ARM.format(kp=kp))
    reaches(folder / "log.parquet")
    return folder


def cell(gap, **wanted):
    """The only row with these values."""
    found = [row for row in gap.rows if all(row[name] == value for name, value in ({"mode_at": "end"} | wanted).items())]
    assert len(found) == 1, found
    return found[0]


def columns_of(path):
    table = pyarrow.parquet.read_table(path)
    return {name: np.array(table[name].to_numpy()) for name in table.column_names}


def test_a_simulator_that_made_the_log_has_no_error(balls):
    gap = measure_gap(balls / "same.xml", balls / "drops.parquet", steps=(1, 5))
    bounds = [row["bound"] for row in gap.rows if row["simulator"] == "same.xml"]
    assert bounds
    assert max(bounds) < 1e-6


def test_errors_are_those_of_a_loop_over_mj_step(balls):
    """Brute force: every start simulated by itself, the error of every row, and the quantile of each mode."""
    gap = measure_gap(balls / "soft.xml", balls / "drops.parquet", steps=(3,))
    table = columns_of(balls / "drops.parquet")
    state, episode = np.stack([table[name] for name in POSE], axis=1), table["episode"].astype(int)
    model, scores, owners, touching = mujoco.MjModel.from_xml_path(str(balls / "soft.xml")), [], [], []
    for row in range(len(state) - 3):
        if episode[row + 3] == episode[row]:
            data = mujoco.MjData(model)
            data.qpos[:], data.qvel[:] = state[row, :7], state[row, 7:]
            mujoco.mj_step(model, data, 12)
            scores.append(1e3 * np.linalg.norm(data.qpos[:3] - state[row + 3, :3]))
            owners.append(episode[row])
            touching.append(state[row + 3, 2] - 0.05 < 3e-3)
    scores, owners, touching = map(np.array, (scores, owners, touching))
    for mode, chosen in (("free", ~touching), ("1 point", touching)):
        row = cell(gap, simulator="soft.xml", mode=mode, quantity="ball.position")
        assert row["bound"] == pytest.approx(episode_quantile(scores[chosen], owners[chosen], 0.1), rel=1e-9)
        assert row["rows"] == chosen.sum()
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean(scores[chosen] ** 2)))


def test_rules_that_cost_nothing(balls, arms):
    names = {row["simulator"] for row in measure_gap(balls / "same.xml", balls / "drops.parquet", steps=(1,)).rows}
    assert names == {"same.xml", "keeps its velocity", "ballistic"}
    gap = measure_gap(arms / "same.xml", arms / "log.parquet", steps=(4,))
    assert {row["simulator"] for row in gap.rows} >= {"follows its command", "moves with its command"}
    table = columns_of(arms / "log.parquet")
    q, u = table["lift_qpos"], table["lift_ctrl"]
    rows = np.flatnonzero((np.arange(len(q)) % 40 > 0) & (np.arange(len(q)) % 40 < 36))
    moved = np.degrees(np.abs(q[rows] + u[rows + 3] - u[rows - 1] - q[rows + 4]))
    row = cell(gap, simulator="moves with its command", quantity="lift")
    assert row["bound"] == pytest.approx(episode_quantile(moved, rows // 40, 0.1), rel=1e-9)
    held = np.degrees(np.abs(u[rows + 3] - q[rows + 4]))
    assert cell(gap, simulator="follows its command", quantity="lift")["rmse"] == pytest.approx(np.sqrt(np.mean(held**2)))


def test_sites_are_measured_through_the_kinematics(arms):
    gap = measure_gap(arms / "weak.xml", arms / "log.parquet", steps=(2,))
    assert cell(gap, simulator="weak.xml", quantity="tip")["unit"] == "mm"
    assert gap.parts[0].primary == "tip"
    same = measure_gap(arms / "same.xml", arms / "log.parquet", steps=(2,))
    assert cell(same, simulator="same.xml", quantity="tip")["bound"] < 1e-6


def test_names_of_joints_that_differ_are_matched_by_the_logs_order(arms, tmp_path):
    reaches(tmp_path / "log.parquet", names=("one", "two"))
    with pytest.raises(CaptureError, match="--joints"):
        measure_gap(arms / "same.xml", tmp_path / "log.parquet")
    gap = measure_gap(arms / "same.xml", tmp_path / "log.parquet", joints=("lift", "bend"), steps=(1,))
    assert cell(gap, simulator="same.xml", quantity="bend")["bound"] < 1e-6


def test_a_recording_is_replayed_from_the_start_of_each_episode(balls, tmp_path):
    """In a table of its own, in which the other simulators are replayed as well."""
    recorded = drops(tmp_path / "engine.parquet", solref=0.06)
    gap = measure_gap([balls / "soft.xml", recorded], balls / "drops.parquet", steps=(1, 10))
    live, replayed = gap.parts
    assert "engine.parquet" not in live.errors
    assert len(replayed.starts) == 12
    soft, engine = (
        next(r for r in gap.rows if r["simulator"] == name and r["steps"] == 10 and r.get("from") == "episode start")
        for name in ("soft.xml", "engine.parquet")
    )
    assert soft["rmse"] == pytest.approx(engine["rmse"], rel=1e-6)


def test_recordings_need_the_logs_episodes(balls, tmp_path):
    drops(tmp_path / "few.parquet", episodes=5)
    with pytest.raises(CaptureError, match="lacks 7 episodes of the log"):
        measure_gap([balls / "same.xml", tmp_path / "few.parquet"], balls / "drops.parquet")
    drops(tmp_path / "short.parquet", rows=10)
    with pytest.raises(CaptureError, match="has 10 rows of episode 0; expected at least 22"):
        measure_gap([balls / "same.xml", tmp_path / "short.parquet"], balls / "drops.parquet")


def falls(qpos, qvel, ctrl, steps, seconds):
    """Free fall in steps of one row."""
    found = np.repeat(qpos[:, None], steps, axis=1)
    times = seconds * np.arange(1, steps + 1)[:, None]
    found[:, :, :3] += qvel[:, None, :3] * times + np.array([0, 0, -9.81]) * times**2 / 2
    return found


falls.velocities = True


def test_a_program_stands_beside_a_model(balls):
    gap = measure_gap([balls / "same.xml", falls], balls / "drops.parquet", steps=(1, 4))
    mine = cell(gap, simulator="falls", mode="free", steps=4, quantity="ball.position")
    rule = cell(gap, simulator="ballistic", mode="free", steps=4, quantity="ball.position")
    assert mine["bound"] == pytest.approx(rule["bound"])


def test_a_program_of_one_step_has_rows_for_one_step(balls):
    gap = measure_gap(
        [balls / "same.xml", ("still", lambda X, n, rng: X[:, None, :7])], balls / "drops.parquet", steps=(1, 4)
    )
    assert {row["steps"] for row in gap.rows if row["simulator"] == "still"} == {1}
    with pytest.raises(CaptureError, match=r"returned shape .* expected"):
        measure_gap([balls / "same.xml", ("bad", lambda X, n, rng: X[:, None, :3])], balls / "drops.parquet", steps=(1,))


def test_without_a_model_file_there_is_no_surface_and_one_mode(balls):
    gap = measure_gap(("mine", falls), balls / "drops.parquet", steps=(1,))
    assert {row["quantity"] for row in gap.rows} == {"body.position", "body.rotation"}
    assert {row["mode"] for row in gap.rows} == {"free"}
    assert "mine" in json.dumps(gap.document())


def test_surface_is_the_largest_displacement_of_any_corner(tmp_path):
    box = '<mujoco><worldbody><body name="b"><freejoint/><geom type="box" size=".1 .2 .3"/></body></worldbody></mujoco>'
    (tmp_path / "box.xml").write_text(box)
    from capture_cp.gap.errors import quantities
    from capture_cp.gap.measure import joints_of, points_of
    from capture_cp.spaces.rigid import rotated

    model, rng = mujoco.MjModel.from_xml_string(box), np.random.default_rng(0)
    one, other = rng.standard_normal((2, 50, 7))
    for rows in (one, other):
        rows[:, 3:] /= np.linalg.norm(rows[:, 3:], axis=1, keepdims=True)
    surface = next(q for q in quantities(joints_of(model), model, points_of(model), ()) if q.name == "b.surface")
    corners = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.2, 0.2) for z in (-0.3, 0.3)])
    moved = [
        np.linalg.norm(
            one[:, :3]
            + rotated(one[:, 3:], np.tile(c, (50, 1)))
            - other[:, :3]
            - rotated(other[:, 3:], np.tile(c, (50, 1))),
            axis=1,
        )
        for c in corners
    ]
    np.testing.assert_allclose(surface.of(one, other), 1e3 * np.max(moved, axis=0), rtol=1e-9)


def test_particles_score_by_the_kth_nearest(balls):
    settings = {"steps": (1, 5), "noise": {"position": 1e-3}, "particles": 8}
    first, again = (measure_gap(balls / "same.xml", balls / "drops.parquet", **settings) for _ in range(2))
    assert first.rows == again.rows
    nearest = measure_gap(balls / "same.xml", balls / "drops.parquet", k=1, **settings)
    mine = {"simulator": "same.xml", "mode": "free", "steps": 1, "quantity": "ball.position"}
    assert cell(nearest, **mine)["bound"] < cell(first, **mine)["bound"]
    assert cell(first, **mine | {"simulator": "noise of the start alone"})["bound"] > cell(first, **mine)["bound"]


def test_modes_by_column_by_code_and_renamed(balls, tmp_path):
    table = columns_of(balls / "drops.parquet")
    table["where"] = np.where(table["pz"] > 0.2, "high", "low")
    log = write(tmp_path / "log.parquet", table)
    gap = measure_gap(balls / "same.xml", log, steps=(1,), mode_column="where", episode="episode")
    assert {row["mode"] for row in gap.rows} == {"high", "low"}

    class Heights:
        names = ("low", "high")

        def index(self, qpos):
            return (qpos[:, 2] > 0.2).astype(int)

    by_code = measure_gap(balls / "same.xml", log, steps=(1,), mode_code=Heights())
    assert sorted((row["mode"], row["rows"]) for row in by_code.rows) == sorted(
        (row["mode"], row["rows"]) for row in gap.rows
    )
    named = measure_gap(balls / "same.xml", log, steps=(1,), mode_names={"1 point": "ground"})
    assert {row["mode"] for row in named.rows} == {"free", "ground"}
    with pytest.raises(CaptureError, match="renames 'face', which does not occur"):
        measure_gap(balls / "same.xml", log, mode_names={"face": "flat"})


def test_trust_stops_at_the_first_step_that_fails(balls):
    gap = measure_gap(balls / "soft.xml", drops_of_many(balls), steps=(8,), tolerance=("0.01mm",))
    rows = {row["mode"]: row for row in gap.trust if row["simulator"] == "soft.xml" and row["mode_at"] == "end"}
    assert rows["1 point"]["trusted_steps"] < 8
    assert rows["1 point"]["ended"] == "failed"
    same = measure_gap(balls / "same.xml", drops_of_many(balls), steps=(8,), tolerance=("ball.position=0.01mm",))
    assert next(row for row in same.trust if row["mode"] == "1 point")["trusted_steps"] == 8


def drops_of_many(folder):
    path = folder / "many.parquet"
    return path if path.exists() else drops(path, episodes=40, rows=20)


def test_few_episodes_are_unknown_and_say_how_many_more(balls, tmp_path):
    log = drops(tmp_path / "few.parquet", episodes=4)
    gap = measure_gap(balls / "same.xml", log, steps=(2,), tolerance=("10mm",))
    row = cell(gap, simulator="same.xml", mode="free", quantity="ball.position")
    assert (row["bound"], row["needed"]) == (None, 5)
    assert {row["trusted_steps"] for row in gap.trust} == {None}


def test_confidence_raises_bounds_and_jointly_more(balls):
    settings = {"simulators": balls / "soft.xml", "log": drops_of_many(balls), "steps": (3,)}
    plain, sure, joint = (
        cell(measure_gap(**settings, **more), simulator="soft.xml", mode="1 point", quantity="ball.position")["bound"]
        for more in ({}, {"confidence": 0.9}, {"confidence": 0.9, "jointly": True})
    )
    assert plain < sure
    assert joint is None or joint >= sure


def test_fitted_starts_use_no_row_after_the_start(balls, tmp_path):
    log = drops(tmp_path / "noisy.parquet", noise=2e-3)
    from capture_cp.gap.measure import joints_of, read_states
    from capture_cp.gap.settings import LogSettings

    joints = joints_of(mujoco.MjModel.from_xml_path(str(balls / "same.xml")))
    fitted = read_states(log, joints, (), LogSettings(fit_start=True))
    table = columns_of(log)
    table["px"][15:30] += 5.0  # the rest of the first episode
    other = read_states(write(tmp_path / "changed.parquet", table), joints, (), LogSettings(fit_start=True))
    np.testing.assert_array_equal(fitted.start[:15], other.start[:15])
    np.testing.assert_array_equal(fitted.qvel[:15], other.qvel[:15])
    assert np.isnan(fitted.qvel[:4]).all()
    assert np.isfinite(fitted.qvel[4:30]).all()


def test_missing_rates_are_estimated_and_said(balls, tmp_path):
    table = columns_of(balls / "drops.parquet")
    log = write(tmp_path / "poses.parquet", {name: table[name] for name in ("episode", "t", *POSE[:7])})
    gap = measure_gap(balls / "same.xml", log, steps=(1,))
    assert any("differences between a row and the one before it" in note for note in gap.parts[0].log.notes)
    assert len(gap.parts[0].starts) == 12 * 28  # neither the first nor the last row of an episode


def test_units_and_numbers_that_look_like_others(arms, tmp_path):
    table = columns_of(arms / "log.parquet")
    for end in ("qpos", "qvel", "ctrl"):
        table[f"lift_{end}"] = np.degrees(table[f"lift_{end}"])
    log = write(tmp_path / "degrees.parquet", table)
    gap = measure_gap(arms / "same.xml", log, steps=(1,), units={"lift": "deg"})
    assert cell(gap, simulator="same.xml", quantity="lift")["bound"] < 1e-6
    with pytest.raises(CaptureError, match=r"look like degrees; give --units lift=deg"):
        measure_gap(arms / "same.xml", log)
    with pytest.raises(CaptureError, match=r"expected JOINT=UNIT"):
        measure_gap(arms / "same.xml", log, units={"lift": "inch"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("episode"), "no column that names the episode"),
        (lambda t: t.__setitem__("t", t["t"][::-1].copy()), "goes backwards"),
        (lambda t: t["qw"].__imul__(2), "unit"),
        (lambda t: t["px"].__setitem__(3, np.nan), "NaN"),
        (lambda t: t["px"].__iadd__(400.0), "look like millimetres"),
    ],
)
def test_bad_logs_end_in_one_sentence(balls, tmp_path, change, message):
    table = columns_of(balls / "drops.parquet")
    change(table)
    with pytest.raises(CaptureError, match=message):
        measure_gap(balls / "same.xml", write(tmp_path / "bad.parquet", table), steps=(1,))


def test_bad_settings_end_in_one_sentence(balls, arms):
    both = balls / "same.xml", balls / "drops.parquet"
    for settings, message in (
        ({"tolerance": ("10kg",)}, "is no amount"),
        ({"tolerance": ("nothing=10mm",)}, "fits nothing that is measured"),
        ({"steps": ()}, "no numbers of steps"),
        ({"particels": 3}, "particles"),
        ({"alpha": 1.5}, "alpha"),
        ({"resolution": -1.0}, "resolution is -1.0"),
        ({"noise": {"colour": 1.0}}, "start noise"),
        ({"k": 17}, "number of particles"),
        ({"without": ("0", "x")}, "has none of that name"),
        ({"sites": ("tip",)}, "site"),
    ):
        with pytest.raises(CaptureError, match=message):
            measure_gap(*both, **settings)
    with pytest.raises(CaptureError, match="other joints than the first model"):
        measure_gap([balls / "same.xml", ("other", arms / "same.xml")], balls / "drops.parquet")


def test_diverged_simulations_count_as_infinite(balls, tmp_path):
    (tmp_path / "wild.xml").write_text(BALL.format(solref=0.02).replace("<option", '<option gravity="0 0 1e15"'))
    gap = measure_gap([balls / "same.xml", tmp_path / "wild.xml"], balls / "drops.parquet", steps=(3,))
    row = cell(gap, simulator="wild.xml", mode="free", quantity="ball.position")
    assert row["diverged"] == row["rows"]
    assert (row["bound"], row["needed"]) == (None, 0)
    assert "wild.xml diverged in" in gap.parts[0].diverged()[0]


def test_results_do_not_depend_on_threads(balls):
    from dataclasses import replace

    from capture_cp.models.simulators import ModelFile, Start

    gap = measure_gap(balls / "soft.xml", balls / "drops.parquet", steps=(1, 7))
    simulator = next(one for one in gap.parts[0].simulators if isinstance(one, ModelFile))
    start = Start.of(gap.parts[0].log, gap.parts[0].starts, (1, 7))
    one, two = (replace(simulator, threads=n).predict(start, np.random.default_rng(0)) for n in (1, 3))
    np.testing.assert_array_equal(one, two)


def test_the_command_imports_no_numba(balls, tmp_path):
    import subprocess

    code = (
        "import sys; from capture_cp.cli import main; "
        f"main(['gap', {str(balls / 'same.xml')!r}, {str(balls / 'drops.parquet')!r}, '--steps', '1', "
        f"'--report', {str(tmp_path / 'gap.html')!r}]); assert 'numba' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "gap.html").stat().st_size > 10_000
