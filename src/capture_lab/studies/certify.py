"""Certify a task's planner: which settings keep its failure rates below delta, on fresh closed-loop episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, probability, whole_number
from capture_cp.base.progress import advancing, progress_bar
from capture_cp.base.streams import derived_seed
from capture_cp.certificates.certificate import Certificate
from capture_cp.certificates.certify import certify
from capture_cp.certificates.evidence import rate_p_value
from capture_cp.certificates.page import verdict_table, write_certificate_page
from capture_cp.certificates.risks import FAILURE, Risk, checked_risks
from capture_cp.certificates.verdict import Candidate, Correction, Verdict
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.cuda.device import chosen_device
from capture_cp.report.html import report_trouble
from capture_lab.studies.part_store import PartStore
from capture_lab.studies.study import (
    Calibration,
    Jobs,
    OnDevice,
    Rows,
    RowsFile,
    Seed,
    StateFolder,
    Study,
    check_settings,
    write_results,
)
from capture_lab.tasks.candidates import CandidateRow, fingerprints, fit_candidate, parsed
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
    device: OnDevice = "cpu"
    jobs: Jobs = 1
    seed: Seed = 0
    state: StateFolder = None
    out: Annotated[Path | None, tyro.conf.arg(help="Folder for certificates, their pages, and all outcomes.")] = None
    json: RowsFile = None

    def run(self, console: Console) -> None:
        """Play the episodes, print the verdicts, write the certificates."""
        risks, tasks = self._checked(), dict(self.task.places())
        ladder = self._ladder(next(iter(tasks.values())))
        rows = Rows()
        for place, task in tasks.items():
            verdict, fitted = self._verdict(place, task, ladder, risks, console)
            console.print(verdict_table(f"{task.name}: {task.place}", verdict))
            rows += [_candidate_row(place, one, one is verdict.best) for one in verdict.candidates]
            if verdict.best is None:
                continue
            rows += self._certified(place, task, verdict, fitted[verdict.best.name], console)
        write_results(self, rows, console)
        if not any(row["certified"] for row in rows):
            console.print(
                "No candidate is certified: allow larger rates, play more episodes, or try other settings.", style="red"
            )
            raise SystemExit(1)

    def _checked(self) -> tuple[Risk, ...]:
        """The risks, all settings checked before anything is played."""
        probability("beta", self.beta)
        whole_number("fresh", self.fresh, 0)
        check_settings(self, ("episodes", "jobs"))
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
        identity = fitted.task.depends_on | candidate.settings | {"seed": self.seed, "calibration": self.calibration}
        store = PartStore(self.state, f"certify-{fitted.task.slug}", identity | {"device": device, "version": VERSION})

        def play(missing: list[int]) -> Iterator[tuple[int, Any]]:
            starts, seeds = fitted.task.random_starts(missing), list(zip(missing, missing))
            runs = fitted.play(starts, candidate.alpha, seeds, device, self.jobs, regions=False)
            return ((seed, (run.outcome, run.steps)) for seed, run in zip(missing, runs))

        return [(str(outcome), int(steps)) for outcome, steps in store.finished(seeds, play, advance)]

    def _certified(self, place: str, task: Task, verdict: Verdict, fitted: FittedRow, console: Console) -> Rows:
        """Make the certificate, compare it with fresh episodes, and write the requested files."""
        assert verdict.best is not None
        about = f"{task.name}: {task.place}"
        certificate = Certificate.of(verdict, about, fingerprints(fitted, float(verdict.best.settings["alpha"])))
        console.print(certificate.claim, style="green", highlight=False, markup=False)
        rows = self._compare(place, task, certificate, fitted, console) if self.fresh else []
        if self.out is not None:
            stem, trouble = self.out / f"{task.name}-{task.slug}", report_trouble()
            certificate.save(stem.with_suffix(".certificate.json"))
            verdict.outcomes.write(stem.with_suffix(".outcomes.csv"))
            if trouble is None:
                write_certificate_page(stem.with_suffix(".certificate.html"), certificate)
            page = ", .html" if trouble is None else f"; no page, {trouble}"
            console.print(f"Written: {stem}.certificate.json{page}", markup=False)
        return rows

    def _compare(self, place: str, task: Task, certificate: Certificate, fitted: FittedRow, console: Console) -> Rows:
        """Fresh episodes of the certified setting, which were not used to choose it."""
        seeds = [derived_seed(task.seed_here(self.seed), FRESH, episode) for episode in range(self.fresh)]
        with progress_bar() as progress:
            candidate = CandidateRow.of(task, certificate.settings)
            runs = self._play(fitted, candidate, seeds, advancing(progress, FRESH, self.fresh))
        rows, n, success = Rows(), len(runs), sum(outcome == "success" for outcome, _ in runs)
        for risk in certificate.risks:
            failures, delta = int(risk.occurred([outcome for outcome, _ in runs]).sum()), float(risk.delta or 1.0)
            low, high = clopper_pearson(failures, n)
            agrees = not failures or 1.0 - rate_p_value(failures - 1, n, delta) > 0.01
            console.print(
                f"{n:,} fresh episodes: {risk.name} {100 * failures / n:.2f}% [{100 * low:.2f}, {100 * high:.2f}], "
                f"certified at most {100 * delta:g}%, which {'agrees' if agrees else 'CONTRADICTS it'}; "
                f"success {100 * success / n:.2f}%.",
                markup=False, highlight=False,
            )  # fmt: skip
            labels = {"map": place, "kind": FRESH, "setting": certificate.setting, "risk": risk.name, "certified": True}
            counted = {"episodes": n, "failures": failures, "ci95": [low, high], "successes": success, "delta": delta}
            rows.append(labels | counted)
        return rows


def _candidate_row(place: str, candidate: Candidate, best: bool) -> dict[str, Any]:
    facts = {key: (None if value != value else value) for key, value in asdict(candidate).items() if key != "name"}
    return {"map": place, "kind": "candidate", "best": best, "setting": candidate.name} | facts
