"""The picture of the page on several steps ahead."""

from __future__ import annotations

from capture_lab.studies.horizon import HorizonStudy, coverage_curves
from capture_lab.studies.study import curves_figure
from capture_lab.tasks.marble.options import MarbleOptions
from figures.style import save


def horizon_picture() -> None:
    """Coverage against the step on the six maps of the marble, for three kinds of regions."""
    study = HorizonStudy.of(MarbleOptions(), volume=0)
    found = {name: study.measure(task) for name, task in study.checked_places().items()}
    save("horizon", curves_figure(*coverage_curves(found)))
