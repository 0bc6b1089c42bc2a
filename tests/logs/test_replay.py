"""Steps of a log seen through a calibration, and pictures of them, against slow and obvious twins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.commands.replay import Replay, Runs, by_hand
from capture_cp.commands.robot import Robot
from capture_cp.commands.view import View
from capture_cp.commands.view_parts import coverage_panel, panels, space_of
from capture_cp.report.canvas import rgb
from capture_cp.report.draw import Frames
from capture_cp.report.space import POINTS, Window
from capture_cp.report.style import PALE, STRONG, WALL_COLOUR, colour_of
from capture_cp.spaces.metrics import wrap_angle
from robots import inside, moves

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
KINDS = ("box", "wheel", "pose", "arm")


def opened(folder, kind, log="-new.csv", **changes):
    """A robot and its log."""
    file = None if log is None else folder / f"{kind}{log}"
    return View(folder / f"{kind}.capture", file, trust=True, folder=folder, **changes).opened()


def replayed(folder, kind, **changes):
    robot, runs = opened(folder, kind, **changes)
    return Replay(robot, runs.log, next(iter(runs.rows.values())), runs.episodes), runs


def kth_distance(robot, cloud, y):
    """The distance of a configuration (dc,) to the k-th nearest particle: (L, dc) looked at one by one."""
    score = robot.cap.score_
    return np.sort([float(score.metric_.distance(particle, y)) for particle in cloud])[score.k - 1]


@pytest.mark.parametrize("kind", KINDS)
def test_membership_and_counts_are_those_of_a_loop(robots, kind):
    replay, _ = replayed(robots, kind)
    robot, alpha = replay.robot, 0.1
    q = robot.cap.thresholds(replay.X, alpha)
    wanted = [
        kth_distance(robot, cloud, y) <= q[i, m] + 1e-12
        for i, (cloud, y, m) in enumerate(zip(replay.prediction, replay.Y, replay.labels))
    ]
    assert replay.inside(alpha).tolist() == wanted
    for steps in (1, 5, len(replay)):
        every, *strata = replay.counts(alpha, steps)
        assert (every.held, every.steps) == (sum(wanted[:steps]), steps)
        assert sum(count.steps for count in strata) in (0, steps)
        assert sum(count.held for count in strata) in (0, every.held)
        low, high = every.interval
        assert low <= every.held / every.steps <= high


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_agrees_with_its_region(robots, kind):
    replay, _ = replayed(robots, kind)
    for step in (0, len(replay) - 1):
        look = replay.look(step, 0.2)
        assert look.inside == bool(look.region.contains(look.went)[0])
        assert (look.cloud == replay.prediction[step]).all()
        assert (look.start == replay.X[step, : len(look.went)]).all()
    assert len(look.path) == (len(replay) if replay.episode else 0)


@pytest.mark.parametrize("kind", ["box", "pose", "arm"])
def test_a_raster_shows_what_the_region_contains(robots, kind):
    """Colours of random pixels, one by one: pale ground of the stratum outside the region, strong inside."""
    replay, runs = replayed(robots, kind)
    space = space_of(replay.robot, runs, (0, len(replay.robot.axes) - 1))
    look, rng = replay.look(3, 0.1), np.random.default_rng(0)
    across, up = space.shown
    for window in (space.window, space.near(look)):
        picture = space.raster(look.middle, window, [look.region])
        for row, column in rng.integers(POINTS, size=(200, 2)):
            y = look.went.copy()
            size = (window.high - window.low) / POINTS
            y[across] = window.low[across] + (column + 0.5) * size[across]
            y[up] = window.high[up] - (row + 0.5) * size[up]
            for axis in replay.robot.angles:
                y[axis] = wrap_angle(y[axis])
            m = int(replay.robot.cap.index(y[None])[0])
            wanted = 255 - PALE * (255 - rgb(colour_of(m))) if m >= 0 else rgb(WALL_COLOUR)
            if m >= 0 and look.region.contains(y)[0]:
                wanted = STRONG * rgb(colour_of(m)) + (1 - STRONG) * wanted
            assert np.abs(picture[row, column] - wanted).max() <= 2.0


def test_a_bar_shows_what_the_region_contains(robots):
    """The space and its close-up, whose angles may differ by a whole turn."""
    replay, runs = replayed(robots, "wheel")
    space, look = space_of(replay.robot, runs, (0,)), replay.look(3, 0.1)
    for panel in panels(space, look):
        (image,) = panel.images
        angles = np.linspace(image.low[0], image.high[0], image.pixels.shape[1])
        inside = look.region.contains(wrap_angle(angles)[:, None])
        assert inside.any()
        assert np.abs(image.pixels[0, inside] - rgb(colour_of(0))).max() < 80
        assert (image.pixels[0, ~inside] > 200).any(axis=1).all()
        assert panel.low[0] < panel.outcomes[0, 0] < panel.high[0]


def test_angles_across_pi_are_in_one_piece(robots):
    replay, runs = replayed(robots, "wheel")
    window = space_of(replay.robot, runs, (0,)).window
    assert window.high[0] - window.low[0] < 5.0  # not a whole turn
    assert window.low[0] < np.pi < window.high[0] or window.low[0] < -np.pi < window.high[0]
    placed = window.placed(runs.log.Y)
    assert ((placed >= window.low) & (placed <= window.high)).all()
    assert np.allclose(wrap_angle(placed - runs.log.Y), 0, atol=1e-12)


def test_windows_of_a_whole_turn_and_of_a_point():
    whole = Window.around(np.linspace(-3.1, 3.1, 50)[:, None], (0,))
    assert (whole.low[0], whole.high[0]) == (-np.pi, np.pi)
    point = Window.around(np.array([[2.0, 5.0]]), ())
    assert (point.high > point.low).all()


def test_a_way_around_the_circle_is_not_drawn_across_the_picture(robots):
    replay, runs = replayed(robots, "pose")
    space = space_of(replay.robot, runs, (2, 0))
    look = replace(replay.look(0, 0.1), path=np.array([[0.0, 0, 3.0], [0, 0, 3.1], [0, 0, -3.1]]))
    (line,) = space.step(look, Window(np.full(3, -np.pi), np.full(3, np.pi), (2,))).lines
    assert np.isnan(line.points[:, 0]).tolist() == [False, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hand", [False, True], ids=["log", "by hand"])
def test_panels_draw_any_number_of_axes(robots, kind, hand):
    replay, runs = replayed(robots, kind)
    robot = replay.robot
    space, more = space_of(robot, None if hand else runs, robot.shown(())), [] if hand else [coverage_panel(replay, 0.1, 5)]
    look = by_hand(robot, np.median(robot.input_quantiles(), axis=1), 0.1, 0) if hand else replay.look(4, 0.1)
    frames = Frames((6.0, 3.0), places="ABC")
    first = frames.draw([*panels(space, look), *more], "a")
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 10
    assert frames.draw([*panels(space, look), *more], "a").shape == first.shape


def test_strata_that_fail_away_from_the_data_leave_the_ground_white(robots, monkeypatch):
    replay, runs = replayed(robots, "pose")
    look, space = replay.look(0, 0.1), space_of(replay.robot, runs, (0, 1))

    def failing(Y):
        raise ZeroDivisionError("no map there")

    monkeypatch.setattr(replay.robot.cap.strata, "index", failing)
    assert space.raster(look.middle, space.window, [look.region]) is None


# -- logs ---------------------------------------------------------------------------------------------------------------


def test_episodes_come_in_the_order_in_which_they_begin(robots):
    _, runs = opened(robots, "box")
    assert [*runs.rows] == [f"run {number}" for number in range(1, 5)]
    assert runs.rate == pytest.approx(10.0)
    assert not runs.calibrated_on
    assert opened(robots, "box", log=".csv")[1].calibrated_on
    assert [len(rows) for rows in runs.rows.values()] == [12] * 4


def test_a_log_without_episodes_is_cut_into_blocks():
    runs = Runs.of(moves(1100, 2, 0))
    assert [*runs.rows] == ["rows 1 to 500", "rows 501 to 1000", "rows 1001 to 1100"]
    assert np.concatenate(list(runs.rows.values())).tolist() == list(range(1100))


@pytest.mark.parametrize(("given", "wanted"), [("1:3", [0, 1, 2]), (":2", [0, 1]), ("5:", [4, 5]), ("6:6", [5])])
def test_rows_are_counted_from_one(given, wanted):
    assert Runs.of(moves(6, 2, 0)).chosen(given).tolist() == wanted


@pytest.mark.parametrize("given", ["", "1", "0:3", "3:2", "1:7", "a:b", "1:2:3", "-1:2"])
def test_rows_that_are_not_there_are_refused(given):
    with pytest.raises(CaptureError, match="expected"):
        Runs.of(moves(6, 2, 0)).chosen(given)


# -- robots -------------------------------------------------------------------------------------------------------------


def test_axes_by_name(robots):
    robot, _ = opened(robots, "arm")
    assert robot.axes == ("q0", "q1", "q2", "q3", "q4")
    assert robot.angles == (4,)
    assert robot.shown(("next_q3", "q1")) == (3, 1)
    for axes in (("q0", "q0"), ("q0",)):
        with pytest.raises(CaptureError, match="expected two different axes"):
            robot.shown(axes)


def test_a_calibration_of_the_library_has_made_up_names(robots):
    from capture_cp import Capture

    robot, runs = opened(robots, "box")
    cap = Capture(robot.cap.model, robot.cap.strata).fit(runs.log.X, runs.log.Y)
    with inside(robots):
        cap.save("plain.capture")
        own = {"model": "pusher:model", "strata": "pusher:strata"}
        plain, _ = View(Path("plain.capture"), **own).opened()
        assert (plain.inputs, plain.axes) == (("input_0", "input_1", "input_2", "input_3"), ("axis_0", "axis_1"))
        with pytest.raises(CaptureError, match="1 columns of the state, 0 of the action"):
            View(Path("plain.capture"), **own, state=("x",)).opened()
        with pytest.raises(CaptureError, match="remembers no columns; name them with --state"):
            View(Path("plain.capture"), Path("box.csv"), **own).opened()


def test_a_log_whose_next_rows_are_the_outcomes_has_names_too(robots):
    """Such a calibration remembers the configuration's own columns, in place of those after the step."""
    facts = {"columns": {"state": ["q0", "q1", "q2"], "action": ["u0", "u1", "u2"], "following": ["q0", "q1", "q2"]}}
    given = dict.fromkeys(("state", "action", "next", "following"), ())
    assert Robot.of(Path("a"), opened(robots, "pose")[0].cap, facts, given, None).axes == ("q0", "q1", "q2")


def test_outcomes_in_infeasible_space_are_shown_and_count_as_missed(robots):
    """A log that the strata do not allow is no reason to show nothing."""
    _, runs = opened(robots, "box")
    after = runs.log.next.copy()
    after[0] = 0.65, 0.45  # within the pillar
    robot, log = opened(robots, "box")[0], replace(runs.log, next=after)
    replay = Replay(robot, log, runs.rows["run 1"], True)
    *_, last = replay.counts(0.1, 3)
    assert last == ("infeasible", 0, 1)
    assert replay.look(0, 0.1).inside is False
