"""The command: what it prints and writes, options in words, and the example that needs no data."""

import json
import shlex

import pytest

from capture_cp.cli import main
from commands import refused
from gap.worlds import ARM, BALL, drops, reaches

ROW = {
    "simulator",
    "mode",
    "mode_at",
    "steps",
    "seconds",
    "alpha",
    "confidence",
    "quantity",
    "unit",
    "bound",
    "episodes",
    "rows",
}
COMPARISON = {"simulator", "against", "mode", "steps", "closer", "tied", "farther", "share", "ci95", "ratio"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ball.xml").write_text(BALL.format(solref=0.02))
    (tmp_path / "soft.xml").write_text(BALL.format(solref=0.06))
    drops(tmp_path / "drops.parquet")
    return tmp_path


def run(*words):
    main(["gap", *map(str, words)])


def test_rows_trust_and_comparisons_are_written_as_json(here, capsys):
    run("soft.xml", "ball.xml", "drops.parquet", "--steps", 1, 4, "--tolerance", "5mm", "--json", "rows.json")
    found = json.loads((here / "rows.json").read_text())
    assert found["schema"] == 1
    assert set(found["rows"][0]) >= ROW
    assert set(found["comparisons"][0]) >= COMPARISON
    assert {"simulator", "mode", "trusted_steps"} <= set(found["trust"][0])
    assert {row["mode_at"] for row in found["rows"]} == {"end", "start"}
    said = capsys.readouterr().out
    assert "ball.position: 90% of errors are at most, in mm" in said
    assert "Trusted within 5 mm" in said
    assert (here / "gap.html").exists()


def test_the_page_says_how_to_make_it_again(here):
    words = ("soft.xml", "drops.parquet", "--steps", "2", "--touch", "0.004", "--mode-names", "1 point=ground")
    run(*words, "--json", "first.json")
    command = json.loads((here / "first.json").read_text())["page"]["commands"][0]
    main([*shlex.split(command)[1:], "--json", "again.json"])
    first, again = (json.loads((here / name).read_text()) for name in ("first.json", "again.json"))
    assert first["rows"] == again["rows"]


def test_columns_are_written_and_read_again(here):
    run("ball.xml", "drops.parquet", "--steps", 1, "--columns-file", "columns.toml", "--json", "first.json")
    text = (here / "columns.toml").read_text()
    assert "px" in text
    run("ball.xml", "drops.parquet", "--steps", 1, "--columns-file", "columns.toml", "--json", "again.json")
    first, again = (json.loads((here / name).read_text()) for name in ("first.json", "again.json"))
    assert first["rows"] == again["rows"]


def test_episodes_that_a_simulator_was_fitted_on_are_left_out(here):
    (here / "fitted.txt").write_text("0\n1\n")
    run("ball.xml", "drops.parquet", "--steps", 1, "--without", "fitted.txt", "--json", "rows.json")
    found = json.loads((here / "rows.json").read_text())
    assert {row["episodes"] for row in found["rows"]} == {10}
    assert any("2 episodes" in line for line in found["page"]["assumed"])


def test_jobs_change_nothing(here):
    run("ball.xml", "drops.parquet", "--steps", 1, "--noise", "position=1mm", "--json", "one.json")
    run("ball.xml", "drops.parquet", "--steps", 1, "--noise", "position=1mm", "--jobs", 2, "--json", "two.json")
    one, two = (json.loads((here / name).read_text())["rows"] for name in ("one.json", "two.json"))
    assert one == two


def test_an_arm_of_other_names_and_units(here):
    (here / "arm.xml").write_text(ARM.format(kp=20.0))
    reaches(here / "log.parquet", names=("one", "two"))
    run("arm.xml", "log.parquet", "--joints", "lift", "bend", "--steps", 1, "--json", "rows.json")
    rows = json.loads((here / "rows.json").read_text())["rows"]
    assert {row["quantity"] for row in rows} == {"lift", "bend", "tip"}
    assert {row["mode"] for row in rows} == {"free"}


def test_wrong_words_end_in_one_sentence(here, capsys):
    for words, sentence in (
        ((), "needs a simulator and a log"),
        (("ball.xml",), "needs a simulator and a log"),
        (("ball.xml", "drops.parquet", "--units", "ball"), "expected NAME=VALUE"),
        (("ball.xml", "drops.parquet", "--randomise", "friction=2"), "expected factors as LOW:HIGH"),
        (("ball.xml", "drops.parquet", "--randomise", "colour=0.5:2"), "colour"),
        (("drops.parquet", "ball.xml"), "is a model file, not a log"),
        (("nowhere:model", "drops.parquet"), "cannot import nowhere"),
        (("--example", "ball.xml"), "leave the names out"),
    ):
        assert sentence in refused(capsys, "gap", *words)
    assert not (here / "gap.html").exists()


def test_the_example_says_that_its_robot_is_simulated(here, capsys):
    run("--example", "--steps", 1, "--every", 4)
    assert "The robot of this page is simulated" in (here / "gap.html").read_text()
    assert "cube.position" in capsys.readouterr().out
