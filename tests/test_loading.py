"""Modules that are imported when they are first used, or on another thread."""

from __future__ import annotations

import sys
import threading
import warnings

import pytest

from capture_cp.base.loading import Deferred, imported_meanwhile

SLOW = """
import warnings
import slow_module_events as events
with warnings.catch_warnings():
    events.begun.set()
    events.go_on.wait(20)
"""


def test_filters_of_warnings_hold_while_a_module_is_imported(tmp_path, monkeypatch):
    """The module changes the filters before the block's work, and restores them in the middle of it."""
    (tmp_path / "slow_module_events.py").write_text("import threading\nbegun, go_on = threading.Event(), threading.Event()")
    (tmp_path / "slow_module.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    import slow_module_events as events

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with imported_meanwhile(("slow_module", "no_such_module")):
            assert events.begun.wait(20)
            events.go_on.set()
            while any(thread.name == "imports" for thread in threading.enumerate()):
                pass
            warnings.warn("heard", stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["heard"]
    assert "slow_module" in sys.modules


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
