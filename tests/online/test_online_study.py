"""The studies of the closed loop, small, and what they refuse."""

from __future__ import annotations

import json

import pytest

from capture_cp.cli import main
from commands import refused

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")


def run(tmp_path, *arguments):
    file = tmp_path / "rows.json"
    main(["online", *(str(argument) for argument in arguments), "--json", str(file)])
    return json.loads(file.read_text())["rows"]


def adapt(tmp_path, *more):
    return run(tmp_path, "marble", "--maps", "bottom-left", "--steps", 60, "--samples", 32, *more)


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


def test_rounds_are_measured_by_stratum_and_step(tmp_path, capsys):
    arguments = ("--maps", "top-left", "--rounds", 1, "--episodes", 12, "--checks", 3, "--samples", 64)
    rows = run(tmp_path, "marble-rounds", *arguments, "--figures", tmp_path)
    assert {row["round"] for row in rows} == {0, 1}
    assert {(row["round"], row["kind"]) for row in rows} == {(0, "in use"), (1, "in use"), (1, "promised")}
    whole = [row for row in rows if "step" not in row and row["stratum"] == "all" and row["kind"] == "in use"]
    assert [row["n"] for row in whole] == [15, 15]
    assert [row["n"] for row in rows if row.get("step") == 1 and row["stratum"] == "all"] == [15, 15]
    assert (tmp_path / "on-policy-rounds.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("marble", "--steps", "0"), "steps is 0"),
        (("marble", "--gain", "-1"), "gain is -1.0; expected a positive number"),
        (("marble", "--drag", "1"), "drag is 1.0"),
        (("marble", "--eta", "0"), "eta is 0.0"),
        (("marble", "--maps", "centre"), "Did you mean 'center'?"),
        (("marble", "--json", "/no/such/folder/rows.json"), "cannot write"),
        (("marble-rounds", "--rounds", "-1"), "rounds is -1"),
        (("marble-rounds", "--episodes", "0"), "episodes is 0"),
        (("marble-rounds", "--methods", "captur"), "Did you mean 'capture'?"),
    ],
)
def test_bad_settings_are_refused(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(capsys, "online", *arguments)
    assert list(tmp_path.iterdir()) == []
