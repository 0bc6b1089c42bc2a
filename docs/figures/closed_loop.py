"""The pictures of the page on the closed loop."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from capture_cp.studies.online_rounds import RoundsStudy, rounds_figure
from rich.console import Console

from capture_cp.studies.online import OnlineStudy
from capture_cp.studies.online_report import online_figure
from figures.style import save


def closed_loop_picture() -> None:
    """Coverage and adaptation over time on one map of the marble, while its true gain grows by half."""
    study = OnlineStudy(maps=("bottom-left",))
    tasks = study.checked_tasks()
    runs = study.results(tasks, Console())
    names = tasks["bottom-left"].strata.names
    save("closed-loop", online_figure({mode: runs["bottom-left", mode] for mode in study.modes}, names, study.alpha))


def rounds_picture() -> None:
    """Coverage by step of the episode, round after round of calibration on the planner's own episodes."""
    with tempfile.TemporaryDirectory() as folder:
        study = replace(RoundsStudy(), json=Path(folder) / "rows.json")
        study.run(Console())
        save("on-policy-rounds", rounds_figure(json.loads(study.json.read_text())["rows"], study.alpha))
