"""The real page in a real browser: Debian's Chromium, headless, clicks through the controls (`make browser`)."""

import io
import shutil
import time
import warnings
from urllib.parse import urlsplit

import numpy as np
import pytest
from rich.console import Console

from capture_cp import CaptureWarning
from capture_cp.commands.view import View
from capture_cp.viewer.serve import open_page
from robots import made
from viewer.sessions import VIEW, peg_view, ready, recorded

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SOFTWARE_GL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
PATIENCE = 120.0  # seconds; planners are compiled on the way


@pytest.fixture(scope="module")
def served():
    pytest.importorskip("viser", reason="viser is not installed (extra view)")
    page = open_page(VIEW, Console(file=io.StringIO()))
    yield page
    page.stop()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra browser)")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE_GL)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def visit(served, browser):
    """The open page, and every address that it asked for."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda connection: asked.append(connection.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(served.address)
    says(page, "by hand")
    yield page, asked
    assert errors == []


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"after {PATIENCE:g} s, still not: {what}")


def says(page, text):
    page.get_by_text(text).first.wait_for(timeout=1e3 * PATIENCE)


COPY = """(image) => {
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [image.naturalWidth, image.naturalHeight];
    if (copy.width) copy.getContext("2d").drawImage(image, 0, 0);
    return copy.toDataURL();
}"""


def overlay(page):
    """The pictures of the configuration space, whole and enlarged, as the browser shows them."""
    return page.evaluate(f"() => Array.from(document.querySelectorAll('img[src^=blob]')).map({COPY})")


def changes(page, deed, what):
    """Do something, and see the picture change."""
    before = overlay(page)
    deed()
    wait_until(lambda: overlay(page) != before, f"the picture changes with {what}")


def slider(page, label):
    return page.locator(
        f'xpath=//label[normalize-space()="{label}"]/ancestor::*[.//*[@role="slider"]][1]//*[@role="slider"]'
    ).first


def push(page, label, key, times=1):
    slider(page, label).focus()
    for _ in range(times):
        page.keyboard.press(key)


def choose(page, label, option):
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


def click(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def test_another_page_cannot_connect(served, browser):
    """A page of another origin, in the same browser."""
    page = browser.new_page()
    page.goto("data:text/html,<p>another page</p>")
    connect = """(address) => new Promise((done) => {
        const socket = new WebSocket(address, "viser-v" + "%s");
        socket.onopen = () => done("open");
        socket.onerror = () => done("refused");
    })"""
    import viser

    assert page.evaluate(connect % viser.__version__, served.address.replace("http", "ws")) == "refused"
    page.goto(served.address)
    assert page.evaluate(connect % viser.__version__, served.address.replace("http", "ws")) == "open"
    page.close()


def test_no_request_leaves_this_machine(visit, served):
    _, asked = visit
    home = urlsplit(served.address).netloc
    assert asked
    for address in asked:
        assert urlsplit(address.removeprefix("blob:")).netloc in (home, ""), address


def test_the_page_offers_no_public_link_and_only_its_own_file(visit, served):
    page, _ = visit
    assert page.get_by_text("Share").count() == 0
    assert page.request.get(f"{served.address}/../../setup.py").status == 404
    assert page.request.get(f"{served.address}/package.json").status == 404


def test_the_board_is_drawn(visit):
    page, _ = visit
    scene = page.locator("canvas[data-engine]")

    def colours():
        import imageio.v3

        picture = imageio.v3.imread(scene.screenshot())[..., :3]
        return len(np.unique(picture.reshape(-1, 3), axis=0))

    wait_until(lambda: colours() > 100, "something is drawn in 3D")


@pytest.mark.parametrize(
    ("label", "key"), [("x (mm)", "End"), ("velocity x (m/s)", "End"), ("tilt y (rad)", "Home"), ("alpha", "End")]
)
def test_sliders_change_the_overlay(visit, label, key):
    page, _ = visit
    changes(page, lambda: push(page, label, key), label)


def test_controls_change_action_k_method_and_place(visit, served):
    page, _ = visit
    click(page, "Reset")
    says(page, "by hand")
    action = served.session.action[0]
    push(page, "action x (rad/s)", "Home")
    wait_until(lambda: served.session.action[0] != action, "the action follows its slider")
    push(page, "k", "ArrowLeft")
    wait_until(lambda: served.session.settings.k == 7 and not served.session.shown().waiting, "k = 7 is calibrated")
    push(page, "k", "ArrowRight")
    changes(page, lambda: choose(page, "method", "pcp"), "the method")
    changes(page, lambda: choose(page, "beside", "no-strata"), "the second method")
    says(page, "pcp (left), no-strata (right)")
    changes(page, lambda: choose(page, "place", "top-left"), "the place")
    wait_until(lambda: served.session.task.place == "Top Left", "the place is another")
    choose(page, "place", VIEW.place)
    choose(page, "beside", "none")
    choose(page, "method", "capture")
    wait_until(lambda: served.session.settings.method == VIEW.method, "all is as it was")


def test_dragging_the_gizmo_moves_the_marble(visit, served):
    page, _ = visit
    click(page, "Reset")
    says(page, "by hand")
    before = served.session.now.state.copy()

    def drag():
        """Aim at the square of the gizmo: find it by colour, wherever the camera puts it."""
        import imageio.v3

        scene = page.locator("canvas[data-engine]")
        picture, box = imageio.v3.imread(scene.screenshot())[..., :3].astype(int), scene.bounding_box()
        blue = (picture[..., 2] > 180) & (picture[..., 0] < 110) & (picture[..., 1] < 170) & (picture[..., 1] > 90)
        rows, columns = np.nonzero(blue)
        if len(rows) < 10:
            return False
        x, y = box["x"] + np.median(columns), box["y"] + np.median(rows)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 30, y - 5, steps=5)
        page.mouse.up()
        time.sleep(0.5)
        return bool((served.session.now.state[[0, 2]] != before[[0, 2]]).any())

    wait_until(drag, "the marble follows the gizmo")


def test_live_planning_starts_pauses_steps_and_resets(visit, served):
    page, _ = visit
    click(page, "Reset")
    says(page, "by hand")
    click(page, "Step")
    wait_until(lambda: served.session.mode == "live", "an episode has begun")
    changes(page, lambda: click(page, "Play"), "planning")
    wait_until(lambda: len(served.session.now.trail) > 3, "steps are taken")
    click(page, "Pause")
    wait_until(lambda: not served.session.playing, "it pauses")
    time.sleep(0.5)
    steps = len(served.session.now.trail)
    click(page, "Step")
    wait_until(lambda: len(served.session.now.trail) != steps, "one step is taken, or the next episode begun")
    says(page, "Coverage so far")
    click(page, "Reset")
    wait_until(lambda: served.session.mode == "by hand", "it is reset")


def test_a_recording_is_replayed_along_its_timeline(visit, served, tmp_path):
    page, _ = visit
    run = recorded(ready())
    steps = run.steps
    run.save(tmp_path / "episode.npz")
    page.locator("input[type=file]").set_input_files(tmp_path / "episode.npz")
    wait_until(lambda: served.session.mode == "replay", "the recording is open")
    wait_until(lambda: slider(page, "step").get_attribute("aria-valuemax") == str(steps), "the timeline is as long")
    changes(page, lambda: push(page, "step", "ArrowRight", 4), "the timeline")
    wait_until(lambda: served.session.time == 4, "the timeline is where it was put")
    (tmp_path / "bad.npz").write_bytes(b"no episode")
    page.locator("input[type=file]").set_input_files(tmp_path / "bad.npz")
    says(page, "is not a capture-cp episode")


def test_the_peg_has_its_page(browser, monkeypatch):
    served = open_page(peg_view(monkeypatch), Console(file=io.StringIO()))
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.goto(served.address)
    says(page, "contact:")
    changes(page, lambda: push(page, "angle (°)", "End"), "the angle")
    click(page, "Play")
    wait_until(lambda: served.session.now.trail.shape[0] >= 3, "steps are taken")
    page.close()
    served.stop()


# -- a calibration of one's own --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    pytest.importorskip("viser", reason="viser is not installed (extra view)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        folder = made(tmp_path_factory.mktemp("browser"))
        robot = {"trust": True, "folder": folder, "port": 8961}
        page = open_page(View(folder / "box.capture", folder / "box-new.csv", **robot), Console(file=io.StringIO()))
        yield page
        page.stop()


def test_one_steps_through_an_episode(own, browser):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    asked, errors = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(own.address)
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
    wait_until(lambda: own.session.time == 11 and not own.session.playing, "the episode is played to its end")
    choose(page, "recording", "none: by hand")
    says(page, "by hand: move the sliders")
    assert errors == []
    home = urlsplit(own.address).netloc
    assert all(urlsplit(address.removeprefix("blob:")).netloc in (home, "") for address in asked)
    page.close()
