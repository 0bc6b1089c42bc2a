"""Plans of poses on the GPU: hazard cells of their regions, by the SE(2) metric, are those of the processor."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp.kernels.random import stream
from capture_cp.planning.cuda.plans import CudaPlans, Settings
from planning.test_poses import GRIDS, HORIZON, STARTS, calibrated, fused

BOUND, KEY = np.full(3, 0.1), 7


@pytest.mark.parametrize("limit", [None, np.inf, -1.0])
@pytest.mark.parametrize("name", GRIDS)
def test_costs_are_those_of_the_processor(name, limit):
    rollout, start = fused(calibrated(name), name, count_particles=True), np.array(STARTS[name])
    if limit is not None:
        rollout.thresholds = np.full_like(rollout.thresholds, limit)
    plans = CudaPlans(rollout, Settings(HORIZON, 6, 0.1 * np.eye(3), -BOUND, BOUND))
    plans.plan(start[None], 1.0, np.zeros((1, HORIZON, 3)), KEY)
    wanted = rollout(start, plans.sequences[0], np.uint64(stream(np.uint64(KEY), 1)))
    assert limit == -1.0 or wanted.max() > 10
    np.testing.assert_array_equal(plans.stages[0], wanted)
