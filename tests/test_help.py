"""The help of every command: readable at any width, and complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import tyro

from capture_cp import cli
from capture_cp.cli.help_page import help_page
from capture_cp.cli.options import options_of
from capture_cp.studies.study import study_of
from capture_cp.tasks.registry import find_task, task_names

#: Arguments that make a command run something else than its name does.
VARIANTS = {
    "view robot.capture": cli.ROBOT_VIEW,
    "video robot.capture": cli.ROBOT_VIDEO,
    "certify outcomes.csv": cli.OUTCOMES,
    "calibrate --env CartPole-v1": cli.ENVIRONMENT,
}


def commands() -> Iterator[tuple[str, Any]]:
    """What can be asked for help, and the dataclass of its options."""
    for name, command in cli.COMMANDS.items():
        kind = cli._loaded(command.where)
        if command.of_task:
            yield from ((f"{name} {task}", study_of(kind, find_task(task))) for task in task_names())
        else:
            yield name, kind
    yield from ((words, cli._loaded(command.where)) for words, command in VARIANTS.items())
    yield "check certificate.json", cli._loaded(cli.CERTIFICATE.where)


COMMANDS = dict(commands())
OF_TASK = [name for name, command in cli.COMMANDS.items() if command.of_task]


def asked(capsys, *words):
    """The help that is printed."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*words])
    assert stop.value.code == 0
    return capsys.readouterr().out


def check(page, width):
    for line in page.splitlines():
        assert len(line) <= width, line
    for noise in ("{None}", "None|", "(default: )", "(default: None)", "(default: False)", "\N{NO-BREAK SPACE}"):
        assert noise not in page


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_readable_help(words, width):
    check(help_page(COMMANDS[words], f"capture {words}", width, task="marble", hints=["A hint."]), width)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_option_is_explained(words):
    for option in options_of(COMMANDS[words]):
        assert re.search(r"^\S.*[.?)]$", option.help), option
        assert len(option.help) >= 10, option


@pytest.mark.parametrize("words", COMMANDS)
def test_the_page_lists_the_options_that_are_parsed(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        tyro.cli(COMMANDS[words], prog="capture", args=["--help"])
    parsed = re.findall(r"^[ |│] --(\w[\w-]*)", capsys.readouterr().out, re.MULTILINE)
    shown = [option.name for option in options_of(COMMANDS[words]) if not option.positional]
    assert len(shown) == len(set(shown))
    assert sorted(shown) == sorted(parsed)


@pytest.mark.parametrize("width", [80, 120])
def test_the_overview_has_a_line_for_each_command(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    page = asked(capsys, "--help")
    check(page, width)
    for name, command in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", page, re.MULTILINE)
    for option in ("--help", "--version"):
        assert option in page.partition("\nOptions:\n")[2]


@pytest.mark.parametrize("words", [*VARIANTS, "calibrate", "plan peg"])
def test_help_is_printed_as_wide_as_the_terminal(capsys, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    page = asked(capsys, *words.split(), "--help")
    check(page, 80)
    assert page.startswith(f"usage: capture {words.split()[0]} ")
    assert max(map(len, page.splitlines())) > 70


@pytest.mark.parametrize("name", OF_TASK)
def test_without_a_task_the_options_of_the_default_task_are_listed(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    page = asked(capsys, name, "--help")
    check(page, 80)
    assert "TASK" in page.splitlines()[0]
    assert "Task (marble):" in page
    assert "--maps" in page
    if name == "view":
        assert "capture view robot.capture" in " ".join(page.split())


def test_options_of_many_kinds_stand_under_headings(capsys):
    page = asked(capsys, "calibrate", "-h")
    headings = re.findall(r"^([A-Z].*):$", page, re.MULTILINE)
    assert headings[0] == "Required"
    assert {"Model and strata", "Method", "Split of the log", "Output", "Computing"} <= set(headings)


def test_a_flag_that_is_on_can_be_turned_off(capsys):
    assert "--[no-]brake" in asked(capsys, "promises", "box", "--help")
    page = asked(capsys, "view", "box", "--help")
    assert "--open " in page
    assert "--no-open" not in page


@pytest.mark.parametrize(("word", "expected"), [("None", None), ("3", 3)])
def test_an_optional_value_can_be_none(word, expected):
    study = cli._loaded(cli.COMMANDS["coverage"].where)
    found = cli._parsed(study_of(study, find_task("marble")), "capture coverage marble", ["--max-leaves", word])
    assert found.max_leaves == expected
