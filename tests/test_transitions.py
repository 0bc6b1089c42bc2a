"""Transition files: what is written is read back, and every bad file is one clear sentence."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from capture_cp import CaptureError, Transitions, read_transitions, write_transitions

ENDINGS = (".csv", ".npz", ".parquet")
STATE, ACTION, NEXT = ["x", "y"], ["push"], ["next_x", "next_y"]


@pytest.fixture
def transitions():
    rng = np.random.default_rng(0)
    # numbers whose shortest decimals are long, and the extremes of float64
    state = np.vstack([rng.normal(size=(5, 2)), [[5e-324, 1.7976931348623157e308], [0.1 + 0.2, -0.0]]])
    return Transitions.from_arrays(state, rng.normal(size=(7, 1)), rng.normal(size=(7, 2)), STATE, ACTION, NEXT)


def read(path, state=STATE, action=ACTION, next=NEXT):
    return read_transitions(path, state, action, next)


def same(one, other):
    return all(
        getattr(one, part).tobytes() == getattr(other, part).tobytes()
        and getattr(one, f"{part}_names") == getattr(other, f"{part}_names")
        for part in ("state", "action", "next")
    )


@pytest.mark.parametrize("ending", [*ENDINGS, ".CSV", ".Npz"])
def test_what_is_written_is_read_back_to_the_last_bit(tmp_path, transitions, ending):
    path = tmp_path / f"log{ending}"
    write_transitions(path, transitions)
    assert same(read(path), transitions)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["file", "allow_pickle", "a b", "x,y", 'say "x"', "ω", "arr_0", "next", "a.b", "kwds"])
def test_any_column_name_survives(tmp_path, transitions, ending, name):
    named = Transitions.from_arrays(transitions.state[:, :1], transitions.action, transitions.next, [name], ACTION, NEXT)
    write_transitions(tmp_path / f"log{ending}", named)
    assert same(read(tmp_path / f"log{ending}", state=name), named)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 20), st.sampled_from(ENDINGS), st.data())
@settings(max_examples=25)
def test_any_shape_and_any_finite_number_survive(tmp_path_factory, ds, da, dc, n, ending, data):
    numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=ds + da + dc, max_size=ds + da + dc)
    table = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    written = Transitions.from_arrays(*np.split(table, [ds, ds + da], axis=1))
    path = tmp_path_factory.getbasetemp() / f"shape{ending}"
    write_transitions(path, written)
    assert same(read_transitions(path, written.state_names, written.action_names, written.next_names), written)


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_are_chosen_by_name_and_in_the_order_asked(tmp_path, transitions, ending):
    path = tmp_path / f"log{ending}"
    write_transitions(path, transitions)
    chosen = read(path, state=["y", "push", "x"], action="next_y", next=["next_x"])
    assert np.array_equal(chosen.state[:, 0], transitions.state[:, 1])
    assert np.array_equal(chosen.state[:, 1], transitions.action[:, 0])
    assert chosen.X_names == ("y", "push", "x", "next_y")
    assert np.array_equal(chosen.X[:, :3], chosen.state)
    assert np.array_equal(chosen.Y, transitions.next[:, :1])
    assert len(chosen) == 7


def test_a_two_dimensional_array_of_an_npz_file_is_one_name(tmp_path):
    rng = np.random.default_rng(0)
    state, action, after = rng.normal(size=(4, 12)), rng.normal(size=(4, 1)), rng.normal(size=(4, 2))
    np.savez(tmp_path / "log.npz", state=state, action=action[:, 0], after=after, time=np.arange(4))
    found = read(tmp_path / "log.npz", "state", "action", ["after_1", "after_0"])
    assert np.array_equal(found.state, state)
    assert found.state_names[10] == "state_10"
    assert np.array_equal(found.next, after[:, ::-1])


def test_whole_numbers_and_flags_are_numbers(tmp_path):
    table = pyarrow.table({"x": [1, 2], "y": [True, False], "push": [0.5, 1.5], "next_x": [1, 2], "next_y": [3, 4]})
    parquet.write_table(table, tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet").state.tolist() == [[1.0, 1.0], [2.0, 0.0]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": np.zeros(3)}, r"state has shape \(3,\), expected \(n, d\)"),
        ({"state": np.zeros((2, 1))}, "state has 2 rows and action has 3; they must pair up row by row"),
        ({"next": np.zeros((4, 1))}, "state has 3 rows and next has 4"),
        ({"action": np.full((3, 1), np.nan)}, "action has 3 NaN or infinite values, first in rows 0, 1, 2"),
        ({"action": "x"}, "action is not an array of numbers"),
        ({"state_names": ["a", "b"]}, "state has 1 columns and 2 names; pass one name per column"),
        ({"state_names": ["a"], "next_names": ["a"]}, "repeat; every column of state, action and next needs its own name"),
    ],
)
def test_bad_arrays_are_refused(change, sentence):
    arrays = {"state": np.zeros((3, 1)), "action": np.zeros((3, 1)), "next": np.zeros((3, 1))}
    with pytest.raises(CaptureError, match=sentence):
        Transitions.from_arrays(**(arrays | change))


GOOD = "x,y,push,next_x,next_y\n1,2,3,4,5\n6,7,8,9,10\n"

BAD_CSV = {
    "empty cell": (GOOD + "1,2,,4,5\n", "is not a CSV of numbers .*line 4, column 'push' contains ''"),
    "NaN": (GOOD + "1,nan,3,4,5\n", "column 'y' of .* has 1 missing, NaN or infinite values, first in data row 3"),
    "duplicate names": (GOOD.replace("y", "x", 1), "repeats a column name"),
    "unknown column": (
        GOOD.replace("push", "pushed"),
        "unknown column in .*log.csv 'push'; known: x.*Did you mean 'pushed'",
    ),
    "semicolons": (GOOD.replace(",", ";"), "log.csv"),
}


@pytest.mark.parametrize("name", BAD_CSV)
def test_a_bad_csv_is_one_clear_sentence(tmp_path, name):
    text, sentence = BAD_CSV[name]
    (tmp_path / "log.csv").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a sentence of ours, and not a warning of NumPy's besides
        with pytest.raises(CaptureError, match=sentence) as caught:
            read(tmp_path / "log.csv")
    assert "usecols" not in str(caught.value)  # the advice must make sense to someone who never called NumPy


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_missing_or_empty_file_or_a_folder_is_one_clear_sentence(tmp_path, ending):
    path = tmp_path / f"log{ending}"
    with pytest.raises(CaptureError, match=r"transition file .* does not exist or is not a file; check the path"):
        read(path)
    path.touch()
    with pytest.raises(CaptureError, match=r"transition file .* is empty; write it again"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(CaptureError, match="contains no log; expected files that end in"):
        read(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_unknown_column_is_an_error_with_the_nearest_name(tmp_path, transitions, ending):
    write_transitions(tmp_path / f"log{ending}", transitions)
    with pytest.raises(CaptureError, match=r"'nextx'; known: x, y, push, next_x, next_y. Did you mean 'next_x'"):
        read(tmp_path / f"log{ending}", next=["nextx", "next_y"])
    with pytest.raises(CaptureError, match="no state columns are named"):
        read(tmp_path / f"log{ending}", state=[])
    with pytest.raises(CaptureError, match="repeat; every column of state, action and next needs its own name"):
        read(tmp_path / f"log{ending}", action=["x"])


def test_a_file_is_read_by_its_content_and_written_by_its_ending(tmp_path, transitions):
    for number, ending in enumerate(ENDINGS):
        write_transitions(tmp_path / f"log{ending}", transitions)
        (tmp_path / f"log{ending}").rename(tmp_path / f"log {number}")
        assert np.array_equal(read(tmp_path / f"log {number}").X, transitions.X)
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(CaptureError, match="is a certificate file, not a log"):
        read(tmp_path / "c.json")
    for name in ("log.json", "log"):
        with pytest.raises(CaptureError, match="unknown ending"):
            write_transitions(tmp_path / name, transitions)
    assert not (tmp_path / "log.json").exists()


BAD_NPZ = {
    "one name twice": ({"x_0": np.zeros(3), "x": np.zeros((3, 2))}, "have the column 'x_0'; rename one"),
    "different lengths": ({"push": np.zeros(4)}, r"has columns of different lengths \[3, 4\]; expected one length"),
    "no rows": ({name: np.zeros(0) for name in (*STATE, *ACTION, *NEXT)}, "holds no transitions"),
    "three axes": ({"push": np.zeros((3, 1, 1))}, r"array 'push' of .* has shape \(3, 1, 1\); expected \(n,\) or \(n, d\)"),
    "words": ({"push": np.array(["a", "b", "c"])}, "column 'push' of .* not numbers"),
    "NaN": ({"push": np.array([1, np.nan, 2])}, "column 'push' .* first in data row 2"),
    "complex": ({"push": np.array([1j, 2, 3])}, "column 'push' of .* not numbers"),
}


BAD_PARQUET = {
    "nulls": ([1.0, None], "column 'push' of .* has 1 missing, NaN or infinite values, first in data row 2"),
    "text": (["left", "right"], "column 'push' of .* not numbers"),
    "a repeated name": (None, "repeats a column name"),
}


@pytest.mark.parametrize("name", [*BAD_NPZ, *BAD_PARQUET])
def test_a_bad_npz_or_parquet_file_is_one_clear_sentence(tmp_path, name):
    if name in BAD_NPZ:
        path, (change, sentence) = tmp_path / "log.npz", BAD_NPZ[name]
        arrays = {key: np.zeros(3) for key in (*STATE, *ACTION, *NEXT)} | change
        np.savez(path, **arrays)
    else:
        path, (values, sentence) = tmp_path / "log.parquet", BAD_PARQUET[name]
        columns, names = [*[[1.0, 2.0]] * 4, values], [*STATE, *NEXT, "push" if values else "x"]
        parquet.write_table(pyarrow.table([pyarrow.array(column or [1.0, 2.0]) for column in columns], names), path)
    with pytest.raises(CaptureError, match=sentence):
        read(path)
