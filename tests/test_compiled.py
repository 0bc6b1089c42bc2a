"""A compiled calibration: the answers of the plain one bit for bit, the same from any thread."""

from __future__ import annotations

import pickle
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_cp import (
    Capture,
    CaptureError,
    Euclidean,
    FunctionStrata,
    Grid,
    GridStrata,
    Mahalanobis,
    Metric,
    NearestParticles,
    OneGroup,
    PerStratum,
    Torus,
    Tree,
)
from capture_cp.capture.compiled import Compiled
from capture_cp.conformal.groups import Uncalibrated
from capture_cp.conformal.scores import ParticleBox
from worlds import fit

COMPILED = ["particles", "pcp", "no-strata", "capture-k1", "capture"]

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # infinite thresholds are wanted here


def answers(fast, X, Y, particles, labels):
    n, M = len(X), len(fast.names)
    q, inside, cells = np.empty((n, M)), np.empty(n, dtype=bool), np.empty((n, M + 1), dtype=np.int64)
    assert fast.thresholds(X, q) is q
    assert fast.contains(X, Y, particles, labels, inside) is inside
    assert fast.count_cells(X, particles, cells) is cells
    return q, inside, cells


def plain(cap, X, Y, particles, labels, alpha=0.1, confidence=None):
    given = {"alpha": alpha, "confidence": confidence}
    return (
        cap.thresholds(X, **given),
        cap.contains(X, Y, prediction=particles, labels=labels, **given),
        cap.count_cells(X, prediction=particles, **given),
    )


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other))


# -- the same answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize(("alpha", "confidence"), [(0.1, None), (0.3, 0.9), (0.001, None)])
def test_answers_are_those_of_the_plain_path(fitted, fresh, name, alpha, confidence):
    """At alpha = 0.001 every group is too small: infinite thresholds, whole strata."""
    cap, labels = fitted[name], fresh.m.copy()
    labels[::7] = -1  # said to be infeasible
    fast = cap.compile(alpha, confidence)
    question = fresh.X, fresh.Y, fresh.particles, labels
    assert same(answers(fast, *question), plain(cap, *question, alpha, confidence))


