"""Adding logs to an existing calibration: new scores join its groups, and old logs are not needed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from capture_cp.base.arrays import digest, digest_of_chunks
from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.capture.capture import Capture
from capture_cp.capture.preflight import check_unseen
from capture_cp.conformal.groups import met, scores_of_groups
from capture_cp.conformal.partition import Partition
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.data.transitions import Chunk, LogPart, Runner, TransitionLog, in_columns, in_turn

Scores = GroupScores | EpisodeScores


def extend_calibration(
    cap: Capture, log: TransitionLog | LogPart, alone: bool = False, run: Runner[Any] = in_turn
) -> Capture:
    """A calibration with the scores of a new log added to its own, in the same groups.

    The groups were made earlier, from other rows, so every new row sets thresholds. Coverage is guaranteed for transitions
    that are exchangeable with the old and new ones together: drawn from either log, in proportion to their numbers.

    Args:
        cap: a fitted calibration; it is not changed.
        log: transitions that are not yet in it; with episodes if it was made from episodes.
        alone: leave out its own scores: a calibration on the new log alone, in the same groups, to be merged later.
        run: how the chunks are computed, by default in this process.
    """
    part = log if isinstance(log, LogPart) else LogPart.whole(log)
    known = _scores_of(cap)
    episodes = part.episodes()
    if (episodes is not None) != isinstance(known, EpisodeScores):
        has, lacks = ("episodes", "none") if episodes is None else ("no episodes", "some")
        raise CaptureError(
            f"the calibration was made with {has} and the new log has {lacks}; name the episode of each row in both, or in "
            "neither."
        )
    R, group, m, digests = map(np.concatenate, zip(*run(partial(in_columns, partial(_score, cap)), part.spans())))
    source: dict[str, Any] = {"rows": len(part), "sha256": digest_of_chunks(digests.tolist())}
    _refuse_known(sources_of(cap), source)
    cap.check_farthest(R)
    base, seen = cap.partition_.base, met(m, len(cap.strata.names))
    rng = cap.fit_stream("extend", source["sha256"])
    new = scores_of_groups(R, group, base.n_groups, episodes, None, rng)
    assert isinstance(new, GroupScores | EpisodeScores)
    if isinstance(new, EpisodeScores) and isinstance(known, EpisodeScores) and known.steps is not None:
        new = replace(new, steps=new.lengths)  # a calibration keeps the weighting that it was made with
    if not alone:
        sources = [*sources_of(cap), source]
        return _kept(cap, base.reopened(cap.partition_.opened | seen), [known, new], sources, rng)
    # a merged rare stratum shares its groups even without a score
    left = np.zeros(len(seen), dtype=bool) if base.rare is None else base.rare & cap.partition_.opened
    single = _kept(cap, base.reopened(seen | left), [new], [source], rng)
    single.data_.pop("inputs", None)  # these describe the other log
    return single


def merge_calibrations(caps: Sequence[Capture]) -> Capture:
    """Merge calibrations of several sites into one with all their scores. They must have the same groups.

    One site calibrates; the others reuse its groups with `extend_calibration(cap, log, alone=True)`. Coverage is guaranteed
    for a draw from the sites together, in proportion to their numbers of transitions.
    """
    if len(caps) < 2:
        raise CaptureError(f"got {len(caps)} calibration; expected at least two to merge.")
    first = caps[0]
    sources: list[dict[str, Any]] = []
    for number, cap in enumerate(caps, 1):
        scores = _scores_of(cap)
        if number > 1:
            _check_alike(first, cap, number)
        if type(scores) is not type(_scores_of(first)):
            raise CaptureError(f"calibration {number} was made with episodes and the first without, or vice versa.")
        if isinstance(scores, EpisodeScores) and scores.weighting != first.calibration_.weighting:  # type: ignore[attr-defined]
            raise CaptureError(
                f"calibration {number} counts an episode once in {scores.weighting}, the first does not: one of "
                "them was made by an earlier version; make both with the same."
            )
        for source in sources_of(cap):
            _refuse_known(sources, source)
            sources.append(source)
    opened = np.any([cap.partition_.opened for cap in caps], axis=0)
    rng = first.fit_stream("merge", *(source["sha256"] for source in sources))
    found = _kept(first, first.partition_.base.reopened(opened), [_scores_of(cap) for cap in caps], sources, rng)
    found.data_.pop("inputs", None)  # quantiles of several logs cannot be combined
    return found


def sources_of(cap: Capture) -> list[dict[str, Any]]:
    """The logs that a calibration was made from: number of rows and digest of each."""
    given = cap.data_.get("sources")
    return list(given) if given is not None else [{name: cap.data_[name] for name in ("rows", "sha256")}]


def _score(cap: Capture, chunk: Chunk) -> tuple[Floats, Ints, Ints, list[str]]:
    """Score, group and stratum of each transition of a chunk, and its digest."""
    m, name = cap.feasible_index(chunk.Y, f"Y from row {chunk.first} on"), digest(chunk.X, chunk.Y)
    check_unseen(cap.model, chunk.X, chunk.Y, chunk.episode)
    # random numbers that no other log uses, on any machine
    prediction = cap.predict(chunk.X, cap.fit_stream("extend", name))
    return cap.scores(prediction, chunk.Y), cap.partition_.base.groups(chunk.X, m), m, [name]


def _scores_of(cap: Capture) -> Scores:
    cap.check_fitted()
    if not isinstance(cap.calibration_, GroupScores | EpisodeScores):
        raise CaptureError(
            "only calibrations with plain scores can be extended; this one was fitted with a shift, or is not calibrated."
        )
    return cap.calibration_


def _kept(
    cap: Capture, partition: Partition, parts: Sequence[Any], sources: list[dict[str, Any]], rng: np.random.Generator
) -> Capture:
    """A copy of `cap` with other scores."""
    scores = type(parts[0]).merged(parts, partition.n_groups, rng)
    if len(sources) == 1:
        data = cap.data_ | sources[0]
        data.pop("sources", None)
    else:
        rows = sum(source["rows"] for source in sources)
        data = cap.data_ | {"rows": rows, "sha256": digest_of_chunks([s["sha256"] for s in sources]), "sources": sources}
    if isinstance(scores, EpisodeScores):
        data["episodes"] = int(scores.drawn.sum(dtype=np.int64))
    return copy(cap).keep(partition, scores, cap.n_outputs_, data)


def _refuse_known(known: Sequence[dict[str, Any]], source: dict[str, Any]) -> None:
    if source["sha256"] in [one["sha256"] for one in known]:
        raise CaptureError(
            f"a log of these {source['rows']:,} transitions is already in the calibration; counted twice, it would void the "
            "coverage guarantee."
        )


def _check_alike(first: Capture, other: Capture, number: int) -> None:
    """Raise an error if two calibrations have different parts."""
    same = {
        "groups": first.partition_.same_groups(other.partition_),
        "strata": tuple(first.strata.names) == tuple(other.strata.names),
        "score": repr(first.score_) == repr(other.score_),
        "number of particles": first.n_particles == other.n_particles,
        "number of outputs": first.n_outputs_ == other.n_outputs_,
        "farthest": first.farthest == other.farthest,
    }
    differ = [name for name, equal in same.items() if not equal]
    if differ:
        raise CaptureError(
            f"calibration {number} has another {differ[0]} than the first; to merge sites, calibrate at one site and extend "
            "its file at the others: capture extend FIRST LOG --alone."
        )
