"""CSV files: compiled code and NumPy read the same numbers, and refuse the same files."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import CaptureError, Transitions, read_transitions, write_transitions
from capture_cp.data import csv_blocks, csv_tables, spool
from capture_cp.data.csv_source import CsvSource
from capture_cp.data.csv_tables import CsvFile, read_csv
from capture_cp.data.logged import LoggedTransitions


@pytest.fixture(params=["compiled", "numpy"])
def reader(request, monkeypatch):
    """Each of the two readers in turn."""
    choose(request.param, monkeypatch)
    return request.param


def choose(reader, monkeypatch):
    """Read any file with this reader; compiled code reads very small blocks."""
    monkeypatch.setattr(csv_tables, "SMALL", 0 if reader == "compiled" else math.inf)
    monkeypatch.setattr(csv_blocks, "BLOCK", 8)


def answer(file, labels=None):
    """Columns as bytes, or the sentence."""
    try:
        return {name: column.tolist() for name, column in read_csv(file, labels).items()}
    except CaptureError as error:
        return str(error)


def both(file, labels=None):
    found = []
    for reader in ("compiled", "numpy"):
        with pytest.MonkeyPatch.context() as patch:
            choose(reader, patch)
            found.append(answer(file, labels))
    return found


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
    n = 4_000  # far more than a block
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


def test_compiled_code_reads_what_is_plain(tmp_path, monkeypatch):
    """Or the fast reader would be none."""
    choose("compiled", monkeypatch)
    monkeypatch.setattr(CsvFile, "_read_by_numpy", None)
    (tmp_path / "log.csv").write_text('x,run\n1,a\n 2.5e-3 ,b\n\n-4,"a"\r\nNaN,a b\n"7",c\n-Infinity,c', newline="")
    found = read_csv(tmp_path / "log.csv", "run")
    assert np.array_equal(found["x"], [1.0, 0.0025, -4.0, math.nan, 7.0, -math.inf], equal_nan=True)
    assert found["run"].tolist() == ["a", "b", "a", "a b", "c", "c"]


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
    with pytest.MonkeyPatch.context() as patch:
        choose("compiled", patch)
        patch.setattr(CsvFile, "_read_by_numpy", None)
        found = read_csv(file, None)["x"]
    assert found.view(np.int64).tolist() == np.array([float(text) for text in texts]).view(np.int64).tolist()


def test_a_million_numbers_are_rounded_as_by_python(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2**64, 1_000_000, dtype=np.uint64).view(np.float64)
    numbers = bits[np.isfinite(bits)]
    (tmp_path / "log.csv").write_text("x\n" + "\n".join(map(repr, numbers.tolist())) + "\n")
    assert np.array_equal(read_csv(tmp_path / "log.csv", None)["x"], numbers)


@pytest.fixture(params=["in memory", "in a file", "nowhere to write"])
def place(request, monkeypatch):
    """Where the numbers of a CSV file are kept."""
    monkeypatch.setattr(spool, "IN_MEMORY", math.inf if request.param == "in memory" else 100)
    if request.param == "nowhere to write":
        monkeypatch.setattr(spool.tempfile, "TemporaryFile", _refused)


def _refused():
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("start", [0, 3, 17])
def test_a_csv_log_is_read_in_pieces_from_anywhere(tmp_path, reader, place, start):
    rng = np.random.default_rng(1)
    numbers, run = rng.normal(size=(60, 4)), [f"run {i // 7}" for i in range(60)]
    lines = [f"{','.join(map(repr, row))},{word}" for row, word in zip(numbers.tolist(), run)]
    (tmp_path / "log.csv").write_text("a,b,c,d,run\n" + "\n".join(lines) + "\n")
    source = CsvSource(tmp_path / "log.csv", "run").arranged(["a", "c[0]"], "a", (), "received")
    assert [column.kind for column in source.columns()] == 4 * ["number"] + ["text"]
    for one in (source, pickle.loads(pickle.dumps(source))):
        for names in (["c", "run"], ["d", "a"]):  # d is kept only when it is asked for
            pieces = list(one.pieces(names, start, 40))
            for name in names:
                found = np.concatenate([piece[name] for piece in pieces])
                expected = run if name == "run" else numbers[:, "abcd".index(name)]
                assert np.array_equal(found, expected[start:40])


def test_memory_holds_no_copy_of_a_long_csv_file(tmp_path, monkeypatch):
    """Once its numbers exceed a limit they lie in a temporary file, and are read from there."""
    monkeypatch.setattr(spool, "IN_MEMORY", 1000)
    monkeypatch.setattr(csv_tables, "SMALL", 0)
    monkeypatch.setattr(csv_blocks, "BLOCK", 500)
    log = Transitions.from_arrays(*np.random.default_rng(0).normal(size=(3, 400, 2)))
    write_transitions(tmp_path / "log.csv", log)
    source = LoggedTransitions(tmp_path / "log.csv", "state", "action", "next")
    kept = [part.table for part in source._source._spool._parts]
    assert sum(table is not None for table in kept) < 0.1 * len(kept)
    assert np.array_equal(source.read().X, log.X)
    assert np.array_equal(source.read().Y, log.Y)  # released, and read again


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_text_of_any_kind_in_a_parquet_file_names_episodes(tmp_path, kind):
    """pandas 3 writes large strings."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    words = pyarrow.array(["left", "right", "left"]).cast(getattr(pyarrow, kind)())
    numbers = {name: [1.0, 2.0, 3.0] for name in ("x", "push", "next")}
    parquet.write_table(pyarrow.table(numbers | {"run": words}), tmp_path / "log.parquet")
    log = read_transitions(tmp_path / "log.parquet", "x", "push", "next", episode="run")
    assert log.episode.tolist() == ["left", "right", "left"]
    with pytest.raises(CaptureError, match=r"column 'run' of .* not numbers"):
        read_transitions(tmp_path / "log.parquet", "run", "push", "next")
