"""Known dangers and those that fuzzing found: each ends in one clear sentence, before memory is taken."""

from __future__ import annotations

import io
import sqlite3
import sys
import tracemalloc
import zipfile
from contextlib import closing

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from capture_cp import Capture, CaptureError, read_transitions
from capture_cp.planning import Episode
from logs.recordings import Runs, bag
from mutations.calibrations import deep_chain, endless_choices
from test_artifact import forge

COLUMNS = {"state": "x", "action": "push", "next": "after"}


def npz(path, **parts):
    """An archive of raw entries."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(f"{name}.npy", part)


def npy(shape, descr="<f8", body=b""):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue() + body


def refused(path, sentence, most=40 << 20, **columns):
    """Refused with this sentence, and with no more than `most` bytes of Python's and NumPy's."""
    tracemalloc.start()
    try:
        with pytest.raises(CaptureError, match=sentence):
            read_transitions(path, **(columns if "state" in columns else COLUMNS | columns))
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "entry",
    [
        npy((10**15,)),
        npy((10**15,), body=bytes(80)),
        npy((3, 10**15), descr="|S0"),
        npy((0, 10**15), body=b""),
        npy((10**6,), descr="|O", body=bytes(8 * 10**6)),
        npy((1,), descr="<U1000000000"),
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x03\x00" + bytes(50),
        b"",
    ],
    ids=["huge", "some bytes", "no bytes an item", "no rows", "objects", "a long word", "cut", "version 3", "empty"],
)
def test_an_array_that_is_not_what_it_claims_is_refused(tmp_path, entry):
    npz(tmp_path / "log.npz", x=entry, push=entry, after=entry)
    refused(tmp_path / "log.npz", "not an npz file of plain arrays|holds no transitions|columns; expected at most")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    npz(tmp_path / "log.npz", x=npy((20_000_000,), body=bytes(160_000_000)))
    refused(tmp_path / "log.npz", "states 160,000,128 unpacked bytes in a file of .* far more than any log")
    with pytest.raises(CaptureError, match="is not a capture-cp episode"):
        Episode.load(tmp_path / "log.npz")


def test_a_file_that_packs_well_is_read(tmp_path):
    """A resting robot's log: constant columns pack a thousandfold, which is no crime below 64 MiB."""
    n = 500_000
    np.savez_compressed(tmp_path / "log.npz", x=np.zeros(n), push=np.zeros(n), after=np.zeros(n))
    assert len(read_transitions(tmp_path / "log.npz", **COLUMNS)) == n


def test_too_many_columns_are_refused(tmp_path):
    np.savez(tmp_path / "log.npz", x=np.zeros((2, 10_001)), push=np.zeros(2), after=np.zeros(2))
    refused(tmp_path / "log.npz", "has 10,001 columns; expected at most 10,000")
    (tmp_path / "log.csv").write_text(",".join(f"c{i}" for i in range(10_001)) + "\n")
    refused(tmp_path / "log.csv", "has 10,001 columns; expected at most 10,000")


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_arrays_packed_in_another_way_are_refused(tmp_path, how):
    with zipfile.ZipFile(tmp_path / "log.npz", "w", how) as archive:
        archive.writestr("x.npy", npy((3,), body=bytes(24)))
    refused(tmp_path / "log.npz", "is not an npz file of plain arrays, or is damaged")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x,push,after\n1,2,3\n" + '"' + "1" * 200_000, "line 3, field larger than field limit"),
        ("x,push,after\n1,2," + "z" * 100_000, r"column 'after' contains 'z+\.\.\.'"),
        ("x,push,after,run\n1,2,3," + "r" * 101 + "\n", "has a label of over 100 characters; use shorter ones"),
        ("x," * 3000 + "push,after\n", "repeats a column name: 'x'; give each column its own"),
        ("x" * 50_000 + ",push,after\n1,2,3\n", r"unknown column in .* 'x'; known: x+\.\.\., push, after"),
    ],
    ids=["a quote without end", "a long word", "a long label", "many equal names", "a long name"],
)
def test_long_text_in_a_csv_is_a_short_sentence(tmp_path, text, sentence):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(CaptureError, match=sentence) as caught:
        read_transitions(tmp_path / "log.csv", **COLUMNS, episode="run" if "run" in text else None)
    assert len(str(caught.value)) < 600


