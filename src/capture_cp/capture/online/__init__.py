"""Closed loop: regions that follow a changing system, calibration on what the planner does, and how often regions held."""

from capture_cp.capture.online.adaptive import Adaptive, AdaptiveAlpha, AdaptiveScale
from capture_cp.capture.online.episodes import Executed, OnPolicyCoverage, Run, executed, on_policy_coverage
from capture_cp.capture.online.rounds import Round, on_policy_rounds

__all__ = [
    "Adaptive",
    "AdaptiveAlpha",
    "AdaptiveScale",
    "Executed",
    "OnPolicyCoverage",
    "Round",
    "Run",
    "executed",
    "on_policy_coverage",
    "on_policy_rounds",
]
