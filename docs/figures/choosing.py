"""Studies behind the page on choosing k, alpha, leaf size and calibration size: box and one marble map, seeded."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from capture_cp import Capture, CaptureWarning, NearestParticles, Tree, size_needed
from capture_cp.report.style import STRATA_COLOURS
from capture_lab.tasks.box import Box
from capture_lab.tasks.marble.maps import load_map
from capture_lab.tasks.marble.task import Marble
from figures.style import CORNER, DARK_EDGE, FREE, GREEN, INK, MARKERS, save

ALPHA, PARTICLES = 0.1, 16
SHOWN = 2000  # test inputs whose regions are counted
STYLES = {"box": (FREE, "o"), "marble": (DARK_EDGE, "s"), "two ways": (CORNER, "^"), "some astray": (GREEN, "D")}


class World(NamedTuple):
    """A system to calibrate, with transitions to draw from and others to test on."""

    name: str
    model: Any
    strata: Any
    X: np.ndarray
    Y: np.ndarray
    test_X: np.ndarray
    test_Y: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """n random transitions of the pool."""
        chosen = rng.choice(len(self.X), n, replace=False)
        return self.X[chosen], self.Y[chosen]


def worlds() -> list[World]:
    """The box, and the marble's Center map with inputs drawn at random."""
    box, rng = Box(), np.random.default_rng(10)
    pool, test = box.transitions(60_000, rng), box.transitions(20_000, rng)
    marble = Marble(load_map("center"))
    rolls, later = (marble.design_transitions("random", 1, rng) for _ in range(2))
    return [
        World("box", box.model, box.strata, pool.X, pool.Y, test.X, test.Y),
        World("marble", marble, marble.strata, rolls.X, rolls.Y, later.X[:20_000], later.Y[:20_000]),
    ]


