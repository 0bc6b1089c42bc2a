"""The command that recomputes every table and figure of the paper, and shows ours next to the paper's.

The section "reproduce" of each task's `paper.json` lists the parts: each is a study with its sizes at two scales, and the
tables and figures of the paper that it produces.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, known_name, whole_number
from capture_cp.base.files import check_writable, write_json
from capture_cp.base.progress import stage
from capture_cp.data.parts import BackendName, check_backend, workers
from capture_cp.report.html import embedded, report_trouble, write_page
from capture_cp.report.output import output_folder
from capture_cp.report.tables import PageTable, coverage_page_table, draw_coverage, planning_page_table
from capture_lab.studies.coverage import CoverageStudy
from capture_lab.studies.paper import Paper
from capture_lab.studies.part_store import PartStore
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.study import Rows, Seed, Study
from capture_lab.tasks.registry import find_task, task_names

STUDIES: Mapping[str, type[Any]] = {study.command: study for study in (CoverageStudy, PlanningStudy)}
NOT_YET = "not made yet; run the command again without --only, or with this part in it."
_SCALE = tyro.conf.create_mutex_group(required=False)


@dataclass(frozen=True)
class Reproduce:
    """Recompute every table and figure of the paper, show them next to the paper's, and write an index page.

    If you stop a run, the same command continues from its finished parts. The results do not depend on backend or jobs.
    """

    quick: Annotated[
        bool, _SCALE, tyro.conf.arg(help="Small sizes, which take minutes (the default)."), tyro.conf.FlagCreatePairsOff
    ] = False
    full: Annotated[
        bool, _SCALE, tyro.conf.arg(help="The paper's sizes, which take hours."), tyro.conf.FlagCreatePairsOff
    ] = False
    only: Annotated[tuple[str, ...], tyro.conf.arg(help="Only these parts, by the names on the index page.")] = ()
    out: Annotated[Path, tyro.conf.arg(help="Folder for tables, figures and the index page.")] = Path("results")
    backend: Annotated[
        BackendName, tyro.conf.arg(help="Processes on this machine (loky), or workers of a Dask or Ray cluster.")
    ] = "loky"
    jobs: Annotated[int | None, tyro.conf.arg(help="Number of processes, by default one per core.")] = None
    seed: Seed = 0

    def run(self, console: Console) -> None:
        """Compute the missing parts, and write the index page after each."""
        jobs = whole_number("jobs", os.cpu_count() or 1 if self.jobs is None else self.jobs, 1)
        whole_number("seed", self.seed, 0)
        check_backend(self.backend)
        scale = "full" if self.full else "quick"
        parts = all_parts(scale, jobs, self.seed)
        for name in self.only:
            known_name("part", name, [part.name for part in parts])
        folder = output_folder(self.out)
        check_writable(folder / "index.html")
        for name in ("state", "figures"):
            check_writable(output_folder(folder / name) / "any")
        trouble = report_trouble()
        if trouble is not None:
            console.print(f"Tables only, no figures and no index page: {trouble}", markup=False)
        work = Reproduction(parts, folder, scale, trouble is None)
        with workers(self.backend, jobs):
            work.make(self.only, console)


@dataclass(frozen=True)
class Part:
    """One part of the reproduction: studies at one scale, and the tables and figures that they produce.

    Attributes:
        about: the part's entry in `paper.json`.
        studies: its studies.
        sizes: the settings of each study that are the scale's.
    """

    about: Mapping[str, Any]
    studies: tuple[Study, ...]
    sizes: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        return str(self.about["name"])

    @cached_property
    def trouble(self) -> str | None:
        """Why this part cannot be computed here, such as a missing package; None if it can."""
        try:
            for study in self.studies:
                study.task.places()
        except CaptureError as error:
            return f"skipped: {error}"
        return None

    @property
    def settings(self) -> list[dict[str, Any]]:
        """Settings of the studies that change their results."""
        unimportant = Study.unimportant - {"task"}
        return [{key: value for key, value in asdict(study).items() if key not in unimportant} for study in self.studies]

    def rows_of(self, table: Mapping[str, Any], rows: Rows) -> Rows:
        """Those of the part's rows that belong to one of its tables."""
        only, without = table.get("only"), table.get("without", ())
        return [row for row in rows if (only is None or row["map"] in only) and row["map"] not in without]

    def figure_of(self, file: Path) -> Mapping[str, Any]:
        """Which of the paper's figures a file stands for."""
        unknown = {"paper": None, "caption": file.stem}
        return next((figure for figure in self.about["figures"] if file.stem.endswith(figure["ending"])), unknown)

    def page_tables(self, rows: Rows) -> list[PageTable]:
        """One table of a page per place."""
        paper, tables = Paper.of(self.studies[0].task), []
        for place in dict.fromkeys(row["map"] for row in rows):
            title, here = paper.place_name(place), [row for row in rows if row["map"] == place]
            if self.about["study"] == CoverageStudy.command:
                tables.append(coverage_page_table(title, here))
            else:
                tables.append(planning_page_table(title, here, paper.planning_columns))
        return tables


def all_parts(scale: str, jobs: int, seed: int) -> list[Part]:
    """The parts of the reproduction at a scale, "quick" or "full", in the paper's order."""
    parts = []
    for options in map(find_task, task_names()):
        for about in Paper.of(options()).reproduced:
            sizes = tuple(about[scale])
            parts.append(Part(about, tuple(_study(options, about["study"], size, jobs, seed) for size in sizes), sizes))
    return parts


