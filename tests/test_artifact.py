"""Saved calibrations: whole or not at all, refused when anything is wrong with them, and nothing in them is ever run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as serialise
from sklearn.base import clone

from capture_cp import (
    Capture,
    CaptureError,
    FunctionStrata,
    Grid,
    GridStrata,
    Mahalanobis,
    NearestParticles,
    PerStratum,
    Tree,
    method,
)
from capture_cp.capture import artifact
from capture_lab.tasks.box import Box
from worlds import PARTICLES, fit

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calibration.safetensors"


@pytest.fixture
def saved(fitted, path):
    fitted["capture"].save(path)
    return path


@pytest.fixture
def load(box):
    return lambda path, **parts: Capture.load(path, box, box.strata, **parts)


def others(path):
    """Whatever lies beside the file."""
    return [entry.name for entry in path.parent.iterdir() if entry != path]


@pytest.mark.parametrize("name", ["pcp", "lucca", "no-strata", "capture-k1", "capture"])
def test_a_loaded_calibration_answers_as_the_saved_one(fitted, fresh, path, load, name):
    cap = fitted[name]
    cap.save(path)
    again = load(path)
    assert again.score == cap.score
    assert again.groups == cap.groups
    assert (again.n_particles, again.seed, again.data_) == (cap.n_particles, cap.seed, cap.data_)
    for alpha in (0.05, 0.3):
        assert np.array_equal(again.thresholds(fresh.X, alpha), cap.thresholds(fresh.X, alpha))
        assert np.array_equal(again.contains(fresh.X, fresh.Y, alpha, rng=1), cap.contains(fresh.X, fresh.Y, alpha, rng=1))
        assert np.array_equal(again.count_cells(fresh.X[:9], alpha, rng=1), cap.count_cells(fresh.X[:9], alpha, rng=1))
    assert str(again.coverage(fresh.X, fresh.Y, rng=1)) == str(cap.coverage(fresh.X, fresh.Y, rng=1))
    assert others(path) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"score": NearestParticles(np.int64(2))},
        {"n_particles": np.int64(PARTICLES)},
        {"seed": np.int32(3)},
        {"groups": Tree(min_leaf=np.int64(40))},
        {"groups": Tree(partition_share=np.float32(0.5))},
        {"score": Mahalanobis(np.array([1]))},
        {"groups": PerStratum()},
        {"groups": Tree(min_leaf=40, prune=True, max_leaves=None)},
        {"groups": Tree(min_leaf=40, max_depth=np.int64(2))},
        {"score": None, "groups": None},
    ],
    ids=str,
)
def test_whatever_can_be_fitted_can_be_saved(world, fresh, path, load, settings):
    """Numbers of NumPy's own kinds come from loops and configurations all the time."""
    cap = clone(fit("capture", world)).set_params(**settings).fit(world.X, world.Y)
    cap.save(path)
    assert np.array_equal(load(path).thresholds(fresh.X, 0.2), cap.thresholds(fresh.X, 0.2))


def test_a_file_tells_what_it_is(saved, fitted, world):
    header, arrays = artifact.read(saved)
    assert header["strata"] == ["free", "edge", "corner"]
    assert header["data"]["rows"] == len(world.X)
    assert len(header["data"]["sha256"]) == 64
    assert header["group_sizes"] == fitted["capture"].calibration_.sizes.tolist()
    assert {"capture-cp", "numpy", "scikit-learn", "safetensors"} <= set(header["versions"])
    assert arrays["scores"].dtype == np.float64


def test_parts_of_the_users_own_are_named_and_asked_for(world, fresh, path, load):
    class Mine(NearestParticles):
        pass

    cap = clone(fit("pcp", world)).set_params(score=Mine(2)).fit(world.X, world.Y, prediction=world.particles)
    cap.save(path)
    with pytest.raises(CaptureError, match=r"it uses your own class Mine; pass an instance to load as score="):
        load(path)
    assert np.array_equal(load(path, score=Mine(2)).thresholds(fresh.X), cap.thresholds(fresh.X))


