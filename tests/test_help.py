"""The help of every command: readable at any width, and complete."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from capture_cp import cli
from capture_lab.studies.study import study_of
from capture_lab.tasks.registry import find_task, task_names
from commands import refused


def commands() -> Iterator[str]:
    """What can be asked for help."""
    for name, command in cli.EVERY.items():
        if command.own:
            yield name
        if command.study:
            yield from (f"{name} {task}" if command.named else f"{name} --task {task}" for task in task_names())


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
        cli._parsed(cli._loaded(cli.INSTEAD["check", "certificate"]), "capture check", ["--help"])
    assert "certificate" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120])
def test_the_overview_has_a_line_for_each_command(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    page = asked(capsys, "--help")
    assert max(map(len, page.splitlines())) <= width
    for name, command in cli.EVERY.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", page, re.MULTILINE)
    for option in ("--help", "--version"):
        assert option in page.partition("\nOptions:\n")[2]


@pytest.mark.parametrize("name", [name for name, command in cli.EVERY.items() if command.study])
def test_the_help_says_how_a_task_is_named(capsys, name):
    page = " ".join(asked(capsys, name, "--help").split())
    command = cli.EVERY[name]
    if command.own:
        assert f"For a task: capture {name} --task NAME" in page
    else:
        assert f"`capture {name} {'TASK' if command.named else '--task TASK'} --help`" in page
        assert "--maps" in page


FORMER = [
    *cli.FORMER.items(),
    ("view marble", "marble is a task: capture view --task marble."),
    ("certify box", "box is a task: capture certify --task box."),
    ("demo box", "box is a task: capture demo --task box."),
]


@pytest.mark.parametrize(("words", "answer"), FORMER)
def test_former_words_are_answered_with_the_new_ones(capsys, words, answer):
    assert answer in refused(capsys, *words.split())


def test_an_unknown_command_is_answered_with_the_nearest_one(capsys):
    assert "Did you mean 'calibrate'?" in refused(capsys, "calibrat")
    assert "Did you mean 'marble'?" in refused(capsys, "plan", "marbel")


def test_an_unknown_option_is_answered_with_the_nearest_one(capsys):
    printed = refused(capsys, "coverage", "box", "--particle", "3")
    assert "Unrecognized options: --particle, 3" in printed
    assert "--particles INT" in printed


@pytest.mark.parametrize(("word", "expected"), [("None", None), ("3", 3)])
def test_an_optional_value_can_be_none(word, expected):
    study = cli._loaded(cli.EVERY["coverage"].study)
    found = cli._parsed(study_of(study, find_task("marble")), "capture coverage marble", ["--max-leaves", word])
    assert found.max_leaves == expected
