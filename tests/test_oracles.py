"""Compiled functions against plain ones, thresholds against crepes and MAPIE, SE(2) against scipy's expm and logm."""

from __future__ import annotations

import math
import warnings

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

import oracles
from capture_cp import SE2, Grid, Mahalanobis, OneGroup, PerStratum, Tree, conformal_quantile
from capture_cp.base import layouts
from capture_cp.conformal.groups import Examples, _tree_nodes
from capture_cp.conformal.quantile import conformal_rank
from capture_cp.conformal.threshold_table import ThresholdTable
from capture_cp.kernels import cells, distance, gaussian, nearest, tree
from capture_cp.spaces.strata import GridStrata, columns_of

seeds = st.integers(0, 2**32 - 1)
ONE_TO_THREE, ONE_TO_FOUR, NONE_TO_FOUR = st.integers(1, 3), st.integers(1, 4), st.integers(0, 4)
EUCLIDEAN = (layouts.EUCLIDEAN, 1.0)


@st.composite
def clouds(draw, dims=ONE_TO_FOUR):
    """Y (n, dc), particles (n, L, dc) and k, with n from none and L from one, on a coarse lattice so that scores tie."""
    n, L, dc = draw(st.integers(0, 5)), draw(st.integers(1, 6)), draw(dims)
    rng = np.random.default_rng(draw(seeds))
    step = draw(st.sampled_from([0.0, 0.25]))
    Y, particles = rng.normal(size=(n, dc)), rng.normal(size=(n, L, dc))
    if step:
        Y, particles = step * np.rint(Y / step), step * np.rint(particles / step)
    return Y, particles, draw(st.integers(1, L))


@st.composite
def grids(draw, dims=ONE_TO_THREE):
    """A small grid, strata labels on it (two strata and infeasible cells), and a random generator."""
    dc = draw(dims)
    shape = draw(st.lists(st.integers(1, 6), min_size=dc, max_size=dc))
    rng = np.random.default_rng(draw(seeds))
    grid = Grid(rng.normal(size=dc), rng.uniform(0.2, 0.6, size=dc), shape)
    return grid, rng.integers(-1, 2, size=grid.size).astype(np.int32), rng


def columns(grid, labels):
    """The cells as kernels take them; strata 0 and 1."""
    return columns_of(GridStrata(grid, labels, ["one", "two"]))


@given(st.floats(0, 1e300))
def test_squared_limit_is_exactly_the_largest_square_within(q):
    limit = distance.squared_limit(q)
    assert math.sqrt(limit) <= q
    assert math.sqrt(math.nextafter(limit, math.inf)) > q


def test_squared_limit_at_the_ends():
    assert distance.squared_limit(0.0) == 0.0
    assert distance.squared_limit(-1.0) < 0.0
    assert distance.squared_limit(math.inf) == math.inf
    assert distance.squared_limit(1e-200) == 0.0  # its square underflows
    assert distance.squared_limit(1e200) < math.inf  # its square overflows, and an infinite distance is not within


# -- nearest particles and Gaussians --------------------------------------------------------------------------------------


@given(clouds())
def test_kth_nearest_equals_sorting_every_distance(cloud):
    Y, particles, k = cloud
    assert np.array_equal(
        nearest.kth_nearest(*EUCLIDEAN, k, Y, particles), oracles.kth_nearest(Y, particles, k, oracles.euclidean)
    )


def test_kernels_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    Y, particles = rng.normal(size=(5000, 2)), rng.normal(size=(5000, 4, 2))
    q = rng.random(5000)
    one = nearest.kth_nearest(*EUCLIDEAN, 2, Y, particles), nearest.within_pairs(*EUCLIDEAN, 2, Y, particles, q)
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    try:
        many = nearest.kth_nearest(*EUCLIDEAN, 2, Y, particles), nearest.within_pairs(*EUCLIDEAN, 2, Y, particles, q)
    finally:
        numba.set_num_threads(1)
    assert all(np.array_equal(a, b) for a, b in zip(one, many))


def test_rows_past_the_first_chunk_are_scored_too():
    rng = np.random.default_rng(0)
    for n in (nearest.CHUNK - 1, nearest.CHUNK, nearest.CHUNK + 1, 3 * nearest.CHUNK + 5):
        Y, particles = rng.normal(size=(n, 2)), rng.normal(size=(n, 3, 2))
        far = np.sort(np.linalg.norm(Y[:, None] - particles, axis=2), axis=1)[:, 1]
        assert nearest.kth_nearest(*EUCLIDEAN, 2, Y, particles) == pytest.approx(far, rel=1e-12)
        assert nearest.within_pairs(*EUCLIDEAN, 2, Y, particles, far * 1.001).all()


