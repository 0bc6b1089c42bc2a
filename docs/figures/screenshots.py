"""Screenshots of pages, as Chromium shows them (needs playwright and Chromium): live page, calibration and demo reports."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console

from capture_cp.viewer.serve import open_page
from capture_lab.studies.view import TaskView
from capture_lab.tasks.marble.options import MarbleOptions
from figures.style import DOCS, IMAGES

SOFTWARE_GL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
QUIET = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
#: Width of all screenshots, and heights of the live page and of reports (pixels).
WIDTH, LIVE, REPORT, DEMO = 1400, 960, 1160, 1930
#: Largest size of a file (bytes).
LARGEST = 300_000
#: Executed steps after which the live page is shown.
STEPS = 36
COLUMNS = ["--state", "x", "y", "--action", "push_x", "push_y", "--next", "next_x", "next_y"]
OWN = ["--model", "pusher:model", "--strata", "pusher:strata", "--min-leaf", "100"]


def tutorial_module() -> str:
    """The model and the strata of the page on your own robot, as a module."""
    page = (DOCS / "learn" / "your-robot.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    chosen = [block.partition("print(")[0] for block in blocks if "def model(" in block or "def contact(" in block]
    return "\n\n".join(["import numpy as np\n", *chosen])


@contextmanager
def visited(address: str, height: int) -> Iterator[Any]:
    """A light page in the browser, `WIDTH` pixels wide."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=[*SOFTWARE_GL, *QUIET])
        page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="light")
        page.goto(address)
        yield page
        browser.close()


def keep(page: Any, name: str) -> None:
    """Write what the browser shows to docs/images; if the file is too large, with a palette of 256 colours."""
    shot, file = Image.open(io.BytesIO(page.screenshot())).convert("RGB"), IMAGES / name
    shot.save(file, optimize=True)
    if file.stat().st_size > LARGEST:
        shot.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{name}  {file.stat().st_size / 1000:.0f} kB")


def view_marble_picture() -> None:
    """The live page with its default settings, after some steps of planning."""
    served = open_page(TaskView.of(MarbleOptions(), port=8972), Console(file=io.StringIO()))
    try:
        with visited(served.address, LIVE) as page:
            page.get_by_text("by hand").first.wait_for(timeout=600_000)
            session = served.session
            while sum(int(tally.landed.sum()) for tally in session.shown().tallies.values()) < STEPS:
                session.advance()
            served._wake()
            page.get_by_text(f"of {STEPS} steps inside").first.wait_for()
            for close in page.locator(".mantine-Notification-closeButton").all():
                close.click()
            time.sleep(4.0)  # the notification fades, and the scene is drawn
            keep(page, "view-marble.png")
    finally:
        served.stop()


def report_picture() -> None:
    """The top of the report of `capture calibrate`, with a model and strata."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pusher.py").write_text(tutorial_module())
        shutil.copy(DOCS / "assets" / "pushes.csv", folder)
        _run(["calibrate", "pushes.csv", *COLUMNS, *OWN, "--out", "pusher.capture"], folder)
        with visited((Path(folder) / "pusher.html").as_uri(), REPORT) as page:
            keep(page, "report.png")


def demo_report_picture() -> None:
    """The report of `capture demo`, from the table of coverage on."""
    with tempfile.TemporaryDirectory() as folder:
        _run(["demo", "--out", "demo"], folder)
        with visited((Path(folder) / "demo" / "report.html").as_uri(), DEMO) as page:
            page.evaluate("document.querySelector('h2').scrollIntoView()")
            keep(page, "demo-report.png")


def _run(arguments: list[str], folder: str) -> None:
    """Run `capture` in a folder, in a process without the style of the documentation's figures."""
    command = [sys.executable, "-m", "capture_cp.cli", *arguments]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONWARNINGS": "ignore"})
