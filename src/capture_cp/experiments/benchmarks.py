"""Speed as ratios: each job beside its named alternative, interleaved in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from capture_cp.checks import Floats, whole_number
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.experiments.output import check_writable, write_rows
from capture_cp.predictor import Capture
from capture_cp.tasks.box import Box
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.maps import load_map
from capture_cp.tasks.marble.task import Marble

Job = Callable[[], Any]

MARBLES = 200_000
FACES = np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0]])


@dataclass(frozen=True)
class Comparison:
    """Two jobs that give the same answer; `calls` of them are timed together. `wanted` is the ratio to reach."""

    name: str
    ours: Job
    alternative: str
    theirs: Job
    wanted: float
    calls: int = 1


@dataclass(frozen=True)
class Bench:
    """Measure hot paths against the obvious alternative, as ratios taken in one interleaved run."""

    transitions: Annotated[int, tyro.conf.arg(help="Transitions to score and fit; the paper has 147,000 on a map.")] = (
        147_000
    )
    rounds: Annotated[int, tyro.conf.arg(help="How often each pair of jobs is timed, one after the other.")] = 7
    seed: Annotated[int, tyro.conf.arg(help="Seed of the transitions.")] = 0
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this file.")] = None

    def run(self, console: Console) -> None:
        """Time every pair and print the ratios."""
        whole_number("transitions", self.transitions, 1000)
        whole_number("rounds", self.rounds, 1)
        check_writable(self.json)
        pairs = list(self._comparisons())
        rows = [
            self._time(pair) for pair in track(pairs, description="Timing pairs of jobs", console=console, transient=True)
        ]
        table = Table(title=f"Speed-up over the alternative, median of {self.rounds} interleaved rounds (lowest - highest)")
        for column in ("job", "alternative", "speed-up", "wanted", "ours, per call"):
            table.add_column(column, justify="right" if column in ("speed-up", "wanted", "ours, per call") else "left")
        for row in rows:
            low, high = row["range"]
            ratio = f"{row['speed_up']:.1f} ({low:.1f} - {high:.1f})"
            mark = "" if row["speed_up"] >= row["wanted"] else "  missed"
            table.add_row(row["job"], row["alternative"], ratio, f"{row['wanted']:g}{mark}", _time_text(row["seconds"]))
        console.print(table)
        if self.json is not None:
            write_rows(self.json, rows, self)

    def _time(self, pair: Comparison) -> dict[str, Any]:
        pair.ours(), pair.theirs()  # compile, warm caches
        times = np.array([[_seconds(job, pair.calls) for job in (pair.ours, pair.theirs)] for _ in range(self.rounds)])
        ratios = times[:, 1] / times[:, 0]
        return {
            "job": pair.name,
            "alternative": pair.alternative,
            "speed_up": float(np.median(ratios)),
            "range": [float(ratios.min()), float(ratios.max())],
            "wanted": pair.wanted,
            "seconds": float(np.median(times[:, 0])) / pair.calls,
        }

    def _comparisons(self) -> Iterator[Comparison]:
        yield from self._core()
        yield from self._marble()

    def _core(self) -> Iterator[Comparison]:
        box, rng = Box(), np.random.default_rng(self.seed)
        data = box.transitions(self.transitions, rng)
        X, Y, particles = data.X, data.Y, box(data.X, 16, rng)
        score, tree = NearestParticles(k=8), Tree(per_stratum=False)
        cap = Capture(box, box.strata, score, tree).fit(X, Y, particles)
        q = cap.thresholds(X)[np.arange(len(X)), box.strata.index(Y)]
        R = score.score(particles, Y)
        inputs = np.hstack([X, box.strata.index(Y)[:, None]])

        yield Comparison(
            "score 16 particles a row", lambda: score.score(particles, Y),
            "scipy cKDTree, a tree a row", lambda: _kdtree_scores(Y, particles), 10,
        )  # fmt: skip
        yield Comparison(
            "score 16 particles a row", lambda: score.score(particles, Y),
            "NumPy partition", lambda: _partition_scores(Y, particles), 1,
        )  # fmt: skip
        yield Comparison(
            "membership of every row", lambda: score.within(particles, Y, q),
            "NumPy partition", lambda: _partition_scores(Y, particles) <= q, 1,
        )  # fmt: skip
        yield Comparison(
            "fit, particles given", lambda: Capture(box, box.strata, score, tree).fit(X, Y, particles),
            "scikit-learn's tree alone, and scoring", lambda: (_cart(tree, inputs, R), score.score(particles, Y)), 0.5,
        )  # fmt: skip
        table, cart, x = cap.threshold_table(), _cart(tree, inputs, R), X[0]
        row = inputs[:1].astype(np.float32)
        yield Comparison(
            "threshold of one input", lambda: table(x, 0),
            "scikit-learn's apply", lambda: cart.apply(row), 20, calls=2000,
        )  # fmt: skip
        some = slice(0, 2000)
        yield Comparison(
            "cells of 2,000 regions", lambda: cap.count_cells(X[some], prediction=particles[some]),
            "one region at a time", lambda: [cap.region(X[i], prediction=particles[i]).cells() for i in range(2000)], 5,
        )  # fmt: skip

    def _marble(self) -> Iterator[Comparison]:
        task, rng = Marble(load_map("center")), np.random.default_rng(self.seed)
        X = task.inputs("random", rng)
        X = X[rng.integers(len(X), size=MARBLES)]
        states, actions, noise = X[:, :6].copy(), X[:, 6:].copy(), 0.05 * rng.standard_normal((MARBLES, 2))
        yield Comparison(
            f"{MARBLES:,} marbles, a control step", lambda: task.step(states, actions, noise, 2.0),
            "the same in NumPy", lambda: numpy_marble_step(states, actions + noise, 2.0, task.map.geometry), 20,
        )  # fmt: skip


def _seconds(job: Job, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        job()
    return time.perf_counter() - start


def _time_text(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds > 1e-4 else f"{seconds * 1e6:.2g} us"


def _kdtree_scores(Y: Floats, particles: Floats) -> Floats:
    from scipy.spatial import cKDTree

    distances = [np.asarray(cKDTree(cloud).query(y, k=[8])[0])[0] for y, cloud in zip(Y, particles)]
    return np.array(distances)


def _partition_scores(Y: Floats, particles: Floats) -> Floats:
    distances = np.sqrt(((Y[:, None] - particles) ** 2).sum(axis=-1))
    return np.asarray(np.partition(distances, 7, axis=1)[:, 7])


def _cart(tree: Tree, inputs: Floats, R: Floats) -> Any:
    from sklearn.tree import DecisionTreeRegressor

    part = int(len(R) * tree.partition_share)
    cart = DecisionTreeRegressor(min_samples_leaf=tree.min_leaf, max_leaf_nodes=tree.max_leaves, random_state=0)
    return cart.fit(inputs[:part], R[:part])


def numpy_marble_step(states: Floats, pushes: Floats, gain: float, geometry: Any) -> Floats:
    """The marble's control step, whole arrays at a time: what one would write first."""
    bounds = geometry.bounds
    x, v, tilt = states[:, [0, 2]].copy(), states[:, [1, 3]].copy(), states[:, 4:6].copy()
    u = np.clip(pushes, -dynamics.MAX_ACTION, dynamics.MAX_ACTION)
    for _ in range(dynamics.SUBSTEPS):
        x, v, tilt = (
            x + dynamics.DT * v,
            np.clip(v - dynamics.DT * gain * dynamics.ROLLING * tilt, -dynamics.MAX_SPEED, dynamics.MAX_SPEED),
            np.clip(tilt + dynamics.DT * u, -dynamics.MAX_TILT, dynamics.MAX_TILT),
        )
        for _ in range(3):  # leaving one wall may lead into another
            x = np.clip(x, bounds[[0, 2]], bounds[[1, 3]])
            gaps, normals = _numpy_gaps(x, geometry)
            deepest = np.minimum(gaps.min(axis=0), 0)[:, None]
            x = x - deepest * normals[gaps.argmin(axis=0), np.arange(len(x))]
        v = np.where(x < bounds[[0, 2]] + 1e-9, np.maximum(v, 0), v)
        v = np.where(x > bounds[[1, 3]] - 1e-9, np.minimum(v, 0), v)
        gaps, normals = _numpy_gaps(x, geometry)
        for gap, normal in zip(gaps, normals):
            inward = np.minimum((v * normal).sum(axis=1), 0)[:, None]
            v = np.where((gap < 1e-9)[:, None], v - inward * normal, v)
        v = v / np.maximum(np.abs(v).max(axis=1) / dynamics.MAX_SPEED, 1)[:, None]
    return np.stack([x[:, 0], v[:, 0], x[:, 1], v[:, 1], tilt[:, 0], tilt[:, 1]], axis=1)


def _numpy_gaps(x: Floats, geometry: Any) -> tuple[Floats, Floats]:
    """Gaps (w, n) to inflated walls, and normals (w, n, 2)."""
    low, high = geometry.walls[:, None, :2], geometry.walls[:, None, 2:]
    away = x - np.clip(x, low, high)
    distance = np.linalg.norm(away, axis=2)
    depths = np.concatenate([x - low, high - x], axis=2)
    core = distance == 0
    normals = np.where(core[..., None], FACES[depths.argmin(axis=2)], away / np.where(core, 1, distance)[..., None])
    return np.where(core, -depths.min(axis=2), distance) - geometry.radius, normals