def test_other_strata_are_refused(saved, box):
    own = box.strata
    labels = own.labels.copy()
    labels[labels == 2] = 1
    others = [
        Box(spacing=0.025).strata,
        GridStrata(own.grid, own.labels, ["free", "edge", "vertex"]),
        GridStrata(own.grid, labels, own.names),
        GridStrata(Grid(own.grid.origin + 0.01, own.grid.spacing, own.grid.shape), own.labels, own.names),
        GridStrata(own.grid, own.labels, [*own.names, "more"]),
        FunctionStrata(own.index, own.names),
    ]
    for strata in others:
        with pytest.raises(CaptureError, match=r"made for other strata .* load it with the strata it was fitted with"):
            Capture.load(saved, box, strata)


def refuses(load, path, data):
    path.write_bytes(data)
    with pytest.raises(CaptureError) as caught:
        load(path)
    return str(caught.value)


def test_a_file_cut_short_anywhere_is_refused(saved, load):
    whole = saved.read_bytes()
    for length in [*range(0, 64), *range(64, len(whole), 37), *range(len(whole) - 32, len(whole))]:
        sentence = refuses(load, saved, whole[:length])
        assert "empty" in sentence or "cut short" in sentence
    assert "damaged" in refuses(load, saved, whole + b"\0")


def test_a_flipped_bit_anywhere_is_refused(saved, load):
    """A bit of every third byte of the header, and of every 29th byte of the arrays."""
    whole = saved.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    positions = [*range(0, header, 3), *range(header, len(whole), 29)]
    for position, bit in [(i, i * 5 % 8) for i in positions] + [(i, bit) for i in range(16) for bit in range(8)]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << bit
        refuses(load, saved, bytes(damaged))


def test_another_file_is_refused(path, saved, load, tmp_path):
    newer = saved.read_bytes().replace(b'"schema":"1"', b'"schema":"9"')
    assert "has schema '9', this version reads 1, 3, 4, 5; upgrade capture-cp" in refuses(load, saved, newer)
    for metadata in (None, {"format": "pt"}):
        data = serialise({"weights": np.zeros(3)}, metadata=metadata)
        assert "not a capture-cp calibration" in refuses(load, saved, data)
    saved.unlink()
    for place in (path, tmp_path):
        with pytest.raises(CaptureError, match="does not exist or is not a file; check the path"):
            load(place)
    assert "is empty; write it again" in refuses(load, path, b"")


def forge(path, change_header=None, change_arrays=None):
    """Rewrite a calibration with a valid checksum, as someone who means harm would."""
    header, arrays = artifact.read(path)
    arrays = {name: array.copy() for name, array in arrays.items()}
    for change, part in ((change_header, header), (change_arrays, arrays)):
        if change is not None:
            change(part)
    artifact.write(path, header, arrays)


