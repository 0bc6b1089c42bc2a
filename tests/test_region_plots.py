"""Pictures of regions: what is drawn, in one piece, with marks, labels and a legend."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import SE2, CaptureError, Euclidean, FunctionStrata, Grid, NearestParticles, Product, Torus, plot_strata
from capture_cp.capture.region import Region
from capture_cp.capture.region_members import members_of
from capture_cp.report.style import ACTION, INSIDE, OUTSIDE, PARTICLES, START
from capture_cp.spaces.strata import one_stratum

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def ball(metric, dims, q=0.3, particles=None, strata=None, k=1):
    particles = np.zeros((1, 1, dims)) if particles is None else np.asarray(particles, float)
    strata = one_stratum() if strata is None else strata
    return Region(NearestParticles(k, metric), particles, np.full(len(strata.names), q), strata, dims, 0.1, False)


def texts(ax):
    return [text.get_text() for text in ax.figure.legends[0].get_texts()]


@pytest.mark.parametrize(("metric", "dims"), [(Torus(), 1), (Torus(), 2), (SE2(0.2), 3), (Torus(), 6)])
def test_regions_of_any_dimension_are_drawn(metric, dims):
    rng = np.random.default_rng(0)
    region = ball(metric, dims, k=2, particles=rng.normal(0, 0.05, (1, 8, dims)))
    assert region.project(range(dims), n=50).shape == (50, dims)
    names = [f"joint {axis}" for axis in range(dims)]
    ax = region.plot(n=100, names=names, start=np.full(dims, 0.5), outcome=np.zeros(dims))
    assert ax.get_xlabel() == "joint 0"
    assert texts(ax)[-4:-1] == [PARTICLES.name, ACTION.name, START.name]
    assert texts(ax)[-1] in (INSIDE.name, OUTSIDE.name)
    figure = region.plot_matrix(names, n=100)
    assert len(figure.axes) == max(dims - 1, 1) ** 2
    bottom = [ax.get_xlabel() for ax in figure.axes if ax.get_xlabel()]
    assert bottom == names[: max(dims - 1, 1)]


def test_three_axes_are_drawn_in_space():
    region = ball(Euclidean(), 3)
    ax = region.plot(axes=(0, 1, 2), n=50, start=(1.0, 1.0, 1.0), outcome=(0.0, 0.0, 0.0))
    assert ax.name == "3d"
    assert region.plot(ax, n=50) is ax  # three axes, since there are three
    with pytest.raises(CaptureError, match="expected three different axes from 0 to 2"):
        region.plot(axes=(0, 1, 1))
    with pytest.raises(CaptureError, match="expected two different axes from 0 to 2"):
        region.plot(axes=(0, 1, 2, 0))


def layer(Y):
    return np.where(Y[:, 0] < 0, -1, (Y[:, 0] < 0.0101).astype(int))


@pytest.mark.parametrize("grid", [None, Grid((-0.5,), 0.01, (101,))])
def test_of_one_number_the_intervals_are_drawn(grid):
    strata = FunctionStrata(layer, ["free", "wall"], grid=grid)
    ax = ball(Euclidean(), 1, 0.1, [[[0.0], [0.3]]], strata).plot(rng=0)
    bars = [bar.get_path().get_extents() for bar in ax.patches]
    free, wall = (sorted(bar.intervalx.tolist() for bar in bars if abs(bar.y0 + 0.3 - row) < 1e-9) for row in (0, 1))
    np.testing.assert_allclose(wall, [[0.0, 0.01]], atol=0.011)
    np.testing.assert_allclose(free, [[0.01, 0.1], [0.2, 0.4]], atol=0.011)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["free", "wall"]


def test_angles_are_drawn_in_one_piece():
    particles = np.array([[[0.0, 3.1], [0.1, -3.1]]])
    metric = Product((Euclidean(), Torus()), (1, 1))
    region = ball(metric, 2, particles=particles)
    ax = region.plot(n=500, rng=0, start=(0.0, 3.0), outcome=(0.0, -3.0))
    low, high = ax.get_ylim()
    assert high - low < 1.0
    grid = Grid((-1.0, -np.pi), (0.1, np.pi / 36), (21, 72), periodic=(1,))
    gridded = ball(metric, 2, particles=particles, strata=one_stratum(grid))
    ax = gridded.plot()
    picture = ax.images[0]
    shown = np.flatnonzero(picture.get_array()[..., 3].any(axis=1))
    assert (np.diff(shown) == 1).all()
    bottom = picture.get_extent()[2]
    rows = bottom + (shown + 0.5) * np.pi / 36
    np.testing.assert_allclose(rows, np.unique(members_of(gridded, 1, 0).Y[:, 1]))


def test_strata_are_drawn_cell_by_cell_and_keep_their_limits():
    """Every cell has the colour of its stratum, and a region drawn over them does not shrink the picture."""
    grid = Grid((-0.5, -0.3), 0.1, (11, 7))
    strata = FunctionStrata(lambda Y: np.where(Y[:, 0] < 0, -1, (Y[:, 1] < 0.05).astype(int)), ["free", "wall"], grid=grid)
    ax = plot_strata(strata)
    pixels = ax.images[0].get_array()[::-1]
    labels = strata.labels.reshape(grid.shape).T
    assert pixels.shape[:2] == labels.shape
    assert len({tuple(colour) for colour in pixels[labels == 1]}) == 1
    assert len({tuple(colour) for colour in pixels.reshape(-1, 4)}) == 3
    wide = ax.get_xlim(), ax.get_ylim()
    ball(Euclidean(), 2, 0.15, strata=strata).plot(ax)
    assert (ax.get_xlim(), ax.get_ylim()) == wide


def test_axes_of_ones_own_keep_their_labels_and_have_no_legend():
    from matplotlib import pyplot

    figure, ax = pyplot.subplots()
    ax.set(xlabel="mine")
    region = ball(Euclidean(), 2)
    region.plot(ax, n=50)
    assert ax.get_xlabel() == "mine"
    assert not figure.legends
    assert ax.get_legend_handles_labels()[1] == ["all", PARTICLES.name]  # for a legend of one's own
    region.plot(ax, n=50, names=("a", "b"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")


def test_thin_strata_are_seen():
    strata = FunctionStrata(lambda Y: np.where(Y[:, 0] < 0, -1, (Y[:, 0] < 5e-3).astype(int)), ["free", "wall"])
    labels = members_of(ball(Euclidean(), 2, strata=strata), 400, 0).labels
    assert (labels == 1).sum() >= 20


@pytest.mark.parametrize(
    ("settings", "printed"),
    [
        ({"names": ["a"]}, "got 1 names; expected one for each"),
        ({"start": (0.0,)}, "start has shape"),
        ({"outcome": (0.0, np.nan)}, "outcome has 1 NaN"),
        ({"n": 0}, "n is 0"),
        ({"axes": (0, 5)}, "expected two different axes from 0 to 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings, printed):
    with pytest.raises(CaptureError, match=printed):
        ball(Euclidean(), 2).plot(**settings)
