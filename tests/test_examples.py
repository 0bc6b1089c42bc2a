"""Every example runs, prints what it should, and names the page of the documentation that explains it."""

import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
#: A size that makes it fast, and words that it must print.
RUNS = {
    "01_quick_start": ("3000", "corner"),
    "02_your_model_and_data": (None, "Region(alpha=0.1: free"),
    "03_strata_from_a_grid": ("1500", "corner"),
    "04_poses_in_the_plane": ("2500", "right end"),
    "05_six_methods": ("3000", "capture-k1"),
    "06_save_load_control_loop": ("3000", "regions held"),
    "07_planning_in_python": ("120", "arrived after"),
    "08_marble_planner": ("512", "ms per plan"),
    "09_peg": ("2500", "free"),
    "10_two_wheels": (None, "Region(alpha=0.1: all"),
    "11_block_among_walls": ("900", "other contact"),
    "12_panda_peg": ("800", "peg-left + peg-right"),
    "13_horizon": ("6000", "for all steps at once"),
    "14_online": ("1500", "held after the change"),
    "15_episodes": ("60", "after the change"),
    "16_pytorch_mppi": ("512", "success after"),
    "17_judo": ("2000", "with regions"),
    "18_region_cost": ("3000", "JAX, compiled: float32"),
    "19_gymnasium": ("9000", "transitions of"),
}
FILES = {
    "06_save_load_control_loop": "box.capture",
    "07_planning_in_python": "run.npz",
    "08_marble_planner": "marble.npz",
    "10_two_wheels": "wheels.png",
    "11_block_among_walls": "block.png",
    "12_panda_peg": "peg.png",
    "13_horizon": "box.horizon",
    "19_gymnasium": "box.csv",
}
#: Other people's planners: run by `make peers`, which has a separate environment for them.
PEERS = {"16_pytorch_mppi", "17_judo", "18_region_cost"}
MUJOCO = ("09_peg", "11_block_among_walls", "12_panda_peg")


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script.stem not in PEERS], ids=lambda script: script.stem
)
def test_example_runs(script, tmp_path, monkeypatch, capsys):
    if script.stem in MUJOCO and find_spec("mujoco") is None:
        pytest.skip("needs MuJoCo")
    check_run(script, tmp_path, monkeypatch, capsys)


def check_run(script, tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder; it must print the words and write the file listed above."""
    size, words = RUNS[script.stem]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), *([size] if size else [])])
    runpy.run_path(str(script), run_name="__main__")
    assert words in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ([FILES[script.stem]] if script.stem in FILES else [])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_is_short_and_states_what_you_learn(script):
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert text.startswith('"""Learn: ')
    assert f"Run: python examples/{script.name}" in text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_page_that_explains_an_example_mentions_it(script):
    page = ROOT / explaining_page(script)
    assert page.is_file(), f"{page} does not exist"
    assert f"examples/{script.name}" in page.read_text(encoding="utf-8")


def test_the_list_names_every_example_in_order_and_links_its_page():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    listed, linked, pages = zip(*re.findall(r"^\| \[`(\S+)`\]\((\S+)\) \|.*\| \[[^]]+\]\((\S+)\) \|$", text, re.MULTILINE))
    assert linked == listed
    assert list(listed) == [script.name for script in SCRIPTS] == [f"{name}.py" for name in RUNS]
    assert list(pages) == [f"../{explaining_page(script)}" for script in SCRIPTS]


def explaining_page(script):
    """The page of the documentation named in a script's docstring, relative to the repository."""
    found = re.search(r"^Explained in: (docs/\S+\.md)$", script.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f'{script.name} has no line "Explained in: docs/....md"'
    return found[1]
