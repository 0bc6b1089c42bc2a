"""Logs larger than the memory: streamed, shared out among workers, extended and merged, always to the same calibration."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from capture_cp import Capture, OneGroup, PerStratum, Transitions, Tree, load_calibration, write_transitions
from capture_cp.capture import capture as capture_module
from capture_cp.capture.extending import sources_of
from capture_cp.capture.log_fit import coverage_of_log, fit_log
from capture_cp.cli import main
from capture_cp.commands import batch, reading
from capture_cp.commands import calibrate as command
from capture_cp.conformal.groups import Groups
from capture_cp.data import transitions
from capture_cp.data.logged import LoggedTransitions
from capture_cp.data.transitions import LogPart
from capture_lab.tasks.box import Box
from commands import refused
from logs.common import COLUMNS, NAMES

BOX = Box()
OWN = ("--model", "pusher:model", "--strata", "pusher:strata", "--min-leaf", "100")


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of a few hundred rows, so that small logs have many, in spans of two."""
    for module in (transitions, capture_module, batch):
        monkeypatch.setattr(module, "CHUNK", 700)
    monkeypatch.setattr(transitions, "SPAN", 2)


@pytest.fixture
def on_disk(monkeypatch):
    """No log is small enough to be kept in memory."""
    monkeypatch.setattr(reading, "IN_MEMORY", 0)


def log(n, seed, length=None):
    drawn = BOX.transitions(n, np.random.default_rng(seed))
    episode = None if length is None else np.arange(n) // length
    return Transitions.from_arrays(drawn.state, drawn.action, drawn.next, *NAMES, episode=episode, episode_name="run")


def write(file, data):
    write_transitions(file, data)
    return file


def calibrate(out, *more, data="log.parquet"):
    main(["calibrate", data, *COLUMNS, "--out", str(out), *map(str, more)])
    return Path(out).read_bytes()


# -- in pieces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [None, 6])
@pytest.mark.parametrize(
    "groups", [Tree(min_leaf=100), Tree(min_leaf=100, min_stratum=18), PerStratum(), OneGroup()], ids=repr
)
def test_a_log_in_pieces_gives_the_file_that_it_gives_in_memory(tmp_path, small_chunks, groups, length):
    data = log(5000, 1, length)
    runs = np.arange(5000) // (length or 1)
    chosen = np.random.default_rng(2).random(5000)[runs] < 0.7
    file = write(tmp_path / "log.parquet", data)
    logged = LoggedTransitions(file, *NAMES, episode=None if length is None else "run")
    some = data.rows(chosen)
    fitted = Capture(BOX.model, BOX.strata, groups=groups).fit(some.X, some.Y, episodes=some.episode)
    streamed = fit_log(Capture(BOX.model, BOX.strata, groups=groups), LogPart(logged, chosen))
    fitted.save(tmp_path / "memory.capture")
    streamed.save(tmp_path / "disk.capture")
    assert (tmp_path / "memory.capture").read_bytes() == (tmp_path / "disk.capture").read_bytes()
    rest = data.rows(~chosen)
    wanted = fitted.coverage(rest.X, rest.Y, volumes=False, episodes=rest.episode, rng=3)
    assert coverage_of_log(streamed, LogPart(logged, ~chosen), rng=3) == wanted


def test_random_numbers_of_a_chunk_do_not_depend_on_who_comes_before(small_chunks):
    data = log(3000, 1)
    whole = Capture(BOX.model, BOX.strata, groups=OneGroup())
    scores = [whole.chunk_scores(data.X[700:1400], data.Y[700:1400], 1) for _ in range(2)]
    np.testing.assert_array_equal(*scores)
    assert not np.array_equal(scores[0], whole.chunk_scores(data.X[700:1400], data.Y[700:1400], 2))


