"""The numbers behind a figure, for the JSON file beside it."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from capture_cp.studies.coverage import CoverageStudy
from capture_cp.studies.planning import PlanningStudy


def figure_data(study: Any, figure: str, console: Console) -> Any:
    """What the figure of a finished study shows, as JSON-ready numbers; None where its settings say it all."""
    if isinstance(study, PlanningStudy) and not figure.endswith("-horizon"):
        results = study.results(study.tasks(), console)  # every episode is in the study's state folder by now
        return [{"map": place, "method": name, "episodes": _paths(runs)} for (place, name), runs in results.items()]
    if isinstance(study, CoverageStudy):
        return study.figure_data(figure, console)
    return None


def _paths(runs: list[Any]) -> list[dict[str, Any]]:
    return [{"outcome": run["outcome"], "path": run["path"]} for run in runs]
