"""A screenshot of the page of a user's calibration, as Chromium shows it (needs playwright and Chromium)."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console

from capture_cp import Transitions, write_transitions
from capture_cp.cli import main
from capture_cp.commands.view import View
from capture_cp.viewer.serve import open_page
from capture_lab.tasks.box import Box
from figures.style import IMAGES

MODULE = "from capture_lab.tasks.box import Box\n\nmodel, strata = Box().model, Box().strata\n"
COLUMNS = ["--state", "x", "y", "--action", "push_x", "push_y", "--next", "next_x", "next_y", "--episode", "run"]
OWN = ["--model", "robot:model", "--strata", "robot:strata"]
SOFTWARE_GL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
#: The episode and step that are shown.
EPISODE, STEP, SIZE = "run 3", 14, {"width": 1400, "height": 920}


def pushes(runs: int, length: int, seed: int) -> Transitions:
    """A log of episodes: a box is pushed around in a room with a pillar."""
    rng, box, rows = np.random.default_rng(seed), Box(), []
    for run in range(runs):
        state = box.inputs(1, rng)[0, :2]
        for _ in range(length):
            push = rng.uniform(-0.25, 0.25, 2)
            after = box.true_step(state[None], push[None], rng)[0]
            rows.append((state, push, after, f"run {run + 1}"))
            state = after
    state, push, after, episode = zip(*rows)
    names = ["x", "y"], ["push_x", "push_y"], ["next_x", "next_y"]
    return Transitions.from_arrays(state, push, after, *names, episode=episode, episode_name="run")


def own_page_picture() -> None:
    """Calibrate, open the page of a new log, go to a step, and save what the browser shows."""
    from playwright.sync_api import sync_playwright

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            Path("robot.py").write_text(MODULE)
            write_transitions("log.csv", pushes(400, 20, 1))
            write_transitions("new.csv", pushes(6, 30, 2))
            main(["calibrate", "log.csv", *COLUMNS, *OWN, "--min-leaf", "100"])
            page = open_page(
                View(Path("robot.capture"), Path("new.csv"), trust=True, episode=EPISODE, port=8970),
                Console(file=io.StringIO()),
            )
        finally:
            os.chdir(before)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=SOFTWARE_GL)
            visit = browser.new_page(viewport=SIZE)
            visit.goto(page.address)
            visit.get_by_text("step 1 of").first.wait_for()
            page._do(lambda: page.session.seek(STEP))
            visit.get_by_text(f"step {STEP + 1} of").first.wait_for()
            for close in visit.locator(".mantine-Notification-closeButton").all():
                close.click()
            time.sleep(3.0)  # the notice fades, and the scene is drawn
            shot = Image.open(io.BytesIO(visit.screenshot())).convert("RGB")
            browser.close()
        page.stop()
    file = IMAGES / "view-own.webp"
    shot.save(file, quality=82, method=6)
    print(f"{file.name}  {file.stat().st_size / 1000:.0f} kB")
