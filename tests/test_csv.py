"""CSV files: numbers are those that Python reads, and what is not a number is refused with its place."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import CaptureError, read_transitions
from capture_cp.data import tables
from capture_cp.data.tables import CsvSource


@pytest.fixture
def small_blocks(monkeypatch):
    """Many blocks in a small file, and numbers in a temporary file."""
    monkeypatch.setattr(tables, "BLOCK", 300)
    monkeypatch.setattr(tables, "IN_MEMORY", 1)


def columns_of(file, labels=None):
    source = CsvSource(file, labels)
    names = [column.name for column in source.columns()]
    pieces = list(source.pieces(names))
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}


def text_of(cell):
    """What the csv module of Python reads from a cell; None if it reads several, or none."""
    import csv

    rows = list(csv.reader([f"{cell},2\n"]))
    return rows[0][0] if len(rows) == 1 and len(rows[0]) == 2 else None


CELLS = [
    "1", " 1 ", "\t1", "+1", "-1", "1e5", "1E+05", "1e-400", "1e400", ".5", "5.", "-.5e-3", "0x10", "1_000", "1d3", "1f",
    "1 2", "nan", "NaN", "-nan", "NA", "null", "None", "inf", "-Infinity", "true", "", " ", "#", "#3", "1#2", '"1"', '" 1"',
    "'1'", '"1', '1"', '""', '"1""2"', "٣", "1\x00", "0.1", "123456789012345678901234567890", "4.9406564584124654e-324",
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=repr)
@pytest.mark.parametrize("line", ["{},2", "2,{}"])
def test_any_cell_is_a_number_of_pythons_or_refused(tmp_path, cell, line):
    (tmp_path / "log.csv").write_text(f"x,y\n1,2\n{line.format(cell)}\n3,4\n", encoding="utf-8")
    text = text_of(cell)
    try:
        expected = float(text) if "_" not in text and text.isascii() else None
    except (TypeError, ValueError):
        expected = None
    if expected is None:
        with pytest.raises(CaptureError, match=r"is not a CSV of numbers under one line of names: "):
            columns_of(tmp_path / "log.csv")
        return
    found = columns_of(tmp_path / "log.csv")["y" if line.startswith("2") else "x"]
    assert np.array_equal(found[1], expected, equal_nan=True)


LABELS = {
    "run 1": "run 1",
    "007": "007",
    '"a,b"': "a,b",
    '"a\nb"': "a\nb",
    '"a"': "a",
    "ω": "ω",
    "-1": "-1",
    " 3 ": "3",
    "": "",
}


@pytest.mark.parametrize("cell", LABELS, ids=repr)
def test_a_label_is_any_word_without_the_spaces_around_it(tmp_path, cell):
    (tmp_path / "log.csv").write_text(f"x,run\n1,2\n3,{cell}\n3,4\n", encoding="utf-8")
    assert columns_of(tmp_path / "log.csv", "run")["run"].tolist() == ["2", LABELS[cell], "4"]


def test_labels_are_numbers_if_all_of_them_are(tmp_path):
    (tmp_path / "log.csv").write_text("x,u,y,run\n1,2,3,9\n1,2,3, 10\n1,2,3,007\n")
    assert read_transitions(tmp_path / "log.csv", "x", "u", "y", episode="run").episode.tolist() == [9, 10, 7]
    both = read_transitions(tmp_path / "log.csv", ["x", "run"], "u", "y", episode="run")  # the run is an input too
    assert both.state[:, 1].tolist() == both.episode.tolist() == [9, 10, 7]


LINES = {
    "blank lines": ("x,y\n1,2\n\n\n3,4\n", 2),
    "blank first": ("x,y\n\n1,2\n", 1),
    "no last newline": ("x,y\n1,2\n3,4", 2),
    "windows": ("x,y\r\n1,2\r\n3,4\r\n", 2),
    "old mac": ("x,y\r1,2\r3,4\r", 2),
    "quoted names": ('"x","y"\n1,2\n', 1),
    "a name on two lines": ('"x\nx",y\n1,2\n3,4\n', 2),
    "byte order mark": ("\ufeffx,y\n1,2\n", 1),
    "trailing comma": ("x,y\n1,2,\n", "line 2 has 3 values under 2 names"),
    "spaces only": ("x,y\n1,2\n  \n3,4\n", "line 3 has 1 values under 2 names"),
    "a line that begins with #": ("x,y\n1,2\n#3,4\n5,6\n", "line 3, column 'x' contains '#3'"),
    "a comment": ("x,y\n1,2\n# note\n5,6\n", "line 3 has 1 values under 2 names"),
    "names only": ("x,y\n", "holds no transitions"),
    "nothing": ("\n", "holds no transitions"),
    "ragged": ("x,y\n1,2\n3\n", "line 3 has 1 values under 2 names"),
    "UTF-16": ("x,y\n1,2\n".encode("utf-16"), "nor CSV text, or is damaged"),
    "packed": (b"\x1f\x8b\x08\x00\x00", "nor CSV text, or is damaged"),
}


@pytest.mark.parametrize("name", LINES)
def test_any_lines_are_read_or_refused(tmp_path, name):
    text, expected = LINES[name]
    (tmp_path / "log.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    if isinstance(expected, int):
        assert [column.tolist() for column in columns_of(tmp_path / "log.csv").values()] == [
            [1, 3][:expected],
            [2, 4][:expected],
        ]
        return
    with pytest.raises(CaptureError, match=expected):
        columns_of(tmp_path / "log.csv")


def test_text_in_a_column_that_is_not_named_does_no_harm(tmp_path):
    (tmp_path / "log.csv").write_text("x,note,u,y\n1,good,2,3\n4,,5,6\n")
    assert read_transitions(tmp_path / "log.csv", "x", "u", "y").X.tolist() == [[1, 2], [4, 5]]
    (tmp_path / "log.csv").rename(tmp_path / "run 1.csv")
    assert read_transitions(tmp_path, "x", "u", "y", episode="file").X.tolist() == [[1, 2], [4, 5]]
    (tmp_path / "run 1.csv").rename(tmp_path / "log.csv")
    with pytest.raises(CaptureError, match="line 2, column 'note' contains 'good'"):
        read_transitions(tmp_path / "log.csv", ["x", "note"], "u", "y")


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[+-]?\.[0-9]{1,30}", fullmatch=True),
    st.integers(2**52, 2**53).map(lambda n: f"{2 * n + 1}"),  # halfway between two numbers
    st.integers(-1100, 1100).map(lambda e: f"{2.0 ** max(-1074, min(e, 1023)):.40e}"),
)


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_any_text_of_a_number_is_rounded_as_by_python(tmp_path_factory, texts):
    file = tmp_path_factory.getbasetemp() / "exact.csv"
    file.write_text("x\n" + "\n".join(texts) + "\n")
    expected = np.array([float(text) for text in texts])
    assert columns_of(file)["x"].view(np.int64).tolist() == expected.view(np.int64).tolist()


@pytest.mark.parametrize("start", [0, 3, 17])
def test_a_csv_log_is_read_in_pieces_from_anywhere(tmp_path, small_blocks, start):
    rng = np.random.default_rng(1)
    numbers, run = rng.normal(size=(60, 4)), [f"run {i // 7}" for i in range(60)]
    lines = [f"{','.join(map(repr, row))},{word}" for row, word in zip(numbers.tolist(), run)]
    (tmp_path / "log.csv").write_text("a,b,c,d,run\n" + "\n".join(lines) + "\n")
    source = CsvSource(tmp_path / "log.csv", "run").arranged(["a", "c[0]"], "a", (), "received")
    assert [column.kind for column in source.columns()] == 4 * ["number"] + ["text"]
    for one in (source, pickle.loads(pickle.dumps(source))):
        for names in (["c", "run"], ["c", "a"]):
            pieces = list(one.pieces(names, start, 40))
            for name in names:
                found = np.concatenate([piece[name] for piece in pieces])
                expected = run if name == "run" else numbers[:, "abcd".index(name)]
                assert np.array_equal(found, expected[start:40])


def test_a_disk_without_room_for_the_numbers_is_one_clear_sentence(tmp_path, small_blocks, monkeypatch):
    def full(*settings):
        raise OSError(28, "No space left on device")

    (tmp_path / "log.csv").write_text("x,u,y\n" + "1,2,3\n" * 100)
    monkeypatch.setattr(tables.tempfile, "SpooledTemporaryFile", full)
    with pytest.raises(CaptureError, match=r"cannot keep the numbers of .* No space left on device; free space in"):
        read_transitions(tmp_path / "log.csv", "x", "u", "y")


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_text_of_any_kind_in_a_parquet_file_names_episodes(tmp_path, kind):
    """pandas 3 writes large strings."""
    import pyarrow
    from pyarrow import parquet

    words = pyarrow.array(["left", "right", "left"]).cast(getattr(pyarrow, kind)())
    numbers = {name: [1.0, 2.0, 3.0] for name in ("x", "push", "next")}
    parquet.write_table(pyarrow.table(numbers | {"run": words}), tmp_path / "log.parquet")
    log = read_transitions(tmp_path / "log.parquet", "x", "push", "next", episode="run")
    assert log.episode.tolist() == ["left", "right", "left"]
    with pytest.raises(CaptureError, match=r"column 'run' of .* not numbers"):
        read_transitions(tmp_path / "log.parquet", "run", "push", "next")