def _study(options: type[Any], command: str, size: Mapping[str, Any], jobs: int, seed: int) -> Study:
    """A study of a task; settings of its size are options of either."""
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in size.items()}
    of_task = {key: value for key, value in given.items() if key in {entry.name for entry in fields(options)}}
    own = {key: value for key, value in given.items() if key not in of_task}
    study: Study = STUDIES[command].of(options(**of_task), jobs=jobs, seed=seed, **own)
    return study


class Reproduction:
    """The parts of one reproduction and where they are kept: a folder with tables, figures, state and index page."""

    def __init__(self, parts: list[Part], folder: Path, scale: str, pictures: bool) -> None:
        self.parts, self.folder, self.scale, self.pictures = parts, folder, scale, pictures

    def make(self, only: tuple[str, ...], console: Console) -> None:
        """Compute the missing parts among `only` (all if empty), one after the other."""
        for number, part in enumerate(self.parts, start=1):
            if only and part.name not in only:
                continue
            heading = f"[bold]{number} of {len(self.parts)}: {part.about['title']}[/bold]"
            if self.finished(part) is not None:
                console.print(f"{heading}: finished before")
            else:
                console.print(heading)
                if part.trouble is not None:
                    console.print(part.trouble, markup=False)
                    continue
                self._run(part, console)
            self._write_tables(part)
            self._write_index()
        self._write_index()
        made = f"Index page: {self.folder / 'index.html'}" if self.pictures else f"Tables: {self.folder}"
        console.print(made, markup=False)

    def finished(self, part: Part) -> dict[str, Any] | None:
        """The results of a part, if it was computed with these settings and its figures still exist."""
        found: dict[str, Any] | None = self._store(part).load().get(0)
        if found is None or not all(self._is_ours(part, self.folder / name) for name in found["figures"]):
            return None
        return found

    def _run(self, part: Part, console: Console) -> None:
        began = time.perf_counter()
        state = output_folder(self.folder / "state")
        drawn = output_folder(self.folder / "figures" / part.name) if self.pictures else None
        rows: Rows = []
        figures: dict[str, None] = {}
        for number, study in enumerate(part.studies):
            file = state / f"{part.name}-{number}.json"
            placed: Study = replace(study, state=state, json=file, figures=drawn)  # type: ignore[call-arg]
            placed.run(console)
            rows += json.loads(file.read_text(encoding="utf-8"))["rows"]
            for picture in [] if drawn is None else sorted(drawn.glob("*.png")):
                about = {key: part.figure_of(picture)[key] for key in ("paper", "caption")}
                data = {"config": asdict(placed), "data": placed.figure_data(picture.stem, console)}
                made = {"schema": 1, "figure": picture.name, **about, "made_by": self._store(part).name, **data}
                write_json(picture.with_suffix(".json"), made)
                figures[str(picture.relative_to(self.folder))] = None
        self._store(part).add(0, {"rows": rows, "figures": list(figures), "seconds": time.perf_counter() - began})

    def _is_ours(self, part: Part, figure: Path) -> bool:
        """Whether a figure is there and was made with these settings, not by a run of another scale since then."""
        try:
            made_by = json.loads(figure.with_suffix(".json").read_text(encoding="utf-8"))["made_by"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return False
        return figure.is_file() and made_by == self._store(part).name

    def _store(self, part: Part) -> PartStore:
        made_with = {"studies": part.settings, "figures": self.pictures, "version": version("capture-cp")}
        return PartStore(self.folder / "state", f"reproduce-{part.name}", made_with)

    def _write_tables(self, part: Part) -> None:
        """Each table of a finished part as a JSON file."""
        found = self.finished(part) or {"rows": []}
        for table in part.about["tables"]:
            content = {"schema": 1, "table": table["number"], "title": table["title"], "scale": self.scale}
            content |= {"rows": part.rows_of(table, found["rows"]), "config": part.settings}
            write_json(self.folder / f"table-{table['number']}.json", content)

    def _write_index(self) -> None:
        """The index page over all parts, finished or not."""
        if not self.pictures:
            return
        with TemporaryDirectory() as scratch, stage("writing the index page", everywhere=False):
            sizes = {part.name: "; ".join(map(_words, part.sizes)) for part in self.parts}
            sections = [self._section(part, Path(scratch)) for part in self.parts]
            write_page(self.folder / "index.html", "reproduce.html", scale=self.scale, sizes=sizes, sections=sections)

    def _section(self, part: Part, scratch: Path) -> dict[str, Any]:
        """What the page shows of a part; charts are drawn into `scratch`."""
        found = self.finished(part)
        section: dict[str, Any] = {"name": part.name, "title": part.about["title"], "tables": [], "figures": []}
        if found is None:
            return section | {"status": part.trouble or NOT_YET}
        for table in part.about["tables"]:
            rows, chart = part.rows_of(table, found["rows"]), None
            tables = part.page_tables(rows)
            if part.about["study"] == CoverageStudy.command and len(tables) == 1:
                draw_coverage(rows, scratch / "chart.svg")
                chart = embedded(scratch / "chart.svg")
            number = table["number"]
            entry = {"number": number, "title": table["title"], "file": f"table-{number}.json"}
            section["tables"].append(entry | {"chart": chart, "tables": tables})
        for name in found["figures"]:
            figure, data = part.figure_of(Path(name)), str(Path(name).with_suffix(".json"))
            about = {"beside": figure["paper"] or "", "caption": figure["caption"]}
            section["figures"].append({"picture": self.folder / name, "file": name, "data": data} | about)
        return section | {"status": "", "seconds": found["seconds"]}


def _words(value: Any) -> str:
    """Sizes of a study in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
