"""capture certify and capture check, as people use them: tasks, logged outcomes, wrong input."""

import json

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.outcomes import Outcomes
from capture_cp.cli import main
from capture_lab.tasks.box import Box
from capture_lab.tasks.candidates import CandidateRow, fingerprints, fit_candidate, parsed
from capture_lab.tasks.task import STARTS


def capture(*arguments):
    """Exit status of a command."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def log(file, rates, n=200):
    rng = np.random.default_rng(0)
    parts = [Outcomes.of(name, np.where(rng.random(n) < rate, "fell", "success").tolist()) for name, rate in rates.items()]
    Outcomes.concatenate(parts).write(file)
    return file


@pytest.fixture
def outcomes(tmp_path):
    return log(tmp_path / "outcomes.csv", {"slow": 0.01, "fast": 0.2})


def test_a_log_of_outcomes_is_certified_and_checked(outcomes, tmp_path, capsys):
    made, page = tmp_path / "c.json", tmp_path / "c.html"
    assert capture("certify", outcomes, "--risks", "fell=0.05", "--certificate", made, "--report", page) == 0
    shown = capsys.readouterr().out
    assert "at most 5% end in 'fell'" in " ".join(shown.split())
    assert Certificate.load(made).setting == "slow"
    assert page.read_text().startswith("<!doctype html>")
    assert capture("check", made, log(tmp_path / "well.csv", {"slow": 0.02})) == 0
    assert "No evidence against" in capsys.readouterr().out
    assert capture("check", made, log(tmp_path / "ill.csv", {"slow": 0.3})) == 1
    assert "no longer holds" in capsys.readouterr().out


def test_a_history_remembers_earlier_outcomes(outcomes, tmp_path, capsys):
    made, history = tmp_path / "c.json", tmp_path / "h.json"
    capture("certify", outcomes, "--risks", "fell=0.05", "--certificate", made)
    ends = [
        capture("check", made, log(tmp_path / f"{n}.csv", {"slow": 0.12}, 40 + n), "--history", history, "--alarm", 0.05)
        for n in range(8)
    ]
    assert ends[0] == 0
    assert ends[-1] == 1
    assert "checked before" not in capsys.readouterr().out
    capture("check", made, tmp_path / "0.csv", "--history", history, "--alarm", 0.05)
    assert "checked before" in capsys.readouterr().out


def test_nothing_certified_is_status_1(outcomes, capsys):
    assert capture("certify", outcomes, "--risks", "fell=0.001") == 1
    assert "No setting is certified" in capsys.readouterr().out


def test_a_ladder_is_tested_in_its_order(outcomes, tmp_path):
    rows = tmp_path / "rows.json"
    capture("certify", outcomes, "--risks", "fell=0.05", "--ladder", "fast", "slow", "--json", rows)
    assert [row["certified"] for row in json.loads(rows.read_text())["rows"]] == [False, False]
    capture("certify", outcomes, "--risks", "fell=0.05", "--ladder", "slow", "fast", "--json", rows)
    assert [row["certified"] for row in json.loads(rows.read_text())["rows"]] == [True, False]


def test_misspelled_outcomes_are_pointed_out(outcomes, capsys):
    assert capture("certify", outcomes, "--risks", "fel=0.05") == 0
    assert "no episode ended in 'fel'" in capsys.readouterr().out


def test_logs_of_other_shapes(tmp_path, capsys):
    file = tmp_path / "o.csv"
    file.write_text("when,ended,operator\n" + "2026-01-01,0,me\n" * 100)
    assert capture("certify", file, "--outcome", "ended", "--success", "0") == 0
    assert "'as logged'" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("content", "arguments", "match"),
    [
        (None, (), "does not exist"),
        ("", (), "is empty"),
        ("outcome\n", (), "holds no episodes"),
        ("a,b\n1,2\n", (), "its columns are a, b"),
        ("outcome,outcome\nfell,fell\n", (), "repeats a column name"),
        ("outcome,x\nfell\n", (), "line 2 of"),
        ("outcome,x\nfell,1\n,2\n", (), "line 3 of"),
        ("outcome,steps\nfell,many\n", (), "is not numeric"),
        ("outcome\nfell\n", ("--risks", "fell=7"), "cannot be read"),
        ("outcome\nfell\n", ("--beta", "2"), "beta is 2"),
        ("outcome\nfell\n", ("--anytime",), "fixed in advance"),
        ("setting,outcome\na,fell\n", ("--ladder", "b", "--risks", "fell=0.1"), "not among the candidates b"),
        ("outcome\nfell\n", ("--certificate", "/nowhere/c.json"), "/nowhere"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(tmp_path, capsys, content, arguments, match):
    file = tmp_path / "o.csv"
    if content is not None:
        file.write_text(content)
    assert capture("certify", file, *arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert match in said
    assert said.count("error:") == 1
    assert "Traceback" not in said


def test_neither_task_nor_file(capsys):
    assert capture("certify", "marbel") == 2
    assert "marbel does not exist" in capsys.readouterr().err
    assert capture("certify") == 2
    assert "needs a file of outcomes, or a task" in capsys.readouterr().err


# -- tasks ----------------------------------------------------------------------------------------------------------------

SMALL = ("--candidates", "samples=8,horizon=2", "samples=4,horizon=1", "--calibration", "2000")


def test_a_task_is_certified_once(tmp_path, capsys):
    given = (*SMALL, "--episodes", 40, "--fresh", 10, "--risks", "fell=0.5", "--out", tmp_path, "--state", tmp_path / "s")
    assert capture("certify", "--task", "box", *given) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "10 fresh episodes" in shown
    made = Certificate.load(tmp_path / "box-box.certificate.json")
    assert set(made.fingerprints) == {"planner", "task", "calibration"}
    assert len(Outcomes.read(tmp_path / "box-box.outcomes.csv")) == 80
    assert capture("certify", "--task", "box", *given) == 0
    assert " ".join(capsys.readouterr().out.split()) == shown


def test_stopping_early_gives_the_same_on_several_processes(tmp_path):
    given = ("certify", "--task", "box", *SMALL, "--episodes", 60, "--anytime", "--risks", "fell=0.4")
    for jobs in (1, 2):
        capture(*given, "--json", tmp_path / f"{jobs}.json", "--jobs", jobs)
    one, two = (json.loads((tmp_path / f"{jobs}.json").read_text())["rows"] for jobs in (1, 2))
    assert one == two


def test_plan_refuses_what_the_certificate_is_not_for(tmp_path, capsys):
    chosen = CandidateRow.of(Box(), parsed("samples=8,horizon=2"))
    few = ("--candidates", "samples=8,horizon=2", "--episodes", 30, "--risks", "fell")
    capture("certify", "--task", "box", *few, "--out", tmp_path)
    file = tmp_path / "box-box.certificate.json"
    same = "--methods", "capture", "--samples", 8, "--horizon", 2, "--episodes", 1, "--certificate", file
    assert chosen.settings == Certificate.load(file).settings
    assert capture("plan", "box", *same) == 0
    capsys.readouterr()
    assert capture("plan", "box", *same, "--alpha", 0.2) == 2
    assert "is for alpha = 0.1, but this planner has 0.2" in " ".join(capsys.readouterr().err.split())
    assert capture("plan", "box", *same, "--calibration", 1500) == 2
    assert "made for another" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("samples", "cannot be read"),
        ("samples=8,samples=9", "cannot be read"),
        ("speed=1", "unknown setting"),
        ("samples=x", "a number"),
        ("samples=1.5", "a number"),
        ("method=none", "unknown method"),
        ("alpha=2", "alpha"),
    ],
)
def test_candidates_that_cannot_be_used(text, match):
    with pytest.raises(CaptureError, match=match):
        CandidateRow.of(Box(), parsed(text))


def test_fingerprints_tell_planners_apart():
    box, seen = Box(), set()
    for text in ("samples=8,horizon=2", "samples=9,horizon=2", "samples=8,horizon=3", "method=pcp,samples=8,horizon=2"):
        candidate = CandidateRow.of(box, parsed(text))
        fitted = fit_candidate(box, candidate, 0, 1500)
        assert fingerprints(fitted, 0.1) == fingerprints(fit_candidate(box, candidate, 0, 1500), 0.1)
        seen.add(fingerprints(fitted, 0.1)["planner"])
    seen.add(fingerprints(fit_candidate(box, CandidateRow.of(box, parsed("samples=8,horizon=2")), 1, 1500), 0.1)["planner"])
    assert len(seen) == 5


def test_random_starts_are_drawn_by_their_seeds():
    class Spread(Box):
        def starts(self, n):
            return np.arange(2 * n, dtype=float).reshape(n, 2)

    task = Spread()
    starts = task.random_starts(range(50))
    np.testing.assert_array_equal(starts[7:9], task.random_starts([7, 8]))
    assert len(np.unique(starts[:, 0])) > 40
    assert starts.max() < 2 * STARTS
