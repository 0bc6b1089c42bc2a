"""Logs with angles, poses and units: the distance between configurations by the names of columns."""

import numpy as np
import pytest

from capture_cp import CaptureError, Euclidean, Product, Torus, Transitions, load_calibration
from capture_cp.cli import main
from capture_cp.commands.cautions import turn_cautions
from capture_cp.commands.options import Distances
from capture_cp.spaces.poses import SE2, SE3

JOINTS = 3


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """A log of joints that turn past half a turn and are written within -pi..pi."""
    rng = np.random.default_rng(0)
    q, a = rng.uniform(-np.pi, np.pi, (6000, JOINTS)), rng.uniform(-0.3, 0.3, (6000, JOINTS))
    after = q + 1.2 * a + rng.normal(0, 0.01, q.shape)
    after -= 2 * np.pi * np.rint(after / (2 * np.pi))
    columns = [f"{kind}{j}" for kind in ("q", "a", "next_q") for j in range(JOINTS)]
    file = tmp_path_factory.mktemp("arm") / "arm.csv"
    np.savetxt(file, np.hstack([q, a, after]), delimiter=",", header=",".join(columns), comments="")
    return file


def options(file, out, *more):
    roles = {"--state": "q", "--action": "a", "--next": "next_q"}
    columns = [word for role, kind in roles.items() for word in (role, *(f"{kind}{j}" for j in range(JOINTS)))]
    return ["calibrate", str(file), *columns, "--out", str(out), *more]


def test_angles_make_thresholds_of_the_size_of_the_noise(arm, tmp_path, capsys):
    out = tmp_path / "arm.capture"
    main(options(arm, out, "--angles", *(f"next_q{j}" for j in range(JOINTS))))
    cap = load_calibration(out)
    assert isinstance(cap.score.metric, Torus)
    assert cap.thresholds([[3.1, 0, 0, 0.2, 0, 0]]).max() < 0.1
    assert "full turn" not in capsys.readouterr().out


def test_an_angle_that_nobody_named_is_pointed_out(arm, tmp_path, capsys):
    out = tmp_path / "arm.capture"
    main(options(arm, out))
    text = " ".join(capsys.readouterr().out.split())
    assert "next_q0 jumps by about a full turn" in text
    assert "--angles next_q0" in text
    assert load_calibration(out).thresholds([[3.1, 0, 0, 0.2, 0, 0]]).max() > 0.1


def test_a_position_that_jumps_is_no_angle():
    rng = np.random.default_rng(0)
    before = np.linspace(0, 20, 50)[:, None]
    after = before + 0.1 * rng.random((50, 1))
    after[7] += 2 * np.pi  # carried away
    log = Transitions.from_arrays(before, after * 0, after, ["x"], ["push"], ["next_x"])
    assert turn_cautions(log, ()) == []
    turned = Transitions.from_arrays(
        *((part + 3) % 6.3 - 3.15 for part in (before, before, after)), ["x"], ["push"], ["next_x"]
    )
    assert "Name it with --angles next_x" in turn_cautions(turned, ())[0]


@pytest.mark.parametrize(
    ("given", "names", "wanted"),
    [
        ({}, "xy", None),
        ({"weights": (1.0, 2.0)}, "xy", Euclidean((1.0, 2.0))),
        ({"angles": ("x", "y")}, "xy", Torus((1.0, 1.0))),
        ({"angles": ("y",)}, "xy", Product((Euclidean((1.0,)), Torus((1.0,))), (1, 1))),
        ({"metric": "se2", "length": 0.3}, "xzt", SE2(0.3)),
        ({"metric": "se3", "length": 0.3}, "xyzabcd", SE3(0.3)),
    ],
)
def test_metrics_by_name(given, names, wanted):
    assert Distances(**given).of(tuple(names)) == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"angles": ("z",)}, "unknown column"),
        ({"weights": (1.0,)}, "give one for each of x, y"),
        ({"weights": (1.0, -1.0)}, "positive number"),
        ({"metric": "se2"}, "needs --length"),
        ({"metric": "se2", "length": 1.0}, "3 numbers"),
        ({"metric": "se3", "length": 0.0}, "SE3 length"),
    ],
)
def test_what_does_not_fit_is_refused(given, words):
    with pytest.raises(CaptureError, match=words):
        Distances(**given).of(("x", "y"))


def test_angles_of_poses_are_known():
    assert Distances(metric="se2", length=0.2).angular(("x", "z", "turn")) == ("turn",)
    assert Distances(angles=("b",)).angular(("a", "b")) == ("b",)
    assert Distances().angular(("a", "b")) == ()
