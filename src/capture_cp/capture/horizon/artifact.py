"""Saved horizon calibrations: one safetensors file, as for single steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.files import Pathlike
from capture_cp.capture.artifact import (
    HORIZON_FORMAT,
    UNSOUND,
    build,
    check_made_for,
    checked_data,
    checked_partition,
    checked_size,
    describe,
    explained,
    made_for,
    partition_arrays,
    read,
    write,
)
from capture_cp.capture.horizon.calibration import HorizonCapture
from capture_cp.capture.horizon.thresholds import SCALES, THRESHOLDS, HorizonScores
from capture_cp.conformal.groups import Groups
from capture_cp.conformal.scores import Score
from capture_cp.data.rollouts import BatchedStep
from capture_cp.spaces.strata import Strata


def save(cap: HorizonCapture, path: Pathlike) -> None:
    """Write a fitted horizon calibration to `path`, atomically."""
    cap.check_fitted()
    kept = cap.calibration_
    header = made_for(cap.step, cap.strata) | {
        "axes": [int(axis) for axis in cap.axes],
        "score": describe(cap.score_),
        "groups": describe(cap._groups),
        "n_particles": cap.n_particles,
        "seed": cap.seed,
        "steps": list(cap.steps_),
        "sizes": [cap.n_states_, cap.n_actions_, cap.n_outputs_],
        "n_groups": kept.n_groups,
        "data": cap.data_,
    }
    scores = {"scores": kept.scores, "groups": kept.groups, "units": kept.units, "role": kept.role}
    write(path, header, partition_arrays(cap.partition_) | scores, HORIZON_FORMAT)


def load(
    path: Pathlike, step: BatchedStep, strata: Strata, score: Score | None = None, groups: Groups | None = None
) -> HorizonCapture:
    """Read a horizon calibration and put it together with its model and strata."""
    header, arrays = read(path, HORIZON_FORMAT)
    with explained(path):
        check_made_for(header, step, strata)
        cap = HorizonCapture(
            step,
            strata,
            header["axes"],
            score=score if score is not None else build(header["score"]),
            groups=groups if groups is not None else build(header["groups"]),
            n_particles=checked_size("n_particles", header["n_particles"]),
            seed=header["seed"],
        )
        sizes = zip(("n_inputs", "n_inputs", "n_outputs"), header["sizes"], strict=True)
        n_states, n_actions, n_outputs = (checked_size(name, size) for name, size in sizes)
        cap._check_parts(n_states, n_outputs)
        steps = tuple(whole_number("steps", step, 1) for step in header["steps"])
        n_groups = whole_number("n_groups", header["n_groups"], 1)
        partition = checked_partition(arrays, n_states + n_actions, len(steps) * len(strata.names), n_groups)
        scores = _checked_scores(arrays, len(steps), n_groups)
        return cap._restore(steps, partition, scores, (n_states, n_actions, n_outputs), checked_data(header["data"]))


def _checked_scores(arrays: dict[str, npt.NDArray[Any]], n_steps: int, n_groups: int) -> HorizonScores:
    """Scores whose groups and roles exist."""
    scores = np.asarray(arrays["scores"], dtype=np.float64)
    groups, units, role = (np.asarray(arrays[name], dtype=np.int64) for name in ("groups", "units", "role"))
    n = len(scores)
    sound = (
        scores.shape == groups.shape == (n, n_steps)
        and units.shape == role.shape == (n,)
        and n > 0
        and bool(np.isfinite(scores).all())
        and groups.min() >= 0
        and groups.max() < n_groups
        and role.min() >= SCALES
        and role.max() <= THRESHOLDS
    )
    if not sound:
        raise CaptureError(UNSOUND)
    return HorizonScores(scores, groups, units, role, n_groups)
