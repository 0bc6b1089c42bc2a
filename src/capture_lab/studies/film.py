"""`capture view --task NAME --save FILE`: an episode of a task as a video, the robot next to its configuration space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from capture_cp.base.progress import stage
from capture_cp.planning.episode import Episode
from capture_cp.report.movie import check_film, write_film
from capture_lab.studies.planning import PlanningStudy
from capture_lab.tasks.recorded import recorded_task
from capture_lab.tasks.registry import register_task, task_names


def save_task_film(view: Any, file: Path, console: Console) -> None:
    """Draw every step of the first episode to replay, or of a new one, and write the video; `view` holds the settings."""
    check_film(file, view.film_speed)
    if view.task.name not in task_names():
        register_task(type(view.task))
    episode = next(iter(view.episodes().values()), None) or _played(view)
    board = recorded_task(episode).drawing().storyboard(episode)
    write_film(file, board.draw, episode.steps + 1, view.film_speed * board.rate)
    console.print(f"Video of {episode.steps} steps, {episode.outcome}: {file}", soft_wrap=True, markup=False)
    if not len(episode.particles):
        console.print("The episode was recorded without regions: the video shows states and actions only.")


def _played(view: Any) -> Episode:
    """An episode of the view's planner, as `capture plan` records it."""
    view = view.resolved()
    settings = {name: getattr(view.planner, name) for name in ("horizon", "samples", "temperature")}
    chosen = {"methods": (view.method,), "alpha": view.alpha, "seed": view.seed, "k": view.k, "weights": view.weights}
    study = PlanningStudy.of(
        view.task, episodes=1, particles=view.particles, max_leaves=view.max_leaves, **chosen, **settings
    )
    task = view.task.at(view.place)
    with stage(f"calibrating {view.method}"):
        fitted = study.fit(task, view.method)
    with stage("playing an episode"):
        return next(study.play(fitted, view.place, view.method, [0]))
