"""HorizonCapture against brute force, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import oracles
from capture_cp import (
    CaptureError,
    CaptureWarning,
    FunctionStrata,
    HorizonCapture,
    Mahalanobis,
    NearestParticles,
    OneGroup,
    PerStratum,
    Rollouts,
    Tree,
)
from capture_cp.capture.horizon_scores import SCALES, THRESHOLDS
from horizon.boxes import AXES, K, Line, box_rollouts, horizon_capture

HORIZON, ALPHA = 3, Fraction(1, 10)


@pytest.fixture(scope="module")
def calibration(box):
    return box_rollouts(box, 400, HORIZON, np.random.default_rng(0))


@pytest.fixture(scope="module")
def test(box):
    return box_rollouts(box, 60, HORIZON, np.random.default_rng(1))


@pytest.fixture(
    scope="module", params=[Tree(min_leaf=20), Tree(min_leaf=20, per_stratum=False), PerStratum(), OneGroup()], ids=repr
)
def cap(request, box, calibration):
    return horizon_capture(box, request.param).fit(calibration)


pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")


# -- against brute force --------------------------------------------------------------------------------------------------


def brute_groups(cap, clouds, m):
    """Group of every rollout and step, by one walk down each tree: (n, S)."""
    part, n_strata = cap.partition_, len(cap.strata.names)
    return np.array(
        [
            [
                oracles.walk(
                    part.nodes, part.roots[s * n_strata + k], clouds[s].x[i], part.stratum_features[s * n_strata + k]
                )
                for s, k in enumerate(labels)
            ]
            for i, labels in enumerate(m)
        ]
    )


def brute_thresholds(cap, simultaneous):
    """Thresholds of the groups from the kept scores, with loops and fractions."""
    kept, q = cap.calibration_, []
    S = kept.scores.shape[1]
    for j in range(kept.n_groups):
        scores = [
            r for r, g, role in zip(kept.scores, kept.groups, kept.role) for r, g in zip(r, g) if g == j and role != SCALES
        ]
        q.append(oracles.quantile(scores, ALPHA))
    if not simultaneous:
        return np.array(q)
    scale = []
    for j in range(kept.n_groups):
        other = sorted(
            r
            for r, g, role in zip(kept.scores, kept.groups, kept.role)
            for r, g in zip(r, g)
            if g == j and role != THRESHOLDS
        )
        scale.append(other[min(oracles.rank(len(other), ALPHA / S), len(other)) - 1] if other else None)
    most = max(value for value in scale if value is not None)
    scale = np.array([max(most if value is None else value, 1e-3 * most) for value in scale])
    largest = [
        max(r / scale[g] for r, g in zip(rs, gs))
        for rs, gs, role in zip(kept.scores, kept.groups, kept.role)
        if role == THRESHOLDS
    ]
    seen = {g for gs, role in zip(kept.groups, kept.role) for g in gs if role == THRESHOLDS}
    infinite = np.array([0.0 if j in seen else np.inf for j in range(kept.n_groups)])
    return oracles.quantile(largest, ALPHA) * scale + infinite


@pytest.mark.parametrize("simultaneous", [False, True])
def test_thresholds_are_those_of_brute_force(cap, simultaneous):
    np.testing.assert_allclose(cap.group_thresholds(0.1, simultaneous), brute_thresholds(cap, simultaneous), rtol=1e-14)


def test_scores_and_groups_are_those_of_brute_force(box, calibration):
    """The particles of the fit, drawn again: one rollout at a time would draw others."""
    cap = horizon_capture(box).fit(calibration)
    clouds = cap.predict(calibration.starts, calibration.actions, cap.fit_stream("particles"))
    m = cap.labels(calibration)
    for s, cloud in enumerate(clouds):
        c = calibration.configurations[:, s]
        expected = oracles.kth_nearest(c, cloud.particles, K, oracles.euclidean)
        np.testing.assert_allclose(cap.calibration_.scores[:, s], expected, rtol=1e-14)
    np.testing.assert_array_equal(cap.calibration_.groups, brute_groups(cap, clouds, m))  # no stratum is isolated here


@pytest.mark.parametrize("simultaneous", [False, True])
def test_contains_is_brute_force_and_agrees_with_regions(cap, test, simultaneous):
    clouds = cap.predict(test.starts, test.actions, 7)
    m, q = cap.labels(test), cap.group_thresholds(0.1, simultaneous)[..., None]
    limits = q[brute_groups(cap, clouds, m)][..., 0]
    expected = [
        oracles.kth_nearest(test.configurations[:, s], cloud.particles, K, oracles.euclidean) <= limits[:, s]
        for s, cloud in enumerate(clouds)
    ]
    found = cap.contains(test, 0.1, simultaneous, rng=7)
    np.testing.assert_array_equal(found, np.stack(expected, axis=1))
    alone = [cap.regions(test.starts[i], test.actions[i], 0.1, simultaneous, rng=8) for i in range(5)]
    own = Rollouts.from_arrays(test.starts[:1], test.actions[:1], test.configurations[:1])
    assert [test.configurations[0, s] in region for s, region in enumerate(alone[0])] == cap.contains(
        own, 0.1, simultaneous, rng=8
    )[0].tolist()
    assert all(len(regions) == HORIZON for regions in alone)


def test_coverage_counts_what_contains_says(cap, test):
    inside, m = cap.contains(test, rng=8), cap.labels(test)
    found = cap.coverage(test, rng=8)
    assert found.together.covered == inside.all(axis=1).sum()
    for s, h in enumerate(cap.steps_):
        assert found[h].all.covered == inside[:, s].sum()
        for i, name in enumerate(cap.strata.names):
            assert (found[h][name].n, found[h][name].covered) == ((m[:, s] == i).sum(), inside[m[:, s] == i, s].sum())
    rows = found.rows(task="box")
    assert len(rows) == 1 + HORIZON * 4
    assert rows[0]["step"] == "all"
    assert found.together.volume == pytest.approx(sum(row["volume"] for row in rows[1:] if row["stratum"] == "all"))
    assert f"target {0.9:.1%}" in str(found)


# -- properties -----------------------------------------------------------------------------------------------------------


def test_thresholds_are_monotone_in_alpha(cap):
    """For single steps. For all at once the scales depend on alpha too, so a group may be an exception."""
    asked = [cap.group_thresholds(alpha) for alpha in (0.05, 0.1, 0.2, 0.4)]
    assert all((one >= other).all() for one, other in pairwise(asked))


def test_some_steps_are_those_of_all_steps(box, calibration, test):
    """Steps are grouped and calibrated by themselves: what others there are changes nothing."""
    every, some = horizon_capture(box).fit(calibration), horizon_capture(box).fit(calibration, steps=[1, 3])
    assert some.steps_ == (1, 3)
    np.testing.assert_array_equal(some.contains(test, rng=8), every.contains(test, rng=8)[:, [0, 2]])
    assert some.partition_.roots.shape == (2 * 3,)
    assert some.contains(test, 0.1, True).all(axis=1).mean() >= 0.8
    assert some.coverage(test, volumes=False)[3].all.n == len(test)
    with pytest.raises(CaptureError, match="step 2 is not calibrated"):
        some.coverage(test, volumes=False)[2]


def test_strata_without_a_grid_have_no_volumes():
    line = Line.of(np.random.default_rng(0).random((50, 2)))
    found = line.fit(OneGroup()).coverage(line.rollouts, prediction=line.clouds)
    assert found.together.volume is None
    assert "cells" not in str(found)


def test_stratum_never_seen_at_a_step_takes_in_all_of_it():
    cap = Line.of(np.random.default_rng(0).random((100, 2))).fit(Tree(min_leaf=10))  # all on the right
    with pytest.warns(CaptureWarning, match="left at step 1"):
        assert np.isinf(cap.group_thresholds(0.1)).sum() == 2
    with pytest.warns(CaptureWarning, match="no calibration rollout .* has visited: left at step 1, left at step 2"):
        assert np.isinf(cap.group_thresholds(0.1, simultaneous=True)).sum() == 2


def test_few_roll_outs_warn_and_give_the_whole_stratum():
    cap = Line.of(np.random.default_rng(0).random((10, 2))).fit(OneGroup())
    with pytest.warns(CaptureWarning, match="5 are compared, 9 are needed"):
        assert np.isinf(cap.group_thresholds(0.1, simultaneous=True)).all()


# -- refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"axes": (0, 5)}, "axes are"),
        ({"axes": (0,)}, "a configuration has 2 numbers"),
        ({"score": Mahalanobis()}, "no particles"),
        ({"score": NearestParticles(99)}, "k is 99"),
        ({"strata": FunctionStrata(lambda Y: np.full(len(Y), -1), ["a"])}, "configurations at step 1"),
        ({"step": lambda s, a, rng: s[:, :1]}, "expected finite"),
        ({"step": lambda s, a, rng: s * np.nan}, "NaN at step 1"),
        ({"step": lambda s, a: s}, "TypeError at step 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parts_that_do_not_fit_are_refused(box, calibration, change, said):
    with pytest.raises(CaptureError, match=said):
        horizon_capture(box).set_params(**change).fit(calibration)


@pytest.mark.parametrize("steps", [[], [0], [4], [1, 1], [1.5], "12"])
def test_steps_that_are_not_there_are_refused(box, calibration, steps):
    with pytest.raises(CaptureError, match="step"):
        horizon_capture(box).fit(calibration, steps=steps)


def test_asking_before_fitting_is_refused(box, test):
    with pytest.raises(CaptureError, match="not calibrated yet"):
        horizon_capture(box).contains(test)
    with pytest.raises(CaptureError, match="expected Rollouts"):
        horizon_capture(box).fit(np.zeros((3, 2)))


def test_too_few_actions_are_refused(box, calibration):
    cap = horizon_capture(box).fit(calibration)
    with pytest.raises(CaptureError, match="2 actions, but regions up to step 3"):
        cap.regions([0.2, 0.2], np.zeros((2, 2)))
    with pytest.raises(CaptureError, match="start has shape"):
        cap.regions([0.2], np.zeros((3, 2)))
    assert len(cap.regions([0.2, 0.2], np.zeros((5, 2)))) == HORIZON


# -- saved ----------------------------------------------------------------------------------------------------------------


def test_saved_calibration_gives_the_same_answers(cap, box, test, tmp_path):
    cap.save(tmp_path / "box.horizon")
    back = HorizonCapture.load(tmp_path / "box.horizon", box.model_step, box.strata)
    assert (back.steps_, tuple(back.axes), back.n_particles) == (cap.steps_, AXES, cap.n_particles)
    for simultaneous in (False, True):
        found = [one.contains(test, 0.1, simultaneous, rng=0) for one in (back, cap)]
        np.testing.assert_array_equal(*found)


def test_damaged_or_foreign_calibrations_are_refused(box, calibration, fitted, tmp_path):
    cap, file = horizon_capture(box).fit(calibration), tmp_path / "box.horizon"
    cap.save(file)
    whole = file.read_bytes()
    for damage in (whole[:-40], whole[: len(whole) // 2], b"", whole[:-8] + b"\0" * 7 + b"\x7f"):
        file.write_bytes(damage)
        with pytest.raises(CaptureError):
            HorizonCapture.load(file, box.model_step, box.strata)
    fitted["capture"].save(file)
    with pytest.raises(CaptureError, match=r"written by HorizonCapture\.save"):
        HorizonCapture.load(file, box.model_step, box.strata)
    cap.save(file)
    with pytest.raises(CaptureError, match=r"written by Capture\.save"):
        type(fitted["capture"]).load(file, box, box.strata)
    with pytest.raises(CaptureError, match="other strata"):
        HorizonCapture.load(file, box.model_step, FunctionStrata(lambda Y: np.zeros(len(Y), int), ["all"]))


def test_prediction_of_other_roll_outs_is_refused(box, calibration, test):
    cap = horizon_capture(box).fit(calibration)
    clouds = cap.predict(test.starts, test.actions, 3)
    np.testing.assert_array_equal(cap.contains(test, prediction=clouds), cap.contains(test, rng=3))
    for wrong in (clouds[:2], cap.predict(test.starts[:5], test.actions[:5])):
        with pytest.raises(CaptureError, match="pass the result of predict"):
            cap.contains(test, prediction=wrong)
    with pytest.raises(CaptureError, match="pass the result of predict"):
        horizon_capture(box).fit(test, prediction=clouds[:1])
