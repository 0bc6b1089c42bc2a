"""Regions for a whole horizon: calibrated on roll-outs, step by step or for all steps at once."""

from capture_cp.horizon.calibration import HorizonCapture
from capture_cp.horizon.coverage import HorizonCoverage
from capture_cp.horizon.needed import rollouts_needed
from capture_cp.horizon.particles import BatchedStep, Cloud, as_step
from capture_cp.horizon.rollouts import Rollouts, split_log

__all__ = [
    "BatchedStep",
    "Cloud",
    "HorizonCapture",
    "HorizonCoverage",
    "Rollouts",
    "as_step",
    "rollouts_needed",
    "split_log",
]
