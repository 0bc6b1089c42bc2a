"""A robot that the package has never seen, the one of the architecture page: every study, film and page works with it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from capture_cp.cli import main
from capture_lab.tasks import TASKS, find_task, register_task, task_names
from capture_lab.tasks.registry import GROUP
from test_cli import refused

PAGE = Path(__file__).parents[1] / "docs" / "learn" / "add-a-robot.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with `puck.py` in it, to run commands in."""
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S) if "class Puck" in block)
    assert code.count("\n") <= 60
    (tmp_path / "puck.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(TASKS, "puck", None)  # so that it is forgotten afterwards
    monkeypatch.delitem(TASKS, "puck")
    yield tmp_path
    sys.modules.pop("puck", None)


def rows_of(file):
    return json.loads(Path(file).read_text())["rows"]


def test_coverage_and_horizon(folder):
    main(["coverage", "--task", "puck:Puck", "--drag", "0.2", "--calibration", "2000", "--test", "200", "--json", "c.json"])
    found = {(row["method"], row["stratum"]): row for row in rows_of("c.json")}
    assert {row["task"] for row in found.values()} == {"puck"}
    assert {stratum for _, stratum in found} == {"all", "free", "wall"}
    assert 0.8 < found["capture", "all"]["coverage"] < 0.98
    small = ["--horizon", "2", "--calibration", "600", "--test", "100", "--volume", "5", "--min-leaf", "60"]
    main(["horizon", "--task", "puck:Puck", *small, "--json", "h.json"])
    assert {row["method"] for row in rows_of("h.json")} == {"recursion", "each step", "all steps"}


def test_plan_film_and_page(folder):
    small = ["--methods", "capture", "--episodes", "1", "--samples", "16", "--calibration", "1500"]
    main(["plan", "--task", "puck:Puck", *small, "--record", "runs", "--json", "p.json"])
    assert rows_of("p.json")[0]["landed"].keys() == {"free", "wall"}
    main(["view", "--task", "puck:Puck", "--replay", "runs/puck-capture-000.npz", "--save", "puck.gif"])
    assert Path("puck.gif").read_bytes()[:3] == b"GIF"

    from capture_lab.studies.live import TaskSession
    from capture_lab.studies.view import TaskView

    session = TaskSession(TaskView.of(find_task("puck:Puck")(), calibration=1500))
    while session.prepare():
        pass
    (step,) = session.shown().now.plans["capture"]
    assert step.region is not None
    assert not session.frame().waiting
    session.play()
    session.advance()
    assert session.mode == "live"


def test_a_registered_task_is_named_like_ours(folder, capsys):
    assert "unknown task 'puck'" in refused(capsys, "coverage", "puck")
    register_task(find_task("puck:Puck"))
    assert "puck" in task_names()
    with pytest.raises(SystemExit) as ended:
        main(["coverage", "puck", "--help"])
    assert ended.value.code == 0
    assert "--drag" in capsys.readouterr().out


def test_another_package_brings_a_task(folder, monkeypatch):
    information = folder / "rink-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: rink\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{GROUP}]\nhockey = puck:Puck\n")
    monkeypatch.syspath_prepend(str(folder))
    assert task_names()[-1] == "hockey"
    assert find_task("hockey").name == "puck"


def test_what_is_no_task_is_refused(folder, capsys):
    assert "cannot be loaded" in refused(capsys, "coverage", "--task", "puck:Nothing")
    assert "cannot be loaded" in refused(capsys, "coverage", "--task", "no_such_module:Task")
    assert "is not a task" in refused(capsys, "coverage", "--task", "math:pi")
    assert "needs a task" in refused(capsys, "coverage", "--mc", "2")
