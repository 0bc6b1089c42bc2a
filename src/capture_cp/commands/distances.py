"""How far apart two configurations of a log are: angles, poses and weights by the names of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import tyro

from capture_cp.base.checks import CaptureError, Floats, known_name
from capture_cp.data.transitions import Transitions
from capture_cp.spaces.metrics import Euclidean, Metric, Product, Torus, wrap_angle
from capture_cp.spaces.poses import SE2, SE3

MetricName = Literal["auto", "se2", "se3"]
#: A step that is this near to a full turn (rad), where most steps are far smaller, is an angle that wraps.
NEAR_TURN, SMALL_STEP = 0.5, 1.0


@dataclass(frozen=True)
class Distances:
    """How configurations are compared.

    Attributes:
        angles: columns of the next configuration that are angles in radians and wrap.
        metric: se2 for poses x, z, angle, se3 for poses x, y, z and a quaternion w, x, y, z; else numbers and angles.
        length: characteristic length of a pose, that turns an angle into a distance: the body's largest radius.
        weights: one per column of the next configuration, to make numbers of different units comparable.
    """

    angles: Annotated[
        tuple[str, ...], tyro.conf.arg(help="Columns of the configuration that are angles in radians.", metavar="COLUMN ...")
    ] = ()
    metric: Annotated[
        MetricName, tyro.conf.arg(help="Poses: se2 for x, z, angle; se3 for x, y, z and a quaternion w, x, y, z.")
    ] = "auto"
    length: Annotated[
        float | None, tyro.conf.arg(help="Poses only: the radius of the body, in the unit of its position.")
    ] = None
    weights: Annotated[
        tuple[float, ...], tyro.conf.arg(help="One weight per column of the configuration, if their units differ.")
    ] = ()

    def of(self, names: Sequence[str]) -> Metric | None:
        """The metric of configurations with these columns; None is the plain Euclidean one."""
        for name in self.angles:
            known_name("column among --angles", name, names)
        if self.metric != "auto":
            return self._poses(len(names))
        if self.weights and len(self.weights) != len(names):
            raise CaptureError(f"--weights has {len(self.weights)} numbers; give one for each of {', '.join(names)}.")
        weights = self.weights or (1.0,) * len(names)
        if not self.angles:
            return Euclidean(weights) if self.weights else None
        blocks: list[Metric] = [
            Torus((weight,)) if name in self.angles else Euclidean((weight,)) for name, weight in zip(names, weights)
        ]
        return Torus(weights) if len(self.angles) == len(names) else Product(tuple(blocks), (1,) * len(names))

    def angular(self, names: Sequence[str]) -> tuple[str, ...]:
        """Which of these columns are angles, by name or as part of a pose."""
        metric = self.of(names)
        return () if metric is None else tuple(names[axis] for axis in metric.angles(len(names)))

    def _poses(self, dims: int) -> Metric:
        if self.length is None or self.angles or self.weights:
            raise CaptureError(
                f"--metric {self.metric} needs --length, the body's radius, and neither --angles nor --weights."
            )
        metric: Metric = SE2(self.length) if self.metric == "se2" else SE3(self.length)
        metric.check(dims, None)
        return metric


def unwrapped(log: Transitions, angles: Sequence[str]) -> Floats:
    """Next configurations (n, dc) whose angles are within half a turn of the state before, where it has them."""
    Y = log.Y.copy()
    for after, before in _pairs(log):
        if log.next_names[after] in angles:
            Y[:, after] = log.state[:, before] + wrap_angle(log.Y[:, after] - log.state[:, before])
    return Y


def turn_cautions(log: Transitions, angles: Sequence[str]) -> list[str]:
    """Warnings about columns that jump by about a full turn between state and next: probably unnamed angles."""
    found = []
    for after, before in _pairs(log):
        name, step = log.next_names[after], np.abs(log.Y[:, after] - log.state[:, before])
        jumps = np.abs(step - 2 * np.pi) < NEAR_TURN
        if name not in angles and jumps.any() and np.median(step) < SMALL_STEP:
            found.append(
                f"{name} jumps by about a full turn, 2 pi, in {int(jumps.sum()):,} of {len(step):,} transitions: is it an "
                f"angle that wraps? Name it with --angles {name}."
            )
    return found


def _pairs(log: Transitions) -> list[tuple[int, int]]:
    """Columns of next configuration and state that are one thing before and after, by their names."""
    plain = [name.removeprefix("next_").removesuffix("_next") for name in log.next_names]
    return [(after, log.state_names.index(name)) for after, name in enumerate(plain) if name in log.state_names]
