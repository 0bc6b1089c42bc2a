"""Logs of Gymnasium environments: what is written, what survives a stop, and what is refused."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from capture_cp import Capture, read_transitions
from capture_cp.cli import main
from capture_lab.tasks.box import Box
from commands import refused

HERE = Path(__file__).parent


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of the user's, in which commands are run."""
    shutil.copy(HERE / "rooms_of_mine.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "rooms_of_mine", raising=False)
    yield tmp_path
    for name in [name for name in gymnasium.registry if name.startswith("mine/")]:
        del gymnasium.registry[name]


def columns_of(file):
    return {name: np.array(column) for name, column in pyarrow.parquet.read_table(file).to_pydict().items()}


def said(capsys, *arguments):
    main([str(argument) for argument in arguments])
    return " ".join(capsys.readouterr().out.split())


def test_a_log_holds_every_step_and_none_between_episodes(here, capsys):
    printed = said(capsys, "log", "rooms_of_mine:mine/Counter-v0", "--steps", 10, "--configuration", 2, 0)
    assert "Logged 10 transitions of 3 episodes: log.parquet" in printed
    assert "capture calibrate log.parquet --state state_0 state_1 state_2 --action action_0 action_1" in printed
    assert "--next next_2 next_0 --episode episode" in printed
    table = columns_of("log.parquet")
    assert table["episode"].tolist() == [0] * 4 + [1] * 4 + [2] * 2
    assert table["step"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert table["state_0"].tolist() == table["next_0"].tolist() == table["episode"].tolist()
    # the last observation of an episode belongs to the step that led there
    assert table["state_1"].tolist() == table["step"].tolist()
    assert table["next_1"].tolist() == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert table["terminated"].nonzero()[0].tolist() == [3]
    assert table["truncated"].nonzero()[0].tolist() == [7]
    assert np.allclose(table["reward"], table["action_0"])
    inside = table["step"][1:] > 0
    assert np.array_equal(table["next_2"][:-1][inside], table["state_2"][1:][inside])


def test_a_seed_is_a_log(here, capsys):
    for name, seed in (("a.csv", 1), ("b.csv", 1), ("c.csv", 2)):
        said(capsys, "log", "rooms_of_mine:mine/Counter-v0", "--steps", 9, "--seed", seed, "--out", name)
    a, b, c = (Path(name).read_text() for name in ("a.csv", "b.csv", "c.csv"))
    assert a == b != c


@pytest.mark.parametrize(("policy", "action"), [("half", [0.5, -0.5]), ("learnt", [0.25, 0.0])])
def test_policies(here, capsys, policy, action):
    env = "rooms_of_mine:mine/Counter-v0"
    said(capsys, "log", env, "--policy", f"rooms_of_mine:{policy}", "--steps", 5, "--out", "log.npz")
    log = read_transitions("log.npz", ["state_0"], ["action_0", "action_1"], ["next_0"], episode="episode")
    assert log.action[0].tolist() == action
    if policy == "learnt":  # it saw the observation of its step
        assert log.action[:, 1].tolist() == [0, 1, 2, 3, 0]


def test_spaces_of_several_parts_are_flattened(here, capsys):
    env = "rooms_of_mine:mine/Mixed-v0"
    said(capsys, "log", env, "--policy", "rooms_of_mine:gear", "--steps", 3, "--out", "log.csv")
    table = pyarrow.csv.read_csv("log.csv")
    assert np.column_stack([table[f"state_{i}"] for i in range(4)]).tolist() == [
        [1, 0, 0, 0.5], [0, 1, 1, 0.5], [1, 0, 2, 0.5],
    ]  # fmt: skip
    assert [table[f"action_{i}"][0].as_py() for i in range(3)] == [0, 0, 1]


def test_what_is_logged_by_a_failure_or_a_stop_is_kept(here, capsys):
    ends = (
        ("Fails", "failed in step with RuntimeError: the cable is out; repair it", 2),
        ("Stopped", "stopped.", 130),
        ("Blind", "NaN or infinite numbers after 6 steps", 2),
    )
    for name, printed, code in ends:
        with pytest.raises(SystemExit) as stop:
            main(["log", f"rooms_of_mine:mine/{name}-v0", "--steps", "100", "--out", f"{name}.csv"])
        out = capsys.readouterr()
        assert stop.value.code == code
        assert printed in " ".join(out.err.split())
        assert "Logged 6 transitions of 2 episodes" in out.out
        assert len(pyarrow.csv.read_csv(f"{name}.csv")["step"]) == 6


def test_environments_of_ours_are_logged_in_the_tasks_units(here, capsys):
    printed = said(capsys, "log", "capture/Box-v0", "--steps", 200, "--out", "log.csv")
    assert "--state x y --action push_x push_y --next next_x next_y --episode episode" in printed
    table = pyarrow.csv.read_csv("log.csv")
    push = np.column_stack([table["push_x"], table["push_y"]])
    assert 0.35 < np.abs(push).max() <= 0.4
    # the true system, but for the noise
    expected = Box().step(np.column_stack([table["x"], table["y"]]), push, gain=1.5)
    away = np.abs(np.column_stack([table["next_x"], table["next_y"]]) - expected)
    assert np.quantile(away, 0.9) < 3 * 1.5 * Box().noise


def test_calibrate_on_an_environment_of_ours(here, capsys):
    run = ["calibrate", "--env", "capture/Box-v0", "--steps", 6000, "--out", "box.capture", "--seed", 1]
    printed = said(capsys, *run, "--json", "rows.json")
    parts = "--model capture_lab.gym.models:Box --strata capture_lab.gym.models:Box.strata"
    assert f"Of this task: {parts}" in printed
    assert Path("box.parquet").is_file()
    assert Path("box.capture").is_file()
    env = gymnasium.make("capture/Box-v0", regions="box.capture")
    env.reset(seed=0)
    assert set(env.step([0.1, 0.1])[4]["region"]["thresholds"]) == set(Box().strata.names)
    # the log is kept, and gives the same calibration by the ordinary command
    columns = ["--state", "x", "y", "--action", "push_x", "push_y", "--next", "next_x", "next_y", "--episode", "episode"]
    said(capsys, "calibrate", "box.parquet", *columns, *parts.split(), "--out", "again.capture", "--seed", 1)
    first, again = (Capture.load(name, Box(), Box().strata) for name in ("box.capture", "again.capture"))
    assert np.array_equal(first.group_thresholds(0.1), again.group_thresholds(0.1))
    # and a new log is checked with it
    said(capsys, "log", "capture/Box-v0", "--steps", 2000, "--seed", 2, "--out", "new.parquet")
    assert "No evidence against" in said(capsys, "check", "box.capture", "new.parquet", *parts.split())


def test_calibrate_on_an_environment_of_theirs(here, capsys):
    env = "rooms_of_mine:mine/Counter-v0"
    said(capsys, "calibrate", f"--env={env}", "--configuration", 2, "--steps", 2400, "--out", "c.capture")
    assert len(columns_of("c.parquet")["step"]) == 2400
    assert "needs --configuration, the entries" in refused(capsys, "calibrate", "--env", env)
    assert "both log.csv and --env are given" in refused(capsys, "calibrate", "log.csv", "--env", env)
    sentence = refused(capsys, "calibrate", "--env", env, "--configuration", 1, "--alpha", 2, "--out", "d.capture")
    assert "alpha is 2.0" in sentence
    assert not Path("d.parquet").exists()  # refused before the work


def test_another_configuration_of_ours_has_the_linear_model(here, capsys):
    printed = said(capsys, "calibrate", "--env", "capture/Box-v0", "--configuration", 0, "--steps", 3000)
    assert "Of this task" not in printed


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("short", r"--policy rooms_of_mine:short returned an action of shape (1,); expected (2,)"),
        ("unknown", "returned NaN or infinite actions, [nan 0.]; expected finite numbers"),
        ("words", "returned an action 'left'; expected (2,)"),
        ("crashes", "failed with ZeroDivisionError: division by zero; expected policy(observation)"),
        ("number", "is a int; expected policy(observation) -> action, or an object with predict"),
        ("Learnt", "is a class; expected policy(observation)"),
        (
            "hlaf",
            "has no hlaf; expected policy(observation) -> action, or an object with predict(observation) -> action. Did",
        ),
    ],
)
def test_wrong_policies_are_one_sentence(here, capsys, policy, sentence):
    env = "rooms_of_mine:mine/Counter-v0"
    assert sentence in refused(capsys, "log", env, "--policy", f"rooms_of_mine:{policy}")
    assert not Path("log.parquet").exists()


