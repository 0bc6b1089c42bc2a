"""Calibrated particle regions for robots in contact: where will it be after its next action, with a guarantee."""

from importlib.metadata import version

from capture_cp.checks import CaptureError, CaptureWarning
from capture_cp.conformal.coverage import Coverage, CoverageRow, clopper_pearson
from capture_cp.conformal.gaussian import Mahalanobis, calibrated_covariance
from capture_cp.conformal.groups import Examples, Groups, OneGroup, PerStratum, Tree, Uncalibrated
from capture_cp.conformal.partition import Partition, ThresholdTable
from capture_cp.conformal.quantile import conformal_quantile, conformal_rank, size_needed
from capture_cp.conformal.scores import Model, NearestParticles, ParticleBox, Score
from capture_cp.methods import METHODS, method
from capture_cp.predictor import Capture
from capture_cp.region import Region
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.metrics import SE2, Euclidean, Metric
from capture_cp.spaces.strata import FunctionStrata, GridStrata, Strata
from capture_cp.transitions import Transitions, read_transitions, write_transitions

__version__ = version("capture-cp")

__all__ = [
    "METHODS",
    "SE2",
    "Capture",
    "CaptureError",
    "CaptureWarning",
    "Coverage",
    "CoverageRow",
    "Euclidean",
    "Examples",
    "FunctionStrata",
    "Grid",
    "GridStrata",
    "Groups",
    "Mahalanobis",
    "Metric",
    "Model",
    "NearestParticles",
    "OneGroup",
    "ParticleBox",
    "Partition",
    "PerStratum",
    "Region",
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
    "read_transitions",
    "size_needed",
    "write_transitions",
]
