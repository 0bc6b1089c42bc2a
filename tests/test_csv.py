"""CSV files: pyarrow and NumPy read the same numbers, and refuse the same files."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import CaptureError, Transitions, read_transitions, write_transitions
from capture_cp.data import csv_tables
from capture_cp.data.csv_tables import read_csv

pytest.importorskip("pyarrow")


@pytest.fixture(params=["pyarrow", "numpy"])
def reader(request, monkeypatch):
    """Each of the two readers in turn."""
    if request.param == "numpy":
        without_pyarrow(monkeypatch)
    return request.param


def without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)


def answer(file, labels=None):
    """Columns as bytes, or the sentence."""
    try:
        return {name: column.tolist() for name, column in read_csv(file, labels).items()}
    except CaptureError as error:
        return str(error)


def both(file, labels=None):
    with pytest.MonkeyPatch.context() as patch:
        without_pyarrow(patch)
        slow = answer(file, labels)
    return answer(file, labels), slow


CELLS = [
    "1", " 1 ", "\t1", "+1", "-1", "1e5", "1E+05", "1e-400", "1e400", ".5", "5.", "-.5e-3", "0x10", "1_000", "1d3", "1f",
    "1 2", "nan", "NaN", "-nan", "NA", "null", "None", "inf", "-Infinity", "true", "", " ", "#", "#3", "1#2", '"1"', '" 1"',
    "'1'", '"1', '1"', '""', '"1""2"', "٣", "1\x00", "0.1", "123456789012345678901234567890", "4.9406564584124654e-324",
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=repr)
@pytest.mark.parametrize("line", ["{},2", "1,{}"])
def test_any_cell_is_read_or_refused_alike(tmp_path, cell, line):
    (tmp_path / "log.csv").write_text(f"x,y\n1,2\n{line.format(cell)}\n3,4\n", encoding="utf-8")
    fast, slow = both(tmp_path / "log.csv")
    assert repr(fast) == repr(slow)


@pytest.mark.parametrize(
    "cell", [*CELLS, "run 1", "007", "a,b", '"a,b"', '"a\nb"', 'a"b', '"a"b', "ω", "-1", " 3"], ids=repr
)
def test_any_label_is_read_or_refused_alike(tmp_path, cell):
    (tmp_path / "log.csv").write_text(f"x,run\n1,2\n3,{cell}\n3,4\n", encoding="utf-8")
    fast, slow = both(tmp_path / "log.csv", "run")
    assert repr(fast) == repr(slow)


LINES = {
    "blank lines": "x,y\n1,2\n\n\n3,4\n",
    "blank first": "x,y\n\n1,2\n",
    "no last newline": "x,y\n1,2\n3,4",
    "windows": "x,y\r\n1,2\r\n3,4\r\n",
    "old mac": "x,y\r1,2\r3,4\r",
    "trailing comma": "x,y\n1,2,\n",
    "spaces only": "x,y\n1,2\n  \n3,4\n",
    "quoted names": '"x","y"\n1,2\n',
    "a name over two lines": '"x\nx",y\n1,2\n3,4\n',
    "one column": "x\n1\n2\n",
    "one column with a gap": "x\n1\n\n2\n",
    "a line that begins with #": "x,y\n1,2\n#3,4\n5,6\n",
    "a comment": "x,y\n1,2\n# note\n5,6\n",
    "names only": "x,y\n",
    "ragged": "x,y\n1,2\n3\n",
    "too many": "x,y\n1,2,3\n",
    "byte order mark": "\ufeffx,y\n1,2\n",
    "nothing": "\n",
}


@pytest.mark.parametrize("name", LINES)
def test_any_lines_are_read_or_refused_alike(tmp_path, name):
    (tmp_path / "log.csv").write_bytes(LINES[name].encode())
    fast, slow = both(tmp_path / "log.csv")
    assert repr(fast) == repr(slow)


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1, max_size=8))
def test_any_numbers_are_read_alike(tmp_path_factory, rows):
    file = tmp_path_factory.getbasetemp() / "alike.csv"
    file.write_text("a,b,c\n" + "\n".join(",".join(map(repr, row)) for row in rows) + "\n")
    fast, slow = both(file)
    assert fast == slow == dict(zip("abc", map(list, zip(*rows))))


def test_pieces_of_a_long_file_are_put_together(tmp_path, reader):
    rng = np.random.default_rng(0)
    n = 40_000  # some megabytes: more than a piece
    run = np.array([f"run {i // 7}" for i in range(n)])
    log = Transitions.from_arrays(rng.normal(size=(n, 2)), rng.normal(size=(n, 1)), rng.normal(size=(n, 2)), episode=run)
    write_transitions(tmp_path / "log.csv", log)
    found = read_transitions(tmp_path / "log.csv", "state", "action", "next", episode="episode")
    assert (found.X == log.X).all()
    assert (found.Y == log.Y).all()
    assert (found.episode == run).all()


def test_lines_and_cells_with_a_hash_do_not_vanish(tmp_path, reader):
    rows = [f"{'#' if i % 2 else ''}{i},0.5,1" for i in range(20)]
    (tmp_path / "log.csv").write_text("x,push,next\n" + "\n".join(rows) + "\n")
    with pytest.raises(CaptureError, match="line 3, column 'x' contains '#1'"):
        read_transitions(tmp_path / "log.csv", "x", "push", "next")
    (tmp_path / "log.csv").write_text("x,push,next\n1,2,0.45#7\n")
    with pytest.raises(CaptureError, match=r"line 2, column 'next' contains '0.45#7'"):
        read_transitions(tmp_path / "log.csv", "x", "push", "next")


def test_pyarrow_reads_what_is_plain(tmp_path, monkeypatch):
    """Or the fast reader would be none."""
    monkeypatch.setattr(csv_tables, "_read_by_numpy", None)
    (tmp_path / "log.csv").write_text("x,run\n1,a\n2.5e-3,b\n\n-4,a\n")
    assert answer(tmp_path / "log.csv", "run") == {"x": [1.0, 0.0025, -4.0], "run": ["a", "b", "a"]}


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
