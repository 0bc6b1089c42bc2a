"""The cost of regions for tensors on a GPU, against the processor's."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, NearestParticles, PerStratum, method
from capture_cp.planning import RegionCost
from capture_cp.planning.cuda.region_cost import CudaRegionCost
from capture_cp.tasks.box import Box
from gpu.conftest import SIMULATED

BOX = Box(spacing=0.05)


@pytest.fixture(scope="module")
def given():
    """A calibration, a hazard mask, and states, actions and particles of rows that meet it."""
    rng = np.random.default_rng(0)
    log = BOX.transitions(1500, rng)
    cap = Capture(BOX, BOX.strata, score=NearestParticles(3), groups=PerStratum(), n_particles=6).fit(log.X, log.Y)
    mask = rng.random(BOX.strata.grid.size) < 0.3
    new = BOX.transitions(16 if SIMULATED else 4000, rng)
    return cap, mask, new.X[:, :2].copy(), new.X[:, 2:].copy(), cap.predict(new.X, rng)


@pytest.mark.parametrize("alpha", [0.1, 0.001])  # the second is too small for so few transitions: whole strata
@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_cells_are_the_processors(given, alpha):
    cap, mask, states, actions, particles = given
    wanted = RegionCost(cap, mask, alpha)(states, actions, particles)
    found = CudaRegionCost(cap, mask, alpha, 1.0, False).cells(0, np.hstack([states, actions]), particles)
    assert wanted.max() > 0
    np.testing.assert_array_equal(np.asarray(found).sum(axis=1), wanted)


def test_what_a_gpu_has_no_kernel_for_is_refused(given):
    cap, mask, states, actions, _ = given
    with pytest.raises(CaptureError, match=r"move the tensors to the CPU with \.cpu\(\) first"):
        CudaRegionCost(cap, lambda Y: Y[:, 0] < 0.5, 0.1, 1.0, False)
    X = np.hstack([states, actions])
    bare = method("particles", BOX, BOX.strata, n_particles=6).fit(X, BOX.transitions(len(X), np.random.default_rng(1)).Y)
    with pytest.raises(CaptureError, match="needs a hazard mask over grid cells and regions of nearest particles"):
        CudaRegionCost(bare, mask, 0.1, 1.0, False)


@pytest.mark.parametrize("steps", [None, 2])
def test_tensors_stay_where_they_are(given, steps):
    torch = pytest.importorskip("torch")
    cap, mask, *arrays = given
    arrays = arrays if steps is None else [part.reshape(-1, steps, *part.shape[1:]) for part in arrays]
    device = "cpu" if SIMULATED else "cuda"
    tensors = [torch.tensor(part, device=device) for part in arrays]
    cost = RegionCost(cap, mask, weight=2.0)
    found = CudaRegionCost(cap, mask, 0.1, 2.0, False)(*tensors, 0) if SIMULATED else cost.stages(*tensors)
    assert found.device.type == device
    assert found.dtype == torch.float64
    np.testing.assert_array_equal(found.cpu().numpy(), cost.stages(*arrays))
    tensors[2][0] = torch.nan
    spoilt = CudaRegionCost(cap, mask, 0.1, 2.0, False)(*tensors, 0)
    assert spoilt[0].isnan().all()
    assert spoilt[1:].isfinite().all()
