"""The numbers behind a figure, for the JSON file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from capture_cp.studies.animation import board
from capture_cp.studies.coverage import CoverageStudy
from capture_cp.studies.peg_coverage import PegCoverageStudy
from capture_cp.studies.planning import PlanningStudy
from capture_cp.tasks.peg.cspace import REGIMES

HALTON_STARTS = 50


def figure_data(study: Any, figure: str, console: Console) -> Any:
    """What the figure of a finished study shows, as JSON-ready numbers; None where its settings say it all."""
    if isinstance(study, CoverageStudy) and figure.endswith("-spaces"):
        tasks = {f"{Path(name).stem}-spaces": task for name, task in study.checked_tasks().items()}
        return board(tasks[figure]) if figure in tasks else None
    if isinstance(study, PlanningStudy) and not figure.endswith("-horizon"):
        results = study.results(study.tasks(), console)  # every episode is in the study's state folder by now
        return [{"map": place, "method": name, "episodes": _paths(runs)} for (place, name), runs in results.items()]
    if isinstance(study, PegCoverageStudy):
        return _peg_data(study, figure)
    return None


def _peg_data(study: PegCoverageStudy, figure: str) -> Any:
    strata = study.checked_task().strata
    if figure.endswith("-starts"):
        return {"poses": strata.halton_starts(HALTON_STARTS).tolist(), "units": "m, m, rad"}
    if figure.endswith("-contacts"):
        return [{"stratum": name, "regime": regime} for name, regime in zip(strata.names, strata.regimes)]
    return {"regimes": list(REGIMES)} if figure.endswith("-spaces") else None


def _paths(runs: list[Any]) -> list[dict[str, Any]]:
    return [{"outcome": run["outcome"], "path": run["path"]} for run in runs]
