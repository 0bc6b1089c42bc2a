"""Modules that are imported when they are first used."""

from __future__ import annotations

import sys

import pytest

from capture_cp.base.loading import Deferred


def test_a_deferred_module_is_imported_once_when_it_is_used(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("def answer():\n    return 42")
    monkeypatch.syspath_prepend(tmp_path)
    late = Deferred("late_module")
    assert "late_module" not in sys.modules
    assert late.answer() == 42
    assert vars(late)["answer"] is sys.modules["late_module"].answer  # found without another look at the module
    with pytest.raises(AttributeError, match="no attribute 'question'"):
        late.question()


def test_a_deferred_module_can_be_looked_at_without_being_imported():
    absent = Deferred("no_such_module")
    assert not hasattr(absent, "__wrapped__")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        absent.anything()