@st.composite
def gaussians(draw, dims=ONE_TO_FOUR, n=NONE_TO_FOUR):
    rows, dc = draw(n), draw(dims)
    rng = np.random.default_rng(draw(seeds))
    root = rng.normal(size=(rows, dc, dc))
    cov = root @ root.swapaxes(1, 2) + 0.1 * np.eye(dc)
    return Mahalanobis().checked((rng.normal(size=(rows, dc)), cov), rows, 1, dc), rng


@given(gaussians(), st.data())
def test_mahalanobis_equals_solving_with_the_covariance(predicted, data):
    prediction, rng = predicted
    n, dc = prediction.mean.shape
    angles = data.draw(st.sets(st.integers(0, dc - 1)))
    Y = rng.normal(scale=4, size=(n, dc))
    is_angle = np.isin(np.arange(dc), list(angles))
    squared = gaussian.squared_mahalanobis_pairs(Y, prediction.mean, prediction.whiten, is_angle)
    expected = [oracles.mahalanobis(y, mean, cov, angles) for y, mean, cov in zip(Y, prediction.mean, prediction.cov)]
    assert np.sqrt(squared) == pytest.approx(np.array(expected), rel=1e-7)
    for i in range(n):
        one = gaussian.squared_mahalanobis(Y[i], prediction.mean[i], prediction.whiten[i], is_angle)
        assert one == squared[i]


@given(grids(), st.data())
def test_ellipsoid_cells_equal_looking_at_every_cell(gridded, data):
    grid, labels, rng = gridded
    prediction, _ = data.draw(gaussians(dims=st.just(grid.dims), n=st.just(2)))
    angles = data.draw(st.sets(st.integers(0, grid.dims - 1)))
    score = Mahalanobis(tuple(angles))
    q = rng.choice([-1.0, 0.0, 0.5, 1.7], size=(2, 3))
    box = grid.box(*score.box(prediction, q.max(axis=1), grid.dims))
    counts = cells.count_cells(score.regions(prediction), q, *box, columns(grid, labels))
    for i in range(2):
        expected = oracles.count_cells(
            lambda y, i=i: oracles.mahalanobis(y, prediction.mean[i], prediction.cov[i], angles),
            *(q[i], labels, grid.origin, grid.spacing, grid.shape),
        )
        assert counts[i].tolist() == expected.tolist()


# -- cells and trees ------------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 3), st.integers(1, 18), st.sampled_from([np.int8, np.int32]), st.booleans(), st.booleans())
def test_cells_near_particles_equal_looking_at_every_cell(seed, dims, particles, dtype, turns, wraps):
    """Long columns with runs of labels, particles that are not numbers, boxes that wrap around."""
    rng = np.random.default_rng(seed)
    rule, length = (layouts.SE2, 0.4) if turns and dims == 3 else EUCLIDEAN
    shape = [*rng.integers(1, 6, size=dims - 1), int(rng.integers(1, 45))]
    grid = Grid(rng.normal(size=dims), [0.2] * (dims - 1) + [0.03], shape, periodic=(dims - 1,) if wraps else ())
    labels = np.repeat(rng.integers(-1, 3, size=grid.size), rng.integers(1, 40, size=grid.size))[: grid.size]
    found = columns_of(GridStrata(grid, labels, ["one", "two", "three"]))
    weights = rng.normal(size=grid.size).astype(np.float32)
    columns = found._replace(labels=found.labels.astype(dtype), weights=weights.reshape(found.labels.shape))
    cloud = grid.centre(rng.integers(grid.size, size=particles)) + 0.1 * rng.normal(size=(particles, dims))
    cloud[rng.random(particles) < 0.1] = np.nan
    limits, k = rng.choice([-1.0, 0.0, 0.02, 0.1, 0.5], size=4), int(rng.integers(1, particles + 1))
    first = np.array([int(rng.integers(shape[axis])) if wraps and axis == dims - 1 else 0 for axis in range(dims)])
    counts, room = np.zeros(4, dtype=np.int64), cells.room_for(particles, dims, shape[-1])
    unused = np.zeros((dims, dims)), np.zeros(dims, dtype=bool)
    total = cells.search(rule, length, k, cloud, *unused, limits, first, np.array(shape), columns, room, counts)

    centres = grid.centre(np.arange(grid.size))
    near = [[distance.squared_distance(rule, length, y, p) for p in cloud] for y in centres]
    inside = (np.array(near) <= limits[labels][:, None]).sum(axis=1) >= k
    assert counts.tolist() == [int((inside & (labels == m)).sum()) for m in (0, 1, 2, -1)]
    assert total == pytest.approx(weights[inside].sum(dtype=float), abs=1e-9)


