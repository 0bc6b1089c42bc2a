"""The numbers behind a figure, for the JSON file beside it."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from capture_cp.studies.coverage import CoverageStudy
from capture_cp.studies.peg_coverage import PegCoverageStudy
from capture_cp.studies.peg_planning import PegPlanningStudy
from capture_cp.studies.planning import PlanningStudy


def figure_data(study: Any, figure: str, console: Console) -> Any:
    """What the figure of a finished study shows, as JSON-ready numbers; None where its settings say it all."""
    if isinstance(study, CoverageStudy) and figure.endswith("-spaces"):
        tasks = study.checked_tasks()
        return next(iter(tasks.values())).drawing().figure_data(tasks, figure)
    if isinstance(study, PlanningStudy):  # every episode is in the study's state folder by now
        results = study.results(study.checked_tasks(), console)
        return [{"map": map_name, "method": name, "episodes": _paths(runs)} for (map_name, name), runs in results.items()]
    if isinstance(study, PegPlanningStudy) and figure.endswith("-paths"):
        return [{"method": name, "episodes": _paths(runs)} for name, runs in study.results(console)[1].items()]
    if isinstance(study, PegCoverageStudy):
        task = study.checked_task()
        return task.drawing().figure_data({study.system: task}, figure)
    return None


def _paths(runs: list[Any]) -> list[dict[str, Any]]:
    return [{"outcome": run["outcome"], "path": run["path"]} for run in runs]
