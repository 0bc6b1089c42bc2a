"""Particles that several methods share are those that each would draw itself."""

from __future__ import annotations

import pytest

from capture_cp import METHODS
from capture_cp.data import log_part
from capture_cp.studies import shared_particles
from capture_cp.studies.shared_particles import SharedParticles

SEED = 5


@pytest.mark.parametrize("name", METHODS)
def test_calibration_and_coverage_are_those_without_sharing(name, box, world, fresh, monkeypatch):
    monkeypatch.setattr(log_part, "CHUNK", 300)  # several chunks, each with its own random numbers
    shared = SharedParticles(world.X, fresh.X, SEED)
    alone, together = (box.method(name, 8, seed=SEED) for _ in range(2))
    drawn, asked = shared.of(together, world.Y.shape[1])
    alone.fit(world.X, world.Y)
    together.fit(world.X, world.Y, drawn)
    found = together.coverage(fresh.X, fresh.Y, 0.1, prediction=asked, rng=SEED)
    assert list(found.rows()) == list(alone.coverage(fresh.X, fresh.Y, 0.1, rng=SEED).rows())
    assert together.thresholds(fresh.X, 0.2).tolist() == alone.thresholds(fresh.X, 0.2).tolist()


def test_methods_with_particles_share_them(box, world, fresh):
    shared = SharedParticles(world.X, fresh.X, SEED)
    of = {name: shared.of(box.method(name, 8, seed=SEED), world.Y.shape[1]) for name in METHODS}
    assert of["capture"][0] is of["pcp"][0]
    assert of["capture"][1] is of["particles"][1]
    assert of["lucca"] == (None, None)  # it needs a Gaussian


def test_too_many_to_keep_are_not_shared(box, world, fresh, monkeypatch):
    monkeypatch.setattr(shared_particles, "MOST", 100)
    assert SharedParticles(world.X, fresh.X, SEED).of(box.method("capture", 8), world.Y.shape[1]) == (None, None)
