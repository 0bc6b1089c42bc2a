"""The command that turns a log of transitions into a saved calibration and a report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rich.console import Console

from capture_cp.base.arrays import digest_of_chunks
from capture_cp.base.checks import CaptureError, confidence_level, failure_rate, known_name, positive_number, whole_number
from capture_cp.base.files import check_writable
from capture_cp.base.progress import stage
from capture_cp.capture.capture import Capture
from capture_cp.capture.log_fit import coverage_of_log, fit_log
from capture_cp.capture.methods import METHODS, method
from capture_cp.capture.preflight import training_memories
from capture_cp.commands import options
from capture_cp.commands.bundle import LinearModel, grid_around, grid_facts
from capture_cp.commands.cautions import fit_cautions, listening, log_cautions, print_cautions
from capture_cp.commands.computing import Computing, ComputingOptions
from capture_cp.commands.options import CHECK, LINEAR, TRAIN, Distances, Shares
from capture_cp.commands.reading import Split, Survey, columns_of, opened, shared_rows, survey
from capture_cp.commands.report import MOST_GROUPS, GroupRows, coverage_table, group_rows, group_table, write_report
from capture_cp.commands.user_objects import user_model, user_strata
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.groups import PerStratum, Tree
from capture_cp.conformal.scores import Model
from capture_cp.data.logged import LoggedTransitions
from capture_cp.data.transitions import Runner, TransitionLog, Transitions
from capture_cp.report.html import report_trouble
from capture_cp.report.output import write_rows
from capture_cp.spaces.strata import GriddedStrata, Strata, one_stratum

MEASURED = 5_000  # transitions whose regions' cells are counted
GROWING = 200_000  # transitions that grow a tree: of more, its twenty leaves would hardly gain, and it would take far longer
CALIBRATED = tuple(name for name in METHODS if name != "particles")


@dataclass(frozen=True)
class Calibrate:
    """Calibrate regions on a log of transitions: fit, check on held-out data, save, and write a report.

    Example: capture calibrate log.csv --state x y --action ux uy --next next_x next_y

    DATA is a .csv, .npz or .parquet file with one transition per row, or a robot log with one step per row: a LeRobot
    folder, an .mcap file, a rosbag2 folder or .db3 file, or a robomimic .hdf5 file. For a robot log, use --following in
    place of --next. DATA can also be a folder or a "pattern*" of such files. `capture inspect DATA` lists the columns.

    DATA can also be a .toml file that sets these options by name, such as data = "log.csv" and state = ["x", "y"]. Its paths
    are relative to the file, and options on the command line override it.

    Without --model, a linear model is trained on part of the log. Its regions are valid, but larger than those of a better
    model. Without --strata, there is one stratum, "all". Steps of one episode are not independent: name the episode column
    with --episode, so that whole episodes are split and counted. A passive object has no --action.
    """

    data: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(help="A log, or a .toml file with all options.", metavar="DATA")
    ]
    state: options.StateColumns
    action: options.ActionColumns = ()
    next: options.NextColumns = ()
    following: options.FollowingColumns = ()
    steps: Annotated[int, tyro.conf.arg(help="With --following: predict so many rows ahead.")] = 1
    clock: options.Clock = None
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
        bool, tyro.conf.arg(help="Accept a model without noise, which is otherwise rejected.")
    ] = False
    method: Annotated[str, tyro.conf.arg(help=f"One of {', '.join(CALIBRATED)}.")] = "capture"
    particles: Annotated[int, tyro.conf.arg(help="Number of particles L from the model.")] = 16
    k: Annotated[
        int | None,
        tyro.conf.arg(help="The score is the distance to the k-th nearest particle; by default half of the particles."),
    ] = None
    distances: Annotated[Distances, tyro.conf.arg(name="", help="How configurations are compared.")] = field(
        default_factory=Distances
    )
    groups: Annotated[
        Literal["auto", "tree", "per-stratum"],
        tyro.conf.arg(help="One threshold per leaf of a tree, or per stratum; by default as the number of episodes allows."),
    ] = "auto"
    min_leaf: Annotated[int, tyro.conf.arg(help="Fewest transitions per leaf of the tree.")] = 300
    min_stratum: options.MinStratum = None
    farthest: options.Farthest = None
    check_share: Annotated[float, tyro.conf.arg(help="Fraction of the log held out to check on.")] = CHECK
    train_share: Annotated[float, tyro.conf.arg(help="Fraction of the log that trains the linear model.")] = TRAIN
    out: Annotated[Path, tyro.conf.arg(help="File for the calibration.")] = Path("robot.capture")
    report: Annotated[Path | None, tyro.conf.arg(help="File for the HTML report; by default OUT with the ending .html.")] = (
        None
    )
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the results to this JSON file.")] = None
    folder: options.Folder = Path()
    computing: ComputingOptions = field(default_factory=Computing)
    seed: Annotated[int, tyro.conf.arg(help="Random seed; the same seed gives the same calibration.")] = 0

    def run(self, console: Console) -> None:
        """Read, split, model, fit, check; then save and report."""
        self._check_settings()
        log = self._read(console)
        with listening() as heard, self.computing.running(self.folder) as running:
            split = Split.of(log, self._shares.parts(), self.seed)
            model, strata, seen = self._model(split, running("reading the log"))
            cap = self._fit(model, strata, split, seen, running("calibrating"))
            coverage, cautions = self._check(cap, split, seen, running("checking"))
        cautions += heard
        groups = group_rows(cap, coverage, self.alpha, self.confidence)
        self._print(console, cap, coverage, groups, split, cautions)
        self._save(console, cap, coverage, groups, cautions)
        self._write_report(console, cap, coverage, groups, seen.parts["to check"], cautions)

    @property
    def linear(self) -> bool:
        """Whether the built-in model is used."""
        return self.model == LINEAR

    @property
    def _shares(self) -> Shares:
        return Shares(self.train_share if self.linear else 0.0, self.check_share)

    @property
    def _report_file(self) -> Path:
        return self.report if self.report is not None else self.out.with_suffix(".html")

    def _check_settings(self) -> None:
        failure_rate(self.alpha)
        confidence_level(self.confidence)
        known_name("method", self.method, CALIBRATED)
        for name, least in {"particles": 1, "min_leaf": 1, "seed": 0, "min_stratum": 0}.items():
            if getattr(self, name) is not None:
                whole_number(name.replace("_", "-"), getattr(self, name), least)
        if self.farthest is not None:
            positive_number("farthest", self.farthest)
        parts = self._shares.parts()
        for name, part in (("check-share", "to check"), ("train-share", "to train")):
            if part not in parts and (name == "check-share" or self.linear):
                raise CaptureError(f"{name} is 0; expected a fraction above 0, such as 0.25.")
        for file in (self.out, self._report_file, self.json):
            check_writable(file)

    # -- the steps ----------------------------------------------------------------------------------------------------

    def _read(self, console: Console) -> TransitionLog:
        columns = self.state, self.action, self.next or None, self.episode, self.time, self.following or None
        logged = LoggedTransitions(self.data, *columns, self.clock or "received", steps=self.steps)
        self.distances.of(logged.next_names)
        return opened(logged, console)

    def _model(self, split: Split, run: Runner[Any]) -> tuple[Model, Strata, Survey]:
        """Model and strata: the user's own, or those made from the first reading of the log; and what that found."""
        own = None if self.strata is None else user_strata(self.strata, self.folder)
        given = None if self.linear else user_model(self.model, self.folder)
        seen = survey(split, own, given, str(self.strata), self.folder, run)
        if own is None:  # one stratum, with a grid for pictures where distances are plain
            plain = self.distances.of(seen.sample.next_names) is None
            own = one_stratum(grid_around(seen.low, seen.high) if plain else None)
        if given is not None:
            return given, own, seen
        rows = seen.parts.pop("to train")  # needed no longer, and in a long log large
        return LinearModel.trained(rows.X, self.distances.unwrapped(rows)), own, seen

    def _fit(self, model: Model, strata: Strata, split: Split, seen: Survey, run: Runner[Any]) -> Capture:
        few = self.min_stratum or None
        if self.min_stratum is None:
            few = options.expected_to_suffice(self.alpha, self.confidence)
        tree = Tree(per_stratum=True, min_leaf=self.min_leaf, min_stratum=few, max_growing=GROWING)
        parts: dict[str, Any] = {"n_particles": self.particles, "k": self.k, "tree": tree, "seed": self.seed}
        cap = method(self.method, model, strata, metric=self.distances.of(split.log.next_names), **parts)
        cap.set_params(deterministic_model=self.deterministic_model, farthest=self.farthest)
        if self._per_stratum(split):
            cap.set_params(groups=PerStratum())
        try:
            fit_log(cap, split.part("to calibrate"), run)
        except CaptureError as error:  # in terms of the command line
            raise CaptureError(str(error).replace("pass deterministic_model=True", "give --deterministic-model")) from None
        cap.data_["robot"] = self._facts(split.log, seen, cap)
        return cap

    def _per_stratum(self, split: Split) -> bool:
        """Whether each stratum has one threshold: where asked for, or where a leaf would be set by too few episodes."""
        if self.groups != "auto" or not self.method.startswith("capture"):
            return self.groups == "per-stratum"
        numbers = split.log.episodes()
        if numbers is None:
            return False
        rows = self.min_leaf * (1 / Tree().partition_share - 1)  # of the smallest leaf, that set its threshold
        return rows * len(np.unique(numbers)) / len(numbers) < options.expected_to_suffice(self.alpha, self.confidence)

    def _check(self, cap: Capture, split: Split, seen: Survey, run: Runner[Any]) -> tuple[Coverage, list[str]]:
        """Coverage on what was held out, and what may be wrong with the log."""
        coverage = self._coverage(cap, split, seen.parts["to check"], run)
        angles = self.distances.angular(seen.sample.next_names)
        return coverage, [
            *log_cautions(cap, seen.sample, seen.parts["to check"], self.alpha, self.confidence, self.seed),
            *fit_cautions(cap, seen.sample, angles, shared_rows(seen, split), seen.stride > 1),
        ]

    def _coverage(self, cap: Capture, split: Split, kept: Transitions, run: Runner[Any]) -> Coverage:
        """Coverage on all held-out transitions; mean cells, which take far longer to count, on a few thousand at most.

        `kept` is a sample of the held-out transitions.
        """
        settings = self.alpha, self.confidence
        if split.sizes["to check"] <= MEASURED:
            return cap.coverage(kept.X, kept.next, *settings, episodes=kept.episode, rng=self.seed)
        found = coverage_of_log(cap, split.part("to check"), *settings, self.seed, run)
        some = kept.rows(np.linspace(0, len(kept) - 1, MEASURED).astype(int))
        all, *strata = (row.volume for row in cap.coverage(some.X, some.next, *settings, rng=self.seed))
        rows = tuple(replace(row, volume=volume) for row, volume in zip(found.strata, strata))
        return replace(found, all=replace(found.all, volume=all), strata=rows)

    def _facts(self, log: TransitionLog, seen: Survey, cap: Capture) -> dict[str, Any]:
        """What `capture check` needs besides the calibration."""
        facts: dict[str, Any] = {
            "columns": columns_of(log, bool(self.following), self.steps),
            "steps": self.steps,
            "log_sha256": digest_of_chunks(seen.digests),
            "model": None if self.linear else self.model,
        }
        facts |= {name: getattr(self, name) for name in ("clock", "episode", "time", "alpha", "confidence", "strata")}
        if isinstance(cap.model, LinearModel):
            facts["linear"] = cap.model.facts()
        if self.strata is None and isinstance(cap.strata, GriddedStrata):
            facts["grid"] = grid_facts(cap.strata.grid)
        return facts

    # -- what comes out -----------------------------------------------------------------------------------------------

    def _print(
        self, console: Console, cap: Capture, coverage: Coverage, groups: GroupRows, split: Split, cautions: list[str]
    ) -> None:
        sizes = ", ".join(f"{size:,} {name}" for name, size in split.sizes.items())
        unit = "transitions" if self.episode is None else "transitions of whole episodes"
        console.print(f"{sizes} ({unit})", highlight=False)
        if not (self.linear or training_memories(cap.model)):
            unknown = f"note: {self.model} has no method trained_on(X, Y), so its training data is unknown"
            console.print(f"{unknown}; make sure that it was not this log.", highlight=False, markup=False)
        console.print(coverage_table("what was held out", coverage, self.episode is not None).printed("stratum"))
        console.print(group_table(groups, coverage, MOST_GROUPS).printed("group"))
        print_cautions(console, cautions)

    def _save(self, console: Console, cap: Capture, coverage: Coverage, groups: GroupRows, cautions: list[str]) -> None:
        cap.save(self.out)
        console.print(f"Saved calibration: {self.out}", markup=False)
        if self.json is not None:
            rows = coverage.rows(data=str(self.data), method=self.method)
            write_rows(self.json, rows, self, groups=groups, merged=cap.merged_, warnings=cautions)

    def _write_report(
        self, console: Console, cap: Capture, coverage: Coverage, groups: GroupRows, kept: Transitions, cautions: list[str]
    ) -> None:
        trouble = report_trouble()
        if trouble is not None:
            console.print(f"No report: {trouble}", markup=False)
            return
        with stage("writing the report"):
            write_report(self._report_file, self, cap, coverage, groups, kept, cautions)
        console.print(f"Report: {self._report_file} (one file; open it in any browser)", markup=False)
