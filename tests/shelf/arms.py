"""The arm before a shelf of the package, and configurations of every kind: far away, near, touching, too deep."""

from __future__ import annotations

from functools import cache

import numpy as np

from capture_cp import Tree
from capture_lab.tasks.shelf.motions import GREATEST, LEAST, random_poses
from capture_lab.tasks.shelf.shelves import load_shelf
from capture_lab.tasks.shelf.task import ShelfTask

#: A tree that a few hundred transitions are enough for.
TREE = Tree(min_leaf=40, max_leaves=4, min_stratum=60)


@cache
def task_at(name="corner"):
    """The task before one of the shelves, on one thread; nothing may change it."""
    return ShelfTask(load_shelf(name), threads=1)


@cache
def logged(n=600, seed=0, name="corner"):
    """Transitions of the true system; nothing may change them."""
    return task_at(name).transitions(n, np.random.default_rng(seed))


@cache
def calibrated(name="capture"):
    """A method, fitted to a small log."""
    log = logged()
    return task_at().method(name, tree=TREE).fit(log.X, log.Y)


def anywhere(n, seed=0, name="corner"):
    """Configurations (n, 7): a half at random, most of them too deep, and a half that are feasible and near the shelf."""
    rng = np.random.default_rng(seed)
    feasible = random_poses(task_at(name), n - n // 2, rng)
    return np.vstack([rng.uniform(LEAST, GREATEST, (n // 2, 7)), feasible])


def touching(n, seed=0, name="corner"):
    """Configurations (n, 7) with one contact, up to a centimetre deep: where a part has just run into a box."""
    task, rng, kept = task_at(name), np.random.default_rng(seed), []
    while sum(map(len, kept)) < n:
        Y = random_poses(task, 200, rng) + rng.uniform(-0.06, 0.06, (200, 7))
        distances = np.sort(task.strata.distances(Y), axis=1)
        kept.append(Y[(distances[:, 0] < -1e-3) & (distances[:, 0] > -0.01) & (distances[:, 1] > 0.02)])
    return np.concatenate(kept)[:n]
