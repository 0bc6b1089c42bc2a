"""The attacks themselves run with `make attack`; here only that a failure is counted as one, whatever it is."""

from __future__ import annotations

import json

import pytest

from attack import __main__ as attack
from attack.forged import places, replaced
from attack.row import Row


def test_a_try_fails_with_whatever_is_raised():
    row = Row("any")
    with row.trying("first"):
        pass
    for error in (AssertionError("wrong"), MemoryError(), KeyError("x")):
        with row.trying(type(error).__name__):
            raise error
    assert row.tries == 4
    assert row.failures == ["AssertionError: AssertionError: wrong", "MemoryError: MemoryError: ", "KeyError: KeyError: 'x'"]


def test_every_field_is_changed_once():
    value = {"a": [1, 2, 3], "b": {"c": None}}
    assert list(places(value)) == [("a",), ("a", 0), ("a", 1), ("b",), ("b", "c")]
    assert replaced(value, ("b", "c"), 7) == {"a": [1, 2, 3], "b": {"c": 7}}
    assert value["b"]["c"] is None


@pytest.mark.parametrize("failures", [[], ["it broke"]])
def test_failures_decide_the_exit_status(failures, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attack, "attacked", lambda name, seed: [Row(name, 3, failures)])
    monkeypatch.setattr("sys.argv", ["attack", "--only", "disks", "--json", str(tmp_path / "rows.json")])
    assert attack.main() == len(failures)
    assert f"3 tries, {len(failures)} failures" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert row == {"attack": "disks", "tries": 3, "failures": failures, "note": ""}


def test_an_attack_that_dies_is_a_failure(monkeypatch):
    monkeypatch.setattr(attack.sys, "executable", "false")
    (row,) = attack.attacked("disks", 0)
    assert "ended with exit status 1" in row.failures[0]