@contextmanager
def small_groups_allowed() -> Iterator[None]:
    """Silence warnings about groups too small for alpha, which these studies show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        yield


def size_of(cap: Capture, world: World, alpha: float = ALPHA) -> float:
    """Mean cells of a region."""
    return float(cap.count_cells(world.test_X[:SHOWN], alpha).sum(axis=1).mean())


def band(ax: plt.Axes, at: Any, values: np.ndarray, style: tuple[str, str], label: str) -> None:
    """Mean over draws (rows) as a line, their range as a band."""
    ax.fill_between(at, values.min(axis=0), values.max(axis=0), color=style[0], alpha=0.18, lw=0)
    ax.plot(at, values.mean(axis=0), color=style[0], marker=style[1], ms=5, label=label)


def two_ways(X: np.ndarray, n_particles: int, rng: np.random.Generator) -> np.ndarray:
    """The box by a bimodal model: a particle goes 0.6 or 1.6 times as far as pushed."""
    gain = np.where(rng.random((len(X), n_particles, 1)) < 0.5, 0.6, 1.6)
    return Box().step(X[:, None, :2], gain * X[:, None, 2:] + 0.015 * rng.standard_normal((len(X), n_particles, 2)), 1.0)


def some_astray(X: np.ndarray, n_particles: int, rng: np.random.Generator) -> np.ndarray:
    """The box by a model in which one particle in ten lands anywhere in the box."""
    lost = rng.random((len(X), n_particles, 1)) < 0.1
    return np.where(lost, rng.random((len(X), n_particles, 2)), Box().model(X, n_particles, rng))


@small_groups_allowed()
def neighbour_study(draws: int = 5, n: int = 5000) -> None:
    """Size of regions against k, and against the number of particles with k = L/2."""
    ks, counts = (1, 2, 4, 6, 8, 10, 12, 14, 16), (2, 4, 8, 16, 32, 64)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True)
    box, marble = worlds()
    variants = [
        box,
        box._replace(name="two ways", model=two_ways),
        box._replace(name="some astray", model=some_astray),
        marble,
    ]
    for world in variants:
        rng, by_k, by_count = np.random.default_rng(11), [], []
        for seed in range(draws):
            X, Y = world.draw(n, rng)
            by_k.append([_size(world, X, Y, k, PARTICLES, seed) for k in ks])
            by_count.append([_size(world, X, Y, count // 2, count, seed) for count in counts])
        unit = np.array(by_k)[:, [ks.index(PARTICLES // 2)]]
        band(left, ks, by_k / unit, STYLES[world.name], world.name)
        band(right, counts, by_count / unit, STYLES[world.name], world.name)
        print(world.name, "k", np.mean(by_k / unit, axis=0).round(2), "L", np.mean(by_count / unit, axis=0).round(2))
    left.set(xlabel="k, of L = 16 particles", ylabel="mean region size / at k = 8", xticks=(1, 4, 8, 12, 16))
    left.set(yscale="log", yticks=(0.1, 0.2, 0.5, 1, 2, 5, 10), yticklabels=("0.1", "0.2", "0.5", "1", "2", "5", "10"))
    right.set(xlabel="particles L, with k = L/2", xscale="log", xticks=counts, xticklabels=counts)
    for ax in (left, right):
        ax.axhline(1, color=INK, lw=0.8, ls="--")
        ax.minorticks_off()
    right.legend()
    figure.tight_layout()
    save("choosing-k", figure)


def _size(world: World, X: np.ndarray, Y: np.ndarray, k: int, n_particles: int, seed: int) -> float:
    cap = Capture(world.model, world.strata, score=NearestParticles(k), n_particles=n_particles, seed=seed)
    return size_of(cap.fit(X, Y), world)


@small_groups_allowed()
def alpha_study(draws: int = 6, n: int = 5000) -> None:
    """Size of regions against the failure rate, and the scores needed for a finite threshold."""
    alphas = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.8))
    for world in worlds():
        rng, found = np.random.default_rng(12), []
        for seed in range(draws):
            cap = Capture(world.model, world.strata, groups=Tree(min_leaf=200), seed=seed).fit(*world.draw(n, rng))
            sizes = np.array([size_of(cap, world, alpha) for alpha in alphas])
            found.append(sizes / sizes[alphas == ALPHA])
        band(left, 100 * (1 - alphas), np.array(found), STYLES[world.name], world.name)
        print(world.name, "alpha", np.mean(found, axis=0).round(2))
    left.set(xlabel="target coverage (%)", ylabel="mean region size / at 90%", xticks=(50, 70, 80, 90, 99), yscale="log")
    left.set(yticks=(0.5, 1, 2, 5, 10, 50), yticklabels=("0.5", "1", "2", "5", "10", "50"))
    left.minorticks_off()
    left.axhline(1, color=INK, lw=0.8, ls="--")
    left.legend()
    fine = np.geomspace(0.002, 0.5, 60)
    for confidence, style in ((None, (FREE, "-")), (0.95, (DARK_EDGE, "--"))):
        needed = [size_needed(float(alpha), confidence) for alpha in fine]
        right.plot(fine, needed, color=style[0], ls=style[1], lw=1.8, label=f"confidence={confidence}")
    right.set(xlabel="alpha", ylabel="scores needed per group", xscale="log", yscale="log")
    right.set(xticks=(0.01, 0.1, 0.5), xticklabels=("0.01", "0.1", "0.5"), yticks=(1, 10, 100, 1000))
    right.set(yticklabels=("1", "10", "100", "1,000"))
    right.minorticks_off()
    right.legend()
    figure.tight_layout()
    save("choosing-alpha", figure)


@small_groups_allowed()
def leaf_study(draws: int = 6, n: int = 20_000) -> None:
    """Size of regions and coverage by leaf, against the minimum number of transitions in a leaf."""
    leaves = (50, 100, 200, 400, 800, 1600, 3200)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 2.8))
    for world in worlds():
        rng, sizes, spread, number = np.random.default_rng(13), [], [], []
        for seed in range(draws):
            X, Y = world.draw(n, rng)
            caps = [
                Capture(world.model, world.strata, groups=Tree(min_leaf=leaf, max_leaves=None), seed=seed).fit(X, Y)
                for leaf in leaves
            ]
            sizes.append([size_of(cap, world) for cap in caps])
            spread.append([_leaf_deviation(cap, world) for cap in caps])
            number.append([cap.partition_.n_groups for cap in caps])
        unit = np.array(sizes)[:, -1:]
        band(left, leaves, np.array(sizes) / unit, STYLES[world.name], world.name)
        band(right, leaves, 100 * np.array(spread), STYLES[world.name], world.name)
        mean = [np.mean(part, axis=0) for part in (np.array(sizes) / unit, spread, number)]
        print(world.name, "leaves", mean[0].round(2), mean[1].round(3), mean[2].round(0))
    left.set(ylabel=f"mean region size / at {leaves[-1]:,}")
    right.set(ylabel="RMS deviation of leaf coverage (points)", ylim=(0, None))
    for ax in (left, right):
        ax.set(xlabel="minimum transitions per leaf", xscale="log", xticks=leaves, xticklabels=leaves)
        ax.minorticks_off()
    left.legend()
    figure.tight_layout()
    save("choosing-leaf", figure)


def _leaf_deviation(cap: Capture, world: World) -> float:
    """Root mean square deviation of leaf coverage from the target, less the part due to the size of the test set."""
    rows = [row for row in cap.coverage(world.test_X, world.test_Y, ALPHA, volumes=False).groups if row.n >= 20]
    off = np.array([(row.coverage - (1 - ALPHA)) ** 2 - row.coverage * (1 - row.coverage) / row.n for row in rows])
    weight = np.array([row.n for row in rows])
    return float(np.sqrt(max((off * weight).sum() / weight.sum(), 0.0)))


@small_groups_allowed()
def size_study(draws: int = 30) -> None:
    """Coverage by stratum, and regions, of many calibrations of the box, against the number of transitions."""
    world, rng = worlds()[0], np.random.default_rng(14)
    sizes = (125, 250, 500, 1000, 2000, 4000, 8000, 16_000)
    m = world.strata.index(world.test_Y)
    coverage, volume = np.empty((draws, len(sizes), 3)), np.empty((2, draws, len(sizes)))
    for draw in range(draws):
        for at, n in enumerate(sizes):
            cap = Capture(world.model, world.strata, groups=Tree(min_leaf=100), seed=draw).fit(*world.draw(n, rng))
            inside = cap.contains(world.test_X, world.test_Y, ALPHA)
            coverage[draw, at] = [inside[m == stratum].mean() for stratum in range(3)]
            for row, confidence in enumerate((None, 0.95)):
                volume[row, draw, at] = cap.count_cells(world.test_X[:1000], ALPHA, confidence).sum(axis=1).mean()
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0))
    for stratum, name in enumerate(world.strata.names):
        band(left, sizes, 100 * coverage[:, :, stratum], (STRATA_COLOURS[stratum], MARKERS[stratum]), name)
    print("size", (100 * coverage.mean(axis=0)).round(1).tolist(), (100 * coverage.std(axis=0)).round(1).tolist())
    unit = volume[0, :, -1].mean()
    for row, (label, style) in enumerate({"confidence=None": (INK, "o"), "confidence=0.95": (GREEN, "^")}.items()):
        band(right, sizes, volume[row] / unit, style, label)
        print("size", label, (volume[row].mean(axis=0) / unit).round(2))
    left.axhline(90, color=INK, lw=0.8, ls="--")
    left.set(ylabel="coverage (%)", ylim=(70, 101))
    right.set(ylabel=f"mean region size / at {sizes[-1]:,}", ylim=(0.5, 4))
    for ax in (left, right):
        ax.set(xlabel="calibration transitions", xscale="log", xticks=sizes[::2], xticklabels=[f"{n:,}" for n in sizes[::2]])
        ax.minorticks_off()
        ax.legend(loc="lower right" if ax is left else "upper right")
    figure.tight_layout()
    save("choosing-size", figure)
