"""Many environments at once: what one by one gives, bit by bit where the task can, else in distribution."""

from __future__ import annotations

from contextlib import closing

import gymnasium
import numpy as np
import pytest

import capture_lab.gym  # noqa: F401 - registers
from capture_cp import CaptureError
from capture_lab.gym import TaskVectorEnv
from capture_lab.tasks.box import Box


def assert_same(ours, theirs):
    for a, b in zip(ours[:-1], theirs[:-1]):
        assert np.array_equal(a, b)
        assert a.dtype == b.dtype
    assert ours[-1].keys() == theirs[-1].keys()
    for name, value in theirs[-1].items():
        assert np.array_equal(ours[-1][name], value), name
        assert ours[-1][name].dtype == value.dtype, name


@pytest.mark.parametrize(
    ("env_id", "n", "steps", "options"),
    [
        ("capture/MarbleTopCenter-v0", 5, 130, {}),
        ("capture/Box-v0", 3, 101, {"noise": 0.0}),
        ("capture/PegPlanar-v0", 2, 12, {}),
        ("capture/ShelfOpen-v0", 2, 5, {}),
    ],
)
def test_as_one_by_one_bit_by_bit(env_id, n, steps, options):
    """Over the ends of episodes too: the marble's last 100 steps at most."""
    if "Peg" in env_id or "Shelf" in env_id:
        pytest.importorskip("mujoco")
    together = gymnasium.make_vec(env_id, num_envs=n, vectorization_mode="vector_entry_point", **options)
    each = gymnasium.make_vec(env_id, num_envs=n, vectorization_mode="sync", **options)
    assert type(together) is TaskVectorEnv
    assert together.single_action_space == each.single_action_space
    assert together.single_observation_space == each.single_observation_space
    assert_same(together.reset(seed=3), each.reset(seed=3))
    together.action_space.seed(0)
    for _ in range(steps):
        actions = together.action_space.sample()
        assert_same(together.step(actions), each.step(actions))
    together.close()
    each.close()


def test_a_seed_fixes_everything_and_none_goes_on():
    env, actions = TaskVectorEnv(4, Box()), np.full((4, 2), 0.5)

    def run(seed):
        return env.reset(seed=seed)[0], env.step(actions)[0], env.step(actions)[0]

    first, again, other, on = (run(seed) for seed in (1, 1, 2, None))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(other, on)
    env.reset(seed=[1, 2, 3, 4])
    with pytest.raises(CaptureError, match="there are 2 seeds for 4 environments"):
        env.reset(seed=[1, 2])


def test_regions_of_those_that_stepped(box, fitted):
    cap = fitted["capture"]
    env = TaskVectorEnv(3, box, regions=cap, alpha=0.2)
    start, infos = env.reset(seed=0, options={"state": [[0.2, 0.1], [0.5, 0.2], [0.01, 0.9]]})
    assert start.tolist() == [[0.2, 0.1], [0.5, 0.2], [0.01, 0.9]]
    assert "region" not in infos
    after, *_, infos = env.step(np.full((3, 2), 0.1))
    region = infos["region"]
    assert region["particles"].shape == (3, cap.n_particles, 2)
    inputs = np.hstack([start, infos["action"]])
    q = cap.step_thresholds(inputs, 0.2)
    for m, name in enumerate(box.strata.names):
        assert np.array_equal(region["thresholds"][name], q[:, m])
    held = [y in cap.region(x, 0.2, prediction=p) for x, y, p in zip(inputs, after, region["particles"])]
    assert region["held"].tolist() == held
    assert infos["_region"].all()


def test_in_processes_of_gymnasiums():
    """Environments are made anew in each process, after a kernel has run in this one."""
    gymnasium.make("capture/MarbleCenter-v0").reset(seed=0)
    apart = gymnasium.make_vec("capture/MarbleCenter-v0", num_envs=2, vectorization_mode="async")
    together = gymnasium.make_vec("capture/MarbleCenter-v0", num_envs=2)
    with closing(apart):
        assert np.array_equal(apart.reset(seed=0)[0], together.reset(seed=0)[0])
        actions = np.full((2, 2), 0.5, dtype=np.float32)
        assert np.array_equal(apart.step(actions)[0], together.step(actions)[0])


def test_refusals():
    with pytest.raises(CaptureError, match="num_envs is 0; expected a whole number of at least 1"):
        TaskVectorEnv(0, Box())
    with pytest.raises(CaptureError, match="a vector environment cannot be rendered"):
        TaskVectorEnv(2, Box(), render_mode="rgb_array")
    env = TaskVectorEnv(2, Box())
    with pytest.raises(CaptureError, match="has 3 rows; expected one state, or 2"):
        env.reset(options={"state": np.full((3, 2), 0.2)})
    env.reset(seed=0)
    with pytest.raises(CaptureError, match=r"actions has shape \(2,\)"):
        env.step(np.zeros(2))
    with pytest.raises(CaptureError, match="actions has 1 NaN or infinite values"):
        env.step([[0.0, np.nan], [0.0, 0.0]])
