"""The demo: its tables, its calibration, and a report that needs nothing but a browser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capture_cp.capture.methods import METHODS
from capture_cp.cli import main
from capture_cp.report import html
from capture_cp.report.tables import coverage_page_table
from capture_lab.studies.demo import Demo, best_rival
from capture_lab.studies.paper import Paper
from capture_lab.tasks.marble import drawing
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.task import Marble
from pages import CHROMIUM, assert_self_contained, needs_browser, shown_by_browser

TINY = ["--transitions", "3000", "--episodes", "2", "--samples", "64"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The folder of one small demo."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Marble, "max_steps", 6)
        main(["demo", *TINY, "--out", str(folder), "--json", str(folder / "rows.json")])
    return folder


def test_rows_of_coverage_and_planning(made):
    content = json.loads((made / "rows.json").read_text())
    assert content["schema"] == 1
    assert content["config"]["transitions"] == 3000
    coverage = [row for row in content["rows"] if "coverage" in row]
    assert [row["method"] for row in coverage if row["stratum"] == "all"] == list(METHODS)
    assert set(coverage[0]) >= {"task", "map", "method", "stratum", "alpha", "coverage", "ci95", "n", "volume"}
    assert sum(row["n"] for row in coverage if row["method"] == "capture" and row["stratum"] != "all") == 3000
    planning = [row for row in content["rows"] if "episodes" in row]
    assert [(row["method"], row["episodes"]) for row in planning] == [("pcp", 2), ("capture", 2)]


def test_report_needs_nothing_from_elsewhere(made):
    assert_self_contained(made / "report.html")


def test_report_has_tables_settings_and_versions(made):
    text = (made / "report.html").read_text(encoding="utf-8")
    assert text.count("<table>") == 2
    assert text.count("<img ") == text.count('alt="') == 4
    for word in (*METHODS, "numba", "3,000", "viewport", "@media print"):
        assert word in text


@needs_browser
@pytest.mark.parametrize("width", [1200, 390])
def test_report_plays_in_a_browser(made, width):
    shown = shown_by_browser(made / "report.html", width)
    assert shown.count("<canvas") == 2
    assert "1 of 2" in shown
    assert "outcomes inside their regions" in shown


@pytest.mark.browser
@needs_browser
@pytest.mark.parametrize("width", [700, 1000])
def test_tables_fit_the_page(made, width):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra browser)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((made / "report.html").as_uri())
        for part in [page.locator("html"), *page.locator(".wide:has(table)").all()]:
            inner, outer = part.evaluate("e => [e.scrollWidth, e.clientWidth]")
            assert inner <= outer
        browser.close()


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_the_extra_the_tables_are_printed_and_it_is_named(missing, tmp_path, monkeypatch, capsys):
    there = html.find_spec
    monkeypatch.setattr(html, "find_spec", lambda name: None if name == missing else there(name))
    monkeypatch.setattr(Marble, "max_steps", 1)
    main(["demo", *TINY, "--episodes", "1", "--out", str(tmp_path)])
    said = " ".join(capsys.readouterr().out.split())
    assert f'No report: it needs {missing}; install with: pip install "capture-cp[view]".' in said
    assert "capture-k1" in said
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("map", "rival"), [("center", "no-strata"), ("top-center", "pcp"), ("top-left", "no-strata"), ("mine.json", "no-strata")]
)
def test_rival_is_the_best_of_the_papers_table(map, rival):
    assert best_rival(Paper.of(MarbleOptions()), map) == rival


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--maps", "centre"), "Did you mean 'center'?"),
        (("--maps", "center", "top-left"), "the demo runs in one place; 2 are given: center, top-left."),
        (("--rival", "lucka"), "Did you mean 'lucca'?"),
        (("--samples", "0"), "samples is 0"),
        (("--out", "taken"), "cannot make the folder taken"),
    ],
)
def test_bad_input_is_told_before_any_work(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()
    monkeypatch.setattr(Demo, "_results", None)
    with pytest.raises(SystemExit) as stop:
        main(["demo", *arguments])
    assert stop.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("cells", [[], [3], [3, 4, 5], [0, 1, 7, 9, 10]])
def test_runs_hold_every_cell_once(cells):
    runs = drawing._runs(np.array(cells, dtype=np.int64))
    assert [cell for first, n in zip(runs[::2], runs[1::2]) for cell in range(first, first + n)] == cells


def test_table_marks_what_is_off_target():
    row = {"method": "pcp", "alpha": 0.1, "ci95": [0.0, 1.0], "n": 9, "volume": None, "paper": 0.5}
    shares = {"all": 0.9, "free": 0.87, "edge": 0.93, "corner": 0.881}
    table = coverage_page_table("t", [row | {"stratum": stratum, "coverage": share} for stratum, share in shares.items()])
    assert [cell.mark for cell in table.lines["pcp"]] == ["", "under", "over", "", ""]
    assert [cell.paper for cell in table.lines["pcp"][:4]] == ["50.0"] * 4
