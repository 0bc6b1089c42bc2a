"""Map files: the six of the paper, the user's own, and every kind of bad one refused with file, key and reason."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from capture_cp import CaptureError
from capture_cp.cli import main
from capture_lab.tasks.marble import task as marble_task
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map
from capture_lab.tasks.marble.task import Marble
from marble.boards import REAL, write_map

NAN, INFINITE = float("nan"), float("inf")


def refusal(file) -> str:
    """What the user reads when the map in `file` is put to use."""
    with pytest.raises(CaptureError) as error:
        _ = Marble(load_map(file)).strata
    return str(error.value)


# -- the six maps of the paper --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAP_NAMES)
def test_shipped_map_is_sound(name):
    task = REAL[name]
    assert task.map.name.lower().replace(" ", "-") == name
    assert task.map.walls
    assert len(task.map.pits) == 1
    assert (task.map.marble_radius, task.map.pit_radius, task.map.goal_radius) == (6.4, 12.0, 6.4)
    assert (task.strata.sizes > 0).all()


def test_unknown_map_name_offers_the_nearest():
    with pytest.raises(CaptureError, match=r"unknown map .*'centre'.*Did you mean 'center'\?"):
        load_map("centre")


# -- bad maps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        pytest.param({"walls": [[28, 0, 61, 20]]}, "walls", "outside the board", id="wall past the right side"),
        pytest.param({"walls": [[28, 0, 28, 20]]}, "walls", "no area", id="wall without width"),
        pytest.param({"start": [25, 10]}, "start", "overlaps", id="start in a wall's reach"),
        pytest.param({"walls": [[28, 0, 32, 60]], "pits": []}, "goal", "no path", id="goal behind a wall"),
        pytest.param({"pits": [[30, 40], [30, 54]], "pit_radius": 14}, "goal", "no path", id="goal behind pits"),
        pytest.param({"pits": [[12, 12]]}, "pits", "start", id="pit over the start"),
        pytest.param({"size": [-60, 60]}, "size", "positive", id="negative size"),
        pytest.param({"pit_radius": 0}, "pit_radius", "positive", id="pit without size"),
        pytest.param({"size": [60, NAN]}, "size", "nan", id="NaN size"),
        pytest.param({"size": [1e15, 60]}, "size", "at most 2000 mm", id="more cells than memory"),
        pytest.param({"size": ["60", 60]}, "size", "'60'", id="text for a number"),
        pytest.param({"walls": [[28, 0, 32]]}, "walls", "4", id="wall of three numbers"),
        pytest.param({"framed": ["lft"]}, "framed", "Did you mean 'left'", id="unknown side"),
        pytest.param({"name": ["mine"]}, "name", "mine", id="name as a list"),
    ],
)
def test_bad_map_is_refused_with_file_key_and_reason(tmp_path, changes, key, reason):
    file = write_map(tmp_path, **changes)
    message = refusal(file)
    assert str(file) in message
    assert key in message
    assert reason in message


@pytest.mark.parametrize(("key", "meant"), [("wals", "walls"), ("Start", "start"), ("marble-radius", "marble_radius")])
def test_unknown_key_offers_the_nearest(tmp_path, key, meant):
    file = write_map(tmp_path, **{key: 1})
    message = refusal(file)
    assert str(file) in message
    assert repr(key) in message
    assert f"Did you mean {meant!r}?" in message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"marble_radius": 2000}, "a marble 4000 mm wide does not fit on a board of 60 x 60 mm"),
        ({"size": [60, 12], "walls": []}, "a marble 12.8 mm wide does not fit on a board of 60 x 12 mm"),
        ({"size": [12, 60], "walls": [], "framed": []}, "does not fit on a board of 12 x 60 mm"),
        (
            {"pits": [[30, 50]] * 20_000},
            "20,000 pits are too many for a board of 60 x 60 mm; expected at most 5,333 in all",
        ),
        ({"walls": [[28, 0, 32, 20]] * 20_000}, "20,000 walls and 1 pits are too many"),
        ({"size": [2000, 2000], "walls": [[28, 0, 32, 20]] * 300}, "too many for a board of 2000 x 2000 mm"),
        ({"pits": [[30, 50]] * 100_000}, "is larger than 1 MB"),
        ({"name": "x" * 1_000_000}, "is larger than 1 MB"),
    ],
    ids=["large marble", "thin board", "narrow board", "pits", "walls", "walls on a large board", "pits in bytes", "name"],
)
def test_map_that_nobody_has_room_for_is_refused_at_once(tmp_path, changes, reason):
    tracemalloc.start()
    try:
        assert reason in refusal(write_map(tmp_path, **changes))
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", ["{", "walls: []", "[" * 5000])
def test_file_that_is_not_json_is_refused(tmp_path, content):
    file = tmp_path / "mine.json"
    file.write_text(content)
    message = refusal(file)
    assert str(file) in message
    assert "not JSON" in message


def test_missing_file_and_empty_file_are_refused(tmp_path):
    assert "does not exist" in refusal(tmp_path / "none.json")
    (tmp_path / "empty.json").touch()
    assert "empty" in refusal(tmp_path / "empty.json")


# -- the user's own map ---------------------------------------------------------------------------------------------------


def test_own_map_loads_as_written(tmp_path):
    loaded = load_map(write_map(tmp_path))
    assert loaded.name == "mine"
    assert loaded.walls == ((28.0, 0.0, 32.0, 20.0),)
    assert (loaded.start, loaded.goal, loaded.pits) == ((10.0, 10.0), (50.0, 10.0), ((30.0, 58.0),))
    assert loaded.framed == ("left", "bottom")
    assert (loaded.marble_radius, loaded.pit_radius, loaded.goal_radius) == (6.4, 8.0, 6.4)


def test_own_map_runs_through_the_coverage_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(marble_task, "GRID_POSITIONS", 3)
    file, rows_file = write_map(tmp_path, name="My maze"), tmp_path / "rows.json"
    main(["coverage", "marble", "--maps", str(file), "--mc", "1", "--json", str(rows_file)])
    assert "My maze" in capsys.readouterr().out
    rows = json.loads(rows_file.read_text())["rows"]
    assert {row["map"] for row in rows} == {str(file)}
    assert {row["stratum"] for row in rows} == {"all", "free", "edge", "corner"}
    assert {row["method"] for row in rows} == {"lucca", "pcp", "no-strata", "capture-k1", "capture"}
    assert all(row["paper"] is None for row in rows)
