"""Transition files: what is written is read back, and every bad file is one clear sentence."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

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


# -- round trips ----------------------------------------------------------------------------------------------------------


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


def test_two_arrays_of_an_npz_file_cannot_claim_one_column(tmp_path):
    np.savez(tmp_path / "log.npz", a=np.zeros((3, 2)), a_0=np.ones(3), b=np.ones(3), c=np.ones(3))
    with pytest.raises(CaptureError, match="a_0"):
        read(tmp_path / "log.npz", "a", "b", "c")


def test_columns_without_names_are_numbered():
    plain = Transitions.from_arrays(np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((2, 1)))
    assert list(plain.columns()) == ["state_0", "state_1", "action_0", "next_0"]


def test_whole_numbers_and_flags_are_numbers(tmp_path):
    table = pyarrow.table({"x": [1, 2], "y": [True, False], "push": [0.5, 1.5], "next_x": [1, 2], "next_y": [3, 4]})
    parquet.write_table(table, tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet").state.tolist() == [[1.0, 1.0], [2.0, 0.0]]


def test_a_csv_with_a_byte_order_mark_and_spaces_is_read(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbfx, y ,push,next_x,next_y\r\n1, 2 ,3,4,5\r\n6,7,8,9,10\r\n")
    assert read(tmp_path / "log.csv").state.tolist() == [[1.0, 2.0], [6.0, 7.0]]


# -- arrays ---------------------------------------------------------------------------------------------------------------


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


# -- bad files ------------------------------------------------------------------------------------------------------------

GOOD = "x,y,push,next_x,next_y\n1,2,3,4,5\n6,7,8,9,10\n"

BAD_CSV = {
    "ragged": (GOOD + "1,2\n", "is not a CSV of numbers .*line 4 has 2 values under 5 names"),
    "text cell": (GOOD + "1,2,left,4,5\n", "is not a CSV of numbers .*line 4, column 'push' contains 'left'"),
    "empty cell": (GOOD + "1,2,,4,5\n", "is not a CSV of numbers .*line 4, column 'push' contains ''"),
    "NaN": (GOOD + "1,nan,3,4,5\n", "column 'y' of .* has 1 missing, NaN or infinite values, first in data row 3"),
    "infinite": (GOOD + "1,2,3,-inf,5\n", "column 'next_x' of .* has 1 missing, NaN or infinite values"),
    "duplicate names": (GOOD.replace("y", "x", 1), "repeats a column name"),
    "names only": ("x,y,push,next_x,next_y\n", "holds no transitions; expected named columns with at least one row"),
    "names and no newline": ("x,y,push,next_x,next_y", "holds no transitions"),
    "blank lines": ("\n\n\n", "holds no transitions"),
    "more names than values": (GOOD.replace("push", "push,more"), "line 2 has 5 values under 6 names"),
    "fewer names than values": (GOOD.replace("5\n", "5,6\n"), "line 2 has 6 values under 5 names"),
    "unknown column": (
        GOOD.replace("push", "pushed"),
        "unknown column in .*log.csv 'push'; known: x.*Did you mean 'pushed'",
    ),
    "no names": ("1,2,3,4,5\n6,7,8,9,10\n", "unknown column in .* 'x'"),
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


FOREIGN = {
    "npy": b"\x93NUMPY\x01\x00",
    "zip": b"PK\x03\x04",
    "not text": bytes(range(128, 256)) * 9,
    "utf-16": "x,y\n1,2\n".encode("utf-16"),
    "zeros": bytes(50),
    "parquet in name only": b"PAR1" + bytes(40) + b"PAR1",
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_of_another_kind_is_one_clear_sentence(tmp_path, ending, kind):
    path = tmp_path / f"log{ending}"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(CaptureError, match=f"log{ending}"):
        read(path)


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
    with pytest.raises(CaptureError, match="no action columns are named"):
        read(tmp_path / f"log{ending}", action=[])
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


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_damaged_file_never_raises_anything_else(tmp_path, transitions, ending):
    """A flipped bit may go unnoticed in formats without checksums, but what is noticed is our sentence."""
    path = tmp_path / f"log{ending}"
    write_transitions(path, transitions)
    whole = path.read_bytes()
    escaped = set()
    for position in range(0, len(whole), max(1, len(whole) // 500)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        escaped |= escapes(path, bytes(damaged))
    assert escaped == set()


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_a_file_cut_short_is_one_clear_sentence(tmp_path, transitions, ending):
    path = tmp_path / f"log{ending}"
    write_transitions(path, transitions)
    whole = path.read_bytes()
    for length in range(1, len(whole), max(1, len(whole) // 100)):
        path.write_bytes(whole[:length])
        with pytest.raises(CaptureError, match="or is damaged"):
            read(path)


def escapes(path, data):
    """Kinds of error that are not ours."""
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
    except CaptureError:
        return set()
    except Exception as error:
        return {f"{type(error).__module__}.{type(error).__name__}"}
    return set()


@pytest.mark.parametrize(
    ("offset", "value"), [(6, 1), (8, 12), (8, 14), (8, 97)], ids=["encrypted", "bzip2", "lzma", "unknown"]
)
def test_an_npz_file_packed_in_another_way_is_one_clear_sentence(tmp_path, transitions, offset, value):
    """Flags and method of every entry, in its local header and, two bytes later, in the central directory."""
    path = tmp_path / "log.npz"
    write_transitions(path, transitions)
    data = bytearray(path.read_bytes())
    for signature, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        start = data.find(signature)
        while start >= 0:
            data[start + offset + shift] = value
            start = data.find(signature, start + 1)
    path.write_bytes(bytes(data))
    with pytest.raises(CaptureError, match="is not an npz file of plain arrays, or is damaged"):
        read(path)


BAD_NPZ = {
    "different lengths": ({"push": np.zeros(4)}, r"has columns of different lengths \[3, 4\]; expected one length"),
    "no rows": ({name: np.zeros(0) for name in (*STATE, *ACTION, *NEXT)}, "holds no transitions"),
    "three axes": ({"push": np.zeros((3, 1, 1))}, r"array 'push' of .* has shape \(3, 1, 1\); expected \(n,\) or \(n, d\)"),
    "a number": ({"push": np.float64(3)}, r"array 'push' of .* has shape \(\)"),
    "words": ({"push": np.array(["a", "b", "c"])}, "column 'push' of .* not numbers"),
    "NaN": ({"push": np.array([1, np.nan, 2])}, "column 'push' .* first in data row 2"),
    "complex": ({"push": np.array([1j, 2, 3])}, "column 'push' of .* not numbers"),
    "dates": ({"push": np.array(["2024-01-01"] * 3, dtype="datetime64[s]")}, "column 'push' of .* not numbers"),
    "missing": ({"push": None}, "unknown column in .* 'push'"),
}


@pytest.mark.parametrize("name", BAD_NPZ)
def test_a_bad_npz_is_one_clear_sentence(tmp_path, name):
    change, sentence = BAD_NPZ[name]
    arrays = {key: np.zeros(3) for key in (*STATE, *ACTION, *NEXT)} | change
    np.savez(tmp_path / "log.npz", **{key: array for key, array in arrays.items() if array is not None})
    with pytest.raises(CaptureError, match=sentence):
        read(tmp_path / "log.npz")


class Bomb:
    """Unpickling this makes a file appear."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("how", ["object array", "plain pickle"])
