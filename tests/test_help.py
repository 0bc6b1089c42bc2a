"""The help of every command: readable at any width, and complete."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from capture_cp import cli
from capture_lab.studies.study import study_of
from capture_lab.tasks.registry import find_task, task_names
from commands import refused

#: Arguments that make a command run something else than its name does.
VARIANTS = ("view robot.capture", "video robot.capture", "certify outcomes.csv")


def commands() -> Iterator[str]:
    """What can be asked for help."""
    for name, command in cli.COMMANDS.items():
        yield from (f"{name} {task}" for task in task_names()) if command.of_task else [name]
    yield from VARIANTS


OF_TASK = [name for name, command in cli.COMMANDS.items() if command.of_task]


def asked(capsys, *words):
    """The help that is printed."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*words])
    assert stop.value.code == 0
    return capsys.readouterr().out


def described(page):
    """The options in the boxes of a page: how each is written, and its text in one line."""
    lines = [line[2:].rstrip(" │") for line in page.splitlines() if re.match(r"[│ ] .*\S", line)]
    found = []
    for line in lines:
        option, _, text = line.partition("  ")
        if re.match(r"--?\w|\[?[A-Z]{2}", option):
            found.append((option, [text.strip()]))
        elif not option:
            found[-1][1].append(line.strip())
    return {option: " ".join(text).strip() for option, text in found}


@pytest.mark.parametrize("words", [*commands()])
def test_every_option_is_described_with_its_default(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    page = asked(capsys, *words.split(), "--help")
    assert page.startswith(f"usage: capture {words.split()[0]} ")
    assert max(map(len, page.splitlines())) <= 90
    options = described(page)
    assert options.pop("-h, --help")
    assert options
    for option, text in options.items():
        assert re.fullmatch(r"\S.{9,}[.?)] \((default: .*|required)\)", text), (option, text)


def test_the_help_of_a_certificate_check_is_its_own(capsys):
    with pytest.raises(SystemExit):
        cli._parsed(cli._loaded(cli.CERTIFICATE.where), "capture check", ["--help"])
    assert "certificate" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120])
def test_the_overview_has_a_line_for_each_command(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    page = asked(capsys, "--help")
    assert max(map(len, page.splitlines())) <= width
    for name, command in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", page, re.MULTILINE)
    for option in ("--help", "--version"):
        assert option in page.partition("\nOptions:\n")[2]


@pytest.mark.parametrize("name", OF_TASK)
def test_without_a_task_the_options_of_the_default_task_are_listed(capsys, name):
    page = asked(capsys, name, "--help")
    assert f"`capture {name} TASK --help`" in " ".join(page.split())
    assert "--maps" in page
    if name == "view":
        assert "capture view robot.capture" in " ".join(page.split())


def test_an_unknown_command_is_answered_with_the_nearest_one(capsys):
    assert "Did you mean 'calibrate'?" in refused(capsys, "calibrat")
    assert "Did you mean 'marble'?" in refused(capsys, "plan", "marbel")


def test_an_unknown_option_is_answered_with_the_nearest_one(capsys):
    printed = refused(capsys, "coverage", "box", "--particle", "3")
    assert "Unrecognized options: --particle, 3" in printed
    assert "--particles INT" in printed


@pytest.mark.parametrize(("word", "expected"), [("None", None), ("3", 3)])
def test_an_optional_value_can_be_none(word, expected):
    study = cli._loaded(cli.COMMANDS["coverage"].where)
    found = cli._parsed(study_of(study, find_task("marble")), "capture coverage marble", ["--max-leaves", word])
    assert found.max_leaves == expected
