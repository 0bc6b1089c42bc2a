"""From a log of transitions to a saved calibration and a report, in one command."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console

from capture_cp.base.arrays import digest
from capture_cp.base.checks import CaptureError, confidence_level, failure_rate, known_name, positive_number, whole_number
from capture_cp.base.files import check_writable
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS, method
from capture_cp.capture.preflight import check_unseen
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import Model
from capture_cp.data.transitions import Transitions, read_transitions
from capture_cp.logs import options
from capture_cp.logs.bundle import LinearModel, grid_around, grid_facts
from capture_cp.logs.cautions import (
    duplicate_cautions,
    far_cautions,
    group_cautions,
    heard,
    listen,
    merge_cautions,
    unit_cautions,
)
from capture_cp.logs.distances import Distances, turn_cautions, unwrapped
from capture_cp.logs.options import CHECK, LINEAR, TRAIN, Shares
from capture_cp.logs.report import coverage_by_stratum, group_table, write_report
from capture_cp.logs.user_objects import in_options, tells_training, user_model, user_strata
from capture_cp.report.html import report_trouble
from capture_cp.report.output import write_rows
from capture_cp.spaces.strata import GriddedStrata, Strata, one_stratum

MEASURED = 5_000  # transitions whose regions' cells are counted
CALIBRATED = tuple(name for name in METHODS if name != "particles")


@dataclass(frozen=True)
class Calibrate:
    """From a log of transitions to calibrated regions: fit, check on a share that is held out, save, and write a report.

    DATA is a .csv, .npz or .parquet file with one transition per row, or a .toml file with these options by name
    (data = "log.csv", state = ["x", "y"], ...; paths are relative to it, options after it have the last word).

    Without --model a straight line through a share of the log serves as one: the regions are valid, and larger than those
    of a better model. Without --strata there is one stratum, "all". Steps of one episode are not independent: name their
    column with --episode, and whole episodes are split and counted.

    A Gymnasium environment in place of DATA: capture calibrate --env ID; add --help for its options.
    """

    data: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(help="Transition file, or a .toml file with all options.", metavar="DATA")
    ]
    state: options.StateColumns
    action: options.ActionColumns
    next: options.NextColumns
    model: Annotated[
        str, tyro.conf.arg(help="module:object, called as model(X, n_particles, rng) -> (n, L, dc); or linear.")
    ] = LINEAR
    strata: Annotated[
        str | None, tyro.conf.arg(help="module:object with names and index(Y); by default one stratum, all.")
    ] = None
    episode: options.EpisodeColumn = None
    time: options.TimeColumn = None
    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate: regions cover at least 1 - alpha.")] = 0.1
    confidence: options.Confidence = None
    deterministic_model: Annotated[
        bool, tyro.conf.arg(help="The model is meant to have no noise; otherwise one without is refused.")
    ] = False
    method: Annotated[str, tyro.conf.arg(help=f"One of {', '.join(CALIBRATED)}.")] = "capture"
    particles: Annotated[int, tyro.conf.arg(help="Particles L from the model.")] = 16
    k: Annotated[int | None, tyro.conf.arg(help="Neighbour that counts; by default half of the particles.")] = None
    distances: Annotated[Distances, tyro.conf.arg(name="")] = field(default_factory=Distances)
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest transitions that a leaf is grown from.")] = 300
    min_stratum: options.MinStratum = None
    farthest: options.Farthest = None
    check_share: Annotated[float, tyro.conf.arg(help="Share of the log held out to check on.")] = CHECK
    train_share: Annotated[float, tyro.conf.arg(help="Share of the log that the linear model is trained on.")] = TRAIN
    out: Annotated[Path, tyro.conf.arg(help="The saved calibration.")] = Path("robot.capture")
    report: Annotated[Path | None, tyro.conf.arg(help="HTML report; by default OUT with the ending .html.")] = None
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the figures to this file.")] = None
    folder: options.Folder = Path()
    seed: Annotated[int, tyro.conf.arg(help="Same seed, same calibration.")] = 0

    def run(self, console: Console) -> None:
        """Calibrate, print what was found, save."""
        self._check_settings()
        columns = {"state": self.state, "action": self.action, "next": self.next}
        log = read_transitions(self.data, **columns, episode=self.episode, time=self.time)
        with warnings.catch_warnings(record=True) as caught:
            listen()
            strata = self._strata(log)
            parts = self._split(log)
            model = self._model(parts, log)
            cap = self._fit(model, strata, parts["to calibrate"])
            cap.data_["robot"] = self._facts(log, cap)
            kept = parts["to check"]
            coverage = self._coverage(cap, kept)
            few = group_cautions(cap, self.alpha, self.confidence, log.X_names)
            far = far_cautions(cap, kept, self.seed)
        cautions = [
            *unit_cautions(log),
            *turn_cautions(log, self.distances.angular(self.next)),
            *duplicate_cautions(parts),
            *merge_cautions(cap),
            *few,
            *far,
            *heard(caught),
        ]
        self._print(console, cap, coverage, parts, cautions)
        cap.save(self.out)
        console.print(f"Saved calibration: {self.out}", markup=False)
        if self.json is not None:
            rows = coverage.rows(data=str(self.data), method=self.method)
            groups = self._group_rows(cap, coverage)
            write_rows(self.json, rows, self, groups=groups, merged=cap.merged_, warnings=cautions)
        self._write_report(console, cap, coverage, parts, cautions)

    @property
    def linear(self) -> bool:
        """Whether the built-in model is used."""
        return self.model == LINEAR

    def _strata(self, log: Transitions) -> Strata:
        """The user's strata, or a single one; with a grid for pictures where distances are plain."""
        if self.strata is not None:
            return user_strata(self.strata, self.folder, log.Y)
        return one_stratum(grid_around(log.Y) if self.distances.of(self.next) is None else None)

    def _split(self, log: Transitions) -> dict[str, Transitions]:
        """Parts of the log by what they are for; whole episodes, where there are any."""
        parts = self._shares.parts()
        return dict(zip(parts, log.split(tuple(parts.values()), self.seed)))

    @property
    def _shares(self) -> Shares:
        return Shares(self.train_share if self.linear else 0.0, self.check_share)

    def _model(self, parts: dict[str, Transitions], log: Transitions) -> Model:
        if self.linear:
            return LinearModel.trained(parts["to train"].X, unwrapped(parts["to train"], self.distances.angular(self.next)))
        model = user_model(self.model, self.folder)
        check_unseen(model, log.X, log.Y)  # of the whole log: what it is checked on must be new to it as well
        return model

    def _fit(self, model: Model, strata: Strata, log: Transitions) -> Capture:
        tree = Tree(per_stratum=True, min_leaf=self.min_leaf, min_stratum=self._min_stratum)
        parts: dict[str, Any] = {"n_particles": self.particles, "k": self.k, "tree": tree, "seed": self.seed}
        cap = method(self.method, model, strata, metric=self.distances.of(self.next), **parts)
        cap.set_params(deterministic_model=self.deterministic_model, farthest=self.farthest)
        with in_options():
            return cap.fit(log.X, log.Y, episodes=log.episode)

    @property
    def _min_stratum(self) -> int | None:
        """Calibration transitions that a stratum must expect for thresholds of its own; None where none is merged."""
        if self.min_stratum is None:
            return options.expected_to_suffice(self.alpha, self.confidence)
        return self.min_stratum or None

    def _coverage(self, cap: Capture, kept: Transitions) -> Coverage:
        """Coverage on all of these transitions; mean cells, which take far longer to count, on some thousands at most."""
        all_measured = len(kept) <= MEASURED
        settings = self.alpha, self.confidence
        found = cap.coverage(kept.X, kept.Y, *settings, episodes=kept.episode, volumes=all_measured, rng=self.seed)
        if all_measured:
            return found
        some = kept.rows(np.linspace(0, len(kept) - 1, MEASURED).astype(int))
        all, *strata = (row.volume for row in cap.coverage(some.X, some.Y, *settings, rng=self.seed))
        rows = tuple(replace(row, volume=volume) for row, volume in zip(found.strata, strata))
        return replace(found, all=replace(found.all, volume=all), strata=rows)

    def _facts(self, log: Transitions, cap: Capture) -> dict[str, Any]:
        """What `capture check` needs to know beside the calibration."""
        facts: dict[str, Any] = {
            "columns": {name: list(getattr(log, f"{name}_names")) for name in ("state", "action", "next")},
            "episode": self.episode,
            "time": self.time,
            "alpha": self.alpha,
            "confidence": self.confidence,
            "log_sha256": digest(log.X, log.Y),
        }
        if isinstance(cap.model, LinearModel):
            facts["linear"] = cap.model.facts()
        if self.strata is None and isinstance(cap.strata, GriddedStrata):
            facts["grid"] = grid_facts(cap.strata.grid)
        return facts

    def _print(
        self, console: Console, cap: Capture, coverage: Coverage, parts: dict[str, Transitions], cautions: list[str]
    ) -> None:
        sizes = ", ".join(f"{len(part):,} {name}" for name, part in parts.items())
        unit = "transitions" if self.episode is None else "transitions of whole episodes"
        console.print(f"{sizes} ({unit})", highlight=False)
        if not tells_training(cap.model):
            unknown = f"note: {self.model} has no method trained_on(X, Y), so it cannot be asked what it was trained on"
            console.print(f"{unknown}; make sure that it was not this log.", highlight=False, markup=False)
        console.print(coverage_by_stratum("what was held out", coverage, self.episode is not None))
        console.print(group_table(self._group_rows(cap, coverage), self.alpha))
        for caution in cautions:
            console.print(f"warning: {caution}", style="yellow", highlight=False, markup=False)

    def _group_rows(self, cap: Capture, coverage: Coverage) -> list[dict[str, Any]]:
        names = (*self.state, *self.action)
        q = cap.threshold_table(self.alpha, self.confidence).thresholds
        return [
            {
                "group": cap.describe_group(j, names if len(names) == cap.n_inputs_ else None),
                "calibration": row.calibration,
                "threshold": float(q[j]) if q[j] < math.inf else None,
                "coverage": row.coverage if row.n else None,
                "ci95": list(row.ci95),
                "n": row.n,
            }
            for j, row in enumerate(coverage.groups)
        ]

    @property
    def _report_file(self) -> Path:
        return self.report if self.report is not None else self.out.with_suffix(".html")

    def _write_report(
        self, console: Console, cap: Capture, coverage: Coverage, parts: dict[str, Transitions], cautions: list[str]
    ) -> None:
        trouble = report_trouble()
        if trouble is not None:
            console.print(f"No report: {trouble}", markup=False)
            return
        groups = self._group_rows(cap, coverage)
        write_report(self._report_file, self, cap, coverage, groups, parts["to check"], cautions)
        console.print(f"Report: {self._report_file} (one file; open it in any browser)", markup=False)

    def _check_settings(self) -> None:
        failure_rate(self.alpha)
        confidence_level(self.confidence)
        known_name("method", self.method, CALIBRATED)
        self.distances.of(self.next)
        for name in ("particles", "min_leaf"):
            whole_number(name.replace("_", "-"), getattr(self, name), 1)
        whole_number("seed", self.seed, 0)
        if self.min_stratum is not None:
            whole_number("min-stratum", self.min_stratum, 0)
        if self.farthest is not None:
            positive_number("farthest", self.farthest)
        parts = self._shares.parts()
        for name, part in (("check_share", "to check"), ("train_share", "to train")):
            if part not in parts and (name == "check_share" or self.linear):
                raise CaptureError(f"{name.replace('_', '-')} is 0; expected a share above 0, such as 0.25.")
        for file in (self.out, self._report_file, self.json):
            check_writable(file)
