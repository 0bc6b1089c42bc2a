"""The examples that need other people's planners run from start to end."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from test_examples import FOLDER, PEERS, check_run

pytestmark = pytest.mark.peers
NEEDED = {"16_pytorch_mppi": ("pytorch_mppi",), "17_judo": ("judo",), "18_region_cost": ("torch", "jax")}


@pytest.mark.parametrize("name", sorted(PEERS))
def test_example_runs(name, tmp_path, monkeypatch, capsys):
    missing = [module for module in NEEDED[name] if find_spec(module) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    check_run(FOLDER / f"{name}.py", tmp_path, monkeypatch, capsys)