@given(seeds, st.integers(1, 4), st.sampled_from([1, 3, 20]), st.sampled_from([2, 7, None]))
def test_tree_walk_ends_in_scikit_learns_leaf(seed, dx, min_leaf, max_leaves):
    rng = np.random.default_rng(seed)
    X, target = rng.normal(size=(150, dx)), rng.random(150)
    X[:75] = np.rint(2 * X[:75]) / 2  # values on the thresholds themselves
    cart = DecisionTreeRegressor(min_samples_leaf=min_leaf, max_leaf_nodes=max_leaves, random_state=0).fit(X, target)
    nodes = _tree_nodes(cart)
    near = np.repeat(cart.tree_.threshold[cart.tree_.feature >= 0], dx)[: 150 * dx]
    X.ravel()[: len(near)] = near * (1 + rng.choice([-1e-9, 0.0, 1e-9], size=len(near)))
    walked = tree.groups_of(nodes, np.zeros(1, np.int32), np.empty((1, 0)), X, np.zeros(150, np.int64))
    leaf_of_group = np.flatnonzero(cart.tree_.children_left < 0)
    assert np.array_equal(leaf_of_group[walked], cart.apply(X))


@given(seeds, st.booleans(), st.sampled_from(["label", "features", "none"]))
def test_every_tree_look_up_walks_the_same_way(seed, per_stratum, stratum_input):
    rng = np.random.default_rng(seed)
    examples = Examples(
        rng.normal(size=(300, 2)), rng.integers(0, 3, 300), rng.random(300), 3, rng.integers(0, 2, (3, 2)).astype(float)
    )
    settings = Tree(per_stratum=per_stratum, stratum_input=stratum_input, min_leaf=5)
    parts = settings.split(examples, rng)[0]
    X, m = rng.normal(size=(40, 2)), rng.integers(0, 3, 40)
    everywhere = parts.groups_everywhere(X)
    thresholds = rng.random(parts.n_groups)
    table = ThresholdTable(parts, thresholds)
    for i in range(len(X)):
        for s in range(3):
            group = oracles.walk(parts.nodes, parts.roots[s], X[i], parts.stratum_features[s])
            assert everywhere[i, s] == group
            assert tree.find_group(parts.nodes, parts.roots[s], parts.stratum_features, s, X[i]) == group
            assert table(X[i], s) == thresholds[group]
    assert np.array_equal(parts.groups(X, m), everywhere[np.arange(40), m])


# -- SE(2) ----------------------------------------------------------------------------------------------------------------

coordinate = st.floats(-3, 3)
poses = st.tuples(coordinate, coordinate, st.floats(-math.pi, math.pi))
TINY_ANGLES = [0.0, 1e-300, 1e-12, 1e-8, 1e-4, 1.99e-4, 2e-4, 2.01e-4]  # around the switch to a series
SPECIAL_ANGLES = [*TINY_ANGLES, 1e-3, 5e-3, 1e-2, 2e-2, 0.1, 1.0, 3.0, math.pi - 1e-9, math.pi]
EVERY_ANGLE = [sign * angle for angle in SPECIAL_ANGLES for sign in (1, -1)]


@pytest.mark.parametrize("omega", EVERY_ANGLE)
def test_se2_log_is_exact_at_special_angles(omega):
    pose = (0.7, -1.3, omega)
    twist = SE2(1.0).log(pose)
    assert oracles.pose_of_twist(twist) == pytest.approx(oracles.pose_matrix(pose), abs=1e-13)
    assert abs(twist[2]) <= math.pi


