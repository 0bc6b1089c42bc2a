"""The shelf's plan on a GPU against the processor: the same stage costs, without MuJoCo."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from numba import config

from capture_cp.kernels.random import stream
from capture_cp.planning.cuda.plans import CudaPlans, Settings
from capture_cp.planning.mppi import MPPI
from gpu.shelf_problem import of_task, read, rollout_of, write

HORIZON, BOUND = 2, np.full(7, 0.12)
SAMPLES = 4 if config.ENABLE_CUDASIM else 192


def by_both(rollout, start, key=7):
    """Stage costs (N, H) of the same sequences and noise: on the GPU, on the processor."""
    spread = np.diag(BOUND / 2)
    plans = CudaPlans(rollout, Settings(HORIZON, SAMPLES, spread, -BOUND, BOUND))
    plans.plan(start[None], 0.02, np.zeros((1, HORIZON, 7)), key)
    return plans.stages[0], rollout(start, plans.sequences[0], np.uint64(stream(np.uint64(key), 1)))


@pytest.mark.parametrize("noise", [0.0, None], ids=["still", "noisy"])
def test_stage_costs_are_the_processors(noise):
    problem = read()
    found, wanted = by_both(rollout_of(problem, noise), problem.start)
    # a point on the verge of a region or of the glass may fall to either side, where the two round differently
    assert np.isclose(found, wanted, rtol=1e-6, atol=1e-6).mean() > 0.98
    free = rollout_of(problem._replace(params=problem.params._replace(glass=0.0)), noise)
    assert (
        free(problem.start, np.zeros((4, HORIZON, 7)), 0)
        < rollout_of(problem, noise)(problem.start, np.zeros((4, HORIZON, 7)), 0)
    ).any()


def test_a_plan_is_made_on_the_gpu():
    problem = read()
    sizes = HORIZON, SAMPLES, 0.02
    planner = MPPI(rollout_of(problem), *sizes, noise=np.diag((BOUND / 2) ** 2), low=-BOUND, high=BOUND, device="cuda")
    action = planner.plan(problem.start)
    assert action.shape == (7,)
    assert (np.abs(action) <= BOUND).all()


@pytest.mark.skipif(find_spec("mujoco") is None, reason="needs MuJoCo")
def test_the_file_is_that_of_the_task(tmp_path):
    from shelf.arms import task_at

    problem = of_task(task_at(), 60)
    write(problem, tmp_path / "again.npz")
    again, kept = read(tmp_path / "again.npz"), read()
    for name, value in problem.params._asdict().items():
        np.testing.assert_array_equal(getattr(again.params, name), value)
        np.testing.assert_allclose(getattr(kept.params, name), value, atol=1e-9, err_msg=f"write {name} anew")
    np.testing.assert_array_equal(again.X, problem.X)
