"""Videos of episodes of a task: every step drawn from what the file holds, and bad input printed in one sentence."""

import sys
import zipfile
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from capture_cp import CaptureError, Tree, method
from capture_cp.capture.methods import METHODS
from capture_cp.cli import main
from capture_cp.planning.episode import Episode
from capture_cp.report.solids import rendered
from capture_lab.tasks.box import Box
from capture_lab.tasks.marble.drawing import FRONT, board_bodies
from capture_lab.tasks.marble.maps import load_map
from capture_lab.tasks.marble.task import POSITION, Marble
from capture_lab.tasks.peg.task import Peg, peg_tree
from capture_lab.tasks.recorded import recorded_method, recorded_region, recorded_task
from test_cli import refused

STEPS = 4


@cache
def marble_caps():
    task = Marble(load_map("center"), absorb=True)
    data = task.design_transitions("random", 1, np.random.default_rng(0))
    tree = Tree(per_stratum=False, max_leaves=8)
    caps = {name: method(name, task, task.strata, tree=tree) for name in METHODS}
    return {name: cap.fit(data.X[:3000], data.Y[:3000]) for name, cap in caps.items()}


def bare(states, actions, **info):
    steps, dims = actions.shape
    return Episode("success", states, actions, np.zeros((steps, 6, dims)), np.zeros(steps), np.zeros(steps), info)


@cache
def marble_episode(name="capture"):
    """The true marble under random tilting, with the regions of a method."""
    cap, rng = marble_caps()[name], np.random.default_rng(1)
    (start,), actions = cap.model.starts(1), rng.uniform(-0.5, 0.5, (STEPS, 2))
    act, states = cap.model.closed_loop(start), [start]
    for action in actions:
        states.append(act(states[-1], action, rng)[0])
    return bare(np.array(states), actions, task="marble", options={}, map="center", method=name).with_regions(cap, POSITION)


@cache
def peg_episode(name="capture"):
    """The peg, moved by its own model in place of a simulator, with the regions of a method."""
    task, rng = Peg(), np.random.default_rng(2)
    X = task.inputs(6000, rng)
    cap = task.method(name, tree=peg_tree().set_params(min_leaf=200)).fit(X, task(X, 1, rng)[:, 0])
    states, actions = [np.array([-0.012, 0.027, 0.1])], rng.uniform(-3, 3, (STEPS, 3))
    for action in actions:
        states.append(task(np.hstack([states[-1], action])[None], 1, rng)[0, 0])
    run = bare(np.array(states), actions, task="peg", options={}, map="planar", method=name)
    return cap, run.with_regions(cap, (0, 1, 2))


def filmed(episode):
    return recorded_task(episode).drawing().film(episode)


def film(episode, out, *more):
    main(["view", "--task", "marble", "--replay", str(episode), "--save", str(out), *more])


def refused_film(capsys, episode, out, *more):
    return refused(capsys, "view", "--task", "marble", "--replay", episode, "--save", out, *more)


def saved(folder, episode):
    episode.save(folder / "run.npz")
    return folder / "run.npz"


@pytest.mark.parametrize("name", METHODS)
def test_recorded_regions_are_those_of_the_calibrated_method(name):
    cap, episode = marble_caps()[name], marble_episode(name)
    film_ = filmed(episode)
    for step in range(STEPS):
        prediction = None if name == "lucca" else episode.particles[step]
        wanted = cap.region(episode.inputs[step], prediction=prediction)
        found = recorded_region(episode, film_.cap, step)
        assert found.cells().tolist() == wanted.cells().tolist()
        assert found.contains(episode.states[step + 1][POSITION])[0] == episode.inside[step]
    assert recorded_region(episode, film_.cap, STEPS) is None


@pytest.mark.parametrize("ending", ["gif", "webp"])
def test_a_video_has_a_picture_of_every_state_at_the_control_rate(tmp_path, capsys, ending):
    out = tmp_path / f"run.{ending}"
    film(saved(tmp_path, marble_episode()), out)
    assert f"Video of {STEPS} steps" in capsys.readouterr().out
    with Image.open(out) as video:
        assert video.n_frames == STEPS + 1
        video.seek(1)
        video.load()
        assert video.info["duration"] == 100  # ms: the marble is controlled ten times a second
    assert {file.name for file in tmp_path.iterdir()} == {"run.npz", out.name}


