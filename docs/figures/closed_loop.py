"""The pictures of the page on the closed loop."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from capture_cp.studies.online import OnlineStudy
from capture_cp.studies.online_report import online_figure
from capture_cp.studies.rounds import RoundsStudy, rounds_figure
from capture_cp.studies.study import study_of
from capture_cp.tasks.marble.options import MarbleOptions
from figures.style import save


def closed_loop_picture() -> None:
    """Coverage and adaptation over time on one map of the marble, while its true gain grows by half."""
    study = OnlineStudy.of(MarbleOptions(maps=("bottom-left",)))
    tasks = study.tasks()
    runs = study.results(tasks, Console())
    names = tasks["bottom-left"].regimes
    save("closed-loop", online_figure({mode: runs["bottom-left", mode] for mode in study.modes}, names, study.alpha))


def rounds_picture() -> None:
    """Coverage by step of the episode, round after round of calibration on the planner's own episodes."""
    with tempfile.TemporaryDirectory() as folder:
        study = replace(study_of(RoundsStudy, MarbleOptions)(), json=Path(folder) / "rows.json")
        study.run(Console())
        save("on-policy-rounds", rounds_figure(json.loads(study.json.read_text())["rows"], study.alpha))
