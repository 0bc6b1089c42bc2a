"""What is published: lowest versions that are written down, and a source archive with everything that its README uses."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_dependency_has_a_lowest_version_that_can_be_installed_and_tested():
    printed = subprocess.run(
        [sys.executable, ROOT / ".ci" / "minima.py", "sim"], capture_output=True, text=True, check=True
    ).stdout
    found = dict(line.split("==") for line in printed.splitlines())
    assert {"numpy", "scipy", "numba", "joblib", "mujoco"} <= set(found)
    wanted = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["sim"]
    assert sorted(wanted) == sorted(f"{name}>={version}" for name, version in found.items())


def test_the_check_of_mujoco_agrees_with_the_lowest_version():
    from capture_cp.spaces.mujoco_model import OLDEST

    (requirement,) = PROJECT["project"]["optional-dependencies"]["sim"]
    assert requirement == f"mujoco>={'.'.join(map(str, OLDEST))}"


def test_every_imported_package_is_declared():
    """joblib, say, comes with scikit-learn, but another version of that may bring none, or another one."""
    declared = {re.split(r"[>=\[]", part)[0].replace("-", "_") for part in PROJECT["project"]["dependencies"]}
    names = {"scikit_learn": "sklearn"}
    declared = {names.get(name, name) for name in declared}
    pattern = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)  # at the top of a module: needed to import it
    extras = {"viser", "websockets", "mujoco", "matplotlib", "cuda", "torch", "jax", "trimesh", "gymnasium"}
    for file in (ROOT / "src").rglob("*.py"):
        imported = set(pattern.findall(file.read_text(encoding="utf-8")))
        assert imported <= declared | extras | {"capture_cp", "capture_lab"} | sys.stdlib_module_names, file


def test_the_source_archive_holds_every_tracked_file():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    included = {name.removeprefix("/") for name in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    # .gitignore and pyproject.toml are in every archive of hatchling's
    assert {name.split("/")[0] for name in tracked} == included | {".gitignore", "pyproject.toml"}
