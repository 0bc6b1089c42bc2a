"""Machines on which compiled code cannot be kept: nothing may fail, and one warning says what it costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import pytest

import capture_cp
from capture_cp import CaptureWarning
from capture_cp.base.files import cache_folder
from capture_cp.kernels import compiler

SOURCE = Path(capture_cp.__file__).parent


@pytest.fixture
def locked_down(tmp_path):
    """Runs Python with a package and a home that cannot be written to, not even by the superuser."""
    copy = tmp_path / "packages" / "capture_cp"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copy, *(entry for entry in copy.rglob("*") if entry.is_dir())):
        (folder / "__pycache__").touch()  # a file where a folder would have to be
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "XDG_"))}
    environment |= {"PYTHONPATH": str(copy.parent), "HOME": "/dev/null/none", "XDG_CACHE_HOME": "/dev/null/none"}

    def run(*arguments, **more):
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(command, env=environment | more, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


def test_without_a_place_for_compiled_code_everything_works_with_one_warning(locked_down):
    imported = "import capture_cp, sys; from capture_cp.planning import MPPI; from capture_cp.cli import main"
    program = f"{imported}; print(capture_cp.__file__); main(sys.argv[1:])"
    found = locked_down("-c", program, "--version")
    assert found.returncode == 0, found.stderr
    assert "packages/capture_cp" in found.stdout
    assert "capture-cp 0." in found.stdout
    assert found.stderr.count("compiled code cannot be cached on disk") == 1
    assert "Traceback" not in found.stderr


def test_compiled_functions_run_where_they_cannot_be_kept(locked_down):
    program = "from capture_cp.kernels.distance import squared_limit; print(squared_limit(0.5))"
    found = locked_down("-c", program)
    assert found.returncode == 0, found.stderr
    assert float(found.stdout) == pytest.approx(0.25)


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(compiler, "_warned", False)


def ours(function):
    function.__module__ = "capture_cp.test"
    return numba.njit(cache=True)(function)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PermissionError(13, "Permission denied")])
def test_a_disk_that_takes_no_more_costs_a_warning(fresh, monkeypatch, error):
    def full(self, *given):
        raise error

    twice = ours(lambda x: 2 * x)
    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    with pytest.warns(CaptureWarning, match=rf"compiled code cannot be cached on disk \({error.strerror}\)"):
        assert twice(4) == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert twice(4.5) == 9.0  # compiled again, and not printed again


def test_a_damaged_cache_costs_a_warning(fresh, monkeypatch):
    def damaged(self, *given):
        raise EOFError("Ran out of input")

    thrice = ours(lambda x: 3 * x)
    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "load", damaged)
    with pytest.warns(CaptureWarning, match="EOFError: Ran out of input"):
        assert thrice(4) == 12


def test_functions_of_others_are_left_to_numba(monkeypatch):
    def full(self, *given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    with pytest.raises(OSError, match="No space left"):
        numba.njit(cache=True)(lambda x: 4 * x)(4)


def test_a_user_without_a_home_has_a_private_folder_for_the_run(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    folder = cache_folder()
    assert folder == cache_folder()
    assert folder.stat().st_mode & 0o077 == 0
    program = "from capture_cp.base.files import _folder_of_this_run; print(_folder_of_this_run())"
    left = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    assert left
    assert not Path(left).exists()