def test_refusals(here, capsys):
    mine = "rooms_of_mine:mine/"
    for arguments, sentence in (
        (["capture/MarbleCentre-v0"], "unknown environment 'capture/MarbleCentre-v0'"),
        (["capture/MarbleCentre-v0"], "Did you mean 'capture/MarbleCenter-v0'?"),
        (["nowhere_at_all:X-v0"], "cannot import nowhere_at_all (ModuleNotFoundError"),
        ([f"{mine}Broken-v0"], "cannot be made (RuntimeError: no licence"),
        ([f"{mine}Net-v0"], "has no fixed number of entries"),
        ([f"{mine}Camera-v0"], "has 12,288 entries; expected 1 to 1,000"),
        ([f"{mine}Counter-v0", "--steps", 0], "steps is 0; expected a whole number of at least 1"),
        ([f"{mine}Counter-v0", "--out", "log.xls"], "unknown ending of log.xls"),
        ([f"{mine}Counter-v0", "--out", "nowhere/log.csv"], "is not a folder that can be written to"),
        ([f"{mine}Counter-v0", "--configuration", 3], "has the entry 3; the observation has 3, 0 to 2"),
        ([f"{mine}Counter-v0", "--configuration", 1, 1], "where an entry repeats"),
        ([f"{mine}Mixed-v0", "--policy", "rooms_of_mine:no_gear"], "returned 3; expected an action of Discrete(3)"),
    ):
        assert sentence in refused(capsys, "log", *arguments)


def test_without_gymnasium_one_sentence(here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert 'pip install "capture-cp[gym]"' in refused(capsys, "log", "capture/Box-v0")
