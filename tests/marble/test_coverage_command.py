"""The coverage command: parts that resume, the same results however it is run, and bad input refused."""

from __future__ import annotations

import json

import pytest

from capture_cp import CaptureWarning
from capture_cp.cli import main
from capture_lab.studies import coverage as study_module
from capture_lab.studies.coverage import CoverageStudy
from capture_lab.studies.part_store import PartStore
from capture_lab.tasks.marble import task as marble_task
from capture_lab.tasks.marble.options import MarbleOptions
from commands import refused
from marble.boards import write_map

STRATA = ("free", "edge", "corner")


# -- parts ----------------------------------------------------------------------------------------------------------------


def test_store_gives_back_what_was_added_for_the_same_settings(tmp_path):
    store = PartStore(tmp_path / "new" / "folder", "job", {"mc": 1})
    store.add(0, {"a": 1})
    store.add(2, {"a": 3})
    found = {(name, mc): PartStore(store.file.parent, name, {"mc": mc}).load() for name in ("job", "other") for mc in (1, 2)}
    assert found.pop(("job", 1)) == {0: {"a": 1}, 2: {"a": 3}}
    assert not any(found.values())
    kept_nowhere = PartStore(None, "job", {})
    kept_nowhere.add(0, {"a": 1})
    assert kept_nowhere.load() == {}


def test_line_cut_short_is_ignored_and_written_again(tmp_path):
    store = PartStore(tmp_path, "job", {})
    store.add(0, {"a": 1})
    store.add(1, {"a": 2})
    whole = store.file.read_text()
    for left in range(1, 30):
        store.file.write_text(whole[: len(whole) - left])
        cut = left > 1  # one character less is only the end of the line
        assert store.load() == ({0: {"a": 1}} if cut else {0: {"a": 1}, 1: {"a": 2}})
        store.add(1, {"a": 2})
        assert store.load() == {0: {"a": 1}, 1: {"a": 2}}


def damaged_lines(line):
    """A line of a state file with each of its characters changed, and otherwise not the one that was written."""
    yield from (line[:i] + (b"0" if line[i : i + 1] != b"0" else b"1") + line[i + 1 :] for i in range(len(line)))
    yield from (b"", b"\xff", b"[]", b"null", b"[" * 5000, line[:-1], line + b"}", b'{"part": 1, "result": {"a": 2}}')
    yield json.dumps(json.loads(line) | {"part": 2}).encode()


def test_damaged_part_is_set_aside_and_missing(tmp_path):
    store = PartStore(tmp_path, "job", {})
    for part in range(3):
        store.add(part, {"a": part + 1})
    first, second, third, _ = store.file.read_bytes().split(b"\n")
    for damaged in damaged_lines(second):
        written = b"\n".join([first, damaged, third, b""])
        store.file.write_bytes(written)
        with pytest.warns(CaptureWarning, match=r"1 of 3 finished parts .* computed again; .* kept as job-.*\.damaged"):
            assert store.load() == {0: {"a": 1}, 2: {"a": 3}}
        assert store.file.with_name(f"{store.file.name}.damaged").read_bytes() == written
        assert store.load() == {0: {"a": 1}, 2: {"a": 3}}  # the sound lines are whole again, and nobody is warned
        store.add(1, {"a": 2})
        assert sorted(store.load()) == [0, 1, 2]


def test_line_of_another_job_is_not_taken(tmp_path):
    other, store = PartStore(tmp_path, "job", {"mc": 1}), PartStore(tmp_path, "job", {"mc": 2})
    other.add(0, {"a": 1})
    store.file.write_bytes(other.file.read_bytes())
    with pytest.warns(CaptureWarning, match="damaged"):
        assert store.load() == {}


# -- the command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_design(monkeypatch):
    """3 x 3 positions instead of 8 x 8: three parts a map."""
    monkeypatch.setattr(marble_task, "GRID_POSITIONS", 3)


@pytest.fixture
def run(tmp_path, small_design):
    """Runs the study on a small map of our own: its rows."""
    file = write_map(tmp_path)

    def rows(*options):
        output = tmp_path / "rows.json"
        methods = ["--methods", "pcp", "capture"]
        main(["coverage", "marble", "--maps", str(file), "--mc", "2", *methods, "--json", str(output), *map(str, options)])
        return json.loads(output.read_text())["rows"]

    return rows


def test_results_do_not_depend_on_jobs(run):
    assert run("--jobs", 2) == run("--jobs", 1)


