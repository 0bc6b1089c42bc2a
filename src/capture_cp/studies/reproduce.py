"""The command that makes every table and figure of the paper again, with ours and the paper's figures side by side."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from capture_cp.base.checks import whole_number
from capture_cp.base.files import check_writable, write_json
from capture_cp.report.html import report_trouble
from capture_cp.report.output import output_folder
from capture_cp.studies.backends import BackendName, check_backend, workers
from capture_cp.studies.figure_data import figure_data
from capture_cp.studies.parts import PartStore
from capture_cp.studies.reproduction import FULL, QUICK, Part, PartName, Sizes, Study, all_parts

NO_MUJOCO = 'skipped: the peg needs MuJoCo; install it with: pip install "capture-cp[sim]".'
NOT_YET = "not made yet; run the command again without --only, or with this part in it."
_SCALE = tyro.conf.create_mutex_group(required=False)


@dataclass(frozen=True)
class Reproduce:
    """Make every table and figure of the paper, ours and the paper's side by side, and an index page over them.

    A run that was stopped goes on from its finished parts when the same command is given again. The results do not depend
    on backend or jobs.
    """

    quick: Annotated[
        bool, _SCALE, tyro.conf.arg(help="Small sizes, minutes (the default)."), tyro.conf.FlagCreatePairsOff
    ] = False
    full: Annotated[bool, _SCALE, tyro.conf.arg(help="The paper's sizes, hours."), tyro.conf.FlagCreatePairsOff] = False
    only: Annotated[tuple[PartName, ...], tyro.conf.arg(help="Only these parts.")] = ()
    out: Annotated[Path, tyro.conf.arg(help="Folder for tables, figures and the index page.")] = Path("results")
    backend: Annotated[
        BackendName, tyro.conf.arg(help="Processes of this machine (loky), or the workers of a Dask or Ray cluster.")
    ] = "loky"
    jobs: Annotated[int | None, tyro.conf.arg(help="Processes, one a core unless told.")] = None
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same figures.")] = 0

    def run(self, console: Console) -> None:
        """Make the parts that are missing, and the index page after each."""
        jobs = whole_number("jobs", os.cpu_count() or 1 if self.jobs is None else self.jobs, 1)
        whole_number("seed", self.seed, 0)
        check_backend(self.backend)
        folder = output_folder(self.out)
        check_writable(folder / "index.html")
        for name in ("state", "figures"):
            check_writable(output_folder(folder / name) / "any")
        trouble = report_trouble()
        if trouble is not None:
            console.print(f"Tables only, no figures and no index page: {trouble}", markup=False)
        work = Reproduction(self.sizes(), jobs, self.seed, folder, "full" if self.full else "quick", trouble is None)
        with workers(self.backend, jobs):
            work.make(self.only, console)

    def sizes(self) -> Sizes:
        """How large the studies are."""
        return FULL if self.full else QUICK


class Reproduction:
    """The parts of one reproduction and where they are kept: a folder with tables, figures, state and index page."""

    def __init__(self, sizes: Sizes, jobs: int, seed: int, folder: Path, scale: str, pictures: bool) -> None:
        self.sizes, self.folder, self.scale, self.pictures = sizes, folder, scale, pictures
        self.parts = all_parts(sizes, jobs, seed)

    def make(self, only: tuple[str, ...], console: Console) -> None:
        """Make the missing parts among `only` (all if empty), one after the other."""
        for number, part in enumerate(self.parts, start=1):
            if only and part.name not in only:
                continue
            heading = f"[bold]{number} of {len(self.parts)}: {part.title}[/bold]"
            if part.needs_mujoco and find_spec("mujoco") is None:
                console.print(heading)
                console.print(NO_MUJOCO, markup=False)
                continue
            if self.finished(part) is None:
                console.print(heading)
                self._run(part, console)
            else:
                console.print(f"{heading}: finished before")
            self.write_tables(part)
            self.write_index()
        self.write_index()
        if self.pictures:
            console.print(f"Index page: {self.folder / 'index.html'}", markup=False)
        else:
            console.print(f"Tables: {self.folder}", markup=False)

    def finished(self, part: Part) -> dict[str, Any] | None:
        """What a part left behind, if it was made with these settings and its figures are still there."""
        found: dict[str, Any] | None = self._store(part).load().get(0)
        if found is None or not all(self._is_ours(part, self.folder / name) for name in found["figures"]):
            return None
        return found

    def status(self, part: Part) -> str:
        """Why there is nothing of a part to show."""
        return NO_MUJOCO if part.needs_mujoco and find_spec("mujoco") is None else NOT_YET

    def write_tables(self, part: Part) -> None:
        """Each table of a finished part as a JSON file."""
        found = self.finished(part) or {"rows": []}
        for table in part.tables:
            rows = [row for row in found["rows"] if table.holds(row)]
            content = {"schema": 1, "table": table.number, "title": table.title, "scale": self.scale, "rows": rows}
            write_json(self.folder / table.file, content | {"config": part.settings()})

    def write_index(self) -> None:
        """The index page over all parts, finished or not."""
        if self.pictures:
            from capture_cp.studies.reproduce_page import write_index

            write_index(self)

    def _run(self, part: Part, console: Console) -> None:
        began = time.perf_counter()
        drawn = output_folder(self.folder / "figures" / part.name) if self.pictures else None
        rows: list[Any] = []
        figures: dict[str, None] = {}
        for study in part.placed(output_folder(self.folder / "state"), drawn):
            study.run(console)
            assert study.json is not None  # placed above
            rows += json.loads(study.json.read_text(encoding="utf-8"))["rows"]
            for file in [] if drawn is None else sorted(drawn.glob("*.png")):
                self._describe(part, study, file, console)
                figures[str(file.relative_to(self.folder))] = None
        self._store(part).add(0, {"rows": rows, "figures": list(figures), "seconds": time.perf_counter() - began})

    def _describe(self, part: Part, study: Study, file: Path, console: Console) -> None:
        """What a figure shows, as a JSON file beside it."""
        figure = part.figure_of(file)
        content = {
            "schema": 1,
            "figure": file.name,
            "paper": None if figure is None else figure.beside,
            "caption": None if figure is None else figure.caption,
            "made_by": self._store(part).name,
            "config": asdict(study),
            "data": figure_data(study, file.stem, console),
        }
        write_json(file.with_suffix(".json"), content)

    def _is_ours(self, part: Part, figure: Path) -> bool:
        """Whether a figure is there and was made with these settings, not by a run of another scale since then."""
        try:
            made_by = json.loads(figure.with_suffix(".json").read_text(encoding="utf-8"))["made_by"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False
        return figure.is_file() and made_by == self._store(part).name

    def _store(self, part: Part) -> PartStore:
        return PartStore(self.folder / "state", f"reproduce-{part.name}", part.identity(self.pictures))