def test_few_rows_grow_the_tree_of_a_long_log():
    tree = Tree(min_leaf=10, max_growing=1000)
    data = log(8000, 1)
    cap = Capture(BOX.model, BOX.strata, groups=tree).fit(data.X, data.Y)
    assert cap.calibration_.sizes.sum() == 7000
    of_runs = Capture(BOX.model, BOX.strata, groups=tree).fit(data.X, data.Y, episodes=np.arange(8000) // 8)
    assert of_runs.calibration_.drawn.sum() == 1000 - 125


def test_groups_that_must_see_all_rows_cannot_be_fitted_in_pieces():
    class Whole(Groups):
        def split(self, examples, rng):
            return OneGroup().split(examples, rng)

    with pytest.raises(Exception, match="Whole implements split, which needs the whole log in memory"):
        fit_log(Capture(BOX.model, BOX.strata, groups=Whole()), log(100, 1))


@pytest.mark.parametrize("seed", range(5))
def test_a_part_is_cut_into_the_same_chunks_wherever_it_lies(small_chunks, seed):
    rng = np.random.default_rng(seed)
    data = log(int(rng.integers(1, 6000)), seed)
    chosen = rng.random(len(data)) < rng.random()
    chosen[int(rng.integers(len(data)))] = True
    part, wanted = LogPart(data, chosen), rng.random(int(chosen.sum())) < 0.3
    chunks = [chunk for span in part.spans(wanted) for chunk in span.chunks()]
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), data.X[chosen])
    np.testing.assert_array_equal(np.concatenate([chunk.wanted for chunk in chunks]), wanted)
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    assert all(len(chunk.X) == 700 for chunk in chunks[:-1])
    assert all(chunk.first == 700 * chunk.number for chunk in chunks)


# -- the command ----------------------------------------------------------------------------------------------------------


def test_the_command_gives_one_file_whoever_computes_it(pushed, small_chunks, monkeypatch, capsys):
    write("log.parquet", log(6000, 1))
    wanted = calibrate("memory.capture", "--json", "memory.json")
    monkeypatch.setattr(reading, "IN_MEMORY", 0)
    assert calibrate("disk.capture", "--json", "disk.json") == wanted
    assert calibrate("two.capture", "--jobs", 2) == wanted
    assert calibrate("dask.capture", "--backend", "dask", "--jobs", 2) == wanted
    one, other = (json.loads(Path(name).read_text())["rows"] for name in ("memory.json", "disk.json"))
    assert one == other


def test_workers_find_the_model_and_strata_of_the_user(pushed, small_chunks, on_disk):
    write("log.parquet", log(4000, 1, 5))
    wanted = calibrate("here.capture", *OWN, "--episode", "run")
    assert calibrate("workers.capture", *OWN, "--episode", "run", "--jobs", 2) == wanted


def test_a_cluster_that_is_running_can_be_named(pushed, small_chunks, on_disk):
    from distributed import LocalCluster

    write("log.parquet", log(4000, 1))
    wanted = calibrate("here.capture")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        options = "--backend", "dask", "--cluster", cluster.scheduler_address
        assert calibrate("cluster.capture", *options) == wanted


def test_a_cluster_without_a_backend_or_that_is_not_there_is_refused(pushed, capsys):
    write("log.parquet", log(500, 1))
    said = refused(capsys, "calibrate", "log.parquet", *COLUMNS, "--cluster", "tcp://127.0.0.1:1")
    assert "without --backend" in said or "needs --backend" in said
    assert "jobs is 0" in refused(capsys, "calibrate", "log.parquet", *COLUMNS, "--jobs", "0")


def test_duplicates_are_found_in_a_sample_of_a_long_log(pushed, small_chunks, on_disk, monkeypatch, capsys):
    monkeypatch.setattr(reading, "SAMPLE", 500)
    data = log(3000, 1)
    twice = Transitions.from_arrays(*(np.vstack([part, part]) for part in (data.state, data.action, data.next)), *NAMES)
    write("log.parquet", twice)
    calibrate("robot.capture")
    said = " ".join(capsys.readouterr().out.split())
    assert "are exact duplicates of those to train on" in said
    assert "about" in said


@pytest.mark.parametrize("length", [None, 5])
def test_a_check_in_pieces_finds_what_it_finds_in_memory(pushed, small_chunks, monkeypatch, capsys, length):
    more = [] if length is None else ["--episode", "run"]
    write("log.parquet", log(4000, 1, length))
    calibrate("robot.capture", *more)
    write("new.parquet", log(2000, 2, length))
    main(["check", "robot.capture", "new.parquet", "--json", "memory.json"])
    monkeypatch.setattr(reading, "IN_MEMORY", 0)
    main(["check", "robot.capture", "new.parquet", "--json", "disk.json"])
    main(["check", "robot.capture", "new.parquet", "--json", "workers.json", "--jobs", "2"])
    found = [json.loads(Path(f"{name}.json").read_text()) for name in ("memory", "disk", "workers")]
    for part in ("rows", "findings", "alarm"):
        assert found[0][part] == found[1][part] == found[2][part]


