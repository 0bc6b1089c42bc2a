"""Parameters of the peg task: sizes, disturbance and model error, shared by all its parts.

Poses are (x, z, theta): the centre of the peg in metres, relative to the centre of the hole's rim with z up, and its
rotation in radians. Actions are displacements in millimetres, millimetres and degrees, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, inf

import numpy as np

from capture_cp.base.checks import CaptureError, Floats

#: Converts an action (mm, mm, degrees) to a displacement (m, m, rad).
ACTION_UNIT: Floats = np.array([1e-3, 1e-3, np.pi / 180])


@dataclass(frozen=True)
class PegSettings:
    """Sizes in metres; the defaults are those of the paper, or of the simulation suite it builds on.

    Attributes:
        peg_width: diameter of the peg.
        peg_length: length of the peg.
        hole_width: diameter of the hole.
        hole_depth: height of the receptacle, which stands on a table: the hole ends at the table.
        block_width: width of the receptacle in the plane; infinite means no outer edge within reach.
        bound: largest action per component (mm, mm, degrees).
        noise: standard deviation of the disturbance added to an action before it is clipped (mm, mm, degrees).
        gain: factor of the true system on actions; the model assumes 1.
        friction: friction of the true system's contacts; the model has none.
        frequency: natural frequency of the true system's critically damped controller (rad/s), which sets its stiffness.
            None is the system's default, stiff enough to settle within a control step.
    """

    peg_width: float = 7.986e-3
    peg_length: float = 50e-3
    hole_width: float = 9e-3
    hole_depth: float = 24e-3
    block_width: float = inf
    bound: float = 3.0
    noise: float = 1.5
    gain: float = 1.5
    friction: float = 0.75
    frequency: float | None = None

    def __post_init__(self) -> None:
        for name in ("peg_width", "peg_length", "hole_width", "hole_depth", "block_width", "bound"):
            if not getattr(self, name) > 0:
                raise CaptureError(f"the peg's {name} is {getattr(self, name)!r}; expected a positive number.")
        for name in ("noise", "gain", "friction"):
            if not 0 <= getattr(self, name) < inf:
                raise CaptureError(f"the peg's {name} is {getattr(self, name)!r}; expected a number of at least 0.")
        if self.frequency is not None and not 0 < self.frequency < inf:
            raise CaptureError(f"the controller's frequency is {self.frequency!r}; expected a positive number or None.")
        if self.hole_width <= self.peg_width:
            raise CaptureError(
                f"the hole is {self.hole_width * 1e3:.3f} mm wide and the peg {self.peg_width * 1e3:.3f} mm; "
                "the peg must be narrower than the hole."
            )
        if self.block_width <= self.hole_width:
            raise CaptureError(f"the receptacle is {self.block_width * 1e3:.3f} mm wide, less than its hole; make it wider.")

    @property
    def radius(self) -> float:
        """Half diagonal of the peg (m): the length by which the SE(2) metric weights a rotation."""
        return hypot(self.peg_width, self.peg_length) / 2
