"""The examples with real objects: models that load, and converters, on files that the tests write."""

import importlib.util
import pickle
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

JOINTS = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]
FOLDER = Path(__file__).parents[2] / "examples"


def script(name):
    """A script of the examples as a module."""
    path = FOLDER / name
    spec = importlib.util.spec_from_file_location(name.replace("/", "_").removesuffix(".py"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "joints", "mass"),
    [
        ("cube/cube.xml", ["cube"], 0.37),
        ("cube/rounded.xml", ["cube"], 0.37),
        ("elbow/elbow.xml", ["first", "hinge"], 0.74),
        ("elbow/elbow_free_hinge.xml", ["first", "hinge"], 0.74),
        ("so101/menagerie.xml", JOINTS, 0.485),
        ("so101/simple.xml", JOINTS, 0.485),
        ("so101/soft.xml", JOINTS, 0.485),
    ],
)
def test_a_model_loads_and_has_the_names_of_the_log(file, joints, mass):
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_path(str(FOLDER / file))
    assert [model.joint(i).name for i in range(model.njnt)] == joints
    assert model.body_mass.sum() == pytest.approx(mass, abs=1e-4)
    if file.startswith("so101"):
        assert [model.actuator(i).name for i in range(model.nu)] == joints
        assert model.site("grip").bodyid == model.body("gripper").id
        assert model.jnt_range[:, 1].max() > 1, "ranges are in radians"


def test_the_two_cubes_differ_in_their_corners_only():
    mujoco = pytest.importorskip("mujoco")
    fit = script("cube/fit_corners.py")
    rounded = mujoco.MjModel.from_xml_path(str(FOLDER / "cube" / "rounded.xml"))
    half, radius = -rounded.geom("corner0").pos[0], rounded.geom("corner0").size[0]
    again = mujoco.MjModel.from_xml_string(fit.cube(half, radius))
    for field in ("geom_pos", "geom_size", "geom_friction", "geom_solref", "body_mass", "body_inertia"):
        np.testing.assert_array_equal(getattr(again, field), getattr(rounded, field))
    assert again.opt.timestep == rounded.opt.timestep
    assert len((FOLDER / "cube" / "fitted_on.txt").read_text().split()) == fit.TOSSES


def test_fitting_recovers_how_high_a_simulated_cube_rests(tmp_path, monkeypatch):
    """Heights decide where the corners end; only many tosses decide how round they are."""
    pytest.importorskip("mujoco")
    from capture_lab.tasks.toss import write_example

    monkeypatch.setattr("capture_lab.tasks.toss._PERIOD", 5 * 0.00134865)
    half, radius, used = script("cube/fit_corners.py").fit(write_example(tmp_path, n=8)[1])
    assert used.tolist() == list(range(8))
    assert half + radius == pytest.approx(0.0506, abs=1e-4)


# -- published files --------------------------------------------------------------------------------------------------


class Runs:
    """What would run code when it is unpickled."""

    def __reduce__(self):
        return exec, ("raise AssertionError('code of a file was run')",)


def old_format(file, rows, description=None):
    """A tensor of doubles as old versions of torch write it."""
    description = description or b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nctorch\nDoubleStorage\n\x86."
    with file.open("wb") as target:
        for head in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(head, target, protocol=2)
        target.write(description)
        pickle.dump([str(file)], target, protocol=2)
        target.write(rows.size.to_bytes(8, "little") + np.ascontiguousarray(rows, "<f8").tobytes())


def zipped(file, rows, member="archive/data/0"):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Runs()))
        archive.writestr(member, np.ascontiguousarray(rows, "<f8").tobytes())


def poses(rng, length):
    """Positions, unit quaternions that turn slowly, and their signs at random."""
    angle = np.cumsum(rng.uniform(0, 0.1, length)) / 2
    axis = rng.normal(size=3)
    turned = np.column_stack([np.cos(angle), np.sin(angle)[:, None] * axis / np.linalg.norm(axis)])
    return rng.normal(size=(length, 3)), turned, turned * rng.choice([-1, 1], (length, 1)) * 1.01


def test_tosses_of_the_cube_are_converted(tmp_path):
    rng, expected = np.random.default_rng(0), {}
    for number, length in ((10, 9), (2, 12), (3, 5)):
        position, turned, published = poses(rng, length)
        velocity, rates = rng.normal(size=(2, length, 3))
        rows = np.hstack([position / 0.0524, published, velocity / 0.0524, rates, np.zeros((length, 6))])
        old_format(tmp_path / f"{number}.pt", rows)
        expected[number] = np.hstack([position, turned, velocity, rates])
    (tmp_path / "tosses.txt").write_text("10 2\n")
    convert = script("cube/convert.py").convert
    convert(tmp_path, tmp_path / "tosses.parquet", tmp_path / "tosses.txt")
    check(tmp_path / "tosses.parquet", {2: expected[2], 10: expected[10]}, 1 / 148)
    convert(tmp_path, tmp_path / "all.parquet")
    check(tmp_path / "all.parquet", expected, 1 / 148)