def test_study_resumes_where_it_stopped(run, tmp_path, monkeypatch):
    expected = run()
    assert run("--state", tmp_path / "state") == expected
    (file,) = (tmp_path / "state").iterdir()
    first, second, *_ = file.read_text().splitlines(keepends=True)
    file.write_text(first + second[:40])
    counted, count = [], study_module.count
    monkeypatch.setattr(study_module, "count", lambda *given: counted.append(given[-1].start) or count(*given))
    assert run("--state", tmp_path / "state") == expected
    assert counted == [4096, 8192]


@pytest.mark.filterwarnings("default::capture_cp.CaptureWarning")  # printed, as on the command line
def test_changed_digit_in_a_state_changes_no_table(run, tmp_path, capsys):
    expected = run("--state", tmp_path / "state")
    (file,) = (tmp_path / "state").iterdir()
    text = file.read_text()
    place = text.index('"sums": [[') + len('"sums": [[')
    file.write_text(f"{text[:place]}{9 - int(text[place])}{text[place + 1 :]}")
    assert run("--state", tmp_path / "state") == expected
    assert "is damaged: 1 of 3 finished parts" in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [file.name, f"{file.name}.damaged"]


def test_finished_study_is_not_done_again(run, tmp_path, monkeypatch):
    expected = run("--state", tmp_path / "state")
    monkeypatch.setattr(CoverageStudy, "calibrate", None)
    assert run("--state", tmp_path / "state") == expected


def identity(changes, **more):
    """What the finished parts of a study on one map are known by; changes of the map's options are among the others."""
    options = MarbleOptions(**{"maps": ("center",)} | {k: v for k, v in changes.items() if k in vars(MarbleOptions())})
    own = {key: value for key, value in changes.items() if key not in vars(options)}
    (task,) = options.places().values()
    return CoverageStudy.of(options, **own, **more).identity(task)


def test_parts_are_for_the_settings_that_change_results(tmp_path):
    changes = {"mc": 3, "seed": 1, "alpha": 0.2, "tree": "per-stratum", "design": "random", "test_design": "random",
               "particles": 8, "min_leaf": 300, "max_leaves": 3, "max_depth": 8, "absorb": True,
               "maps": ("top-left",)}  # fmt: skip
    stores = [PartStore(tmp_path, "job", identity(changed)) for changed in ({}, *({k: v} for k, v in changes.items()))]
    assert len({store.name for store in stores}) == 1 + len(changes)
    assert identity({}, device="auto", jobs=2, json=tmp_path / "rows.json", state=tmp_path) == identity({})


def test_row_of_all_maps_holds_every_outcome(tmp_path, small_design):
    output = tmp_path / "rows.json"
    maps = [str(write_map(tmp_path)), "top-left"]
    main(["coverage", "marble", "--maps", *maps, "--mc", "1", "--methods", "pcp", "--json", str(output)])
    rows = json.loads(output.read_text())["rows"]
    for stratum in ("all", *STRATA):
        n = {row["map"]: row["n"] for row in rows if row["stratum"] == stratum}
        assert n["all maps"] == sum(n[name] for name in maps)


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--maps", "centr"], "Did you mean 'center'?"),
        (["--methods", "captur"], "Did you mean 'capture'?"),
        (["--methods"], "method"),
        (["--maps"], "map"),
        (["--mc", "0"], "mc is 0"),
        (["--seed", str(2**64)], "seed"),
        (["--sizes", "0"], "sizes is 0"),
        (["--sizes", "1000000000"], "1,000,000,000"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_option_ends_with_one_sentence_and_status_2(options, said, capsys, small_design):
    maps = [] if options[0] == "--maps" else ["--maps", "top-left"]
    assert said in refused(capsys, "coverage", "marble", *maps, "--mc", "1", *options)


def test_corrected_model_that_does_not_exist_is_refused_before_the_work(capsys, monkeypatch):
    monkeypatch.setattr(CoverageStudy, "tests", None)
    assert "box has no corrected model" in refused(capsys, "coverage", "box", "--methods", "capture-residual")


@pytest.mark.parametrize("option", ["--json", "--state"])
def test_place_that_cannot_be_written_is_refused_before_the_work(option, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(CoverageStudy, "calibrate", None)
    file = str(tmp_path / "file" / "rows.json")
    assert "file" in refused(capsys, "coverage", "marble", "--maps", "top-left", option, file)
