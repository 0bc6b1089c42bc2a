"""The arrays of a saved calibration, for its groups and scores, and checks of them when a file is loaded."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.layouts import NODE
from capture_cp.conformal.drift import LEVELS
from capture_cp.conformal.partition import Partition
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.conformal.weighted import WeightedScores

Arrays = dict[str, npt.NDArray[Any]]

#: Upper bounds on sizes stated in a file, from which arrays are allocated when it is loaded.
MOST = {"n_inputs": 1_000_000, "n_outputs": 1_000_000, "n_particles": 100_000}
UNSOUND = "its arrays do not fit together; save it again."


def checked_size(name: str, value: Any) -> int:
    """A size stated in a header, checked against its upper bound."""
    number = whole_number(name, value, 1)
    if number > MOST[name]:
        raise CaptureError(f"{name} is {number:,}; expected at most {MOST[name]:,}.")
    return number


def checked_data(data: Any) -> dict[str, Any]:
    """The header's description of the data, checked to have no more input quantiles than a calibration stores."""
    if not isinstance(data, dict):
        raise CaptureError("it does not describe its data; save it again.")
    inputs = data.get("inputs")
    ranks = inputs.get("ranks") if isinstance(inputs, dict) else []
    if not isinstance(ranks, list) or len(ranks) > LEVELS:
        raise CaptureError(f"its input quantiles are malformed or more than {LEVELS}; save it again.")
    return data


def checked_partition(arrays: Arrays, n_inputs: int, n_strata: int, n_groups: int) -> Partition:
    """A partition that is safe to traverse: every index in range, no cycle, and no node with two parents.

    A few dozen nodes that share their children would have an intractable number of paths.
    """
    nodes = np.zeros(len(arrays["nodes.feature"]), dtype=NODE)
    for field in NODE.names or ():
        nodes[field] = arrays[f"nodes.{field}"]
    roots = np.asarray(arrays["roots"], dtype=np.int32)
    grown = np.asarray(arrays["grown_roots"], dtype=np.int32) if "grown_roots" in arrays else None
    rare = np.asarray(arrays["rare"], dtype=bool) if "rare" in arrays else None
    features = np.ascontiguousarray(arrays["stratum_features"], dtype=np.float64)
    number = np.arange(len(nodes))
    leaf = nodes["feature"] < 0
    inner = ~leaf
    sound = (
        roots.shape == (n_strata,)
        and features.ndim == 2
        and len(features) == n_strata
        and all_between(roots, 0, len(nodes))
        and (grown is None or (grown.shape == roots.shape and all_between(grown, 0, len(nodes))))
        and (rare is None or rare.shape == roots.shape)
        and all_between(nodes["feature"][inner], 0, n_inputs + features.shape[1])
        and all(all_between(nodes[side][inner], 0, len(nodes)) for side in ("left", "right"))
        and all((nodes[side][inner] > number[inner]).all() for side in ("left", "right"))
        and len(np.unique(nodes[["left", "right"]][inner].tolist())) == 2 * inner.sum()
        and 1 <= n_groups <= len(nodes)
        and all_between(nodes["group"][leaf], 0, n_groups)
        and all_between(nodes["group"], -1, n_groups)
    )
    require(sound)
    return Partition(nodes, roots, features, n_inputs, grown, rare)


def checked_group_scores(
    arrays: Arrays, n_inputs: int, n_strata: int
) -> tuple[Partition, GroupScores | EpisodeScores | WeightedScores]:
    """Partition and scores that are safe to use: the partition as in `checked_partition`, and scores sorted."""
    scores = np.asarray(arrays["scores"], dtype=np.float64)
    starts = np.asarray(arrays["starts"], dtype=np.int64)
    partition = checked_partition(arrays, n_inputs, n_strata, len(starts) - 1)
    sound = (
        starts[0] == 0
        and starts[-1] == len(scores)
        and (np.diff(starts) >= 0).all()
        and bool(np.isfinite(scores).all())
        and all((np.diff(scores[a:b]) >= 0).all() for a, b in pairwise(starts))
    )
    require(sound)
    if "weights" in arrays:
        return partition, _checked_weights(scores, starts, arrays)
    if "drawn" not in arrays:
        return partition, GroupScores(scores, starts)
    found = EpisodeScores(scores, starts, arrays["drawn"], arrays.get("episode"), arrays.get("steps"))
    return partition, _checked_episodes(found)


def _checked_episodes(found: EpisodeScores) -> EpisodeScores:
    """Scores of episodes, checked to have consistent weights: as many episodes as drawn steps."""
    steps, episode = found.steps, found.episode
    sound = (
        found.drawn.shape == found.scores.shape
        and found.drawn.dtype == np.uint8
        and all_between(found.drawn, 0, 2)
        and (steps is None or _weighted(steps, found))
        and (steps is not None if episode is None else _numbered(episode, found))
    )
    require(sound)
    return found


def _weighted(steps: npt.NDArray[Any], found: EpisodeScores) -> bool:
    """Whether lengths of episodes (n,) add up to as many episodes as there are drawn steps."""
    sound = steps.shape == found.scores.shape and steps.dtype == np.int64 and all_between(steps, 1, len(found.scores) + 1)
    return bool(sound and abs((1.0 / steps).sum() - found.drawn.sum()) <= 1e-6 * len(found.scores))


def _checked_weights(scores: npt.NDArray[np.float64], starts: npt.NDArray[np.int64], arrays: Arrays) -> WeightedScores:
    """Scores, checked to have valid weights: none negative, none above the common bound."""
    weights, largest = arrays["weights"], arrays["largest"]
    sound = (
        "drawn" not in arrays
        and weights.dtype == largest.dtype == np.float64
        and weights.shape == scores.shape
        and largest.shape == (1,)
        and 0.0 < largest[0] < np.inf
        and bool(((weights >= 0) & (weights <= largest[0])).all())  # NaN is neither
    )
    require(sound)
    return WeightedScores(scores, starts, weights, float(largest[0]))


def _numbered(episode: npt.NDArray[Any], found: EpisodeScores) -> bool:
    """Whether episode numbers (n,) are consistent: 0, 1, ... without gaps, one row drawn, as many as `steps` if known."""
    count = int(found.drawn.sum(dtype=np.int64))
    if episode.shape != found.scores.shape or episode.dtype != np.int64 or not all_between(episode, 0, count):
        return False
    rows, drawn = np.bincount(episode, minlength=count), np.bincount(episode[found.drawn > 0], minlength=count)
    return bool((drawn == 1).all() and (found.steps is None or (rows[episode] == found.steps).all()))


def require(sound: Any) -> None:
    """Raise an error for arrays that do not fit together."""
    if not sound:
        raise CaptureError(UNSOUND)


def all_between(values: npt.NDArray[Any], low: int, stop: int) -> bool:
    """Whether all values are from `low` to below `stop`."""
    return bool(((values >= low) & (values < stop)).all())
