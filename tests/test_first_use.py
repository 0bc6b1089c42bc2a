"""The first use: what is imported, what is compiled by whom, and that nothing is left behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

LONG = 300  # seconds after which a process that has not ended has failed
SYSTEM = "numpy", "numba", "scipy.special", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib"


def imported(program, *arguments):
    """Packages of `SYSTEM` that a program has imported when it ends."""
    found = f"[name for name in {SYSTEM} if name in sys.modules]"
    report = f"import atexit, sys; atexit.register(lambda: print(*{found}, file=sys.stderr))"
    command = [sys.executable, "-c", f"{report}\n{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("given", ["--help", "--version", "nonsense"])
def test_pages_that_need_no_numbers_import_no_numerical_package(given):
    assert imported("from capture_cp.cli import main; main()", given) == set()


@pytest.mark.parametrize("given", [("demo", "--help"), ("plan", "marble", "--help"), ("calibrate", "--help")])
def test_help_of_a_command_imports_no_statistics(given):
    assert imported("from capture_cp.cli import main; main()", *given) <= {"numpy", "numba"}


@pytest.mark.parametrize("names", ["Capture, GridStrata, Tree", "HorizonCapture, SE3", "Monitor", "fit_log", "certify"])
def test_the_method_imports_neither_statistics_nor_the_compiler(names):
    assert imported(f"from capture_cp import {names}") == {"numpy"}
