"""The page of one's own calibration in a real browser (`make browser`)."""

from __future__ import annotations

import io
import warnings
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from capture_cp import CaptureWarning
from capture_cp.commands.view import View
from robots import made
from viewer.test_browser import browser, changes, choose, click, push, says, wait_until  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    pytest.importorskip("viser", reason="viser is not installed (extra view)")
    from capture_cp.viewer.serve import open_page

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        folder = made(tmp_path_factory.mktemp("browser"))
        robot = {"trust": True, "folder": folder, "port": 8961}
        page = open_page(View(folder / "box.capture", folder / "box-new.csv", **robot), Console(file=io.StringIO()))
        yield page
        page.stop()


def test_one_steps_through_an_episode(served, browser):  # noqa: F811
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(served.address)
    says(page, "episode run 1, step 1 of 12")
    says(page, "Coverage so far")
    changes(page, lambda: click(page, "Step"), "a step")
    says(page, "episode run 1, step 2 of 12")
    changes(page, lambda: push(page, "alpha", "End"), "alpha")
    changes(page, lambda: push(page, "step", "End"), "the timeline")
    says(page, "episode run 1, step 12 of 12")
    changes(page, lambda: choose(page, "recording", "run 3"), "the episode")
    says(page, "episode run 3, step 1 of 12")
    click(page, "Play")
    wait_until(lambda: served.session.time == 11 and not served.session.playing, "the episode is played to its end")
    choose(page, "recording", "none: by hand")
    says(page, "by hand: move the sliders")
    assert errors == []
    home = urlsplit(served.address).netloc
    assert all(urlsplit(address.removeprefix("blob:")).netloc in (home, "") for address in asked)
    page.close()
