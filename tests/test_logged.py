"""Logs on disk, read in pieces: the same transitions as in memory, whatever the file, the range and the episodes."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from capture_cp import CaptureError, Transitions, read_transitions, write_transitions
from capture_cp.conformal.episodes import episode_numbers
from capture_cp.data import source
from capture_cp.data.logged import LoggedTransitions
from capture_cp.data.source import open_log


def table(lengths, seed=0, text=False):
    """Columns of a log of runs, whose names are not in order."""
    rng = np.random.default_rng(seed)
    runs = rng.permutation(len(lengths))
    n = sum(lengths)
    run = np.repeat(runs, lengths)
    return {
        "q": rng.normal(size=(n, 3)),
        "u": rng.normal(size=(n, 1)),
        "run": np.array([f"run {r}" for r in run]) if text else run,
        "t": np.arange(n, dtype=float),
    }


def write(path, columns, group=7):
    """A table with a column of lists where the format has such."""
    if path.suffix == ".parquet":
        arrays = {name: pyarrow.array(list(column)) for name, column in columns.items()}
        parquet.write_table(pyarrow.table(arrays), path, row_group_size=group)
    elif path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        flat = {}
        for name, column in columns.items():
            flat |= {name: column} if column.ndim == 1 else {f"{name}_{i}": part for i, part in enumerate(column.T)}
        lines = [",".join(flat), *(",".join(map(str, row)) for row in zip(*(column.tolist() for column in flat.values())))]
        path.write_text("\n".join(lines) + "\n")
    return path


def followed(columns):
    """Slow and obvious: state, action and what follows, row by row."""
    rows = [(a, b) for a, b in pairwise(range(len(columns["t"]))) if columns["run"][a] == columns["run"][b]]
    first, second = [a for a, _ in rows], [b for _, b in rows]
    return columns["q"][first], columns["u"][first], columns["q"][second][:, :2], columns["run"][first]


ENDINGS = (".csv", ".npz", ".parquet")


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8).filter(lambda lengths: max(lengths) > 1),
    st.sampled_from(ENDINGS), st.booleans(), st.integers(1, 30), st.integers(1, 12), st.data(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_what_follows_is_the_next_row_of_the_episode(tmp_path_factory, lengths, ending, text, size, group, data):
    columns = table(lengths, text=text)
    path = write(tmp_path_factory.getbasetemp() / f"follow{ending}", columns, group)
    named = {"state": "q", "action": "u", "following": "q[0:2]", "episode": "run", "time": "t"}
    with pytest.MonkeyPatch.context() as patch:
        for module in ("arrays", "source"):
            patch.setattr(f"capture_cp.data.{module}.PIECE", size)
        logged = LoggedTransitions(path, **named)
        state, action, after, run = followed(columns)
        whole = logged.read()
        assert np.array_equal(whole.state, state)
        assert np.array_equal(whole.action, action)
        assert np.array_equal(whole.next, after)
        assert whole.episode.tolist() == run.tolist()
        assert logged.dropped == len(lengths)
        assert np.array_equal(logged.episodes(), episode_numbers(whole.episode, len(whole)))
        assert logged.next_names == ("next_q_0", "next_q_1")
        start = data.draw(st.integers(0, len(logged)))
        stop = data.draw(st.none() | st.integers(start, len(logged)))
        same_pieces(pickle.loads(pickle.dumps(logged)), whole, start, stop, size)
        same_pieces(whole, whole, start, stop, source.PIECE)


def same_pieces(log, whole, start, stop, size):
    pieces, expected = list(log.pieces(start, stop)), whole.rows(slice(start, stop))
    assert sum(map(len, pieces)) == len(expected)
    assert all(0 < len(piece) <= max(size, 65_536) for piece in pieces)
    for part in ("X", "Y", "episode", "time"):
        if pieces:
            assert np.array_equal(np.concatenate([getattr(piece, part) for piece in pieces]), getattr(expected, part))


@given(st.integers(1, 6), st.integers(0, 7), st.integers(0, 7), st.sampled_from(ENDINGS))
@settings(max_examples=40, deadline=None)
def test_a_slice_is_a_slice(tmp_path_factory, width, start, stop, ending):
    q = np.arange(2.0 * width).reshape(2, width)
    path = write(tmp_path_factory.getbasetemp() / f"slice{ending}", {"q": q, "u": np.ones(2), "after": np.ones(2)})
    name = f"q[{start}:{stop}]"
    if start < stop <= width:
        log = read_transitions(path, name, "u", "after")
        assert np.array_equal(log.state, q[:, start:stop])
        assert log.state_names == tuple(f"q_{i}" for i in range(start, stop))
        assert np.array_equal(read_transitions(path, f"q[{start}]", "u", "after").state[:, 0], q[:, start])
    else:
        with pytest.raises(CaptureError, match=rf"has entries 0 to {width - 1}; name some of those"):
            read_transitions(path, name, "u", "after")


def test_pieces_do_not_read_what_lies_before(tmp_path):
    """A damaged first group of rows is not noticed by those who ask for the last."""
    n = 3000
    path = write(tmp_path / "log.parquet", table([n]), group=1000)
    data = bytearray(path.read_bytes())
    data[4:60] = bytes(56)
    path.write_bytes(data)
    log = open_log(path)
    assert sum(len(piece["t"]) for piece in log.pieces(["t"], 2000)) == 1000
    with pytest.raises(CaptureError, match="is damaged"):
        list(log.pieces(["q_0"], 0))


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_episode_that_begins_again_is_refused(tmp_path, ending):
    columns = table([3, 3, 3])
    columns["run"] = np.repeat([4, 5, 4], 3)
    path = write(tmp_path / f"log{ending}", columns)
    with pytest.raises(CaptureError, match=r"episode 4 of column 'run' begins again in data row 7 of .*; sort the log"):
        read_transitions(path, "q", "u", following="q", episode="run")
    assert len(read_transitions(path, "q", "u", "t", episode="run")) == 9  # where nothing follows, order does not matter


def test_what_leads_nowhere_may_be_missing(tmp_path):
    columns = table([3, 2])
    columns["u"][[2, 4]] = np.nan  # the last action of an episode
    path = write(tmp_path / "log.parquet", columns)
    assert len(read_transitions(path, "q", "u", following="q", episode="run")) == 3
    columns["u"][1] = np.inf
    columns["u"][3] = np.nan
    path = write(tmp_path / "log.parquet", columns)
    with pytest.raises(
        CaptureError, match=r"column 'u_0' of .* has 2 missing, NaN or infinite values, first in data row 2;"
    ):
        read_transitions(path, "q", "u", following="q", episode="run")
    columns["u"][:], columns["q"][4, 0] = 0, np.nan  # a next configuration
    path = write(tmp_path / "log.parquet", columns)
    with pytest.raises(
        CaptureError, match=r"column 'q_0' of .* has 1 missing, NaN or infinite values, first in data row 5;"
    ):
        read_transitions(path, "q[1]", "u", following="q[0]", episode="run")


def test_next_or_following_but_not_both(tmp_path):
    path = write(tmp_path / "log.csv", table([3]))
    with pytest.raises(CaptureError, match="both of next and following are set"):
        read_transitions(path, "q", "u", "t", following="q")
    with pytest.raises(CaptureError, match="neither of next and following are set"):
        read_transitions(path, "q", "u")
    lonely = write(tmp_path / "lonely.csv", table([1, 1]))
    with pytest.raises(CaptureError, match="has no two consecutive rows of one episode"):
        read_transitions(lonely, "q", "u", following="q", episode="run")


def test_time_is_checked_across_pieces(tmp_path, monkeypatch):
    columns = table([6, 6])
    columns["t"][8] = 1.0
    path = write(tmp_path / "log.npz", columns)
    monkeypatch.setattr("capture_cp.data.arrays.PIECE", 4)
    with pytest.raises(CaptureError, match=r"t goes backwards within an episode in data row 9: 1 after 7 in data row 8"):
        LoggedTransitions(path, "q", "u", following="q", episode="run", time="t")


# -- lists and folders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [[1.0, 2.0], [1.0, 2.0], [1.0]],
            "contains lists of different lengths, first in data row 3, not numbers of one width",
        ),
        ([[1.0, 2.0], None, [1.0, 2.0]], "has no list in data row 2; fill it in"),
        (
            [[1.0, 2.0], [1.0, None], [1.0, 2.0]],
            "column 'q_1' of .* has 1 missing, NaN or infinite values, first in data row 2",
        ),
        (
            pyarrow.array([[], [], []], pyarrow.list_(pyarrow.float64())),
            "column 'q' of .* contains lists that are empty or missing, not numbers",
        ),
        ([["a"], ["b"], ["c"]], "column 'q' of .* contains lists of text, not numbers"),
        ([[[1.0]], [[1.0]], [[1.0]]], "column 'q' of .* contains lists of list, not numbers"),
    ],
    ids=["ragged", "null", "null inside", "empty", "text", "nested"],
)
def test_lists_must_be_of_one_length(tmp_path, rows, sentence):
    parquet.write_table(pyarrow.table({"q": rows, "u": [1.0, 2.0, 3.0]}), tmp_path / "log.parquet")
    with pytest.raises(CaptureError, match=sentence):
        read_transitions(tmp_path / "log.parquet", "q", "u", following="q")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_folder_is_read_in_the_order_in_which_people_count(tmp_path, ending):
    columns = table([4] * 12)
    for i in range(12):
        write(tmp_path / f"run {i}{ending}", {name: column[4 * i : 4 * i + 4] for name, column in columns.items()})
    (tmp_path / "notes.txt").write_text("none of it")
    for path in (tmp_path, tmp_path / f"run*{ending}", f"{tmp_path}/run *"):
        log = LoggedTransitions(path, "q", "u", following="q", episode="file")
        whole = log.read()
        assert np.array_equal(whole.state, columns["q"][np.arange(48) % 4 != 3])
        assert whole.episode[3].endswith(f"run 1{ending}")
        unnamed = LoggedTransitions(path, "q", "u", following="q")  # a file is an episode
        assert unnamed.episodes() is None
        assert np.array_equal(unnamed.read().X, whole.X)
    one = LoggedTransitions(tmp_path, "q", "u", following="q", episode="run").read()
    assert np.array_equal(one.X, whole.X)


def test_files_of_a_folder_must_agree(tmp_path):
    write(tmp_path / "a.parquet", table([3]))
    write(tmp_path / "b.parquet", {**table([3]), "more": np.ones(3)})
    assert len(read_transitions(tmp_path, "q", "u", following="q")) == 4  # in what is read
    parquet.write_table(pyarrow.table({"u_0": np.ones(3), "t": np.ones(3)}), tmp_path / "b.parquet")
    with pytest.raises(CaptureError, match=r"b.parquet differs from a.parquet in column 'q', which is missing; give all"):
        read_transitions(tmp_path, "q", "u", following="q")
    write(tmp_path / "b.parquet", table([3]) | {"q": np.ones((3, 5))})
    with pytest.raises(CaptureError, match=r"in column 'q', which contains number, 5 per row; give all parts"):
        read_transitions(tmp_path, "q", "u", following="q")
    (tmp_path / "b.parquet").unlink()
    write(tmp_path / "b.csv", table([3]))
    with pytest.raises(CaptureError, match=r"mixes formats: b.csv and a.parquet"):
        read_transitions(tmp_path, "q", "u", following="q")
    with pytest.raises(CaptureError, match="no file matches the pattern"):
        read_transitions(tmp_path / "x*", "q", "u", following="q")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaptureError, match=r"folder .* contains no log; expected files that end in .parquet"):
        read_transitions(tmp_path / "empty", "q", "u", following="q")


def test_a_bad_value_in_a_folder_names_its_file(tmp_path):
    write(tmp_path / "a.parquet", table([3]))
    write(tmp_path / "b.parquet", table([3]) | {"u": np.array([[1.0], [np.nan], [1.0]])})
    with pytest.raises(CaptureError, match=r"column 'u_0' of .* has 1 missing, .* first in data row 2 of .*b.parquet;"):
        read_transitions(tmp_path, "q", "u", following="q")


def test_memory_keeps_to_a_piece(tmp_path):
    """Two million rows of nothing in a few kilobytes: in memory refused as before, in pieces read."""
    n = 12_000_000
    zeros = pyarrow.array(np.zeros(n, dtype=np.int8))
    parquet.write_table(pyarrow.table({"x": zeros, "u": zeros, "after": zeros}), tmp_path / "log.parquet")
    log = LoggedTransitions(tmp_path / "log.parquet", "x", "u", "after")
    assert len(log) == n
    assert [len(piece) for piece in log.pieces(n - 100_000)] != []
    with pytest.raises(CaptureError, match="states 288,000,000 unpacked bytes in"):
        log.read()


def test_labels_are_numbers_only_if_all_of_them_are(tmp_path):
    """Whichever piece or file they are in: 9 is before 10, but "9" is behind "10"."""
    for runs, expected in ((["9", "10"], [0, 1]), (["9", "x"], [0, 1]), (["9", "10", "x"], [1, 0, 2])):
        for number, run in enumerate(runs):
            columns = {"x": [1.0, 2.0], "u": [1.0, 2.0], "run": [run, run]}
            parquet.write_table(pyarrow.table(columns), tmp_path / f"{number}.parquet")
        log = LoggedTransitions(tmp_path, "x", "u", following="x", episode="run")
        assert log.episodes().tolist() == expected
        assert np.array_equal(log.episodes(), log.read().episodes())


def test_transitions_in_memory_offer_the_same(tmp_path):
    rng = np.random.default_rng(0)
    log = Transitions.from_arrays(rng.random((5, 1)), rng.random((5, 1)), rng.random((5, 1)), episode=[3, 3, 1, 1, 2])
    write_transitions(tmp_path / "log.npz", log)
    logged = LoggedTransitions(tmp_path / "log.npz", "state", "action", "next", "episode")
    assert logged.episodes().tolist() == log.episodes().tolist() == [2, 2, 0, 0, 1]
    for name in ("state_names", "action_names", "next_names", "X_names", "episode_name", "time_name"):
        assert getattr(log, name) == getattr(logged, name)
    assert len(log) == len(logged)
    with pytest.raises(CaptureError, match="rows -1 to 3 do not exist"):
        list(log.pieces(-1, 3))


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_several_steps_ahead_are_pairs_of_one_episode(tmp_path, steps, monkeypatch):
    """Against a loop over rows, in pieces smaller than an episode; the actions of all steps are inputs."""
    monkeypatch.setattr("capture_cp.data.arrays.PIECE", 3)
    lengths = [7, 2, 1, 9, steps, steps + 1]
    episode = np.repeat(np.arange(len(lengths)), lengths)
    x, u = np.arange(len(episode)) * 1.0, np.arange(len(episode)) * 10.0
    np.savez(tmp_path / "log.npz", x=x, u=u, episode=episode)
    log = LoggedTransitions(tmp_path / "log.npz", "x", "u", following="x", episode="episode", steps=steps)
    starts = [i for i in range(len(x) - steps) if episode[i + steps] == episode[i]]
    found = log.read()
    np.testing.assert_array_equal(found.next[:, 0], [x[i + steps] for i in starts])
    np.testing.assert_array_equal(found.X, [[x[i], *u[i : i + steps]] for i in starts])
    np.testing.assert_array_equal(found.episode, episode[starts])
    assert log.action_names == ("u", "u+1", "u+2", "u+3", "u+4")[:steps]


def test_a_passive_object_has_no_actions(tmp_path):
    np.savez(tmp_path / "log.npz", x=np.arange(6.0), episode=np.repeat([0, 1], 3))
    found = LoggedTransitions(tmp_path / "log.npz", "x", (), following="x", episode="episode").read()
    assert found.action.shape == (4, 0)
    np.testing.assert_array_equal(found.X[:, 0], [0, 1, 3, 4])
    assert Transitions.from_arrays(found.state, found.action, found.next).X.shape == (4, 1)
