"""Columns that are kept in a temporary file when they are first read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from capture_cp import LoggedTransitions, Transitions, write_transitions
from capture_cp.data import spool
from capture_cp.data.spool import Rereading

NAMES = ("a", "b", "c")


class Numbers:
    """A source of columns of three types that counts the rows it has read."""

    def __init__(self, rows: int, piece: int) -> None:
        rng = np.random.default_rng(0)
        self.table = {
            "a": rng.random(rows),
            "b": rng.random(rows).astype(np.float32),
            "c": rng.integers(0, 200, rows).astype(np.int8),
        }
        self.piece, self.read = piece, 0

    def pieces(self, names, start, stop):
        for first in range(start, stop, self.piece):
            last = min(first + self.piece, stop)
            self.read += last - first
            yield {name: self.table[name][first:last] for name in names}


def same(source, kept, first, last):
    parts = list(kept.pieces(NAMES, first, last))
    for name in NAMES:
        found = np.concatenate([part[name] for part in parts])
        assert found.dtype == source.table[name].dtype
        assert np.array_equal(found, source.table[name][first:last])


@pytest.fixture(params=[0, 1 << 24], ids=["on disk", "in memory"])
def kept(request, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", request.param)
    source = Numbers(1000, 70)
    return source, Rereading(source)


def test_rows_are_read_once(kept):
    source, rereading = kept
    for first, last in [(0, 300), (299, 700), (0, 100), (699, 1000), (0, 1000), (650, 720)]:
        same(source, rereading, first, last)
    assert source.read == 1000


def test_rows_out_of_order_are_read_from_the_source(kept):
    source, rereading = kept
    same(source, rereading, 500, 600)
    same(source, rereading, 0, 1000)
    same(source, rereading, 0, 1000)
    assert source.read == 1100


def test_a_pass_that_ends_early_keeps_what_it_has_read(kept):
    source, rereading = kept
    next(rereading.pieces(NAMES, 0, 1000))
    same(source, rereading, 0, 1000)
    assert source.read == 1000


def test_rows_beyond_the_largest_size_are_read_again(monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", 0)
    source = Numbers(1000, 70)
    rereading = Rereading(source, most=13 * 200)
    same(source, rereading, 0, 1000)
    same(source, rereading, 0, 1000)
    assert source.read == 1000 + 790


def test_without_a_folder_for_temporary_files_the_source_is_read_again(monkeypatch):
    def full():
        raise OSError("no space left")

    monkeypatch.setattr(spool, "IN_MEMORY", 0)
    monkeypatch.setattr(spool.tempfile, "TemporaryFile", full)
    source = Numbers(1000, 70)
    rereading = Rereading(source)
    same(source, rereading, 0, 1000)
    same(source, rereading, 0, 1000)
    assert source.read >= 1900


def test_a_column_whose_type_changes_is_read_again(kept):
    source, rereading = kept
    next(rereading.pieces(NAMES, 0, 1000))
    source.table["c"] = source.table["c"].astype(np.float64)
    found = np.concatenate([part["c"] for part in rereading.pieces(NAMES, 70, 1000)])
    assert np.array_equal(found, source.table["c"][70:])


@pytest.mark.parametrize("following", [False, True])
def test_a_log_that_keeps_its_numbers_has_the_same_transitions(tmp_path, following):
    rng = np.random.default_rng(0)
    state = rng.random((500, 2))
    log = Transitions.from_arrays(state, rng.random((500, 1)), rng.random((500, 2)), episode=np.arange(500) // 60)
    write_transitions(tmp_path / "log.parquet", log)
    last = {"following": ["state_0"]} if following else {"next": ["next_0", "next_1"]}
    plain = LoggedTransitions(tmp_path / "log.parquet", ["state_0", "state_1"], ["action_0"], **last, episode="episode")
    kept = LoggedTransitions(tmp_path / "log.parquet", ["state_0", "state_1"], ["action_0"], **last, episode="episode")
    kept.keep()
    for first, last in [(0, 200), (200, len(plain)), (0, len(plain)), (150, 333)]:
        for one, other in ((plain, kept), (plain, pickle.loads(pickle.dumps(kept)))):
            expected, found = (np.vstack([np.hstack([p.X, p.Y]) for p in log.pieces(first, last)]) for log in (one, other))
            assert np.array_equal(expected, found)