# -- parquet --------------------------------------------------------------------------------------------------------------


def test_a_run_length_bomb_is_refused(tmp_path):
    """Thirty million equal numbers take a hundred thousand bytes."""
    rows = pyarrow.array(np.zeros(30_000_000, dtype=np.int8))
    parquet.write_table(pyarrow.table({"x": rows, "push": rows, "after": rows}), tmp_path / "log.parquet")
    assert (tmp_path / "log.parquet").stat().st_size < 400_000
    refused(tmp_path / "log.parquet", "states 720,000,000 unpacked bytes in")


def test_labels_of_a_parquet_file_may_be_numbers_text_or_missing(tmp_path):
    numbers = {name: np.zeros(3) for name in ("x", "push", "after")}
    for runs, found in (([7, 7, 9], [7, 7, 9]), (["7", "7", "9"], [7, 7, 9]), (["a", "b", "a"], ["a", "b", "a"])):
        parquet.write_table(pyarrow.table(numbers | {"run": runs}), tmp_path / "log.parquet")
        assert read_transitions(tmp_path / "log.parquet", **COLUMNS, episode="run").episode.tolist() == found
    parquet.write_table(pyarrow.table(numbers | {"run": ["a", None, "a"]}), tmp_path / "log.parquet")
    refused(tmp_path / "log.parquet", "column 'run' of .* has no value in 1 rows; fill them in", episode="run")


def test_an_episode_of_other_arrays_is_refused(tmp_path):
    arrays = {"states": np.zeros((3, 2)), "actions": np.zeros((2, 1)), "plans": np.zeros((2, 4, 1))}
    arrays |= {"costs": np.zeros(2), "plan_ms": np.zeros(2)}
    Episode("goal", *arrays.values()).save(tmp_path / "run.npz")
    assert Episode.load(tmp_path / "run.npz").steps == 2
    with np.load(tmp_path / "run.npz") as archive:
        whole = dict(archive)
    for change in (
        {"states": np.array(["a", "b", "c"])},
        {"plans": np.zeros((2, 4))},
        {"inside": np.zeros(0)},
        {"costs": np.zeros(2, dtype=complex)},
        {"header": np.array('{"format": "capture-cp episode", "outcome": 3, "info": {}}')},
        {"header": np.array("[" * 50_000)},
    ):
        np.savez(tmp_path / "run.npz", **(whole | change))
        with pytest.raises(CaptureError, match="is not a capture-cp episode, or is damaged"):
            Episode.load(tmp_path / "run.npz")


# -- bags and demonstrations ----------------------------------------------------------------------------------------------

JOINTS = "/joint_states.position"
BAG = {"state": JOINTS, "action": "/cmd.data", "following": JOINTS}
DEMOS = {"state": "obs/q", "action": "actions", "following": "obs/q"}


@pytest.fixture
def bag_file(tmp_path):
    """A bag of either kind, as one file."""
    pytest.importorskip("rosbags")

    def make(storage, **changes):
        made = Runs.made(runs=1, steps=20)
        folder = bag(tmp_path / storage, made.state, made.action, storage, **changes)
        return next(file for file in folder.iterdir() if file.suffix in (".mcap", ".db3"))

    return make


DEFINITION = "UPDATE message_definitions SET encoded_message_definition = ?"
ENDLESS = "test/Own own\n" + "=" * 80 + "\nMSG: test/Own\ntest/Own own\n"
VIEW = (
    "DROP TABLE messages; CREATE VIEW messages AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) "
    "SELECT i AS id, 1 AS topic_id, i AS timestamp, zeroblob(9) AS data FROM r"
)


