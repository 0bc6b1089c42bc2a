"""What many tests share: a coarse version of the built-in example, and the six methods fitted on it."""

from __future__ import annotations

from collections.abc import Callable

import numba
import pytest
from hypothesis import HealthCheck, settings

import worlds
from capture_cp import Capture
from capture_cp.capture.methods import METHODS
from capture_lab.tasks.box import Box

# The same examples on every run, and no deadline: the first call of a kernel includes its compilation.
settings.register_profile(
    "capture",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("capture")

# The arrays here are small and the test workers already share the cores: waking threads would cost more than the work.
numba.set_num_threads(1)


@pytest.fixture(params=[4, pytest.param(1, marks=pytest.mark.long)], ids=["short", "long"])
def repeated(request) -> Callable[[int], int]:
    """How often a statistical test draws: a quarter of what it asks for, and in `make test-long` all of it."""
    return lambda full: full // request.param


@pytest.fixture(scope="session")
def box() -> Box:
    """Cells of 0.05 divide the walls and the pillar evenly, and leave few enough cells to look at each."""
    return Box(spacing=0.05)


@pytest.fixture(scope="session")
def world(box) -> worlds.World:
    return worlds.make_world(box, 800, seed=0)


@pytest.fixture(scope="session")
def fresh(box) -> worlds.World:
    """Transitions that nothing was fitted on."""
    return worlds.make_world(box, 200, seed=1)


@pytest.fixture(scope="session")
def fitted(world) -> dict[str, Capture]:
    """All six methods; nothing may change them."""
    return {name: worlds.fit(name, world) for name in METHODS}


@pytest.fixture(params=METHODS)
def each_method(request, fitted) -> Capture:
    return fitted[request.param]


@pytest.fixture(params=[name for name in METHODS if name != "lucca"])
def particle_method(request, fitted) -> Capture:
    return fitted[request.param]
