"""The record of past ratios, and the warnings of a new run."""

from __future__ import annotations

import pytest

import capture_cp
from benchmarks.history import HISTORY, add, fallen, read
from capture_cp import CaptureError
from capture_cp.cli import main
from commands import refused


def row(ratio: float, job: str = "job") -> dict:
    return {"job": job, "alternative": "other", "speed_up": ratio, "range": [ratio, ratio], "seconds": 0.1}


def test_a_run_is_added_and_read_again(tmp_path):
    file = tmp_path / "history.csv"
    add([row(3.0), row(5.0, "more")], file)
    add([row(4.0)], file)
    found = read(file)
    assert [entry.ratio for entry in found["job", "other"]] == [3.0, 4.0]
    assert [entry.ratio for entry in found["more", "other"]] == [5.0]


@pytest.mark.parametrize(("ratio", "warned"), [(3.1, False), (2.7, False), (2.6, True), (0.1, True)])
def test_a_ratio_that_fell_by_a_third_is_named(tmp_path, ratio, warned):
    file = tmp_path / "history.csv"
    for past in (100.0, 4.0, 4.0, 4.0, 40.0, 0.4):  # the first is too long ago
        add([row(past)], file)
    said = fallen([row(ratio)], file)
    assert bool(said) == warned
    assert not warned or said == [f"job: {ratio:.1f} times as fast as other, usually 4.0"]


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "history.csv").write_text("time,job\nyesterday,plan\n")
    with pytest.raises(CaptureError, match="not a history of benchmarks"):
        read(tmp_path / "history.csv")


def test_the_record_is_printed_and_drawn(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    main(["bench", "--history", "--plot", str(tmp_path / "history.png")])
    printed = capsys.readouterr().out
    assert all(job in printed for job, _ in read(HISTORY))
    assert (tmp_path / "history.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--plot", "history.png"], "plot draws past runs; use it with --history"),
        (["--rounds", "0"], "rounds is 0; expected a whole number of at least 1"),
        (["--history", "--plot", "/no/such/folder/history.png"], "cannot write /no/such/folder/history.png"),
    ],
)
def test_bad_options_are_one_sentence(capsys, given, sentence):
    assert sentence in refused(capsys, "bench", *given)


@pytest.mark.parametrize("given", [[], ["--history"], ["--quick"]])
def test_an_installed_package_says_where_the_benchmarks_are(capsys, tmp_path, monkeypatch, given):
    monkeypatch.setattr(capture_cp, "__file__", str(tmp_path / "lib" / "capture_cp" / "__init__.py"))
    assert "the benchmarks are in the source tree" in refused(capsys, "bench", *given)