def test_definitions_and_views_that_never_end_are_refused(bag_file):
    path = bag_file("SQLITE3")
    with closing(sqlite3.connect(path)) as data:
        data.execute(DEFINITION, [ENDLESS])
        data.commit()
        refused(path, "cannot be read: .*nested too deeply|is not a bag, or is damaged", **BAG)
        data.executescript(VIEW)
    refused(path, "is not a bag, or is damaged: .*database missing tables", **BAG)


def test_nothing_that_a_definition_says_is_run(bag_file, tmp_path):
    path, mark = bag_file("SQLITE3"), tmp_path / "it ran"
    for text in (f'float64 x\nstring A="{mark}"\n', f"int32 x=open({str(mark)!r}, 'w')\n", "__import__('os') y\n"):
        with closing(sqlite3.connect(path)) as data:
            data.execute(DEFINITION, [text])
            data.commit()
        refused(path, "cannot be read|is not a bag|has no numbers", **BAG)
        assert not mark.exists()


def read_or_refused(path):
    try:
        return read_transitions(path, **BAG)
    except CaptureError as error:
        return str(error)


@pytest.mark.parametrize("storage", ["MCAP", "SQLITE3"])
def test_a_bag_cut_short_is_one_clear_sentence(bag_file, storage):
    path = bag_file(storage)
    whole, log = path.read_bytes(), read_transitions(path, **BAG)
    for length in range(5, len(whole), len(whole) // 40):
        path.write_bytes(whole[:length])
        found = read_or_refused(path)
        if isinstance(found, str):
            assert "is not a bag, or is damaged" in found
        else:  # only an index is cut
            assert storage == "SQLITE3"
            assert np.array_equal(found.X, log.X)


@pytest.fixture
def demos(tmp_path):
    """A robomimic file, and how to change it."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "demos.hdf5"
    with h5py.File(path, "w") as file:
        for i in range(2):
            file[f"data/demo_{i}/obs/q"], file[f"data/demo_{i}/actions"] = np.zeros((5, 2)), np.zeros((5, 1))

    def change(make):
        with h5py.File(path, "r+") as file:
            del file["data/demo_1/obs/q"]
            make(file, h5py)
        return path

    assert len(read_transitions(path, **DEMOS, episode="demo")) == 8
    return change


def virtual(file, h5py):
    layout = h5py.VirtualLayout(shape=(5, 2), dtype="f8")
    layout[:] = h5py.VirtualSource("secret.hdf5", "q", shape=(5, 2))
    file.create_virtual_dataset("data/demo_1/obs/q", layout)


NEW = "data/demo_1/obs/q"
FOREIGN_ARRAYS = {
    "external link": (
        lambda file, h5py: file.__setitem__(NEW, h5py.ExternalLink("secret.hdf5", "/q")),
        "a link, or nothing",
    ),
    "external storage": (
        lambda file, h5py: file.create_dataset(NEW, (5, 2), "f8", external=[("/etc/passwd", 0, 80)]),
        "data of other files",
    ),
    "virtual": (virtual, "data of other files"),
    "huge chunk": (
        lambda file, h5py: file.create_dataset(NEW, (10**6, 2), "f8", chunks=(10**8, 2), maxshape=(None, 2)),
        "contains chunks of over",
    ),
    "huge claim": (lambda file, h5py: file.create_dataset(NEW, (10**12, 2), "f8", chunks=(9, 2)), "another number of rows"),
    "text": (lambda file, h5py: file.create_dataset(NEW, data=[b"a"] * 5), "contains text"),
    "another width": (lambda file, h5py: file.create_dataset(NEW, (5, 3), "f8"), "which contains number, 3 per row"),
}


@pytest.mark.parametrize("name", FOREIGN_ARRAYS)
def test_an_array_that_is_not_in_the_file_is_refused(demos, name):
    change, sentence = FOREIGN_ARRAYS[name]
    refused(demos(change), sentence, **DEMOS)


def test_demonstrations_that_nobody_has_room_for_are_refused(demos):
    def change(file, h5py):
        for i in range(2):
            if f"data/demo_{i}/obs/q" in file:
                del file[f"data/demo_{i}/obs/q"]
            del file[f"data/demo_{i}/actions"]
            file.create_dataset(f"data/demo_{i}/actions", (10**12, 1), "f8", chunks=(9, 1))
            file.create_dataset(f"data/demo_{i}/obs/q", (10**12, 1), "f8", chunks=(9, 1))

    refused(demos(change), "states 2,000,000,000,000 unpacked bytes in", **DEMOS)


def test_demonstrations_without_h5py_say_how_to_get_it(demos, monkeypatch):
    path = demos(lambda file, h5py: None)
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused(path, r'pip install "capture-cp\[hdf5\]"', **DEMOS)


def test_a_file_that_is_no_robomimic_file_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    h5py.File(tmp_path / "other.h5", "w").close()
    refused(tmp_path / "other.h5", "has no groups data/demo_0, .* expected a robomimic file", **DEMOS)
    (tmp_path / "other.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(500))
    refused(tmp_path / "other.h5", "is not an HDF5 file, or is damaged", **DEMOS)


# -- calibrations ---------------------------------------------------------------------------------------------------------


def test_nodes_that_share_their_children_are_refused(fitted, box, tmp_path):
    """Nodes with 2^60 paths: whoever describes a group of them never comes back."""
    fitted["capture"].save(tmp_path / "file")
    (tmp_path / "file").write_bytes(endless_choices((tmp_path / "file").read_bytes(), np.random.default_rng(0)))
    with pytest.raises(CaptureError, match="its arrays do not fit together"):
        Capture.load(tmp_path / "file", box, box.strata)


def test_a_tree_may_be_as_deep_as_it_likes(fitted, box, fresh, tmp_path):
    fitted["capture"].save(tmp_path / "file")
    (tmp_path / "file").write_bytes(deep_chain((tmp_path / "file").read_bytes(), np.random.default_rng(0)))
    chain = Capture.load(tmp_path / "file", box, box.strata)
    assert len(chain.partition_.nodes) > 10_000
    assert chain.coverage(fresh.X, fresh.Y, volumes=False).all.n == len(fresh.X)


@pytest.mark.parametrize("name", ["n_particles", "n_inputs", "n_outputs"])
def test_sizes_that_nobody_has_room_for_are_refused(fitted, box, tmp_path, name):
    fitted["capture"].save(tmp_path / "file")
    forge(tmp_path / "file", change_header=lambda header: header.update({name: 10**15}))
    with pytest.raises(CaptureError, match=rf"{name} is 1,000,000,000,000,000; expected at most"):
        Capture.load(tmp_path / "file", box, box.strata)


@pytest.mark.parametrize("inputs", [{"rows": 10**6, "ranks": list(range(1, 200_001))}, {"ranks": "x" * 70}, {"ranks": None}])
def test_more_quantiles_than_a_calibration_keeps_are_refused(fitted, box, tmp_path, inputs):
    """A test of the inputs draws thousands of times for each of them: 200,000 took 12 GB."""
    fitted["capture"].save(tmp_path / "file")
    forge(tmp_path / "file", change_header=lambda header: header["data"].update(inputs=inputs))
    with pytest.raises(CaptureError, match="input quantiles are malformed or more than 63"):
        Capture.load(tmp_path / "file", box, box.strata)


@pytest.mark.parametrize("beginning", [b"", (1 << 20).to_bytes(8, "little"), (1 << 31).to_bytes(8, "little"), b"PK\x03\x04"])
def test_a_large_file_that_is_no_calibration_is_refused_by_its_first_bytes(box, tmp_path, beginning):
    file = tmp_path / "file"
    with file.open("wb") as sparse:
        sparse.write(beginning)
        sparse.truncate(1 << 29)
    tracemalloc.start()
    try:
        with pytest.raises(CaptureError, match="is not a capture-cp calibration"):
            Capture.load(file, box, box.strata)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
        with file.open("ab") as sparse:
            sparse.truncate((1 << 30) + 1)
        with pytest.raises(CaptureError, match="is larger than 1 GiB"):
            Capture.load(file, box, box.strata)
    finally:
        tracemalloc.stop()
