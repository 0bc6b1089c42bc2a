"""Machines on which compiled code cannot be kept: nothing may fail, and one warning says what it costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import capture_cp
from capture_cp.base.files import folder_of_this_run

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
    assert "set NUMBA_CACHE_DIR to a writable folder" in found.stderr
    assert "Traceback" not in found.stderr


def test_code_that_cannot_be_cached_is_kept_in_a_private_folder_for_the_run():
    assert folder_of_this_run().stat().st_mode & 0o077 == 0
    program = "from capture_cp.base.files import folder_of_this_run; print(folder_of_this_run())"
    left = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    assert left
    assert not Path(left).exists()
