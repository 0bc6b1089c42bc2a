"""The peg on the live page: MuJoCo's scene, and the slice of the configuration space at the angle of the next pose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import INFEASIBLE_LEGEND, Canvas, Picture
from capture_cp.report.scene import Handle, Scene, mujoco_bodies
from capture_cp.report.style import STRATA_COLOURS
from capture_cp.spaces.strata import INFEASIBLE, GridStrata, Strata
from capture_lab.tasks.peg.cspace import REGIMES
from capture_lab.tasks.peg.model import settle
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.scene import GOAL_COLOUR, Moment, TaskScene
from capture_lab.tasks.task import Task

#: The scene is drawn in decimetres.
UNIT, MM, DEGREE = 10.0, 1e3, 180 / np.pi
#: Colours of the regimes, as in the figures: numbers in STRATA_COLOURS.
COLOURS = (0, 1, 2, 4)
#: How far in front (m) particles are drawn, and opacity of the receptacle, so that the peg is visible.
FRONT, CLEAR = -0.055, 0.55
#: A pose just above the rim, leaning, and a push down and across: the peg may land on either side.
FIRST_POSE, FIRST_ACTION = (3.0e-3, 27.0e-3, 0.06), (-2.0, -2.0, -1.0)
#: Steps by which a pose in collision is lifted out (m).
LIFT = 2.5e-4
MOVE = "The commanded move; the true system adds noise and moves half as far again."


class PegScene(TaskScene):
    """The receptacle, the peg and, if it has one, its arm."""

    task: Peg
    regions_along = False  # the paper's objective has a region for the first step only
    least_cells = 12.0
    entries = (
        ("x (mm)", MM, "Or drag the peg."),
        ("z (mm)", MM, "Or drag the peg."),
        ("angle (°)", DEGREE, ""),
        *((label, 1.0, MOVE) for label in ("move x (mm)", "move z (mm)", "turn (°)")),
    )

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        if self.task.system == "arm":
            self.camera = np.array([3.5, -10.0, 4.0]), np.array([-2.5, 0.0, 1.0])
        else:
            self.camera = np.array([0.25, -1.7, 0.75]), np.array([0.0, 0.0, 0.12])

    # -- states and plans ---------------------------------------------------------------------------------------------

    def first_look(self) -> tuple[Floats, Floats]:
        return self.placed(np.array(FIRST_POSE)), np.array(FIRST_ACTION)

    def placed(self, state: Floats) -> Floats:
        """Within the grid, and lifted out of the receptacle."""
        high = self.grid.origin + self.grid.spacing * (np.array(self.grid.shape) - 1)
        pose = np.clip(state, self.grid.origin, high)
        while self.task.strata.index(pose[None])[0] == INFEASIBLE and pose[1] < high[1]:
            pose[1] += LIFT
        return pose

    def dragged(self, state: Floats, place: Floats) -> Floats:
        return np.array([place[0], place[2], state[2]])

    def believed(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        return settle(self.task.model_step(states, actions, rng), self.task.settings)

    # -- legend, text ------- ----------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        regimes = ((name, STRATA_COLOURS[colour]) for name, colour in zip(REGIMES, COLOURS))
        return (*regimes, *INFEASIBLE_LEGEND, ("goal", GOAL_COLOUR))

    def reading(self, now: Moment) -> str:
        x, z, theta = now.state
        m = int(self.task.strata.index(now.state[None])[0])
        strata = self.task.strata
        contact, regime = ("infeasible",) * 2 if m == INFEASIBLE else (strata.names[m], strata.regimes[m])
        shown = f"slice at {self.rest(now)[2] * DEGREE:.1f}°"
        return f"peg at ({x * MM:.2f}, {z * MM:.2f}) mm, {theta * DEGREE:.1f}°; contact: **{contact}** ({regime}); {shown}"

    # -- three dimensions ---------------------------------------------------------------------------------------------

    def scene(self, now: Moment, picture: Picture) -> Scene:
        pose, half = now.state, self.task.settings.peg_length / 2
        self._mujoco.reset(pose)
        bodies = mujoco_bodies(self._mujoco.model, self._mujoco.data)
        bodies |= {side: replace(bodies[side], opacity=CLEAR) for side in ("left", "right")}

        def bases(poses: Floats) -> Floats:
            """The middle of the peg's lower end in poses (n, 3), in front of the receptacle."""
            x, z = poses[:, 0] + half * np.sin(poses[:, 2]), poses[:, 1] - half * np.cos(poses[:, 2])
            return np.column_stack([x, np.full(len(x), FRONT), z])

        handle = Handle(np.array([pose[0], 0.0, pose[1]]), (True, False, True))
        return Scene(bodies, now.points(8e-4, bases), handle=handle, scale=UNIT)

    @cached_property
    def _mujoco(self) -> Any:
        return self.task.true_system(threads=1)

    # -- pictures -----------------------------------------------------------------------------------------------------

    @property
    def pictured(self) -> tuple[Strata, Sequence[int]]:
        """Strata by look-up in the grid: faster than the geometry, and consistent with counted cells."""
        strata = self.task.strata
        return GridStrata(self.grid, strata.labels, strata.names), [COLOURS[regime] for regime in self.task.stratum_regimes]

    def furnish(self, canvas: Canvas, picture: Picture) -> None:
        canvas.dots(picture, self.task.strata.goal[None], GOAL_COLOUR, 4)