def test_tosses_of_the_elbow_are_converted(tmp_path):
    rng, expected = np.random.default_rng(1), {}
    for number, length in ((7, 6), (1, 8)):
        position, turned, published = poses(rng, length)
        velocity, rates = rng.normal(size=(2, length, 3))
        hinge, speed = rng.normal(size=(2, length, 1))
        zipped(tmp_path / f"{number}.pt", np.hstack([published, position, hinge, rates, velocity, speed]))
        expected[number] = np.hstack([position, turned, hinge, velocity, rates, speed])
    script("elbow/convert.py").convert(tmp_path, tmp_path / "tosses.parquet")
    check(tmp_path / "tosses.parquet", expected, 0.0068)


def check(file, expected, period):
    """The log has these tosses in the order of their numbers; quaternions are unit and do not jump."""
    table = pq.read_table(file)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    names = [name for name in columns if name not in ("toss", "step", "time")]
    assert list(dict.fromkeys(columns["toss"])) == sorted(expected)
    for number, states in expected.items():
        rows = columns["toss"] == number
        found = np.stack([columns[name][rows] for name in names], axis=1)
        turned = found[:, 3:7]
        found[:, 3:7] *= np.sign(turned[0] @ states[0, 3:7])
        np.testing.assert_allclose(found, states, atol=1e-6)
        assert all(before @ after > 0.9 for before, after in pairwise(turned))
        np.testing.assert_allclose(columns["time"][rows], period * np.arange(len(states)), rtol=1e-6)
        np.testing.assert_array_equal(columns["step"][rows], np.arange(len(states)))


def test_a_converter_runs_no_code_of_a_file_and_refuses_what_it_does_not_know(tmp_path):
    cube, elbow = script("cube/convert.py"), script("elbow/convert.py")
    file = tmp_path / "0.pt"
    old_format(file, np.zeros((2, 19)), pickle.dumps(Runs(), protocol=2))
    with pytest.raises(SystemExit, match="19 doubles"):
        cube.read(file)
    file.write_bytes(b"\x80\x02not a pickle")
    with pytest.raises(SystemExit, match="old format"):
        cube.read(file)
    old_format(file, np.zeros((2, 18)))
    with pytest.raises(SystemExit, match="19 doubles"):
        cube.read(file)
    with pytest.raises(SystemExit, match="torch's format"):
        elbow.read(file)
    zipped(file, np.zeros((2, 15)), member="archive/data/1")
    with pytest.raises(SystemExit, match="torch's format"):
        elbow.read(file)
    zipped(file, np.zeros((2, 14)))
    with pytest.raises(SystemExit, match="15 doubles"):
        elbow.read(file)
    file.unlink()
    for module in (cube, elbow):
        with pytest.raises(SystemExit, match="clone"):
            module.convert(tmp_path, tmp_path / "tosses.parquet")


# -- another engine ---------------------------------------------------------------------------------------------------


def test_bullet_is_a_simulator_with_velocities_whose_starts_do_not_affect_each_other():
    pytest.importorskip("pybullet")
    cube = script("cube/bullet.py").cube
    assert cube.velocities
    rng = np.random.default_rng(0)
    qpos = np.hstack([rng.uniform(-0.1, 0.1, (40, 2)), rng.uniform(0.05, 0.12, (40, 1)), rng.normal(size=(40, 4))])
    qpos[:, 3:] /= np.linalg.norm(qpos[:, 3:], axis=1, keepdims=True)
    qvel = rng.normal(size=(40, 6))
    found = cube(qpos, qvel, np.zeros((40, 4, 0)), 4, 1 / 150)
    assert found.shape == (40, 4, 7)
    np.testing.assert_array_equal(cube(qpos[::-1], qvel[::-1], np.zeros((40, 4, 0)), 4, 1 / 150), found[::-1])
    high = cube(qpos + np.eye(7)[2], qvel, np.zeros((40, 4, 0)), 4, 1 / 150)
    falls = qpos[:, 2] + 1 + qvel[:, 2] * 4 / 150 - 9.81 / 2 * (4 / 150) ** 2
    np.testing.assert_allclose(high[:, -1, 2], falls, atol=5e-4)
