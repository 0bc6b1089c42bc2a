"""A video of one planned run of the shelf, as `capture plan shelf --record` and `capture view --save` make it."""

from __future__ import annotations

from capture_cp.planning.episode import episode_seeds
from capture_cp.report.movie import write_movie
from capture_lab.tasks.rows import fit_row
from capture_lab.tasks.shelf.options import ShelfOptions
from figures.style import IMAGES


def shelf_film() -> None:
    """The first run of `capture` at the open shelf, at half speed."""
    task = ShelfOptions().at("open")
    fitted = fit_row(task.rows["capture"], task, seed=0, calibration=12_000)
    info = {"task": "shelf", "options": {}, "map": "open", "method": "capture"}
    run = fitted.play(task.starts(100)[0], 0.1, episode_seeds(0, task.place, 0), info)
    film = task.drawing().film(run)
    file = IMAGES / "shelf.webp"
    write_movie(file, (film.draw(step) for step in range(run.steps + 1)), film.rate / 2)
    print(f"{file.name}  {file.stat().st_size / 1000:.0f} kB: {run.outcome} in {run.steps}, {run.inside.sum()} regions held")
