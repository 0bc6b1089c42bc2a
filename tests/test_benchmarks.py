"""The record of past ratios, and the warnings of a new run."""

from __future__ import annotations

import pytest
from rich.console import Console

from benchmarks.history import History, add, fallen, read
from capture_cp import CaptureError


def row(ratio: float, job: str = "job") -> dict:
    return {"job": job, "alternative": "other", "speed_up": ratio, "range": [ratio, ratio], "seconds": 0.1}


def test_a_run_is_added_and_read_again(tmp_path):
    file = tmp_path / "history.csv"
    add([row(3.0), row(5.0, "more")], file)
    add([row(4.0)], file)
    found = read(file)
    assert [ratio for _, ratio in found["job", "other"]] == [3.0, 4.0]
    assert [ratio for _, ratio in found["more", "other"]] == [5.0]


@pytest.mark.parametrize(("ratio", "warned"), [(3.1, False), (2.7, False), (2.6, True), (0.1, True)])
def test_a_ratio_that_fell_by_a_third_is_named(tmp_path, ratio, warned):
    file = tmp_path / "history.csv"
    for past in (100.0, 4.0, 4.0, 4.0, 40.0, 0.4):  # the first is too long ago
        add([row(past)], file)
    said = fallen([row(ratio)], file)
    assert bool(said) == warned
    assert not warned or said == [f"job: {ratio:.1f} times as fast as other, usually 4.0"]


def test_without_a_record_nothing_is_said(tmp_path):
    assert fallen([row(1.0)], tmp_path / "none.csv") == []
    with pytest.raises(CaptureError, match="no runs yet; make bench adds one"):
        History(tmp_path / "none.csv").run(Console(quiet=True))


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "history.csv").write_text("time,job\nyesterday,plan\n")
    with pytest.raises(CaptureError, match="not a history of benchmarks"):
        read(tmp_path / "history.csv")


def test_the_record_is_drawn(tmp_path):
    for past in (2.0, 3.0):
        add([row(past)], tmp_path / "history.csv")
    History(tmp_path / "history.csv", tmp_path / "history.png").run(Console(quiet=True))
    assert (tmp_path / "history.png").stat().st_size > 1000
