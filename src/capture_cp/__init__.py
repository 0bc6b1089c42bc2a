"""Calibrated particle regions for robots in contact: where the robot will be after its next action, with a guarantee.

Names are imported on first use, so a program loads only what it needs.
"""

TYPE_CHECKING = False  # as of `typing`, whose import would take most of the time of this one
if TYPE_CHECKING:
    from typing import Any

    __version__: str
    from capture_cp import models, planning
    from capture_cp.base.errors import CaptureError, CaptureWarning
    from capture_cp.capture.adaptive import Adaptive, AdaptiveAlpha, AdaptiveScale
    from capture_cp.capture.capture import Capture
    from capture_cp.capture.compiled import Compiled
    from capture_cp.capture.extending import extend_calibration, merge_calibrations
    from capture_cp.capture.fitted import Fitted
    from capture_cp.capture.horizon import HorizonCapture
    from capture_cp.capture.horizon_particles import Cloud, as_step
    from capture_cp.capture.log_fit import coverage_of_log, fit_log
    from capture_cp.capture.methods import METHODS, method
    from capture_cp.capture.monitor import Monitor
    from capture_cp.capture.on_policy import (
        Executed,
        OnPolicyCoverage,
        Round,
        Run,
        executed,
        on_policy_coverage,
        on_policy_rounds,
    )
    from capture_cp.capture.region import Region
    from capture_cp.certificates.certificate import Certificate
    from capture_cp.certificates.certify import certify, episodes_needed
    from capture_cp.certificates.outcomes import Outcomes
    from capture_cp.certificates.risks import Risk
    from capture_cp.certificates.standing import Standing
    from capture_cp.certificates.verdict import Candidate, Verdict, judge
    from capture_cp.commands.batch import BatchCheck, Finding, check_batch, check_log
    from capture_cp.commands.bundle import load_calibration
    from capture_cp.conformal.coverage import Coverage, CoverageRow, HorizonCoverage, clopper_pearson
    from capture_cp.conformal.episodes import split_rows
    from capture_cp.conformal.gaussian import Mahalanobis, calibrated_covariance
    from capture_cp.conformal.groups import Examples, Groups, OneGroup, PerStratum, Tree, Uncalibrated
    from capture_cp.conformal.martingale import JumperMartingale, OnlineRanks
    from capture_cp.conformal.partition import Partition
    from capture_cp.conformal.quantile import conformal_quantile, conformal_rank, rollouts_needed, size_needed
    from capture_cp.conformal.scores import Model, NearestParticles, ParticleBox, Score
    from capture_cp.conformal.shift import Shift
    from capture_cp.conformal.threshold_table import ThresholdTable
    from capture_cp.data.logged import LoggedTransitions
    from capture_cp.data.rollouts import BatchedStep, Rollouts, split_log
    from capture_cp.data.transitions import Transitions, read_transitions, write_transitions
    from capture_cp.gap.result import Gap, measure_gap
    from capture_cp.models.residual import Residual, residual
    from capture_cp.report.regions import plot_strata
    from capture_cp.spaces.contact_strata import ContactStrata
    from capture_cp.spaces.grid import Grid
    from capture_cp.spaces.metrics import Euclidean, FunctionMetric, Metric, Product, Torus
    from capture_cp.spaces.poses import SE2, SE3
    from capture_cp.spaces.strata import FunctionStrata, GridStrata, Strata, one_stratum
    from capture_cp.spaces.swept_strata import SweptStrata

#: The module of every public name.
_MODULES = {
    "base.errors": ("CaptureError", "CaptureWarning"),
    "capture.adaptive": ("Adaptive", "AdaptiveAlpha", "AdaptiveScale"),
    "capture.capture": ("Capture",),
    "capture.compiled": ("Compiled",),
    "capture.extending": ("extend_calibration", "merge_calibrations"),
    "capture.fitted": ("Fitted",),
    "capture.horizon": ("HorizonCapture",),
    "capture.horizon_particles": ("Cloud", "as_step"),
    "capture.log_fit": ("coverage_of_log", "fit_log"),
    "capture.methods": ("METHODS", "method"),
    "capture.monitor": ("Monitor",),
    "capture.on_policy": (
        *("Executed", "OnPolicyCoverage", "Round", "Run"),
        *("executed", "on_policy_coverage", "on_policy_rounds"),
    ),
    "capture.region": ("Region",),
    "certificates.certificate": ("Certificate",),
    "certificates.certify": ("certify", "episodes_needed"),
    "certificates.outcomes": ("Outcomes",),
    "certificates.risks": ("Risk",),
    "certificates.standing": ("Standing",),
    "certificates.verdict": ("Candidate", "Verdict", "judge"),
    "conformal.coverage": ("Coverage", "CoverageRow", "HorizonCoverage", "clopper_pearson"),
    "conformal.episodes": ("split_rows",),
    "conformal.gaussian": ("Mahalanobis", "calibrated_covariance"),
    "conformal.groups": ("Examples", "Groups", "OneGroup", "PerStratum", "Tree", "Uncalibrated"),
    "conformal.martingale": ("JumperMartingale", "OnlineRanks"),
    "conformal.partition": ("Partition",),
    "conformal.threshold_table": ("ThresholdTable",),
    "conformal.quantile": ("conformal_quantile", "conformal_rank", "rollouts_needed", "size_needed"),
    "conformal.scores": ("Model", "NearestParticles", "ParticleBox", "Score"),
    "conformal.shift": ("Shift",),
    "data.logged": ("LoggedTransitions",),
    "data.rollouts": ("BatchedStep", "Rollouts", "split_log"),
    "data.transitions": ("Transitions", "read_transitions", "write_transitions"),
    "commands.batch": ("BatchCheck", "Finding", "check_batch", "check_log"),
    "commands.bundle": ("load_calibration",),
    "gap.result": ("Gap", "measure_gap"),
    "models.residual": ("Residual", "residual"),
    "spaces.contact_strata": ("ContactStrata",),
    "spaces.grid": ("Grid",),
    "spaces.metrics": ("Euclidean", "FunctionMetric", "Metric", "Product", "Torus"),
    "spaces.poses": ("SE2", "SE3"),
    "report.regions": ("plot_strata",),
    "spaces.strata": ("FunctionStrata", "GridStrata", "Strata", "one_stratum"),
    "spaces.swept_strata": ("SweptStrata",),
}
_MODULE_OF = {name: f"capture_cp.{module}" for module, names in _MODULES.items() for name in names}
_PACKAGES = ("models", "planning")

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("capture-cp")
    if name in _PACKAGES:
        return import_module(f"capture_cp.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES, "__version__"})