@st.composite
def worlds_of_any_shape(draw):
    """A calibration of 1 to 4 dimensions on a small grid, some of whose axes close on themselves, and a question to it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dims, dx = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    L = draw(st.integers(1, 9))
    shape = [draw(st.integers(1, 5)) for _ in range(dims)]
    periodic = [axis for axis in range(dims) if draw(st.booleans())]
    grid = Grid(rng.normal(size=dims).tolist(), rng.uniform(0.2, 1.0, size=dims).tolist(), shape, periodic)
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    strata = GridStrata(grid, rng.integers(-1, len(names), size=grid.size), names)
    score = draw(st.sampled_from([NearestParticles(draw(st.integers(1, L))), ParticleBox()]))
    groups = draw(st.sampled_from([OneGroup(), PerStratum(), Tree(min_leaf=5), Tree(min_leaf=9, per_stratum=False)]))
    if isinstance(score, ParticleBox) and draw(st.booleans()):
        groups = Uncalibrated()

    def particles(n):
        return grid.centre(rng.integers(grid.size, size=n))[:, None] + 0.4 * rng.standard_normal((n, L, dims))

    everywhere = FunctionStrata(lambda Y: rng.integers(len(names), size=len(Y)), names)  # so that any Y may be fitted on
    fit_rows, rows = draw(st.integers(1, 80)), draw(st.integers(0, 5))
    cap = Capture(lambda X, n, rng: particles(len(X)), everywhere, score, groups, n_particles=L)
    cap.fit(rng.normal(size=(fit_rows, dx)), rng.normal(size=(fit_rows, dims)), prediction=particles(fit_rows))
    cap.strata = strata
    question = rng.normal(size=(rows, dx)), rng.normal(size=(rows, dims)), particles(rows)
    return cap, (*question, rng.integers(-1, len(names), size=rows)), draw(st.sampled_from([0.02, 0.1, 0.5]))


@given(worlds_of_any_shape())
@settings(max_examples=150)
def test_answers_are_those_of_the_plain_path_for_any_shape(world):
    cap, question, alpha = world
    assert same(answers(cap.compile(alpha), *question), plain(cap, *question, alpha))


def test_strata_without_a_grid_have_everything_but_cells(world, fresh):
    cap = fit("capture", world)
    cap.strata = FunctionStrata(world.box.strata.index, world.box.strata.names)
    fast = cap.compile()
    inside = fast.contains(fresh.X, fresh.Y, fresh.particles, fresh.m, np.empty(len(fresh.X), dtype=bool))
    assert np.array_equal(inside, cap.contains(fresh.X, fresh.Y, prediction=fresh.particles))
    with pytest.raises(CaptureError, match="need strata with a grid"):
        fast.count_cells(fresh.X, fresh.particles, np.empty((len(fresh.X), 4), dtype=np.int64))


# -- in a loop ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fast(fitted):
    return fitted["capture"].compile()


def test_threads_share_one_object(fast, fresh):
    """Each thread asks about rows of its own, in its own order, many times; all get what one thread gets."""
    rows = [np.random.default_rng(seed).permutation(len(fresh.X))[:40] for seed in range(64)]
    questions = [tuple(part[r] for part in (fresh.X, fresh.Y, fresh.particles, fresh.m)) for r in rows]
    serial = [answers(fast, *question) for question in questions]
    with ThreadPool(8) as pool:
        for _ in range(5):
            assert all(map(same, pool.starmap(answers, [(fast, *question) for question in questions], chunksize=1), serial))


def test_a_pickled_copy_answers_the_same(fast, fresh):
    question = fresh.X, fresh.Y, fresh.particles, fresh.m
    again = pickle.loads(pickle.dumps(fast))
    assert isinstance(again, Compiled)
    assert repr(again) == "Compiled(alpha=0.1: free, edge, corner)"
    assert same(answers(again, *question), answers(fast, *question))


# -- what is refused ------------------------------------------------------------------------------------------------------


class Own(NearestParticles):
    pass


class Taxi(Metric):
    def distance(self, a, b):
        return np.abs(a - b).sum(axis=-1)


@pytest.mark.parametrize("score", [Mahalanobis(), Own(2), NearestParticles(2, Taxi())], ids=repr)
def test_scores_without_a_compiled_form_are_refused(world, score):
    cap = Capture(world.box, world.box.strata, score, OneGroup()).fit(world.X, world.Y)
    with pytest.raises(CaptureError, match="cannot be compiled; compile supports ParticleBox, and NearestParticles"):
        cap.compile()


def nan_at_the_end(array):
    array = array.copy()
    array.flat[-1] = np.nan
    return array


CHANGES = {
    "float32": (lambda a: a.astype(np.float32), "is float32 of shape"),
    "strided": (lambda a: np.repeat(a, 2, axis=0)[::2], "in another memory layout"),
    "a list": (
        lambda a: a.tolist(),
        "is list; a compiled calibration does not convert arrays and needs a C-contiguous array",
    ),
    "one column more": (lambda a: np.concatenate([a, a[..., :1]], axis=-1), "of shape"),
    "one row less": (lambda a: a[:-1].copy(), "of shape"),
    "NaN": (nan_at_the_end, "has NaN or infinite values"),
}


@pytest.mark.parametrize("part", ["X", "Y", "particles"])
@pytest.mark.parametrize("change", CHANGES)
def test_arrays_that_do_not_fit_are_refused_and_nothing_is_written(fast, fresh, part, change):
    make, sentence = CHANGES[change]
    given = {"X": fresh.X[:9], "Y": fresh.Y[:9], "particles": fresh.particles[:9], "labels": fresh.m[:9]}
    given[part] = make(given[part])
    inside, q, cells = np.ones(9, dtype=bool), np.full((9, 3), 7.0), np.full((9, 4), 7)
    with pytest.raises(CaptureError, match=sentence):
        fast.contains(**given, out=inside)
    if part != "Y":
        with pytest.raises(CaptureError, match=sentence):
            fast.count_cells(given["X"], given["particles"], cells)
    if part == "X":
        with pytest.raises(CaptureError, match=sentence):
            fast.thresholds(given["X"], q)
    assert inside.all()
    assert (q == 7).all()
    assert (cells == 7).all()


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.full(9, 3), "labels contain numbers outside -1 to 2"),
        (np.full(9, -2), "labels contain numbers outside -1 to 2"),
        (np.zeros(9, dtype=np.int32), "labels is int32 of shape"),
        (np.zeros(8, dtype=np.int64), "labels is int64 of shape"),
        (np.zeros(9), "labels is float64 of shape"),
    ],
)
def test_labels_that_do_not_fit_are_refused(fast, fresh, labels, sentence):
    with pytest.raises(CaptureError, match=sentence):
        fast.contains(fresh.X[:9], fresh.Y[:9], fresh.particles[:9], labels, np.empty(9, dtype=bool))


@pytest.mark.parametrize("change", ["float32", "strided", "a list", "one row less", "read-only"])
def test_places_for_answers_that_do_not_fit_are_refused(fast, fresh, change):
    make = (lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape)) if change == "read-only" else CHANGES[change][0]
    X, Y, particles, labels = fresh.X[:9], fresh.Y[:9], fresh.particles[:9], fresh.m[:9]
    for ask in (
        lambda: fast.thresholds(X, make(np.zeros((9, 3)))),
        lambda: fast.contains(X, Y, particles, labels, make(np.zeros(9, dtype=bool))),
        lambda: fast.count_cells(X, particles, make(np.zeros((9, 4), dtype=np.int64))),
    ):
        with pytest.raises(
            CaptureError, match=r"out is .* a compiled calibration does not convert arrays and needs a C-contiguous array"
        ):
            ask()


@pytest.mark.parametrize("metric", [Torus((1.0, 0.5)), Euclidean((1.0, 2.0))], ids=repr)
def test_metrics_of_axes_are_compiled_and_count_no_cells(world, metric):
    cap = Capture(world.box, world.box.strata, NearestParticles(2, metric), PerStratum()).fit(world.X, world.Y)
    particles = world.box(world.X, cap.n_particles, np.random.default_rng(0))
    labels = cap.index(world.Y)
    fast, out = cap.compile(0.2), np.empty(len(world.X), dtype=bool)
    fast.contains(world.X, world.Y, particles, labels, out)
    np.testing.assert_array_equal(out, cap.contains(world.X, world.Y, 0.2, prediction=particles))
    with pytest.raises(CaptureError, match="cells are counted only for SE2 and for Euclidean"):
        fast.count_cells(world.X, particles, np.empty((len(world.X), 4), dtype=np.int64))