def test_cells_of_many_regions_are_counted_for_some(pushed, monkeypatch):
    write("log.parquet", log(4000, 0))
    rows = []
    for measured in (5_000, 300):
        monkeypatch.setattr(command, "MEASURED", measured)
        calibrate("robot.capture", "--json", "rows.json")
        rows.append(json.loads(Path("rows.json").read_text())["rows"])
    assert [row["coverage"] for row in rows[0]] == [row["coverage"] for row in rows[1]]
    for one, other in zip(*rows):
        assert one["volume"] != other["volume"]
        assert 0.9 < one["volume"] / other["volume"] < 1.1


# -- more logs ------------------------------------------------------------------------------------------------------------


def test_a_calibration_grows_from_log_to_log(pushed, capsys):
    write("log.parquet", log(3000, 1))
    calibrate("robot.capture")
    for night in (2, 3):
        write("new.parquet", log(1000, night))
        main(["extend", "robot.capture", "new.parquet", "--out", "robot.capture", "--alarm", "1e-6"])
    cap = load_calibration("robot.capture")
    assert [source["rows"] for source in sources_of(cap)] == [1500, 1000, 1000]
    assert "3,500 transitions of 3 logs" in " ".join(capsys.readouterr().out.split())
    # what it was made from is neither added nor checked again
    assert "already in the calibration" in refused(capsys, "extend", "robot.capture", "new.parquet", "--out", "x.capture")
    assert "made from" in refused(capsys, "check", "robot.capture", "new.parquet")
    assert "made from" in refused(capsys, "check", "robot.capture", "log.parquet")
    write("fresh.parquet", log(1000, 4))
    main(["check", "robot.capture", "fresh.parquet"])


def test_sites_merge_what_they_extended_alone(pushed, capsys):
    write("log.parquet", log(3000, 1))
    calibrate("first.capture")
    write("there.parquet", log(2000, 2))
    main(["extend", "first.capture", "there.parquet", "--alone", "--out", "second.capture", "--alarm", "1e-6"])
    main(["extend", "first.capture", "second.capture", "--out", "both.capture"])
    main(["extend", "first.capture", "there.parquet", "--out", "extended.capture", "--alarm", "1e-6"])
    both, grown = load_calibration("both.capture"), load_calibration("extended.capture")
    np.testing.assert_array_equal(both.calibration_.scores, grown.calibration_.scores)
    write("fresh.parquet", log(1000, 4))
    main(["check", "both.capture", "fresh.parquet"])
    main(["extend", "first.capture", "second.capture", "fresh.parquet", "--out", "all.capture", "--alarm", "1e-6"])
    assert [source["rows"] for source in sources_of(load_calibration("all.capture"))] == [1500, 2000, 1000]
    assert "made from" in refused(capsys, "check", "all.capture", "fresh.parquet")
    alone = "extend", "first.capture", "second.capture", "fresh.parquet", "--alone", "--out", "x.capture"
    assert "--alone makes a calibration of one log" in refused(capsys, *alone)
    assert "no logs or calibrations are given" in refused(capsys, "extend", "first.capture", "--out", "x.capture")
    calibrate("other.capture", data="there.parquet")
    said = refused(capsys, "extend", "first.capture", "other.capture", "--out", "x.capture")
    assert "made for another model" in said or "than the first" in said
    assert not Path("x.capture").exists()


def test_a_log_of_a_robot_that_has_changed_is_not_added(pushed, capsys):
    write("log.parquet", log(3000, 1))
    calibrate("robot.capture")
    data = log(1000, 2)
    changed = Transitions.from_arrays(data.state, data.action, data.next + 0.3, *NAMES)
    write("new.parquet", changed)
    with pytest.raises(SystemExit) as ended:
        main(["extend", "robot.capture", "new.parquet", "--out", "more.capture"])
    assert ended.value.code == 1
    assert "looks different" in capsys.readouterr().out
    assert not Path("more.capture").exists()
    main(["extend", "robot.capture", "new.parquet", "--out", "more.capture", "--anyway"])
    assert Path("more.capture").exists()