def test_a_pickle_is_refused_and_never_loaded(tmp_path, how):
    mark, path = tmp_path / "it ran", tmp_path / "log.npz"
    if how == "object array":
        np.savez(path, push=np.array([Bomb(mark)] * 3, dtype=object))
    else:
        path.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(CaptureError, match=r"(npz file of plain arrays|nor CSV text)"):
        read(path)
    assert not mark.exists()


BAD_PARQUET = {
    "nulls": ([1.0, None], "column 'push' of .* has 1 missing, NaN or infinite values, first in data row 2"),
    "words": (["left", "right"], "column 'push' of .* not numbers"),
    "lists": ([[1.0], [2.0, 3.0]], "column 'push' of .* not numbers"),
}


@pytest.mark.parametrize("name", BAD_PARQUET)
def test_a_bad_parquet_column_is_one_clear_sentence(tmp_path, name):
    values, sentence = BAD_PARQUET[name]
    table = {key: [1.0, 2.0] for key in (*STATE, *NEXT)} | {"push": values}
    parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    with pytest.raises(CaptureError, match=sentence):
        read(tmp_path / "log.parquet")


def test_a_parquet_file_with_a_repeated_name_says_so(tmp_path):
    columns = [pyarrow.array([1.0, 2.0])] * 3
    parquet.write_table(pyarrow.table(columns, names=["x", "push", "push"]), tmp_path / "log.parquet")
    with pytest.raises(CaptureError, match="repeats a column name"):
        read(tmp_path / "log.parquet")


def test_a_folder_name_adds_no_column_to_a_parquet_file(tmp_path, transitions):
    """Folders such as x=3 are how partitioned data sets are laid out; a single file means what it says."""
    (tmp_path / "x=3").mkdir()
    write_transitions(tmp_path / "x=3" / "log.parquet", transitions)
    assert same(read(tmp_path / "x=3" / "log.parquet"), transitions)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, transitions, ending, monkeypatch):
    path = tmp_path / f"log{ending}"
    write_transitions(path, transitions)
    before = path.read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CaptureError, match=r"cannot write .*No space left"):
        write_transitions(path, transitions)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
