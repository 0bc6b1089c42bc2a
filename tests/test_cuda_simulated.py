"""The GPU's kernels without a GPU: their tests in numba's simulator, which must be chosen before numba is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted((HERE / "gpu").glob("test_*.py"))
PARTS = 2  # few, as each imports everything anew and fits its own calibrations; two, for workers to share


@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_in_the_simulator(part):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "cuda"]
    settings = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([*command, *FILES[part::PARTS]], env=settings, capture_output=True, text=True, cwd=HERE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
