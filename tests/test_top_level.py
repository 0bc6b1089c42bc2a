"""What `import capture_cp` offers and what it loads: every public name, and nothing heavy before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import capture_cp

HEAVY = {"numpy", "scipy", "sklearn", "numba", "joblib", "rich", "tyro", "matplotlib", "pyarrow"}


def loaded(code: str) -> set[str]:
    """Which heavy packages a fresh process has loaded after the code."""
    shown = f"{code}\nimport sys; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout
    return set(printed.split()) & HEAVY


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import capture_cp; dir(capture_cp)") == set()


@pytest.mark.parametrize("name", ["CaptureError", "Transitions", "split_log", "Grid"])
def test_a_name_loads_no_learning_library(name):
    assert not loaded(f"import capture_cp; capture_cp.{name}") & {"sklearn", "matplotlib", "pyarrow", "rich", "tyro"}


def test_every_name_is_what_type_checkers_see():
    (block,) = (node for node in ast.parse(Path(capture_cp.__file__).read_text()).body if isinstance(node, ast.If))
    seen = {name.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert [seen.pop(package) for package in ("models", "planning")] == ["capture_cp"] * 2
    assert seen.pop("Any") == "typing"  # of the block itself
    assert sorted(seen) == capture_cp.__all__
    for name, module in seen.items():
        assert getattr(capture_cp, name) is getattr(import_module(module), name), name


def test_the_namespace_lists_every_name_and_no_other_exists():
    assert {*capture_cp.__all__, "__version__", "models", "planning"} <= set(dir(capture_cp))
    assert capture_cp.planning.MPPI
    assert capture_cp.models.ensemble
    with pytest.raises(AttributeError, match="has no attribute 'Captures'"):
        capture_cp.Captures  # noqa: B018
    with pytest.raises(ImportError):
        exec("from capture_cp import Captures")
