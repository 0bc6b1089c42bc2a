"""Certify a task's planner: which settings keep its failure rates below delta, on fresh closed-loop episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, probability, whole_number
from capture_cp.base.files import check_writable
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.base.streams import derived_seed
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.certify import certify
from capture_cp.certificates.evidence import rate_p_value
from capture_cp.certificates.page import verdict_table, write_certificate_page
from capture_cp.certificates.risks import FAILURE, Risk, checked_risks
from capture_cp.certificates.verdict import Candidate, Correction, Verdict
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.data.parts import run_parts
from capture_cp.planning.episode import Episode
from capture_cp.report.html import report_trouble
from capture_cp.report.output import output_folder, write_rows
from capture_lab.studies.part_store import PartStore
from capture_lab.studies.study import Calibration, Jobs, RowsFile, Seed, StateFolder, Study
from capture_lab.tasks.candidates import CandidateRow, fingerprints, fit_candidate, parsed
from capture_lab.tasks.practice import TOGETHER, play_from, played
from capture_lab.tasks.rows import FittedRow, part_of
from capture_lab.tasks.task import Advance, Task

FRESH = "fresh"  # episodes that were not used to choose a setting
VERSION = version("capture-cp")


@dataclass(frozen=True)
class CertifyStudy(Study):
    """Find settings of a task's planner whose failure rates are at most delta, with high confidence.

    Every candidate plays fresh episodes on the true system, from random starts. Exact tests, corrected for the number of
    candidates, find those that keep every risk below its delta, and the best of them gets a certificate (Learn then Test).
    For a risk without a number, the smallest delta that can be certified is found.

    Exit status: 0 a candidate is certified; 1 none is; 2 the input cannot be used.
    """

    command: ClassVar[str] = "certify"

    candidates: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            help="Settings to choose from, such as method=capture,alpha=0.1,horizon=6; by default those of the task."
        ),
    ] = ()
    risks: Annotated[
        tuple[str, ...],
        tyro.conf.arg(help="Outcomes and their largest rates, such as fell=0.02; failure is every outcome but success."),
    ] = (FAILURE,)
    beta: Annotated[float, tyro.conf.arg(help="Largest probability of a false certificate.")] = 0.05
    episodes: Annotated[int, tyro.conf.arg(help="Largest number of episodes per candidate.")] = 1000
    correction: Annotated[
        Correction, tyro.conf.arg(help="holm tests all candidates; sequence tests them in order until one fails.")
    ] = "holm"
    anytime: Annotated[bool, tyro.conf.arg(help="Stop a candidate as soon as the result is decided.")] = False
    fresh: Annotated[
        int, tyro.conf.arg(help="Further episodes of the certified setting, to compare with the certificate.")
    ] = 0
    calibration: Calibration = 1.0
    device: Annotated[Device, tyro.conf.arg(help="Where plans are computed, as in capture plan.")] = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for certificates, their pages, and all outcomes.")] = None
    json: RowsFile = None

    def run(self, console: Console) -> None:
        """Play the episodes, print the verdicts, write the certificates."""
        risks, tasks = self._checked(), dict(self.task.places())
        ladder = self._ladder(next(iter(tasks.values())))
        rows: list[dict[str, Any]] = []
        for place, task in tasks.items():
            verdict, fitted = self._verdict(place, task, ladder, risks, console)
            console.print(verdict_table(f"{task.name}: {task.place}", verdict))
            rows += self._rows(place, verdict)
            if verdict.best is None:
                continue
            rows += self._certified(place, task, verdict, fitted[verdict.best.name], console)
        if self.json is not None:
            write_rows(self.json, rows, self)
        if not any(row["certified"] for row in rows):
            console.print(
                "No candidate is certified: allow larger rates, play more episodes, or try other settings.", style="red"
            )
            raise SystemExit(1)

    def _checked(self) -> tuple[Risk, ...]:
        """The risks, all settings checked before anything is played."""
        probability("beta", self.beta)
        whole_number("fresh", self.fresh, 0)
        for name in ("episodes", "jobs"):
            whole_number(name, getattr(self, name), 1)
        whole_number("seed", self.seed, 0)
        check_writable(self.json)
        for folder in (self.out, self.state):
            if folder is not None:
                output_folder(folder)
        for task in self.task.places().values():
            part_of(task.calibration_size, self.calibration)
        return checked_risks([Risk.parse(text) for text in self.risks])

    def _ladder(self, task: Task) -> dict[str, CandidateRow]:
        """The candidates by name."""
        chosen = {text: parsed(text) for text in self.candidates} if self.candidates else self.task.ladder
        found = {name: CandidateRow.of(task, settings) for name, settings in chosen.items()}
        if len(self.candidates) > len(found) or any(one == other for one, other in combinations(found.values(), 2)):
            raise CaptureError("two candidates have the same settings; give each once.")
        return found

    def _verdict(
        self, place: str, task: Task, ladder: Mapping[str, CandidateRow], risks: tuple[Risk, ...], console: Console
    ) -> tuple[Verdict, dict[str, FittedRow]]:
        here, fitted = task.seed_here(self.seed), dict[str, FittedRow]()
        with progress_bar() as progress:
            advance = advancing(progress, task.place, len(ladder) * self.episodes)

            def play(settings: Mapping[str, Any], seeds: list[int]) -> list[tuple[str, int]]:
                (name,) = (name for name, candidate in ladder.items() if candidate.settings == settings)
                if name not in fitted:
                    fitted[name] = fit_candidate(task, ladder[name], self.seed, self.calibration)
                return self._play(fitted[name], ladder[name], seeds, advance)

            every = {name: candidate.settings for name, candidate in ladder.items()}
            how = self.beta, self.episodes, self.correction, self.anytime
            found = certify(every, play, risks, *how, batch=max(20, self.jobs), seed=here)
        return found, fitted

    def _play(self, fitted: FittedRow, candidate: CandidateRow, seeds: list[int], advance: Advance) -> list[tuple[str, int]]:
        """Outcome and steps of an episode per seed; those in the folder `state` are not played again."""
        device = chosen_device(self.device)
        identity = fitted.task.identity | candidate.settings | {"seed": self.seed, "calibration": self.calibration}
        store = PartStore(self.state, f"certify-{fitted.task.slug}", identity | {"device": device, "version": VERSION})
        done = {seed: (str(end[0]), int(end[1])) for seed, end in store.load().items()}
        missing = [seed for seed in seeds if seed not in done]
        advance(len(seeds) - len(missing))
        for seed, run in self._episodes(fitted, candidate.alpha, missing, device):
            done[seed] = run.outcome, run.steps
            store.add(seed, done[seed])
            advance(1)
        return [done[seed] for seed in seeds]

    def _episodes(self, fitted: FittedRow, alpha: float, seeds: list[int], device: Device) -> Iterator[tuple[int, Episode]]:
        """An episode per seed, from random starts."""
        starts = fitted.task.random_starts(seeds)
        if device == "cpu" or fitted.task.closed_loops() is None:
            runs = run_parts(partial(_run, fitted, starts, seeds, alpha), range(len(seeds)), self.jobs)
            yield from ((seeds[number], run) for number, run in runs)
            return
        for first in range(0, len(seeds), TOGETHER):
            some = slice(first, first + TOGETHER)
            yield from zip(seeds[some], played(fitted, seeds[some], alpha, device, starts=starts[some]))

    def _certified(
        self, place: str, task: Task, verdict: Verdict, fitted: FittedRow, console: Console
    ) -> list[dict[str, Any]]:
        """Make the certificate, compare it with fresh episodes, and write the requested files."""
        assert verdict.best is not None
        about = f"{task.name}: {task.place}"
        certificate = Certificate.of(verdict, about, fingerprints(fitted, float(verdict.best.settings["alpha"])))
        console.print(certificate.claim, style="green", highlight=False, markup=False)
        rows = self._compare(place, task, certificate, fitted, console) if self.fresh else []
        if self.out is not None:
            stem = self.out / f"{task.name}-{task.slug}"
            certificate.save(stem.with_suffix(".certificate.json"))
            verdict.outcomes.write(stem.with_suffix(".outcomes.csv"))
            trouble = report_trouble()
            if trouble is None:
                write_certificate_page(stem.with_suffix(".certificate.html"), certificate)
            console.print(
                f"Written: {stem}.certificate.json" + (", .html" if trouble is None else f"; no page, {trouble}"),
                markup=False,
            )
        return rows

    def _compare(
        self, place: str, task: Task, certificate: Certificate, fitted: FittedRow, console: Console
    ) -> list[dict[str, Any]]:
        """Fresh episodes of the certified setting, which were not used to choose it."""
        seeds = [derived_seed(task.seed_here(self.seed), FRESH, episode) for episode in range(self.fresh)]
        with progress_bar() as progress:
            candidate = CandidateRow.of(task, certificate.settings)
            runs = self._play(fitted, candidate, seeds, advancing(progress, FRESH, self.fresh))
        rows = []
        success = sum(outcome == "success" for outcome, _ in runs)
        for risk in certificate.risks:
            failures, delta = int(risk.occurred([outcome for outcome, _ in runs]).sum()), float(risk.delta or 1.0)
            low, high = clopper_pearson(failures, len(runs))
            agrees = 1.0 - rate_p_value(failures - 1, len(runs), delta) > 0.01 if failures else True
            words = "which agrees" if agrees else "which CONTRADICTS it"
            console.print(
                f"{len(runs):,} fresh episodes: {risk.name} {100 * failures / len(runs):.2f}% "
                f"[{100 * low:.2f}, {100 * high:.2f}], certified at most {100 * delta:g}%, {words}; "
                f"success {100 * success / len(runs):.2f}%.",
                markup=False,
                highlight=False,
            )
            counted = {
                "episodes": len(runs),
                "failures": failures,
                "ci95": [low, high],
                "successes": success,
                "delta": delta,
            }
            rows.append(
                {
                    "map": place,
                    "kind": FRESH,
                    "setting": certificate.setting,
                    "risk": risk.name,
                    "certified": True,
                    **counted,
                }
            )
        return rows

    def _rows(self, place: str, verdict: Verdict) -> list[dict[str, Any]]:
        best = verdict.best
        return [{"map": place, "kind": "candidate", "best": one is best, **_facts(one)} for one in verdict.candidates]


def _run(fitted: FittedRow, starts: Any, seeds: list[int], alpha: float, number: int) -> Episode:
    return play_from(fitted, starts[number], seeds[number], alpha)


def _facts(candidate: Candidate) -> dict[str, Any]:
    facts = asdict(candidate) | {"setting": candidate.name}
    return {key: (None if value != value else value) for key, value in facts.items() if key != "name"}