@settings(max_examples=30)
@given(poses, poses, st.floats(0.01, 10))
def test_se2_distance_equals_scipys_logm(a, b, length):
    assume(abs(math.remainder(a[2] - b[2], 2 * math.pi)) < math.pi - 1e-3)  # the logarithm has a jump at half a turn
    assert SE2(length).distance(a, b) == pytest.approx(oracles.se2(a, b, length), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("omega", EVERY_ANGLE)
def test_se2_kernel_is_exact_at_special_angles(omega):
    a, b = np.array([0.2, 0.1, 0.0]), np.array([0.9, -1.2, omega])
    squared = distance.squared_distance(layouts.SE2, 0.5, a, b)
    assert math.sqrt(squared) == pytest.approx(float(SE2(0.5).distance(a, b)), rel=1e-14)


def test_se2_half_a_turn_is_the_same_either_way():
    here, left, right = [0.0, 0.0, 0.0], [1.0, 2.0, math.pi], [1.0, 2.0, -math.pi]
    expected = math.hypot(math.hypot(1, 2) * math.pi / 2, 0.5 * math.pi)
    assert SE2(0.5).distance(here, left) == pytest.approx(expected, rel=1e-15)
    assert SE2(0.5).distance(here, right) == pytest.approx(expected, rel=1e-15)


@given(poses, poses, poses)
def test_se2_distance_is_invariant_under_left_multiplication(g, a, b):
    assume(abs(abs(math.remainder(a[2] - b[2], 2 * math.pi)) - math.pi) > 1e-9)
    moved = []
    for pose in (a, b):
        matrix = oracles.pose_matrix(g) @ oracles.pose_matrix(pose)
        moved.append((matrix[0, 2], matrix[1, 2], g[2] + pose[2]))
    assert SE2(1.3).distance(*moved) == pytest.approx(float(SE2(1.3).distance(a, b)), rel=1e-9, abs=1e-9)


# -- other libraries ------------------------------------------------------------------------------------------------------


def mondrian(R, m):
    """Our thresholds by stratum."""
    examples = Examples(np.zeros((len(R), 1)), m, R, int(m.max()) + 1, None)
    return PerStratum().calibrate(examples, np.random.default_rng(0))[1]


def crepes_thresholds(R, m, alpha):
    from crepes import ConformalRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of small categories, as we do
        regressor = ConformalRegressor().fit(residuals=R, bins=m)
        names = np.unique(m)
        return regressor.predict_int(np.zeros(len(names)), bins=names, confidence=1 - alpha)[:, 1]


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2, 0.3])
def test_mondrian_thresholds_equal_crepes(alpha):
    """Away from sizes where (n + 1)(1 - alpha) is whole: there crepes' floating-point product is off."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = rng.integers(1, 200, size=6)
        sizes += ((sizes + 1) * round(100 * alpha)) % 100 == 0
        m = rng.permutation(np.repeat(np.arange(6), sizes))
        R = rng.random(len(m))
        assert np.array_equal(mondrian(R, m).at(alpha), crepes_thresholds(R, m, alpha))


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_crepes_is_never_below_us_and_at_most_one_rank_above(alpha):
    """Where (n + 1)(1 - alpha) is whole, crepes 0.9 takes the next score, and none at all for the smallest such n."""
    for n in range(round(1 / alpha) - 1, 120, round(1 / alpha)):
        R = np.arange(1.0, n + 1)
        theirs = crepes_thresholds(R, np.zeros(n, dtype=int), alpha)[0]
        k = conformal_rank(n, alpha)
        assert mondrian(R, np.zeros(n, dtype=int)).at(alpha)[0] == k
        assert theirs in (k, k + 1 if k < n else math.inf)


@pytest.mark.parametrize("n", [10, 25, 58, 200])
def test_threshold_equals_mapie_with_absolute_residuals(n):
    from mapie.regression import SplitConformalRegressor
    from sklearn.dummy import DummyRegressor

    rng = np.random.default_rng(0)
    y = rng.normal(size=n)
    zero = DummyRegressor(strategy="constant", constant=0.0).fit(np.zeros((1, 1)), [0.0])
    regressor = SplitConformalRegressor(zero, confidence_level=0.9, prefit=True).conformalize(np.zeros((n, 1)), y)
    interval = regressor.predict_interval(np.zeros((1, 1)))[1]
    examples = Examples(np.zeros((n, 1)), np.zeros(n, dtype=np.int64), np.abs(y), 1, None)
    ours = OneGroup().calibrate(examples, rng)[1].at(0.1)[0]
    assert ours == conformal_quantile(np.abs(y), 0.1)
    assert interval.ravel() == pytest.approx([-ours, ours], rel=1e-12)
