"""The report of a calibration: pictures of regions of any dimension, sizes of regions, tables that fit."""

from __future__ import annotations

import base64
import re
import shutil
from io import BytesIO

import numpy as np
import pytest

from capture_cp import Transitions, write_transitions
from capture_cp.cli import main
from capture_cp.commands.options import configuration_columns
from capture_cp.report.canvas import rgb
from capture_cp.report.style import INSIDE, OUTSIDE
from capture_cp.spaces.metrics import wrap_angle

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

pytestmark = pytest.mark.usefixtures("pictures")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LONG = "gripper_left_finger_pad-drawer_front_panel_handle + gripper_right_finger_pad-drawer_front_panel_handle"
MODULE = f"""
import numpy as np
from capture_cp import FunctionStrata, Grid


def touching(Y):
    return np.where(Y[:, 0] < -1e-9, -1, (Y[:, 0] < 0.05).astype(int))


bare = FunctionStrata(touching, ["free", {LONG!r}])
one = FunctionStrata(touching, bare.names, grid=Grid((-0.3,), 0.02, (100,)))
two = FunctionStrata(touching, bare.names, grid=Grid((-0.3, -0.3), 0.05, (40, 40)))
three = FunctionStrata(touching, bare.names, grid=Grid((-0.3, -0.3, -np.pi), (0.1, 0.1, np.pi / 18), (20, 20, 36), (2,)))


def seldom(Y):
    return np.where(Y[:, 0] > 1.08, 1, 0)


rare = FunctionStrata(seldom, ["free", "rare"])
"""


def write_log(folder, dims, n=1500, angle=None):
    """A log of steps of `dims` numbers, the first not below 0; the last is an angle that wraps, if `angle`."""
    rng = np.random.default_rng(0)
    state, push = rng.uniform(0, 1, (n, dims)), rng.uniform(-0.2, 0.2, (n, dims))
    if angle:
        state[:, -1] = rng.uniform(-np.pi, np.pi, n)
    after = state + 1.1 * push + 0.02 * rng.standard_normal((n, dims))
    after[:, 0] = np.maximum(after[:, 0], 0)
    if angle:
        after[:, -1] = wrap_angle(after[:, -1])
    names = [f"q{axis}" for axis in range(dims)]
    parts = names, [f"push_{name}" for name in names], [f"next_{name}" for name in names]
    write_transitions(folder / "log.csv", Transitions.from_arrays(state, push, after, *parts))
    roles = ("--state", "--action", "--next")
    return ["log.csv", *(word for role, part in zip(roles, parts) for word in (role, *part))]


@pytest.fixture
def here(folder):
    (folder / "walls.py").write_text(MODULE)
    return folder


def page_of(here, columns, *options):
    main(["calibrate", *columns, "--particles", "8", "--min-leaf", "100", *options])
    return (here / "robot.html").read_text()


def pictures(page):
    from PIL import Image

    found = re.findall(r"data:image/png;base64,([^\"]+)", page)
    return [np.asarray(Image.open(BytesIO(base64.b64decode(picture))).convert("RGB")) for picture in found]


@pytest.mark.parametrize(
    ("dims", "strata", "options"),
    [
        (1, "bare", ()),
        (1, "one", ()),
        (2, "bare", ()),
        (2, "two", ()),
        (3, "bare", ("--metric", "se2", "--length", "0.2")),
        (3, "three", ("--metric", "se2", "--length", "0.2")),
        (4, "bare", ("--angles", "next_q3")),
        (6, "bare", ("--angles", "next_q5")),
    ],
)
def test_regions_of_any_dimension_are_in_the_report(here, dims, strata, options):
    columns = write_log(here, dims, angle="--length" in options or "--angles" in options)
    page = page_of(here, columns, "--strata", f"walls:{strata}", *options)
    drawn = pictures(page)
    assert len(drawn) == (1 if dims < 4 else 2)
    for picture in drawn:
        assert picture.shape[0] > 200
        away = [((picture.astype(int) - rgb(look.colour)) ** 2).sum(axis=2) for look in (INSIDE, OUTSIDE)]
        assert (np.minimum(*away) < 300).sum() > 20  # the true outcome
    assert "The arrow leads from the start" in page
    assert ("mean cells" in page) == (strata != "bare")
    assert ("Coloured cells are the region" in page) == (strata != "bare")


def test_parts_without_an_end_are_left_out_and_told(here):
    page = page_of(here, write_log(here, 2), "--strata", "walls:rare", "--min-stratum", "0")
    assert ">infinite<" in page
    assert "Parts that cover a whole stratum are left out." in page
    assert len(pictures(page)) == 1


@pytest.mark.parametrize(
    ("state", "after", "wanted"),
    [
        (["x", "y", "v"], ["next_y", "next_x"], [1, 0]),
        (["x", "y"], ["x_next", "y_next"], [0, 1]),
        (["a", "b"], ["c", "d"], [0, 1]),
        (["a", "b", "x"], ["next_x", "next_z"], None),
    ],
)
def test_the_start_is_found_by_names_or_by_width(state, after, wanted):
    assert configuration_columns(state, after) == wanted


def test_settings_tell_distances_in_words(here):
    page = page_of(here, write_log(here, 2), "--weights", "1", "2")
    assert "metric auto, weights 1.0, 2.0" in page
    assert "length None" not in page


@pytest.mark.browser
@pytest.mark.parametrize("width", [700, 1000])
def test_tables_and_commands_fit_the_page(here, width):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra browser)")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    page_of(here, write_log(here, 2), "--strata", "walls:bare")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto((here / "robot.html").as_uri())
        sizes = "e => [e.scrollWidth, e.clientWidth]"
        for part in [page.locator("html"), *page.locator(".wide:has(table)").all()]:
            inner, outer = part.evaluate(sizes)
            assert inner <= outer
        browser.close()
