"""Coverage by stratum on spaces that are not flat: a torus, SE(3) and a product, hundreds of independent calibrations each.

As in `test_guarantees`: the rows of one draw share a calibration, so their mean is what is tested, and claims are corrected
for their number.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import oracles
from capture_cp import Capture, NearestParticles, OneGroup, PerStratum, Tree
from moving_bodies import ARM, BODY, PARTICLES, WHEELS
from test_guarantees import Outcome, rejected

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # small groups are wanted here

ALPHA = Fraction(1, 10)
DRAWS, FIT, TEST, K = 250, 400, 150, 4
ROBOTS = {"arm": ARM, "body": BODY, "wheels": WHEELS}


def calibration(robot, groups):
    return Capture(lambda *_: None, robot.strata, NearestParticles(K, robot.metric), groups, n_particles=PARTICLES)


def outcomes(robot, groups, draws=DRAWS, fit=FIT, seed=0) -> Outcome:
    """What became of `TEST` new rows under each of `draws` calibrations, every one from new rows."""
    cap, rng, records = calibration(robot, groups), np.random.default_rng(seed), []
    for draw in range(draws):
        X, Y, particles = robot.draw(rng, fit + TEST)
        cap.set_params(seed=draw).fit(X[:fit], Y[:fit], prediction=particles[:fit])
        X, Y, particles = X[fit:], Y[fit:], particles[fit:]
        m = cap.index(Y)
        group, sizes = cap.partition_.groups(X, m), cap.calibration_.sizes
        exact = np.array([oracles.rank(int(size), ALPHA) / (size + 1) for size in sizes])
        covered = cap.contains(X, Y, float(ALPHA), prediction=particles)
        records.append((covered, exact[group], 1 / (sizes[group] + 1), m, group))
    return Outcome(*(np.array(part) for part in zip(*records)))


@pytest.mark.parametrize("groups", [PerStratum(), Tree(min_leaf=60)], ids=["per stratum", "tree a stratum"])
@pytest.mark.parametrize("name", ROBOTS)
def test_coverage_is_right_in_every_stratum_of_the_space(name, groups):
    robot = ROBOTS[name]
    found = outcomes(robot, groups)
    p = found.claims("everything", ALPHA)
    for m, stratum in enumerate(robot.strata.names):
        rows = found.stratum == m
        if rows.any(axis=1).sum() > 30:
            p |= found.claims(stratum, ALPHA, rows)
    assert len(p) >= 12  # at least two strata were looked at
    assert rejected(p) == []


@pytest.mark.parametrize("name", ROBOTS)
def test_one_threshold_for_all_would_be_caught(name):
    """The worlds are hard enough for the tests to have power: contact is where the models err."""
    found = outcomes(ROBOTS[name], OneGroup(), draws=60)
    p = found.claims("contact", ALPHA, found.stratum == 1)
    assert any("at least 1 -" in claim for claim in rejected(p))
