"""A calibration names its model and strata: nothing is imported unless the file is trusted."""

from __future__ import annotations

import importlib
import shutil
import sys

import numpy as np
import pytest

from capture_cp import CaptureError, load_calibration, write_transitions
from capture_cp.capture.artifact import FORMAT, read, write
from capture_cp.cli import main
from capture_cp.commands.bundle import is_object_name, robot_facts
from capture_lab.tasks.box import Box
from commands import refused
from logs.common import COLUMNS

OWN = ("--model", "pusher:model", "--strata", "pusher:strata")


@pytest.fixture
def robot(pushed, monkeypatch):
    """A folder with a calibration of one's own model and strata, and a new log; `pusher` is not imported."""
    main(["calibrate", "pushes.csv", *COLUMNS, *OWN, "--min-leaf", "100"])
    write_transitions("new.csv", Box().transitions(300, np.random.default_rng(9)))
    monkeypatch.delitem(sys.modules, "pusher", raising=False)
    return pushed


def rewritten(**facts):
    """The calibration with other facts, and a checksum that fits them."""
    header, arrays = read("robot.capture")
    kept = header["data"]["robot"] | facts
    header["data"]["robot"] = {name: value for name, value in kept.items() if value != "leave out"}
    write("other.capture", header, arrays, FORMAT)
    return "other.capture"


def test_the_names_are_remembered_and_built_in_ones_have_none(robot):
    assert [robot_facts("robot.capture")[part] for part in ("model", "strata")] == ["pusher:model", "pusher:strata"]
    main(["calibrate", "pushes.csv", *COLUMNS, "--out", "plain.capture"])
    assert [robot_facts("plain.capture")[part] for part in ("model", "strata")] == [None, None]
    assert "trust" not in repr(load_calibration("plain.capture", trust=True))


def test_nothing_is_imported_without_trust(robot, capsys):
    assert "was made with --model pusher:model; give that (or --trust" in refused(
        capsys, "check", "robot.capture", "new.csv"
    )
    with pytest.raises(
        CaptureError, match=r"\(pusher:model\); call load_calibration\(path, model=...\), or with trust=True"
    ):
        load_calibration("robot.capture")
    assert "pusher" not in sys.modules


def test_trusted_names_are_imported(robot, capsys):
    main(["check", "robot.capture", "new.csv", "--trust"])
    assert "No evidence against the calibration" in capsys.readouterr().out
    cap = load_calibration("robot.capture", trust=True)
    assert cap.strata.names == ("free", "edge", "corner")


def test_a_folder_says_where_the_modules_lie(robot, capsys):
    (robot / "code").mkdir()
    shutil.move("pusher.py", "code/pusher.py")
    importlib.invalidate_caches()
    assert "cannot import pusher" in refused(capsys, "check", "robot.capture", "new.csv", "--trust")
    main(["check", "robot.capture", "new.csv", "--trust", "--folder", "code"])
    sys.modules.pop("pusher")
    assert load_calibration("robot.capture", trust=True, folder="code").n_outputs_ == 2


def test_old_files_without_names_still_work(robot, capsys):
    file = rewritten(model="leave out", strata="leave out")
    assert "whose name it does not hold; give --model module:object" in refused(capsys, "check", file, "new.csv", "--trust")
    main(["check", file, "new.csv", *OWN])
    assert "No evidence against" in capsys.readouterr().out


NO_NAMES = ["evil", "evil:", ":run", "evil:run()", "../evil:run", "/tmp/evil:run", "evil:a b", "evil:run\n", ".evil:run"]


@pytest.mark.parametrize("name", [*NO_NAMES, "x" * 300 + ":y"])
def test_what_is_no_name_is_never_imported(robot, capsys, name):
    (robot / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\ndef run(X, n, rng): pass\n")
    assert not is_object_name(name)
    file = rewritten(model=name)
    said = refused(capsys, "check", file, "new.csv", "--trust", *OWN[2:])
    assert "whose name it does not hold" in said
    with pytest.raises(CaptureError, match=r"of your own; call load_calibration\(path, model=...\)\."):
        load_calibration(file, trust=True)
    assert not (robot / "ran").exists()


def test_a_hostile_module_runs_only_if_trusted(robot, capsys):
    (robot / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    file = rewritten(model="evil:run")
    assert "was made with --model evil:run; give that" in refused(capsys, "check", file, "new.csv", *OWN[2:])
    assert not (robot / "ran").exists()
    main(["check", file, "new.csv", *OWN])  # what a command names has the last word
    assert not (robot / "ran").exists()
    assert "has no run" in refused(capsys, "check", file, "new.csv", "--trust")


@pytest.mark.parametrize("name", [3, ["pusher:model"], {"a": 1}, True])
def test_names_of_another_kind_are_damage(robot, capsys, name):
    assert "is damaged; calibrate again" in refused(capsys, "check", rewritten(strata=name), "new.csv", "--trust")
