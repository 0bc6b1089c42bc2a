"""The pictures of the page on the closed loop."""

from __future__ import annotations

from capture_lab.studies.online import OnlineStudy
from capture_lab.studies.online_report import online_figure
from capture_lab.tasks.marble.options import MarbleOptions
from figures.style import save


def closed_loop_picture() -> None:
    """Coverage and adaptation over time on one map of the marble, while its true gain grows by half."""
    study = OnlineStudy.of(MarbleOptions(maps=("bottom-left",)))
    tasks = study.tasks()
    runs = study.results(tasks)
    names = tasks["bottom-left"].regimes
    save("closed-loop", online_figure({mode: runs["bottom-left", mode] for mode in study.modes}, names, study.alpha))
