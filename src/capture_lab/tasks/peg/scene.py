"""The peg on the live page: MuJoCo's scene in 3D, and the slice of the configuration space at the angle of the next pose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.report.canvas import INFEASIBLE_LEGEND, Canvas, Picture
from capture_cp.spaces.plotting import STRATA_COLOURS
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata
from capture_lab.tasks.peg.cspace import REGIMES
from capture_lab.tasks.peg.model import settle
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.scene import GOAL, PARTICLE, Scene, Slider, Snapshot

#: The scene is drawn in decimetres.
UNIT, MM, DEGREE = 10.0, 1e3, 180 / np.pi
#: Colours of the regimes, as in the figures: numbers in STRATA_COLOURS.
COLOURS = (0, 1, 2, 4)
#: MuJoCo's group of shapes that collide but are not drawn, and how far in front (m) particles are drawn.
HIDDEN, FRONT = 3, -0.055
#: The receptacle is transparent, so that the peg is visible.
CLEAR = {"left": 0.55, "right": 0.55}
#: A pose just above the rim, leaning, and a push down and across: the peg may land on either side.
FIRST_POSE, FIRST_ACTION = (3.0e-3, 27.0e-3, 0.06), (-2.0, -2.0, -1.0)
#: Steps by which a pose in collision is lifted out (m).
LIFT = 2.5e-4


class PegScene(Scene):
    """The receptacle, the peg and, if it has one, its arm."""

    task: Peg
    regions_along = False  # the paper's objective has a region for the first step only
    least_cells = 12.0
    drag_axes = (True, False, True)

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

    def believed(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        return settle(self.task.model_step(states, actions, rng), self.task.settings)

    # -- controls of the page -----------------------------------------------------------------------------------------

    @property
    def legend(self) -> Sequence[tuple[str, str]]:
        regimes = ((name, STRATA_COLOURS[colour]) for name, colour in zip(REGIMES, COLOURS))
        return (*regimes, *INFEASIBLE_LEGEND, ("goal", GOAL))

    @property
    def camera(self) -> tuple[Floats, Floats]:
        if self.task.system == "arm":
            return np.array([3.5, -10.0, 4.0]), np.array([-2.5, 0.0, 1.0])
        return np.array([0.25, -1.7, 0.75]), np.array([0.0, 0.0, 0.12])

    def sliders(self) -> list[Slider]:
        bound = self.task.settings.bound
        hint = "The commanded move; the true system adds noise and moves half as far again."
        return [
            Slider("x (mm)", "state", 0, -30.0, 30.0, 0.05, MM, "Or drag the peg."),
            Slider("z (mm)", "state", 1, -10.0, 50.0, 0.05, MM, "Or drag the peg."),
            Slider("angle (°)", "state", 2, -40.0, 40.0, 0.25, DEGREE),
            Slider("move x (mm)", "action", 0, -bound, bound, 0.1, 1.0, hint),
            Slider("move z (mm)", "action", 1, -bound, bound, 0.1, 1.0, hint),
            Slider("turn (°)", "action", 2, -bound, bound, 0.1, 1.0, hint),
        ]

    def reading(self, snapshot: Snapshot) -> str:
        x, z, theta = snapshot.state
        m = int(self.task.strata.index(snapshot.state[None])[0])
        strata = self.task.strata
        contact, regime = ("infeasible",) * 2 if m == INFEASIBLE else (strata.names[m], strata.regimes[m])
        shown = f"slice at {self.rest(snapshot)[2] * DEGREE:.1f}°"
        return f"peg at ({x * MM:.2f}, {z * MM:.2f}) mm, {theta * DEGREE:.1f}°; contact: **{contact}** ({regime}); {shown}"

    # -- 3D -----------------------------------------------------------------------------------------------------------

    def build_solids(self, snapshot: Snapshot) -> None:
        self._mujoco = self.task.true_system(threads=1)
        self._mujoco.reset(snapshot.state)
        model = self._mujoco.model
        solids = {i: self._solid(model, i) for i in range(model.ngeom) if model.geom_group[i] != HIDDEN}
        self._solids = {i: solid for i, solid in solids.items() if solid is not None}

    def _solid(self, model: Any, i: int) -> Any:
        """One of MuJoCo's boxes, cylinders, capsules and spheres; planes are left out."""
        import trimesh

        shapes, scene = self._mujoco._mujoco.mjtGeom, self.server.scene
        size, kind, name = model.geom_size[i] * UNIT, model.geom_type[i], f"/task/solid-{i}"
        colour = tuple(int(255 * part) for part in model.geom_rgba[i][:3])
        if kind == shapes.mjGEOM_BOX:
            return scene.add_box(name, color=colour, dimensions=tuple(2 * size), opacity=CLEAR.get(model.geom(i).name))
        if kind == shapes.mjGEOM_CYLINDER:
            return scene.add_cylinder(name, radius=size[0], height=2 * size[1], color=colour)
        if kind == shapes.mjGEOM_CAPSULE:
            mesh = trimesh.creation.capsule(height=2 * size[1], radius=size[0])
            mesh.apply_translation(-mesh.bounds.mean(axis=0))
            return scene.add_mesh_simple(name, mesh.vertices, mesh.faces, color=colour)
        if kind == shapes.mjGEOM_SPHERE:
            return scene.add_icosphere(name, radius=size[0], color=colour)
        return None

    def dragged_to(self, place: Floats) -> tuple[Sequence[int], Floats]:
        return [0, 1], place[[0, 2]] / UNIT

    def draw(self, snapshot: Snapshot) -> None:
        import viser.transforms as transforms

        pose, data, steps = snapshot.state, self._mujoco.data, snapshot.first_plan
        self._mujoco.reset(pose)
        for i, solid in self._solids.items():
            solid.position = data.geom_xpos[i] * UNIT
            solid.wxyz = transforms.SO3.from_matrix(data.geom_xmat[i].reshape(3, 3)).wxyz
        self.put_handle(np.array([pose[0], 0.0, pose[1]]) * UNIT)
        self._bases("particles", np.concatenate([step.cloud for step in steps]) if steps else np.empty((0, 3)), PARTICLE)
        self._bases("trail", snapshot.trail, snapshot.trail_paint)

    def _bases(self, name: str, poses: Floats, colour: Any) -> None:
        """Where the middle of the peg's lower end is in poses (n, 3), as dots in front of the receptacle."""
        half = self.task.settings.peg_length / 2
        x, z = poses[:, 0] + half * np.sin(poses[:, 2]), poses[:, 1] - half * np.cos(poses[:, 2])
        self.point_cloud(name, np.column_stack([x, np.full(len(x), FRONT), z]) * UNIT, colour, 8e-4 * UNIT)

    # -- pictures -----------------------------------------------------------------------------------------------------

    @property
    def pictured(self) -> _Cells:
        return _Cells(self.task.strata)

    @property
    def colours(self) -> Sequence[int]:
        return [COLOURS[regime] for regime in self.task.stratum_regimes]

    def furnish_space(self, canvas: Canvas, picture: Picture) -> None:
        canvas.dots(picture, self.task.strata.goal[None], GOAL, 4)


class _Cells:
    """Strata by look-up in the grid, for pictures: faster than the geometry, and consistent with counted cells."""

    def __init__(self, strata: GriddedStrata) -> None:
        self.names, self._grid, self._labels = strata.names, strata.require_grid(), strata.labels

    def index(self, Y: Floats) -> Ints:
        cells = self._grid.cell(Y)
        return np.where(cells >= 0, self._labels[np.maximum(cells, 0)], INFEASIBLE).astype(np.int64)
