"""Regions for a whole horizon: calibrated on roll-outs, step by step or for all steps at once."""

from capture_cp.capture.horizon.calibration import HorizonCapture
from capture_cp.capture.horizon.coverage import HorizonCoverage
from capture_cp.capture.horizon.needed import rollouts_needed
from capture_cp.capture.horizon.particles import Cloud, as_step
from capture_cp.data.rollouts import BatchedStep, Rollouts, split_log

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
