"""Hazards that are functions on the GPU, in every metric, against the processor."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import NearestParticles
from capture_cp.conformal.groups import Tree
from capture_cp.kernels.random import stream
from capture_cp.planning.cuda.plans import CudaPlans, Settings
from gpu.test_plans import SPREADS, by_both, rollout
from planning import plugins
from planning.plugins import fused_rollout, push
from planning.test_probes import METRICS, at_random, learnt
from planning.test_rollout import calibrated


@pytest.mark.parametrize("name", ["capture", "capture-k1", "particles", "lucca"])
def test_costs_with_a_grid_are_those_of_the_processor(world, fitted, few, name):
    scale = {"gaussian_scale": SPREADS} if name == "lucca" else {}
    for settings in ({}, {"steepness": 1.0, "count_particles": True}):
        found, wanted = by_both(rollout(fitted[name], plugins.disc_distance, **scale, **settings), few)
        assert wanted.max() > 1000  # some region met the hazard
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", METRICS)
def test_costs_in_any_metric_are_those_of_the_processor(few, name):
    metric, dims = METRICS[name]
    cap, start = learnt(metric, dims, Tree(min_leaf=50)), at_random(1, dims, np.random.default_rng(3))[0]
    functions = plugins.drifting_step, plugins.hazard_only, push(0.05), plugins.on_disc
    settings = {"axes": range(dims), "noise_dims": dims, "stratum": plugins.halves, "compare_step": False}
    fused = fused_rollout(cap, *functions, **settings)
    plans = CudaPlans(fused, Settings(3, few, np.array([[0.1]]), np.array([-0.2]), np.array([0.2])))
    plans.plan(start[None], 0.05, np.zeros((1, 3, 1)), 7)
    wanted = fused(start, plans.sequences[0], np.uint64(stream(np.uint64(7), 1)))
    # a point on the verge of a region may fall to either side, where the two round differently
    assert np.isclose(plans.stages[0], wanted, rtol=1e-9, atol=1e-12).mean() > 0.999
    assert 0 < wanted.mean() < 1


def test_thresholds_may_be_replaced(world, few):
    fused = rollout(calibrated(world, NearestParticles(4)), plugins.disc_distance)
    fused.thresholds = 1.5 * fused.thresholds
    found, wanted = by_both(fused, few)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
