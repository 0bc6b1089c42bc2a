"""Transitions kept on disk: the same however they are made, resumed where they stopped, never of another configuration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_lab.tasks.peg import data as module
from capture_lab.tasks.peg.data import peg_data
from capture_lab.tasks.peg.settings import PegSettings
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.task import CALIBRATION, TEST

pytest.importorskip("mujoco")

TASK = Peg()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(module, "PART", 20)


@pytest.fixture
def simulated(monkeypatch):
    """Numbers of the parts that are simulated from now on."""
    numbers, simulate = [], module._simulate
    monkeypatch.setattr(module, "_simulate", lambda *given: numbers.append(given[-1].args[-1]) or simulate(*given))
    return numbers


def rows(folder, n=50, task=TASK, **options):
    data = peg_data(task, n, folder=folder, **options).transitions
    return np.hstack([data.X, data.Y])


def files(folder):
    return sorted(folder.rglob("*.safetensors"))


def test_the_second_time_comes_from_disk(tmp_path, simulated):
    first = rows(tmp_path)
    assert simulated == [0, 1, 2]
    assert np.array_equal(rows(tmp_path), first)
    assert simulated == [0, 1, 2]


def test_what_was_pushed_out_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(
        module, "_simulate", lambda task, system, rows, random: (np.zeros((rows, 6)), np.zeros((rows, 3)), 2)
    )
    assert [peg_data(TASK, 50, folder=tmp_path).pushed_out for _ in range(2)] == [6, 6]


def test_fewer_are_the_first_of_more(tmp_path):
    more = rows(tmp_path / "more", 50)
    for n in (7, 20, 33):
        assert np.array_equal(rows(tmp_path / str(n), n), more[:n])


def test_threads_change_nothing(tmp_path):
    assert np.array_equal(rows(tmp_path / "one", threads=1), rows(tmp_path / "three", threads=3))


def test_stopped_run_goes_on_where_it_stopped(tmp_path, simulated):
    expected = rows(tmp_path / "whole")
    simulated.clear()

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rows(tmp_path / "stopped", advance=stop)
    assert np.array_equal(rows(tmp_path / "stopped"), expected)
    assert simulated == [0, 1, 2]


def test_damaged_part_is_simulated_again(tmp_path, simulated):
    expected = rows(tmp_path)
    file = files(tmp_path)[1]
    whole = file.read_bytes()
    place = whole.index(b'pushed_out":"') + len(b'pushed_out":"')
    other_count = whole[:place] + (b"1" if whole[place : place + 1] != b"1" else b"2") + whole[place + 1 :]
    no_count = whole.replace(b"pushed_out", b"pushed_in_")
    for damaged in (b"", whole[:-9], whole[:-1] + bytes([whole[-1] ^ 1]), other_count, no_count):
        file.write_bytes(damaged)
        simulated.clear()
        assert np.array_equal(rows(tmp_path), expected)
        assert simulated == [1]


def test_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(path, content):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CaptureError, match="No space left"):
        rows(tmp_path)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"purpose": TEST},
        {"task": Peg(PegSettings(bound=2.5))},
        {"task": Peg(PegSettings(friction=0.5))},
        {"task": Peg(trim=1.5e-3)},
        {"task": Peg(system="arm")},
    ],
    ids=str,
)
def test_another_configuration_has_other_transitions_and_files(tmp_path, other):
    mine = rows(tmp_path, 5)
    assert not np.array_equal(rows(tmp_path, 5, **other), mine)
    assert len(files(tmp_path)) == 2
    assert np.array_equal(rows(tmp_path, 5), mine)


def test_part_of_another_configuration_is_refused(tmp_path):
    rows(tmp_path / "a", 5)
    rows(tmp_path / "b", 5, seed=1)
    (mine,), (other,) = files(tmp_path / "a"), files(tmp_path / "b")
    mine.write_bytes(other.read_bytes())
    with pytest.raises(CaptureError, match="holds transitions of another configuration of the peg; delete it"):
        rows(tmp_path / "a", 5)


def test_other_sources_or_another_mujoco_are_another_configuration(monkeypatch):
    known = module._fingerprint(TASK, 0, CALIBRATION)
    monkeypatch.setattr(module, "version", lambda name: "0.0")
    assert module._fingerprint(TASK, 0, CALIBRATION) != known
    monkeypatch.undo()
    monkeypatch.setattr(module, "_SOURCES", module._SOURCES[1:])
    assert module._fingerprint(TASK, 0, CALIBRATION) != known


def test_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match=r"cannot store transitions in .*: Not a directory; choose a writable folder"):
        rows(tmp_path / "file" / "folder", 5)


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_senseless_number_is_refused(tmp_path, n):
    with pytest.raises(CaptureError, match="n is"):
        rows(tmp_path, n)


def test_progress_adds_up(tmp_path):
    done = []
    rows(tmp_path, 45, advance=done.append)
    assert done == [20, 20, 5]
