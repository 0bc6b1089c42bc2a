"""Plans are recorded while the memory and the graphs of others go: nothing may be freed meanwhile."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from numba import config, cuda

from capture_cp.cuda import graphs
from capture_cp.cuda.graphs import Recorded
from capture_cp.planning.cuda.plans import CudaPlans
from gpu.test_plans import START, TEMPERATURE, rollout, settings
from planning.test_rollout import masks

SIMULATED = bool(config.ENABLE_CUDASIM)
#: Planners that come and go. The simulator has no graphs: there it is only seen that the test runs.
MANY = 3 if SIMULATED else 300
on_a_gpu = pytest.mark.skipif(SIMULATED, reason="the simulator has neither graphs nor memory of its own")


@pytest.fixture(scope="module")
def fused(box, fitted):
    return rollout(fitted["capture"], masks(box)["block and far corner"])


@pytest.fixture
def often_collected():
    """The garbage collector comes by much more often than usual."""
    before = gc.get_threshold()
    gc.set_threshold(40, 2, 2)
    yield
    gc.set_threshold(*before)


def plan_of(plans, key=7):
    return plans.plan(START[None], TEMPERATURE, np.zeros((1, 5, 2)), key)[0]


def in_a_circle(plans):
    """Plans that only the garbage collector can take away."""
    plans.itself = plans
    return plans


def test_planners_that_come_and_go_do_no_harm(world, fused, often_collected):
    """Each is recorded while the arrays of others, in circles of references, wait for the collector."""
    chosen, wanted = settings(8), None
    for number in range(MANY):
        plans = in_a_circle(CudaPlans(fused, chosen))
        found = [plan_of(plans) for _ in range(2 if number % 50 else 3)]  # first recorded, then replayed
        wanted = found[0] if wanted is None else wanted
        for plan in found:
            np.testing.assert_array_equal(plan, wanted)
        assert SIMULATED or plans._all_rows._replay is not None


def test_memory_goes_with_its_planner(world, fused):
    """Without a circle of references nothing waits for the collector."""
    gc.disable()
    try:
        plans = CudaPlans(fused, settings(8))
        plan_of(plans)
        gone = weakref.ref(plans)
        del plans
        assert gone() is None
    finally:
        gc.enable()


@on_a_gpu
def test_what_goes_while_work_is_recorded_is_freed_later(fused):
    """Arrays go and the collector is called in the middle of a recording, more of them than numba lets wait."""
    stream, there, pinned = cuda.stream(), cuda.device_array(1000), cuda.pinned_array(1000)

    def batch():
        plans = in_a_circle(CudaPlans(fused, settings(8)))
        plan_of(plans)
        return [plans, *(cuda.to_device(np.zeros(10)) for _ in range(30))]

    def careless(on):
        batches.pop()
        gc.collect()
        there.copy_to_device(pinned, stream=on)

    batches = [batch(), batch()]
    recorded = Recorded(careless, stream)
    recorded()  # once, and once to be recorded
    assert not batches
    pinned[:] = 4.0
    recorded()
    np.testing.assert_array_equal(there.copy_to_host(), np.full(1000, 4.0))


@on_a_gpu
def test_work_that_fails_while_it_is_recorded_leaves_the_stream_as_it_was():
    stream, there, pinned = cuda.stream(), cuda.device_array(10), cuda.pinned_array(10)
    pinned[:] = 5.0
    broken = Recorded(lambda on: 1 / 0, stream)
    with pytest.raises(ZeroDivisionError):
        broken._record()
    Recorded(lambda on: there.copy_to_device(pinned, stream=on), stream)()
    np.testing.assert_array_equal(there.copy_to_host(), np.full(10, 5.0))
    assert gc.isenabled()


@on_a_gpu
def test_graphs_and_memory_do_not_pile_up(fused):
    for _ in range(20):
        plan_of(CudaPlans(fused, settings(8)))
    gc.collect()
    before = cuda.current_context().get_memory_info().free
    for _ in range(100):
        plan_of(CudaPlans(fused, settings(8)))
        assert len(graphs._UNUSED) <= 1
    gc.collect()
    assert before - cuda.current_context().get_memory_info().free < 64 << 20


@on_a_gpu
def test_threads_record_and_replay_beside_each_other(fused):
    """Each has plans of its own; the last are recorded here and replayed elsewhere."""
    ready = [CudaPlans(fused, settings(8)) for _ in range(8)]
    wanted, found = plan_of(ready[-1]), {}

    def work(number):
        for _ in range(20):
            found[number] = plan_of(ready[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(ready))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(ready)
    for plan in found.values():
        np.testing.assert_array_equal(plan, wanted)
