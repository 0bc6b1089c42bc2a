"""Adapters of PyTorch modules and JAX functions: what they return, and that they change nothing of what they wrap."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.models import gaussian, jax_function, torch_module
from test_models import X, check_fits, check_model, rng

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


@pytest.fixture
def net():
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 2))


def test_torch_module_predicts_as_the_module_in_evaluation(net):
    model = torch_module(net, noise=0.1)
    check_model(model, 2)
    with torch.no_grad():
        wanted = net.eval()(torch.tensor(X, dtype=torch.float32)).numpy()
    assert model.predict(X) == pytest.approx(wanted)
    assert torch_module(net)(X, 3, rng()) == pytest.approx(np.repeat(wanted[:, None], 3, axis=1), abs=1e-6)
    assert torch_module(net, batch=7)(X, 3, rng()) == pytest.approx(np.repeat(wanted[:, None], 3, axis=1), abs=1e-6)
    check_fits(model, 2)


def test_torch_module_leaves_the_module_and_the_generator_as_they_were(net):
    net.train()
    net[1].eval()
    torch.manual_seed(7)
    first = torch.rand(3)
    torch.manual_seed(7)
    torch_module(net, dropout=True)(X, 4, rng())
    assert (net.training, net[1].training, net[2].training) == (True, False, True)
    assert torch.equal(torch.rand(3), first)
    assert all(parameter.grad is None for parameter in net.parameters())


def test_torch_noise_inputs_are_the_second_argument():
    class Generator(torch.nn.Module):
        def forward(self, x, z):
            return x[:, :2] + 0.5 * z

    model = torch_module(Generator(), noise_inputs=2)
    check_model(model, 2)
    assert model(X, 5000, rng()).std(axis=1) == pytest.approx(np.full((len(X), 2), 0.5), rel=0.1)
    assert model.predict(X) == pytest.approx(X[:, :2])


def test_torch_means_and_variances_go_into_gaussian():
    class Heads(torch.nn.Module):
        def forward(self, x):
            return x[:, :2], 0.1 + x[:, :2] ** 2

    check_model(gaussian(torch_module(Heads()).predict), 2)
    with pytest.raises(CaptureError, match="returns 2 arrays; for means and variances use gaussian"):
        torch_module(Heads())(X, 2, rng())


def test_torch_weights_are_in_the_identity(net):
    model = torch_module(net, noise=0.1)
    before = model.identity()
    assert pickle.loads(pickle.dumps(model)).identity() == before
    with torch.no_grad():
        net[0].weight[0, 0] += 1
    assert model.identity() != before


def test_jax_function_predicts_as_the_function():
    model = jax_function(lambda x: jax.numpy.sin(x[:, :2]), noise=0.1)
    check_model(model, 2)
    assert model.predict(X) == pytest.approx(np.sin(X[:, :2]), abs=1e-6)
    check_fits(model, 2)
    plain = jax_function(lambda x: x[:, :2], jit=False, device="cpu")
    assert plain(X, 3, rng()) == pytest.approx(np.repeat(X[:, None, :2], 3, axis=1), abs=1e-6)


def test_jax_noise_inputs_and_keys():
    check_model(jax_function(lambda x, z: x[:, :2] + z, noise_inputs=2), 2)
    shaken = jax_function(lambda x, key: x + jax.random.normal(key, x.shape), key=True)
    check_model(shaken, 3)
    assert (shaken(X, 20, rng()).std(axis=1) > 0).all()
    both = jax_function(lambda x, z, key: x + z * jax.random.bernoulli(key, 0.5, x.shape), noise_inputs=3, key=True)
    check_model(both, 3)