def test_an_unreadable_file_is_refused(saved, load, monkeypatch):
    def deny(self, mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    with pytest.raises(CaptureError, match="Permission denied"):
        load(saved)


HEADERS = {
    "a class of Python's own": {"score": {"class": "Popen", "params": {"args": "true"}}},
    "a module path": {"groups": {"class": "os.system", "params": {"command": "true"}}},
    "a score that is a group": {"score": {"class": "Tree", "params": {}}},
    "a group that is a score": {"groups": {"class": "NearestParticles", "params": {}}},
    "a number for groups": {"groups": 5},
    "a word for a metric": {"score": {"class": "NearestParticles", "params": {"k": 1, "metric": "Euclidean"}}},
    "an unknown parameter": {"score": {"class": "NearestParticles", "params": {"k": 1, "power": 2}}},
    "k above L": {"score": {"class": "NearestParticles", "params": {"k": 99}}},
    "no class": {"score": {}},
    "no particles": {"n_particles": 0},
    "fewer inputs than the tree asks for": {"n_inputs": 0},
    "outputs that the grid lacks": {"n_outputs": 3},
    "strata that are a number": {"strata": 3},
    "no strata": {"strata": []},
}


@pytest.mark.parametrize("change", HEADERS.values(), ids=HEADERS)
def test_a_forged_header_is_refused(saved, load, change):
    forge(saved)
    load(saved)
    forge(saved, change_header=lambda header: header.update(change))
    with pytest.raises(CaptureError):
        load(saved)
    for key in change.keys() - {"strata"}:
        forge(saved, change_header=lambda header, key=key: header.pop(key))
        with pytest.raises(CaptureError, match="damaged"):
            load(saved)


def _set(name, index, value):
    def change(arrays):
        arrays[name][index] = value

    return change


def _replace(name, make):
    return lambda arrays: arrays.update({name: make(arrays[name])})


ARRAYS = {
    "a loop": _set("nodes.left", 0, 0),
    "a child out of range": _set("nodes.right", 0, 10**6),
    "a feature out of range": _set("nodes.feature", 0, 99),
    "a root out of range": _set("roots", 0, 10**6),
    "a group out of range": _set("nodes.group", -1, 10**6),
    "an inner node with a group out of range": _set("nodes.group", 0, 10**8),
    "scores out of order": _set("scores", 0, 1e9),
    "a score that is NaN": _set("scores", 0, np.nan),
    "starts out of order": _set("starts", 1, 10**6),
    "no starts": _replace("starts", lambda a: a[:0]),
    "too few scores": _replace("scores", lambda a: a[:-1]),
    "scores in two dimensions": _replace("scores", lambda a: np.stack([a, a])),
    "too few nodes": _replace("nodes.feature", lambda a: a[:-1]),
    "no nodes": lambda arrays: arrays.update({k: v[:0] for k, v in arrays.items() if k.startswith("nodes")}),
    "too few roots": _replace("roots", lambda a: a[:-1]),
    "features in one dimension": _replace("stratum_features", lambda a: a.ravel()),
    "no scores at all": lambda arrays: arrays.__delitem__("scores"),
    "nothing at all": lambda arrays: arrays.clear(),
}


@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS)
def test_forged_arrays_are_refused(saved, load, change):
    forge(saved, change_arrays=change)
    with pytest.raises(CaptureError):
        load(saved)


def test_loading_never_unpickles(saved, load, fresh, monkeypatch):
    load(saved).thresholds(fresh.X)  # numba unpickles its own cache of compiled kernels; that is done once, here

    def forbidden(*args, **kwargs):
        raise AssertionError("unpickled")

    pickled = [pickle.dumps({"scores": np.zeros(3)}, protocol=protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    load(saved).thresholds(fresh.X)
    for data in pickled:
        refuses(load, saved, data)


class Crash(BaseException):
    """Like KeyboardInterrupt, not an Exception."""


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), Crash("power cut"), RuntimeError("bug")], ids=repr
)
@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_a_crash_while_saving_leaves_the_old_file_and_nothing_else(fitted, saved, load, monkeypatch, error, moment):
    before = saved.read_bytes()

    def crash(self, *args, **kwargs):
        if moment == "write":
            self.write(b"half of it")
        raise error

    target = {"write": (artifact, "_serialise"), "fsync": (os, "fsync"), "replace": (Path, "replace")}[moment]
    monkeypatch.setattr(*target, crash)
    with pytest.raises(CaptureError if isinstance(error, OSError) else type(error)):
        fitted["pcp"].save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert others(saved) == []
    assert load(saved).groups == fitted["capture"].groups


class Marked:
    """The box with an identity of its own."""

    def __init__(self, box, mark):
        self.box, self.mark = box, mark

    def __call__(self, X, n_particles, rng):
        return self.box(X, n_particles, rng)

    def identity(self):
        return self.mark


def test_calibration_of_another_model_is_refused(box, tmp_path):
    data = box.transitions(500, np.random.default_rng(0))
    method("pcp", Marked(box, "gain 1"), box.strata).fit(data.X, data.Y).save(tmp_path / "a.capture")
    Capture.load(tmp_path / "a.capture", model=Marked(box, "gain 1"), strata=box.strata)
    for other in (Marked(box, "gain 2"), box):
        with pytest.raises(CaptureError, match="another model"):
            Capture.load(tmp_path / "a.capture", model=other, strata=box.strata)
