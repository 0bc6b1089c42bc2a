"""Planning with regions: MPPI, rollouts with one region per step, traversable distance, closed-loop episodes."""

from capture_cp.data.rollouts import BatchedStep
from capture_cp.planning.adapting import Adapting
from capture_cp.planning.batch import Systems, run_episodes
from capture_cp.planning.braking import BrakingFilter
from capture_cp.planning.chosen import ChosenPlans, chosen_plans, chosen_rollouts
from capture_cp.planning.distance import interpolate, traversable_distance
from capture_cp.planning.episode import Episode, System, run_episode
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.other_planners import JudoReward, TorchMPPICost
from capture_cp.planning.point_test import HazardError, hazard_error
from capture_cp.planning.probes import PointHazard
from capture_cp.planning.region_cost import RegionCost
from capture_cp.planning.rollout import PythonRollout, Rollout, Stage
from capture_cp.planning.settings import PlannerSettings
from capture_cp.planning.steps import StepModel
from capture_cp.planning.sums import RegionSums

__all__ = [
    "MPPI",
    "Adapting",
    "BatchedStep",
    "BrakingFilter",
    "ChosenPlans",
    "Episode",
    "FusedRollout",
    "HazardError",
    "JudoReward",
    "PlannerSettings",
    "PointHazard",
    "PythonRollout",
    "RegionCost",
    "RegionSums",
    "Rollout",
    "Stage",
    "StepModel",
    "System",
    "Systems",
    "TorchMPPICost",
    "chosen_plans",
    "chosen_rollouts",
    "hazard_error",
    "interpolate",
    "run_episode",
    "run_episodes",
    "traversable_distance",
]
