"""The paper's tables and figures: all there, beside the paper's, resumed after a kill, printed what is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from capture_cp import CaptureWarning
from capture_cp.cli import main
from capture_cp.report import html
from capture_lab.studies import coverage, reproduce
from capture_lab.studies.coverage import CoverageStudy
from capture_lab.studies.reproduce import all_parts
from capture_lab.tasks.marble.maps import MAP_NAMES
from marble.boards import write_map
from pages import assert_self_contained, needs_browser, shown_by_browser
from reproduce.small import shrink


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Runs a small reproduction into `folder`, jobs 1 unless printed otherwise."""
    shrink(monkeypatch, write_map(tmp_path))

    def run(folder, *options):
        main(["reproduce", "--out", str(folder), "--jobs", "1", *map(str, options)])

    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a whole small reproduction."""
    pytest.importorskip("mujoco")
    folder = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)  # so few transitions leave strata almost empty
        shrink(patch, write_map(folder))
        main(["reproduce", "--jobs", "1", "--out", str(folder / "results")])
    return folder / "results"


def test_every_table_has_its_rows_and_settings(made):
    for number, task in {1: "marble", 2: "marble", 3: "peg", 4: "peg", 5: "marble"}.items():
        content = json.loads((made / f"table-{number}.json").read_text())
        assert (content["table"], content["scale"]) == (number, "quick")
        assert {row["task"] for row in content["rows"]} <= {task}
        assert content["config"]
        assert bool(content["rows"]) == (number != 1)  # Table 1 is over maps, and there is one


def test_every_figure_has_its_data_beside_it(made):
    pictures = sorted((made / "figures").rglob("*.png"))
    names = {file.stem for file in pictures}
    assert names >= {"mine-spaces", "mine-regions", "trajectories", "peg-spaces", "peg-contacts", "peg-starts"}
    assert names >= {"peg-planar-regions", "peg-planar-paths", "peg-planar-horizon"}
    for file in pictures:
        beside = json.loads(file.with_suffix(".json").read_text())
        assert beside["paper"].startswith(("Figure", "Table"))
        assert beside["config"]["seed"] == 0
    starts = json.loads((made / "figures" / "peg-coverage" / "peg-starts.json").read_text())
    assert len(starts["data"]["poses"]) == 50


def test_index_shows_and_links_everything(made):
    assert_self_contained(made / "index.html", links=True)
    text = (made / "index.html").read_text(encoding="utf-8")
    assert "Quick run" in text
    assert text.count("<h3>Table") == 5
    assert text.count("PNG</a>") == len(list((made / "figures").rglob("*.png")))
    assert "paper " in text


@needs_browser
def test_index_opens_in_a_browser(made):
    assert "reproduced" in shown_by_browser(made / "index.html", 390)


def test_finished_parts_are_not_made_again(small, tmp_path, monkeypatch, capsys):
    small(tmp_path / "results", "--only", "marble-coverage")
    before = (tmp_path / "results" / "table-5.json").read_text()
    monkeypatch.setattr(CoverageStudy, "run", None)
    small(tmp_path / "results", "--only", "marble-coverage")
    assert "finished before" in capsys.readouterr().out
    assert (tmp_path / "results" / "table-5.json").read_text() == before


def test_part_is_made_again_for_another_seed_and_without_its_figures(small, tmp_path, monkeypatch):
    class Made(BaseException):
        pass

    def made(study, console):
        raise Made

    results = tmp_path / "results"
    small(results, "--only", "marble-coverage")
    monkeypatch.setattr(CoverageStudy, "run", made)
    with pytest.raises(Made):
        small(results, "--only", "marble-coverage", "--seed", 1)
    (results / "figures" / "marble-coverage" / "mine-spaces.png").unlink()
    with pytest.raises(Made):
        small(results, "--only", "marble-coverage")


KILLED = """
import sys, time
from pathlib import Path
import pytest
from capture_cp import CaptureWarning
from capture_cp.cli import main
from capture_lab.studies import coverage
from reproduce.small import shrink
count = coverage.count
coverage.count = lambda *given: time.sleep(600) if given[-1].start == 4096 else count(*given)
shrink(pytest.MonkeyPatch(), Path(sys.argv[1]))
main(["reproduce", "--jobs", "1", "--only", "marble-coverage", "--out", sys.argv[2]])
"""


def test_run_goes_on_after_a_kill(small, tmp_path, monkeypatch):
    file, results = write_map(tmp_path), tmp_path / "results"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    victim = subprocess.Popen(
        [sys.executable, "-c", KILLED, file, results], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 300
    while not list(results.glob("state/coverage-*.jsonl")) and time.monotonic() < deadline:
        assert victim.poll() is None, victim.stderr.read()
        time.sleep(0.1)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()

    counted, count = [], coverage.count
    monkeypatch.setattr(coverage, "count", lambda *given: counted.append(given[-1].start) or count(*given))
    small(results, "--only", "marble-coverage")
    assert counted == [4096, 8192]
    counted.clear()
    small(tmp_path / "afresh", "--only", "marble-coverage")
    assert counted == [0, 4096, 8192]
    assert (results / "table-5.json").read_text() == (tmp_path / "afresh" / "table-5.json").read_text()


def test_without_mujoco_the_peg_is_skipped_with_a_sentence(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    small(tmp_path / "results", "--only", "peg-coverage", "peg-planning")
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("skipped: ") == said.count('pip install "capture-cp[sim]"') == 2
    assert "skipped: " in (tmp_path / "results" / "index.html").read_text()


def test_without_the_extra_tables_are_made_and_it_is_named(small, tmp_path, monkeypatch, capsys):
    there = html.find_spec
    monkeypatch.setattr(html, "find_spec", lambda name: None if name == "jinja2" else there(name))
    small(tmp_path / "results", "--only", "marble-coverage")
    assert 'it needs jinja2; install with: pip install "capture-cp[view]"' in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "results" / "table-5.json").exists()
    assert not (tmp_path / "results" / "index.html").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--out", "taken"), "cannot make the folder taken"),
        (("--out", "half"), "cannot make the folder half/figures"),
        (("--jobs", "0"), "jobs is 0"),
        (("--seed", "-1"), "seed is -1"),
        (("--backend", "spark"), "invalid choice"),
        (("--only", "peg-planing"), "Did you mean 'peg-planning'?"),
        (("--quick", "--full"), "--full"),
    ],
)
def test_bad_input_is_told_before_any_work(options, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()
    Path("half").mkdir()
    Path("half/figures").touch()
    monkeypatch.setattr(reproduce.Reproduction, "make", None)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", *options])
    assert stop.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_full_is_the_papers_scale():
    parts = {part.name: part for part in all_parts("full", 1, 0)}
    assert list(parts) == ["marble-coverage", "marble-planning", "peg-coverage", "peg-planning"]
    assert [study.mc for study in parts["marble-coverage"].studies] == [10_000]
    assert [study.task.maps for study in parts["marble-coverage"].studies] == [MAP_NAMES]
    assert [study.episodes for study in parts["marble-planning"].studies] == [30]
    assert [(study.calibration, study.test) for study in parts["peg-coverage"].studies] == [(70_000, 90_000)] * 2
    assert [(study.task.system, study.episodes) for study in parts["peg-planning"].studies] == [("planar", 50), ("arm", 50)]
