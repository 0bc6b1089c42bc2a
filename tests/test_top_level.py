"""What `import capture_cp` offers and what it loads: every public name, and nothing heavy before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import capture_cp

HEAVY = (
    "numpy",
    "numba",
    "scipy.special",
    "scipy.stats",
    "sklearn",
    "joblib",
    "rich",
    "tyro",
    "matplotlib",
    "pyarrow",
    "torch",
    "jax",
    "mujoco",
)


def loaded(program: str, *arguments: str) -> set[str]:
    """Heavy packages that a program has imported when it ends, however it ends."""
    found = f"[name for name in {HEAVY} if name in sys.modules]"
    report = f"import atexit, sys; atexit.register(lambda: print(*{found}, file=sys.stderr))"
    command = [sys.executable, "-c", f"{report}\n{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded("import capture_cp; dir(capture_cp)") == set()


@pytest.mark.parametrize("names", ["Capture, Grid, Tree, Transitions", "HorizonCapture, SE3", "Monitor, fit_log, certify"])
def test_the_method_loads_neither_statistics_nor_the_compiler(names):
    assert loaded(f"from capture_cp import {names}") == {"numpy"}


@pytest.mark.parametrize(
    ("given", "allowed"),
    [(["--help"], {"numpy"}), (["nonsense"], {"numpy"}), (["plan", "marble", "--help"], {"numpy", "numba"})],
    ids=["help", "nonsense", "help of a command"],
)
def test_help_loads_no_more_than_it_needs(given, allowed):
    used = loaded("from capture_cp.cli import main; main()", *given)
    assert used - {"rich", "tyro"} <= allowed


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
