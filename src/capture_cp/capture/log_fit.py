"""Calibration on a log that is read in pieces, by one or several workers: bit-identical to `fit` in memory."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import digest, rows_where
from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, Labels, some_rows
from capture_cp.base.streams import rng_of_chunk
from capture_cp.capture.capture import Capture
from capture_cp.capture.preflight import check_unseen
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.groups import Examples, Groups, met, scores_of_groups
from capture_cp.conformal.merging import without_borrowers
from capture_cp.conformal.partition import Partition
from capture_cp.data.transitions import (
    Chunk,
    LogPart,
    Runner,
    Span,
    TransitionLog,
    in_columns,
    in_turn,
    provenance,
    rows_to_remember,
)

BLOCK = 1 << 20  # rows moved at a time
SmallInts = npt.NDArray[np.int32]


def fit_log(cap: Capture, log: TransitionLog | LogPart, run: Runner[Any] = in_turn) -> Capture:
    """Calibrate `cap` on a log, or on a part of one, that need not fit into memory; the result is the same as with `fit`.

    The log is read twice. Memory holds the score of every row, 8 bytes, one byte each for its stratum, its group and its
    part, and 12 more for a log with episodes, plus the inputs of the rows that grow the tree (`Tree(max_growing=...)`).

    Args:
        cap: model, strata, score and groups; fitted in place.
        log: `LoggedTransitions(path, ...)`, `Transitions`, or a `LogPart` of one. Its episodes are never split.
        run: where the chunks are computed, by default here.
    """
    part = log if isinstance(log, LogPart) else LogPart.whole(log)
    if type(cap.groups_).split is not Groups.split:
        raise CaptureError(
            f"{type(cap.groups_).__name__} implements split, which needs the whole log in memory; implement held_out and "
            "grow instead, or call fit(X, Y)."
        )
    first = next(part.spans()[0].chunks())
    some_rows("the log", first.X)
    dims = first.Y.shape[1]
    cap.check_parts(dims)
    cap.check_model(first.X, dims)
    n, episodes, rng = len(part), part.episodes(), cap.fit_stream("split")
    held_out = cap.groups_.held_out(n, episodes, rng)
    sampled = rows_to_remember(n, episodes, cap.fit_stream("facts"))
    scored = _scored(cap, part, held_out, sampled, run)
    cap.check_farthest(scored.R)
    partition = _partition(cap, scored, held_out, episodes, rng)
    data = provenance(n, scored.digests, scored.sampled, episodes)
    groups = _groups(partition, part, held_out, scored.m, run)
    of_known, R = None if episodes is None else episodes[held_out], scored.R
    del scored, episodes  # for a long log these take hundreds of megabytes
    calibration = scores_of_groups(_kept(R, held_out), groups, partition.n_groups, of_known, None, rng, overwrite=True)
    cap.shift_ = None
    return cap.keep(partition, calibration, dims, data)


def coverage_of_log(
    cap: Capture,
    log: TransitionLog | LogPart,
    alpha: float = 0.1,
    confidence: float | None = None,
    rng: int = 0,
    run: Runner[Any] = in_turn,
) -> Coverage:
    """Coverage on a held-out log, as from `Capture.coverage` without volumes.

    For a log with episodes it counts them as `Capture.coverage` does. `rng` is the seed of the particles; `run` is as in
    `fit_log`.
    """
    part = log if isinstance(log, LogPart) else LogPart.whole(log)
    n, at = len(part), 0
    sizes = len(cap.strata.names), cap.partition_.n_groups
    inside, (m, groups) = np.empty(n, dtype=bool), (np.empty(n, dtype=smallest_type(size)) for size in sizes)
    cap.group_thresholds(alpha, confidence=confidence)  # warns here, once
    for found in run(partial(in_columns, partial(_test, cap, alpha, confidence, rng)), part.spans()):
        rows = slice(at, at := at + len(found[0]))
        inside[rows], m[rows], groups[rows] = found
    return cap.tallied(inside, m, groups, float(alpha), None, part.episodes())


def _test(
    cap: Capture, alpha: float, confidence: float | None, rng: int, chunk: Chunk
) -> tuple[Bools, SmallInts, SmallInts]:
    """Whether each outcome of a chunk was in its region, with its stratum and group."""
    m = cap.feasible_index(chunk.Y, f"Y from row {chunk.first} on")
    inside = cap.contains(chunk.X, chunk.Y, alpha, confidence, labels=m, rng=rng_of_chunk(rng, chunk.number))
    return inside, m.astype(np.int32), cap.partition_.grown.groups(chunk.X, m).astype(np.int32)


class _Scored(NamedTuple):
    """Results of the first pass over the log."""

    R: Floats  # (n,)
    m: Labels  # (n,), in the smallest type that holds all strata
    grown_from: Floats  # inputs of the rows that make the groups, (g, dx)
    sampled: Floats  # inputs of the rows from `rows_to_remember`, (r, dx)
    digests: list[str]  # of the chunks


def _scored(cap: Capture, part: LogPart, held_out: Bools, sampled: Ints, run: Runner[Any]) -> _Scored:
    """Scores, strata and digests of all rows, and the inputs of some."""
    n, at = len(held_out), 0
    wanted = ~held_out
    wanted[sampled] = True
    R, m = np.empty(n), np.empty(n, dtype=smallest_type(len(cap.strata.names)))
    growing = np.empty((n - int(np.count_nonzero(held_out)), len(part.log.X_names)))
    remembered, digests, grown = [], [], 0
    for scores, strata, inputs, digest_of_each in run(partial(in_columns, partial(_score, cap)), part.spans(wanted)):
        rows = slice(at, at := at + len(scores))
        R[rows], m[rows] = scores, strata
        there = rows.start + np.flatnonzero(wanted[rows])
        grows = np.flatnonzero(~held_out[there])
        np.take(inputs, grows, axis=0, out=growing[grown : (grown := grown + len(grows))], mode="clip")
        here = sampled[slice(*np.searchsorted(sampled, (rows.start, rows.stop)))]
        remembered.append(inputs[np.searchsorted(there, here)])
        digests += digest_of_each.tolist()
    return _Scored(R, m, growing, np.concatenate(remembered), digests)


def _score(cap: Capture, chunk: Chunk) -> tuple[Floats, SmallInts, Floats, list[str]]:
    """Scores and strata of the transitions of a chunk, from its own random numbers; some of its inputs, and its digest."""
    m = cap.feasible_index(chunk.Y, f"Y from row {chunk.first} on").astype(np.int32)
    check_unseen(cap.model, chunk.X, chunk.Y, chunk.episode)
    cap.groups_.check_inputs(chunk.X)
    R = cap.chunk_scores(chunk.X, chunk.Y, chunk.number)
    return R, m, rows_where(chunk.wanted, chunk.X), [digest(chunk.X, chunk.Y)]


def _partition(cap: Capture, scored: _Scored, held_out: Bools, episodes: Ints | None, rng: np.random.Generator) -> Partition:
    """The groups, from the rows that are not held out."""
    growing, names = ~held_out, cap.strata.names
    of_growing = None if episodes is None else episodes[growing]
    others = int(held_out.sum()) if episodes is None else len(np.unique(episodes[held_out]))
    features = getattr(cap.strata, "features", None)
    examples = Examples(
        scored.grown_from, scored.m[growing].astype(np.int64), scored.R[growing], len(names), features, of_growing
    )
    partition = cap.groups_.grow(examples, others, rng)
    return without_borrowers(partition, met(scored.m, len(names)), met(scored.m, len(names), held_out))


def _groups(partition: Partition, part: LogPart, held_out: Bools, m: Labels, run: Runner[Any]) -> Labels:
    """Group of each held-out row, (h,); the log is read again only if groups depend on the input."""
    groups = np.empty(int(np.count_nonzero(held_out)), dtype=smallest_type(partition.n_groups))
    if (partition.nodes["feature"] < 0).all():
        groups[:] = partition.nodes["group"][partition.roots][m[held_out]]
        return groups
    tasks, at = [(span, m[span.first : span.first + len(span)]) for span in part.spans(held_out)], 0
    for found in run(partial(_group, partition), tasks):
        groups[at : (at := at + len(found))] = found
    return groups


def _kept(R: Floats, held_out: Bools) -> Floats:
    """The scores R (n,) of `held_out` rows (n,), moved to the front of R to avoid a copy of the same size."""
    at = 0
    for first in range(0, len(R), BLOCK):
        rows = slice(first, first + BLOCK)
        found = R[rows][held_out[rows]]
        R[at : (at := at + len(found))] = found
    return R[:at]


def _group(partition: Partition, labelled: tuple[Span, Labels]) -> SmallInts:
    """Group of each wanted row of a span, whose rows have these strata (n,)."""
    span, labels = labelled
    found = []
    for chunk in span.chunks():
        wanted, first = chunk.wanted, chunk.first - span.first
        m = labels[first : first + len(chunk.X)][wanted].astype(np.int64)
        found.append(partition.groups(rows_where(wanted, chunk.X), m).astype(np.int32))
    return np.concatenate(found)


def smallest_type(count: int) -> np.dtype[Any]:
    """The smallest signed type for the numbers 0, ..., count - 1 of very many rows."""
    return np.min_scalar_type(-count)
