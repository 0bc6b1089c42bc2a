"""Adapters that turn simulators, networks and regressors into models: functions from inputs to particles."""

from capture_cp.models.ensembles import ensemble
from capture_cp.models.gaussians import gaussian
from capture_cp.models.jax_functions import jax_function
from capture_cp.models.mujoco_rollouts import mujoco_rollout
from capture_cp.models.residual import Residual, residual
from capture_cp.models.torch_modules import torch_module

__all__ = ["Residual", "ensemble", "gaussian", "jax_function", "mujoco_rollout", "residual", "torch_module"]
