"""The GPU's kernels without a GPU: their tests in numba's simulator, which must be chosen before numba is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_kernels_in_the_simulator():
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "cuda", here / "gpu"]
    done = subprocess.run(
        command, env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, cwd=here.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