def test_mp4_is_written_too(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    film(saved(tmp_path, marble_episode()), tmp_path / "run.mp4", "--film-speed", "0.5")
    assert b"ftyp" in (tmp_path / "run.mp4").read_bytes()[:16]


def test_without_a_recording_an_episode_is_played(tmp_path, capsys):
    main(["view", "--task", "box", "--calibration", "2000", "--save", str(tmp_path / "box.gif")])
    steps = int(capsys.readouterr().out.split("Video of ")[1].split()[0])
    with Image.open(tmp_path / "box.gif") as video:
        assert video.n_frames == steps + 1


def test_pictures_do_not_depend_on_those_before():
    film_ = filmed(marble_episode())
    first = film_.draw(1)
    film_.draw(3)
    assert (film_.draw(1) == first).all()


@pytest.mark.parametrize("recorded", [marble_episode, lambda: peg_episode()[1]], ids=["marble", "peg"])
def test_rows_of_our_own_are_drawn_as_the_method_that_they_calibrate(recorded):
    episode = recorded()
    task, wanted = recorded_task(episode), filmed(episode).cap
    own_rows = [name for name, row in task.rows.items() if name not in METHODS and row.method == "capture"]
    assert len(own_rows) == 7
    for name in own_rows:
        own = replace(episode, info=episode.info | {"method": name})
        found = filmed(own).cap if name == "capture-residual" else recorded_method(own, task)
        assert recorded_region(own, found, 1).cells().tolist() == recorded_region(episode, wanted, 1).cells().tolist()


def test_a_task_that_draws_nothing_of_its_own_gets_a_film_and_figures(tmp_path, capsys):
    task, rng = Box(true_gain=1.25), np.random.default_rng(0)
    data = task.transitions(3000, rng)
    caps = {name: task.method(name).fit(data.X, data.Y) for name in ("pcp", "capture")}
    states, actions = [np.array([0.3, 0.3])], rng.uniform(-0.2, 0.2, (STEPS, 2))
    for action in actions:
        states.append(task.true_step(states[-1][None], action[None], rng)[0])
    whole = bare(np.array(states), actions, task="box", options={"true_gain": 1.25}, map="box", method="capture")
    run = whole.with_regions(caps["capture"], task.axes)
    assert recorded_task(run) == task
    film(saved(tmp_path, run), tmp_path / "run.gif")
    assert f"Video of {STEPS} steps" in capsys.readouterr().out
    pictures = [filmed(episode).draw(1) for episode in (whole, run)]
    assert (pictures[0] != pictures[1]).any()
    study, episodes = SimpleNamespace(alpha=0.1), [{"outcome": "fell", "path": run.states.tolist()}]
    files = task.drawing().coverage_figures(study, {"box": task}, {"box": caps}, tmp_path)
    files += task.drawing().planning_figures(study, {"box": task}, {("box", "capture"): episodes}, tmp_path)
    assert [file.name for file in files] == ["box-spaces.png", "box-regions.png", "trajectories.png"]
    assert all(file.stat().st_size for file in files)


def test_an_episode_without_regions_is_drawn_without_them(tmp_path, capsys):
    whole = marble_episode()
    file = saved(tmp_path, bare(whole.states, whole.actions, task="marble", options={}, map="center", method="capture"))
    film(file, tmp_path / "run.gif")
    assert "recorded without regions" in capsys.readouterr().out


# -- the board ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tilt", [(0, 0), (0.175, -0.175)])
def test_the_marble_is_on_the_board_in_front_of_it(tilt):
    low, high, bodies = (
        np.full(2, -0.1),
        np.full(2, 0.1),
        board_bodies(load_map("center"), np.array([0.05, 0, 0.05, 0, *tilt])),
    )
    board = [body for name, body in bodies.items() if name != "marble"]
    whole, without = (rendered(some, FRONT, low, high, 200).pixels for some in (bodies.values(), board))
    rows, columns = np.nonzero((whole != without).any(axis=2))
    across, up = 1000 * (FRONT.flat(bodies["marble"].place) - low)
    assert np.abs([columns.mean() - across, 200 - rows.mean() - up]).max() < 3
    assert len(rows) == pytest.approx(np.pi * (1000 * bodies["marble"].size[0]) ** 2, rel=0.2)


# -- bad input ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    return saved(tmp_path, marble_episode())


def test_unknown_endings_are_refused(capsys, run, tmp_path):
    assert "a video ends in .mp4, .webp, .gif" in refused_film(capsys, run, tmp_path / "run.avi")


def test_damaged_episodes_are_refused(capsys, run, tmp_path):
    run.write_bytes(run.read_bytes()[:-400])
    assert "is not a capture-cp episode, or is damaged" in refused_film(capsys, run, tmp_path / "run.gif")
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_foreign_archives_are_refused(capsys, tmp_path):
    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr("states.npy", b"not an array")
    assert "is not a capture-cp episode" in refused_film(capsys, tmp_path / "run.npz", tmp_path / "run.gif")


def test_missing_ffmpeg_is_told_with_a_way_out(capsys, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert 'pip install "capture-cp[view]", or choose .webp or .gif' in refused_film(capsys, run, run.with_suffix(".mp4"))


def test_missing_matplotlib_is_told(capsys, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert "plots need matplotlib" in refused_film(capsys, run, "run.gif")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"thresholds": np.ones((STEPS, 5))}, "its task has 3 strata in 2 dimensions"),
        ({"particles": np.ones((STEPS, 16, 3))}, "its task has 3 strata in 2 dimensions"),
        ({"states": np.full((STEPS + 1, 6), np.nan)}, "holds NaN"),
        ({"info": {"task": "marble", "options": {}, "map": "center"}}, "unknown method of the episode, None"),
    ],
)
def test_contents_that_do_not_fit_are_refused(changes, sentence):
    with pytest.raises(CaptureError) as error:
        filmed(replace(marble_episode(), **changes)).draw(0)
    assert sentence in str(error.value)
