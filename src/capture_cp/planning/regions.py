"""Checks that every rollout makes of a calibration: that it fits the state and the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints
from capture_cp.capture.fitted import Fitted


def checked_axes(cap: Fitted, axes: Sequence[int]) -> Ints:
    """Indices of the state's entries that are the configuration, checked: one for each of its numbers."""
    dims, order = cap.n_outputs_, np.asarray(axes)
    sound = order.shape == (dims,) and order.dtype.kind in "iu" and len(set(order.tolist())) == dims
    if not sound or order.min() < 0 or order.max() >= cap.partition_.n_inputs:
        raise CaptureError(
            f"axes are {tuple(axes)}; expected {dims} different entries of the state, one per number of a configuration."
        )
    return order.astype(np.int64)


def check_sizes(cap: Fitted, state: Floats, sequences: Floats, axes: Any) -> None:
    """Reject a state and actions whose sizes do not match the calibration."""
    wanted = cap.partition_.n_inputs
    if state.ndim != 1 or sequences.ndim != 3 or len(state) + sequences.shape[2] != wanted or max(axes) >= len(state):
        raise CaptureError(
            f"a state of shape {state.shape} and actions of shape {sequences.shape} do not make up the "
            f"{wanted} inputs of the calibration, or the axes of the configuration lie outside the state."
        )


def checked_hazard(hazard: Any, cells: int) -> Bools:
    """A hazard mask as bool (cells,)."""
    mask = np.ravel(np.asarray(hazard))
    if mask.shape != (cells,) or mask.dtype != np.bool_:
        raise CaptureError(
            f"hazard is {mask.dtype} of {mask.size} cells; expected bool, one for each of the grid's {cells}."
        )
    return np.ascontiguousarray(mask)
