"""Calibrated particle regions for robots in contact: where the robot will be after its next action, with a guarantee.

Names are imported on first use, so a program loads only what it needs.
"""

TYPE_CHECKING = False  # as of `typing`, whose import would take most of the time of this one
if TYPE_CHECKING:
    from typing import Any

    __version__: str
    from capture_cp import models, planning
    from capture_cp.base.checks import CaptureError, CaptureWarning
    from capture_cp.capture.adaptive import AdaptiveAlpha, AdaptiveScale
    from capture_cp.capture.capture import Capture
    from capture_cp.capture.extending import extend_calibration, merge_calibrations
    from capture_cp.capture.horizon import HorizonCapture
    from capture_cp.capture.log_fit import fit_log
    from capture_cp.capture.methods import method
    from capture_cp.capture.monitor import Monitor
    from capture_cp.capture.region import Region
    from capture_cp.certificates.certify import certify
    from capture_cp.commands.bundle import load_calibration
    from capture_cp.conformal.coverage import Coverage
    from capture_cp.conformal.gaussian import Mahalanobis
    from capture_cp.conformal.groups import Groups, OneGroup, PerStratum, Tree
    from capture_cp.conformal.quantile import conformal_quantile, size_needed
    from capture_cp.conformal.scores import NearestParticles, Score
    from capture_cp.conformal.shift import Shift
    from capture_cp.data.logged import LoggedTransitions
    from capture_cp.data.rollouts import Rollouts, executed
    from capture_cp.data.transitions import Transitions, read_transitions, write_transitions
    from capture_cp.gap.result import Gap, measure_gap
    from capture_cp.models.residual import residual
    from capture_cp.report.regions import plot_strata
    from capture_cp.spaces.contact_strata import ContactStrata
    from capture_cp.spaces.grid import Grid
    from capture_cp.spaces.metrics import Euclidean, Metric, Product, Torus
    from capture_cp.spaces.poses import SE2, SE3
    from capture_cp.spaces.strata import FunctionStrata, GridStrata, Strata, one_stratum
    from capture_cp.spaces.swept_strata import SweptStrata

#: The module of every public name.
_MODULES = {
    "base.checks": ("CaptureError", "CaptureWarning"),
    "capture.adaptive": ("AdaptiveAlpha", "AdaptiveScale"),
    "capture.capture": ("Capture",),
    "capture.extending": ("extend_calibration", "merge_calibrations"),
    "capture.horizon": ("HorizonCapture",),
    "capture.log_fit": ("fit_log",),
    "capture.methods": ("method",),
    "capture.monitor": ("Monitor",),
    "capture.region": ("Region",),
    "certificates.certify": ("certify",),
    "conformal.coverage": ("Coverage",),
    "conformal.gaussian": ("Mahalanobis",),
    "conformal.groups": ("Groups", "OneGroup", "PerStratum", "Tree"),
    "conformal.quantile": ("conformal_quantile", "size_needed"),
    "conformal.scores": ("NearestParticles", "Score"),
    "conformal.shift": ("Shift",),
    "data.logged": ("LoggedTransitions",),
    "data.rollouts": ("Rollouts", "executed"),
    "data.transitions": ("Transitions", "read_transitions", "write_transitions"),
    "commands.bundle": ("load_calibration",),
    "gap.result": ("Gap", "measure_gap"),
    "models.residual": ("residual",),
    "spaces.contact_strata": ("ContactStrata",),
    "spaces.grid": ("Grid",),
    "spaces.metrics": ("Euclidean", "Metric", "Product", "Torus"),
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
