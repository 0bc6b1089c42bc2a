"""Calibrated particle regions for robots in contact: where will it be after its next action, with a guarantee."""

from importlib.metadata import version

from capture_cp.base.checks import CaptureError, CaptureWarning
from capture_cp.capture.capture import Capture
from capture_cp.capture.compiled import Compiled
from capture_cp.capture.methods import METHODS, method
from capture_cp.capture.monitor import Monitor
from capture_cp.capture.region import Region
from capture_cp.conformal.coverage import Coverage, CoverageRow, clopper_pearson
from capture_cp.conformal.gaussian import Mahalanobis, calibrated_covariance
from capture_cp.conformal.groups import Examples, Groups, OneGroup, PerStratum, Tree, Uncalibrated
from capture_cp.conformal.martingale import JumperMartingale, OnlineRanks
from capture_cp.conformal.partition import Partition, ThresholdTable
from capture_cp.conformal.quantile import conformal_quantile, conformal_rank, size_needed
from capture_cp.conformal.scores import Model, NearestParticles, ParticleBox, Score
from capture_cp.conformal.units import split_rows
from capture_cp.data.transitions import Transitions, read_transitions, write_transitions
from capture_cp.models.residual import Residual, residual
from capture_cp.spaces.contact_strata import ContactStrata
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.metrics import SE2, Euclidean, Metric
from capture_cp.spaces.strata import FunctionStrata, GridStrata, Strata, one_stratum

__version__ = version("capture-cp")

__all__ = [
    "METHODS",
    "SE2",
    "Capture",
    "CaptureError",
    "CaptureWarning",
    "Compiled",
    "ContactStrata",
    "Coverage",
    "CoverageRow",
    "Euclidean",
    "Examples",
    "FunctionStrata",
    "Grid",
    "GridStrata",
    "Groups",
    "JumperMartingale",
    "Mahalanobis",
    "Metric",
    "Model",
    "Monitor",
    "NearestParticles",
    "OneGroup",
    "OnlineRanks",
    "ParticleBox",
    "Partition",
    "PerStratum",
    "Region",
    "Residual",
    "Score",
    "Strata",
    "ThresholdTable",
    "Transitions",
    "Tree",
    "Uncalibrated",
    "calibrated_covariance",
    "clopper_pearson",
    "conformal_quantile",
    "conformal_rank",
    "method",
    "one_stratum",
    "read_transitions",
    "residual",
    "size_needed",
    "split_rows",
    "write_transitions",
]
