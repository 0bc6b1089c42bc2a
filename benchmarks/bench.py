"""Speed as ratios: each job compared with its named alternative, interleaved in one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.calibrate import calibrate_comparisons
from benchmarks.comparison import Comparison, as_ratios
from benchmarks.gap import gap_comparisons
from benchmarks.gym import gym_comparisons
from benchmarks.history import HISTORY, add, fallen
from benchmarks.latency import latency_measures
from benchmarks.numpy_marble import numpy_marble_step
from benchmarks.peg import peg_comparisons, peg_measures
from benchmarks.planning import plan_comparisons, plan_measures
from benchmarks.shelf import shelf_comparisons, shelf_measures
from benchmarks.spaces import space_comparisons
from benchmarks.starts import start_comparisons, start_measures
from capture_cp.base.checks import Floats
from capture_cp.base.files import write_json
from capture_cp.capture.capture import Capture
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.cuda.device import chosen_device
from capture_cp.report.output import write_rows
from capture_lab.studies.bench import Bench
from capture_lab.tasks.box import Box
from capture_lab.tasks.marble.maps import load_map
from capture_lab.tasks.marble.task import Marble

MARBLES = 200_000
QUICK_ROUNDS = 3


@dataclass(frozen=True)
class Benchmarks:
    """Every hot path against the obvious alternative, as ratios from one interleaved run; see `capture bench`.

    `record` are the past ratios: those of this run are compared with them, and added.
    """

    options: Bench
    record: Path = HISTORY

    def run(self, console: Console) -> None:
        """Time every pair and print the ratios."""
        options = self.options
        if chosen_device(options.device) == "cuda":
            self._plans_on_gpu(console)
            return
        rounds = QUICK_ROUNDS if options.quick else options.rounds
        pairs = list(self._quick_ones() if options.quick else self._comparisons())
        rows = [
            pair.time(rounds) for pair in track(pairs, description="Timing pairs of jobs", console=console, transient=True)
        ]
        console.print(_ratios_table(rows, rounds))
        limits = []
        if not options.quick:
            with console.status("Timing plans, simulators and control-loop calls"):
                limits = self._measures()
            console.print(_limits_table(limits))
        found = [*rows, *as_ratios(limits)]
        for sentence in fallen(found, self.record):
            console.print(f"[yellow]warning:[/] slower than before: {sentence}.", highlight=False)
        if not options.quick:
            add(found, self.record)
        if options.json is not None:
            write_rows(options.json, rows + limits, options)

    def _measures(self) -> list[dict[str, Any]]:
        """Absolute times, some with a limit."""
        seed = self.options.seed
        plans = [*plan_measures(seed), *peg_measures(seed), *shelf_measures(seed)]
        return [*plans, *latency_measures(self.options.calls, seed), *start_measures()]

    def _plans_on_gpu(self, console: Console) -> None:
        from benchmarks.gpu import plan as plans

        options = plans.Options(rounds=self.options.rounds, seed=self.options.seed)
        say = partial(console.print, highlight=False, markup=False)
        report = plans.Benchmark(options, say).run()
        if self.options.json is not None:
            write_json(self.options.json, report)
        say(plans.table(report))

    def _quick_ones(self) -> Iterator[Comparison]:
        yield from self._core()
        yield from self._marble()
        yield from start_comparisons()

    def _comparisons(self) -> Iterator[Comparison]:
        yield from self._quick_ones()
        yield from calibrate_comparisons()
        yield from space_comparisons(self.options.seed)
        yield from plan_comparisons(self.options.seed)
        yield from peg_comparisons(self.options.seed)
        yield from shelf_comparisons(self.options.seed)
        yield from gym_comparisons(self.options.seed)
        yield from gap_comparisons()

    def _core(self) -> Iterator[Comparison]:
        box, rng = Box(), np.random.default_rng(self.options.seed)
        data = box.transitions(self.options.transitions, rng)
        X, Y, particles = data.X, data.Y, box(data.X, 16, rng)
        score, tree = NearestParticles(k=8), Tree(per_stratum=False)
        cap = Capture(box, box.strata, score, tree).fit(X, Y, particles)
        q = cap.thresholds(X)[np.arange(len(X)), box.strata.index(Y)]
        R = score.score(particles, Y)
        inputs = np.hstack([X, box.strata.index(Y)[:, None]])

        yield Comparison(
            "score 16 particles per row", lambda: score.score(particles, Y),
            "scipy cKDTree, one tree per row", lambda: _kdtree_scores(Y, particles), 10, rounds=2, warm_up=False,
        )  # fmt: skip
        yield Comparison(
            "score 16 particles per row", lambda: score.score(particles, Y),
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
            rounds=2, warm_up=False,
        )  # fmt: skip

    def _marble(self) -> Iterator[Comparison]:
        task, rng = Marble(load_map("center")), np.random.default_rng(self.options.seed)
        X = task.design_inputs("random", rng)
        X = X[rng.integers(len(X), size=MARBLES)]
        states, actions, noise = X[:, :6].copy(), X[:, 6:].copy(), 0.05 * rng.standard_normal((MARBLES, 2))
        yield Comparison(
            f"{MARBLES:,} marbles, a control step", lambda: task.step(states, actions, noise, 2.0),
            "the same in NumPy", lambda: numpy_marble_step(states, actions + noise, 2.0, task.map.geometry), 20,
            rounds=2, warm_up=False,
        )  # fmt: skip


def _ratios_table(rows: list[dict[str, Any]], rounds: int) -> Table:
    table = Table(title=f"Speed-up over the alternative, median of {rounds} interleaved rounds (lowest - highest)")
    for column in ("job", "alternative", "speed-up", "target", "ours, per call"):
        table.add_column(column, justify="right" if column in ("speed-up", "target", "ours, per call") else "left")
    for row in rows:
        low, high = row["range"]
        ratio = f"{row['speed_up']:.1f} ({low:.1f} - {high:.1f})"
        mark = "" if row["speed_up"] >= row["wanted"] else "  missed"
        table.add_row(row["job"], row["alternative"], ratio, f"{row['wanted']:g}{mark}", _time_text(row["seconds"]))
    return table


def _limits_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Times, and limits for idle cores")
    for column in ("job", "measured", "limit"):
        table.add_column(column, justify="left" if column == "job" else "right")
    for row in rows:
        limit = "" if row["limit"] is None else f"{row['limit']:g}" + ("" if row["value"] <= row["limit"] else "  missed")
        table.add_row(row["job"], f"{row['value']:.3g}", limit)
    return table


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
