"""The simulated tosses of `capture gap --example`: what is written, that it is repeatable, and what it shows."""

import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.spatial.transform import Rotation

from capture_lab.tasks.toss import write_example

mujoco = pytest.importorskip("mujoco")


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    simulators, log = write_example(tmp_path_factory.mktemp("toss"), n=12, seed=1)
    table = pq.read_table(log)
    return simulators, table, {name: table[name].to_numpy() for name in table.column_names}


def rows_within(columns):
    """Whether a row and the next one belong to the same toss."""
    return columns["toss"][1:] == columns["toss"][:-1]


def stacked(columns, names):
    return np.stack([columns[name] for name in names.split()], axis=1)


def test_the_log_has_the_columns_of_a_real_one_and_says_that_it_is_simulated(example):
    _, table, columns = example
    assert " ".join(table.column_names) == "toss step time px py pz qw qx qy qz vx vy vz wx wy wz"
    assert b"simulated" in table.schema.metadata[b"source"]
    assert np.unique(columns["toss"]).tolist() == list(range(12))
    lengths = np.bincount(columns["toss"])
    assert lengths.min() >= 75
    assert len(set(lengths)) > 3, "episodes of unequal length, as real ones are"
    np.testing.assert_allclose(np.diff(columns["time"])[rows_within(columns)], 1 / 150)


def test_quaternions_are_unit_and_continuous(example):
    _, _, columns = example
    quaternion = stacked(columns, "qw qx qy qz")
    np.testing.assert_allclose(np.linalg.norm(quaternion, axis=1), 1)
    assert np.sum(quaternion[1:] * quaternion[:-1], axis=1)[rows_within(columns)].min() > 0.9


def test_velocities_are_medians_of_backward_differences_of_what_was_measured(example):
    _, _, columns = example
    within = rows_within(columns)
    whole = np.flatnonzero(within[:-2] & within[1:-1] & within[2:]) + 3  # the three rows before are of the same toss
    position, quaternion = stacked(columns, "px py pz"), stacked(columns, "qx qy qz qw")
    differences = [(position[whole - k] - position[whole - k - 1]) * 150 for k in range(3)]
    np.testing.assert_allclose(stacked(columns, "vx vy vz")[whole], np.median(differences, axis=0), atol=1e-9)
    turned = Rotation.from_quat(quaternion)
    rates = [(turned[whole - k - 1].inv() * turned[whole - k]).as_rotvec() * 150 for k in range(3)]
    np.testing.assert_allclose(stacked(columns, "wx wy wz")[whole], np.median(rates, axis=0), atol=1e-9)


def test_the_same_seed_writes_the_same_log_and_another_seed_another(example, tmp_path):
    table = example[1]
    assert pq.read_table(write_example(tmp_path / "again", n=12, seed=1)[1]).equals(table)
    assert not pq.read_table(write_example(tmp_path / "other", n=12, seed=2)[1]).equals(table)


def test_the_rounded_simulator_predicts_resting_better_than_the_sharp_one(example):
    """The sharp cube starts inside the ground and is pushed out of it: an error that one step shows."""
    simulators, _, columns = example
    assert [path.name for path in simulators] == ["sharp.xml", "rounded.xml"]
    last = np.flatnonzero(~rows_within(columns)) - 1  # the last row but one of all tosses but one
    qpos, qvel = stacked(columns, "px py pz qw qx qy qz"), stacked(columns, "vx vy vz wx wy wz")
    errors = []
    for path in simulators:
        model = mujoco.MjModel.from_xml_path(str(path))
        data, found = mujoco.MjData(model), []
        for row in last:
            data.qpos[:], data.qvel[:] = qpos[row], qvel[row]
            for _ in range(5):
                mujoco.mj_step(model, data)
            found.append(np.linalg.norm(data.qpos[:3] - qpos[row + 1, :3]))
        errors.append(np.median(found))
    assert errors[1] < 0.6e-3 < 1e-3 < errors[0]


def test_the_example_imports_no_numba(tmp_path):
    code = "import sys, capture_lab.tasks.toss as t; t.write_example(sys.argv[1], n=2); print('numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
