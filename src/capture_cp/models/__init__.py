"""Adapters that turn simulators, networks and regressors into models: functions from inputs to particles."""

from capture_cp.models.array_models import JaxFunction as jax_function
from capture_cp.models.array_models import TorchModule as torch_module
from capture_cp.models.mujoco_rollouts import MujocoRollout as mujoco_rollout
from capture_cp.models.predictors import Ensemble as ensemble
from capture_cp.models.predictors import Gaussian as gaussian
from capture_cp.models.residual import Residual, residual

__all__ = ["Residual", "ensemble", "gaussian", "jax_function", "mujoco_rollout", "residual", "torch_module"]
