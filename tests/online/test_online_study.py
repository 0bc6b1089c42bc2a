"""The studies of the closed loop, small, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.cli import main
from capture_lab.studies.online import Changing
from capture_lab.tasks.box import Box
from capture_lab.tasks.task import Task
from commands import refused

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")


def run(tmp_path, *arguments):
    file = tmp_path / "rows.json"
    main([*(str(argument) for argument in arguments), "--json", str(file)])
    return json.loads(file.read_text())["rows"]


def adapt(tmp_path, *more):
    return run(tmp_path, "online", "marble", "--maps", "bottom-left", "--steps", 60, "--samples", 32, *more)


def test_every_mode_is_counted_before_and_after_the_change(tmp_path, capsys):
    rows = adapt(tmp_path, "--figures", tmp_path / "figures")
    assert {(row["mode"], row["when"]) for row in rows} == {
        (mode, when) for mode in ("fixed", "alpha", "scale", "scale-up") for when in ("before", "after")
    }
    change = rows[0]["change"]
    assert 6 <= change <= 12
    for mode in ("fixed", "alpha", "scale", "scale-up"):
        for when, steps in (("before", change), ("after", 60)):
            found = {row["stratum"]: row["n"] for row in rows if row["mode"] == mode and row["when"] == when}
            assert found["all"] == found["free"] + found["edge"] + found["corner"] == steps
    assert (tmp_path / "figures" / "online-bottom-left.png").stat().st_size > 10_000
    assert "gain times 1.5 after" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_loop_and_a_state_folder_is_read_again(tmp_path, capsys):
    first = adapt(tmp_path, "--modes", "scale", "--state", tmp_path / "state")
    (lines,) = (tmp_path / "state").iterdir()
    written = lines.read_text()
    assert adapt(tmp_path, "--modes", "scale", "--state", tmp_path / "state") == first == adapt(tmp_path, "--modes", "scale")
    assert lines.read_text() == written


def test_both_studies_run_on_the_box(tmp_path, capsys):
    small = ("box", "--spacing", "0.05", "--samples", 8, "--calibration", 1500)
    rows = run(tmp_path, "online", *small, "--steps", 30, "--modes", "fixed", "scale", "--alpha", 0.2)
    assert {row["task"] for row in rows} == {"box"}
    assert [row["n"] for row in rows if row["when"] == "after" and row["stratum"] == "all"] == [30, 30]


def test_the_system_changes_at_its_step_and_stays_changed():
    box = Box(noise=0.0)
    system, push, rng = Changing(box, box.changed(2.0, 0.0), 3), np.array([0.01, 0.0]), np.random.default_rng(0)
    start, moves = np.array([0.2, 0.2]), []
    for _ in range(2):  # two episodes of two steps each
        system.begin(start)
        state = start
        for _ in range(2):
            after, _ = system(state, push, rng)
            moves.append(after[0] - state[0])
            state = after
    np.testing.assert_allclose(moves, [0.015, 0.015, 0.015, 0.03])


def test_a_task_that_cannot_change_is_refused():
    with pytest.raises(CaptureError, match="cannot change"):
        Task.changed(Box(), 2.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("online", "marble", "--steps", "0"), "steps is 0"),
        (("online", "marble", "--gain", "-1"), "gain is -1.0; expected a positive number"),
        (("online", "marble", "--drag", "1"), "drag is 1.0"),
        (("online", "marble", "--eta", "0"), "eta is 0.0"),
        (("online", "marble", "--maps", "centre"), "Did you mean 'center'?"),
        (("online", "marble", "--json", "/no/such/folder/rows.json"), "cannot write"),
        (("online", "box", "--drag", "0.5"), "has no speed to lose"),
        (("online", "marble", "--modes"), "no modes"),
    ],
)
def test_bad_settings_are_refused(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []
