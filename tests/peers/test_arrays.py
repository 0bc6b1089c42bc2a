"""The cost of regions for arrays of PyTorch and JAX: the same numbers as for NumPy's, in their own kind."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError, NearestParticles
from capture_cp.planning import RegionCost
from capture_cp.planning.region_cost import as_numpy, library_of
from planning.test_region_cost import planned
from planning.test_rollout import calibrated, masks, sequences

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def given(world):
    """A cost, its three arrays, and the answer."""
    cost, asked = RegionCost(calibrated(world, NearestParticles(4)), masks(world.box)["block"], weight=2.5), sequences()
    before, after = planned(asked)
    # as coarse as float32, so that every type has the same numbers
    arrays = [part.astype(np.float32).astype(np.float64) for part in (before, asked, after)]
    return cost, arrays, cost(*arrays)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_tensors_come_out_as_tensors(given, kind):
    cost, arrays, wanted = given
    found = cost(*(torch.from_numpy(part).to(kind) for part in arrays))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == kind
    assert found.device.type == "cpu"
    np.testing.assert_allclose(found.numpy(), wanted)
    assert wanted.max() > 0


def test_views_gradients_and_half_precision_are_taken(given):
    cost, arrays, wanted = given
    states, actions, particles = map(torch.from_numpy, arrays)
    turned = particles.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)
    assert not turned.is_contiguous()
    np.testing.assert_array_equal(cost(states.requires_grad_(), actions, turned).numpy(), wanted)
    assert not cost(states, actions, particles).requires_grad
    assert cost(states, actions, particles.bfloat16()).dtype == torch.bfloat16


def test_a_tensor_on_the_processor_is_not_copied():
    tensor = torch.zeros(3, dtype=torch.float64)
    as_numpy(tensor)[0] = 1.0
    assert tensor[0] == 1.0


def test_jax_arrays_come_out_as_jax_arrays(given):
    cost, arrays, wanted = given
    found = cost(*map(jax.numpy.asarray, arrays))
    assert isinstance(found, jax.Array)
    assert found.dtype == jax.numpy.float32
    np.testing.assert_allclose(found, wanted)


def test_jax_asks_inside_compiled_and_mapped_functions(given):
    cost, arrays, wanted = given
    compiled = jax.jit(lambda *parts: 2 * cost(*parts))
    np.testing.assert_allclose(compiled(*map(jax.numpy.asarray, arrays)), 2 * wanted)
    batches = [jax.numpy.stack([part, part[::-1]]) for part in arrays]
    np.testing.assert_allclose(jax.vmap(cost)(*batches), np.stack([wanted, wanted[::-1]]))
    stages = jax.jit(cost.stages)(*map(jax.numpy.asarray, arrays))
    assert stages.shape == (12, 3)


def test_jax_keeps_double_precision_where_it_is_on(given):
    cost, arrays, wanted = given
    with jax.enable_x64(True):
        found = cost(*map(jax.numpy.asarray, arrays))
        assert found.dtype == jax.numpy.float64
    np.testing.assert_array_equal(found, wanted)


def test_libraries_are_told_apart_and_not_mixed(given):
    cost, (states, actions, particles), wanted = given
    assert library_of(states) == library_of([1.0]) == "numpy"
    np.testing.assert_array_equal(cost(states, actions, torch.from_numpy(particles)).numpy(), wanted)
    assert isinstance(cost(jax.numpy.asarray(states), actions, particles), jax.Array)
    with pytest.raises(CaptureError, match="PyTorch and JAX arrays are mixed"):
        cost(torch.from_numpy(states), actions, jax.numpy.asarray(particles))


def test_wrong_tensors_are_refused_in_a_sentence(given):
    cost, arrays, _ = given
    states, actions, particles = map(torch.from_numpy, arrays)
    with pytest.raises(CaptureError, match="do not fit the calibration"):
        cost(states, actions, particles[:, :, :-1])
    with pytest.raises(CaptureError, match="NaN or infinite"):
        cost(states, actions, particles * torch.nan)
