"""Shelf files: those of the package, the user's own, every kind of bad one refused in a sentence, and mirrored ones."""

from __future__ import annotations

import copy
import json
from importlib import resources

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_lab.tasks.shelf.motions import random_poses
from capture_lab.tasks.shelf.options import ShelfOptions
from capture_lab.tasks.shelf.shelves import LARGEST_FILE, SHELF_NAMES, load_shelf, tuning_variant
from capture_lab.tasks.shelf.task import ShelfTask
from shelf.arms import anywhere, task_at

pytest.importorskip("mujoco")

PATTERN = json.loads(resources.files("capture_lab.tasks.shelf").joinpath("shelves/corner.json").read_text())
HUGE = 10**400


def write(folder, *changes, **parts):
    """A shelf file: the pattern, with entries replaced at the ends of paths."""
    given = copy.deepcopy(PATTERN) | parts
    for *path, last, value in changes:
        entry = given
        for key in path:
            entry = entry[key]
        entry[last] = value
    file = folder / "mine.json"
    file.write_text(json.dumps(given))
    return file


def refusal(file):
    with pytest.raises(CaptureError) as error:
        load_shelf(file)
    message = str(error.value)
    assert message.endswith((".", "?"))
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", SHELF_NAMES)
def test_shelves_of_the_package_are_sound(name):
    task = task_at(name)
    shelf = task.shelf
    assert shelf.name.lower().replace(" ", "-") == name
    assert shelf.about
    low, high = shelf.corners
    assert ((low < shelf.goal) & (shelf.goal < high)).all()
    starts = task.starts(20)
    assert (task.strata.index(starts[:, :7]) == 0).all()
    assert (task.glass_clearances(starts[:, :7]) > 0).all()
    assert all(task.outcome(start) is None for start in starts)


def test_a_file_of_the_users_is_a_place_like_any_other(tmp_path):
    file = write(tmp_path, ["goal", "point", [0.8, 0.2, 0.5]], name="Mine")
    task = ShelfOptions((str(file),)).at(str(file))
    assert task.place == "Mine"
    assert task.shelf.goal == (0.8, 0.2, 0.5)
    assert task.shelf.boards == task_at().shelf.boards
    assert (task.strata.index(task.starts(3)[:, :7]) == 0).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(["boards", {}], "at least one board", id="no board"),
        pytest.param(["boards", [[0, 0, 0], [1, 1, 1]]], "not a shelf", id="boards as a list"),
        pytest.param(["boards", {str(i): 0 for i in range(201)}], "more than 200", id="too many parts"),
        pytest.param(["boards", "floor", [[0, 0], [1, 1]]], "shape", id="corners of two numbers"),
        pytest.param(["boards", "floor", [[1, 0, 0], [0, 1, 1]]], "lowest corner first", id="corners the wrong way round"),
        pytest.param(["boards", "floor", [[0, 0, float("nan")], [1, 1, 1]]], "NaN", id="NaN"),
        pytest.param(["goal", "within", HUGE], "not a shelf", id="a distance too large for a float"),
        pytest.param(["goal", [0.8, 0.2, 0.5]], "not a shelf", id="the goal as a list"),
        pytest.param(["start", "spread", -1], "spread is -1", id="negative spread"),
        pytest.param(["glasses", "glass", "height", 0.07], "expected a height above the width", id="a glass that is a ball"),
    ],
)
def test_bad_shelves_are_refused_in_a_sentence(tmp_path, change, said):
    assert said in refusal(write(tmp_path, change))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "[" * 100_000, '{"name": ' + 5000 * "9" + "}", "\ufffd"])
def test_what_is_no_shelf_is_refused_in_a_sentence(tmp_path, text):
    file = tmp_path / "mine.json"
    file.write_text(text)
    assert str(file) in refusal(file)


def test_files_that_are_missing_or_large_and_unknown_names_are_refused(tmp_path):
    assert "Did you mean 'corner'?" in refusal("cornr")
    assert "nowhere.json" in refusal(tmp_path / "nowhere.json")
    file = tmp_path / "large.json"
    file.write_text(" " * (LARGEST_FILE + 1))
    assert "at most" in refusal(file)


def test_a_shelf_out_of_reach_is_refused(tmp_path):
    def far(box):
        return [[x + 9.0, y, z] for x, y, z in box]

    boxes = {kind: {name: far(box) for name, box in PATTERN[kind].items()} for kind in ("boards", "walls")}
    task = ShelfTask(load_shelf(write(tmp_path, **boxes)))
    with pytest.raises(CaptureError, match="cannot reach"):
        random_poses(task, 5, np.random.default_rng(0))


# -- variants -------------------------------------------------------------------------------------------------------------


def mirrored(Y):
    """Configurations (n, 7) as in a mirror: jar and palm are the same after half a turn of the hand."""
    return np.hstack([Y[:, :6] * [-1, 1, -1, 1, -1, 1], np.pi / 2 - Y[:, 6:]])


@pytest.mark.parametrize("name", SHELF_NAMES)
def test_a_variant_is_a_mirror_image(name):
    task = task_at(name)
    Y = anywhere(300, name=name)
    for shift in (0.0, 0.015):
        variant = ShelfTask(tuning_variant(task.shelf, shift))
        np.testing.assert_allclose(variant.strata.distances(mirrored(Y)), task.strata.distances(Y), atol=1e-5)
        np.testing.assert_allclose(variant.jars(mirrored(Y)), task.jars(Y) * [1, -1, 1, 1], atol=1e-5)
        apart = np.abs(variant.glass_clearances(mirrored(Y)) - task.glass_clearances(Y))
        assert apart.max() < 1e-5 if shift == 0 else 1e-3 < apart.max() < 0.2
        start = np.array([task.shelf.start])
        np.testing.assert_allclose(
            variant.jars(np.array([variant.shelf.start])), task.jars(start) * [1, -1, 1, 1], atol=1e-3
        )
        assert variant.place != task.place
        variant.starts(20)
