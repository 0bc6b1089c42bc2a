"""The peg on the page: MuJoCo's scene in 3D, and the slice of the configuration space at the angle of the next pose."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.capture.plotting import INFEASIBLE_COLOUR, STRATA_COLOURS
from capture_cp.report.canvas import Canvas, Picture, rgb
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata
from capture_cp.tasks.peg.cspace import REGIMES
from capture_cp.viewer.frame import Frame
from capture_cp.viewer.peg_world import PegWorld
from capture_cp.viewer.stage import COARSE, LENS, Dial, Stage, paint_plan
from capture_cp.viewer.world import Ahead

#: The scene is drawn in decimetres.
UNIT, MM, DEGREE = 10.0, 1e3, 180 / np.pi
PIXELS = 460
TRAIL, PARTICLE, PEG, GOAL = "#555555", "#000000", "#ffffff", "#009e73"
#: Colours of the regimes, as in the figures: numbers in STRATA_COLOURS.
COLOURS = (0, 1, 2, 4)
#: MuJoCo's group of shapes that collide but are not drawn, and how far in front (m) particles are drawn.
HIDDEN, FRONT = 3, -0.055
#: The receptacle lets the peg be seen.
CLEAR = {"left": 0.55, "right": 0.55}


class PegStage(Stage):
    """The receptacle, the peg and, if it has one, its arm."""

    legend = (
        *((name, STRATA_COLOURS[colour]) for name, colour in zip(REGIMES, COLOURS)),
        ("infeasible", INFEASIBLE_COLOUR),
        ("goal", GOAL),
    )
    smallest_lens = 3e-3

    def dials(self) -> list[Dial]:
        bound = self._world.task.settings.bound
        hint = "What the controller is told; disturbed, and half as much again, on the true system."
        return [
            Dial("x (mm)", "state", 0, -30.0, 30.0, 0.05, MM, "Or drag the peg."),
            Dial("z (mm)", "state", 1, -10.0, 50.0, 0.05, MM, "Or drag the peg."),
            Dial("angle (°)", "state", 2, -40.0, 40.0, 0.25, DEGREE),
            Dial("move x (mm)", "action", 0, -bound, bound, 0.1, 1.0, hint),
            Dial("move z (mm)", "action", 1, -bound, bound, 0.1, 1.0, hint),
            Dial("turn (°)", "action", 2, -bound, bound, 0.1, 1.0, hint),
        ]

    @property
    def camera(self) -> tuple[Floats, Floats]:
        if self._world.task.system == "arm":
            return np.array([3.5, -10.0, 4.0]), np.array([-2.5, 0.0, 1.0])
        return np.array([0.25, -1.7, 0.75]), np.array([0.0, 0.0, 0.12])

    @property
    def _world(self) -> PegWorld:
        world = self.session.world
        assert isinstance(world, PegWorld)
        return world

    # -- 3D -----------------------------------------------------------------------------------------------------------

    def build(self, frame: Frame) -> None:
        scene, world = self.server.scene, self._world
        scene.remove_by_name("/room")
        scene.add_frame("/room", show_axes=False)
        scene.add_light_hemisphere("/room/sky", intensity=2.5, position=(0.0, 0.0, 3.0))
        self._mujoco = world.task.true_system(threads=1)
        self._place(frame.moment.state)
        model = self._mujoco.model
        self._solids = {i: self._solid(model, i) for i in range(model.ngeom) if model.geom_group[i] != HIDDEN}
        self._solids = {i: solid for i, solid in self._solids.items() if solid is not None}
        self._handle = scene.add_transform_controls(
            "/room/handle", 0.25, active_axes=(True, False, True), disable_rotations=True, depth_test=False
        )
        self._handle.on_update(self._dragged)
        grid = world.strata.require_grid()
        low = grid.origin - grid.spacing / 2
        high = low + grid.spacing * np.array(grid.shape)
        self._cells = _Cells(world.strata)
        self._kinds = [COLOURS[kind] for kind in world.stratum_kinds]
        self._canvas = Canvas(self._cells, low[:2], high[:2], PIXELS, kinds=self._kinds)

    def _solid(self, model: Any, i: int) -> Any:
        """One of MuJoCo's boxes, cylinders, capsules and spheres; planes are left out."""
        import trimesh

        shapes = self._mujoco._mujoco.mjtGeom
        size, kind, name = model.geom_size[i] * UNIT, model.geom_type[i], f"/room/solid-{i}"
        colour = tuple(int(255 * part) for part in model.geom_rgba[i][:3])
        if kind == shapes.mjGEOM_BOX:
            opacity = CLEAR.get(model.geom(i).name)
            return self.server.scene.add_box(name, color=colour, dimensions=tuple(2 * size), opacity=opacity)
        if kind == shapes.mjGEOM_CYLINDER:
            return self.server.scene.add_cylinder(name, radius=size[0], height=2 * size[1], color=colour)
        if kind == shapes.mjGEOM_CAPSULE:
            mesh = trimesh.creation.capsule(height=2 * size[1], radius=size[0])
            mesh.apply_translation(-mesh.bounds.mean(axis=0))
            return self.server.scene.add_mesh_simple(name, mesh.vertices, mesh.faces, color=colour)
        if kind == shapes.mjGEOM_SPHERE:
            return self.server.scene.add_icosphere(name, radius=size[0], color=colour)
        return None

    def _place(self, pose: Floats) -> None:
        self._mujoco.reset(pose)

    def _dragged(self, event: Any) -> None:
        if event.client is None:
            return
        pose = self.session.moment().state.copy()
        pose[:2] = np.asarray(event.target.position)[[0, 2]] / UNIT
        self.moved(pose)

    def draw(self, frame: Frame) -> None:
        import viser.transforms as transforms

        pose, data = frame.moment.state, self._mujoco.data
        self._place(pose)
        for i, solid in self._solids.items():
            solid.position = data.geom_xpos[i] * UNIT
            solid.wxyz = transforms.SO3.from_matrix(data.geom_xmat[i].reshape(3, 3)).wxyz
        place = np.array([pose[0], 0.0, pose[1]]) * UNIT
        if not np.allclose(self._handle.position, place, atol=1e-6):
            self._handle.position = place
        first = next(iter(frame.ahead.values()), [])
        self._bases("particles", np.concatenate([step.cloud for step in first]) if first else np.empty((0, 3)), PARTICLE)
        self._bases("trail", frame.moment.trail, TRAIL)

    def _bases(self, name: str, poses: Floats, colour: str) -> None:
        """Where the middle of the peg's lower end is in poses (n, 3), as dots in front of the receptacle."""
        path, half = f"/room/{name}", self._world.task.settings.peg_length / 2
        if not len(poses):
            self.server.scene.remove_by_name(path)
            return
        x, z = poses[:, 0] + half * np.sin(poses[:, 2]), poses[:, 1] - half * np.cos(poses[:, 2])
        points = np.column_stack([x, np.full(len(x), FRONT), z]) * UNIT
        colours = np.tile(rgb(colour), (len(points), 1)).astype(np.uint8)
        self.server.scene.add_point_cloud(
            path, points, colours, point_size=8e-4 * UNIT, point_shape="circle", precision="float32", point_shading="flat"
        )

    # -- the picture --------------------------------------------------------------------------------------------------

    def _slice(self, frame: Frame) -> Floats:
        """The angle of the next poses, or of this one: (3,), with x and z at 0."""
        first = next((ahead[0] for ahead in frame.ahead.values() if ahead), None)
        angle = first.cloud[:, 2].mean() if first is not None else frame.moment.state[2]
        grid = frame.world.strata.require_grid()
        # in steps of the grid: a slice between cells would be the same
        return np.array([0.0, 0.0, grid.origin[2] + np.rint((angle - grid.origin[2]) / grid.spacing[2]) * grid.spacing[2]])

    def picture(self, frame: Frame, ahead: list[Ahead]) -> Picture:
        picture = paint_plan(self._canvas, ahead, self._slice(frame))
        self._furnish(self._canvas, picture, frame, ahead)
        return picture

    def lens_canvas(self, frame: Frame, low: Floats, high: Floats) -> Canvas:
        return Canvas(self._cells, low, high, LENS, kinds=self._kinds)

    def lens(self, canvas: Canvas, frame: Frame, ahead: list[Ahead]) -> Picture:
        fine, picture = canvas.finer(paint_plan(canvas, ahead, self._slice(frame)), COARSE)
        self._furnish(fine, picture, frame, ahead, dot=2)
        return picture

    def _furnish(self, canvas: Canvas, picture: Picture, frame: Frame, ahead: list[Ahead], dot: int = 1) -> None:
        """Draw the way so far, particles, the goal and the peg, whatever their angle."""
        canvas.dots(picture, frame.moment.trail, TRAIL, dot)
        for step in reversed(ahead):
            canvas.dots(picture, step.cloud, PARTICLE, dot)
        canvas.dots(picture, self._world.strata.goal[None], GOAL, 4)
        canvas.dots(picture, frame.moment.state[None], PARTICLE, 5)
        canvas.dots(picture, frame.moment.state[None], PEG, 3)

    def reading(self, frame: Frame) -> str:
        x, z, theta = frame.moment.state
        m = int(frame.world.strata.index(frame.moment.state[None])[0])
        contact = frame.world.strata.names[m] if m != INFEASIBLE else "infeasible"
        regime = self._world.strata.regimes[m] if m != INFEASIBLE else "infeasible"
        shown = f"slice at {self._slice(frame)[2] * DEGREE:.1f}°"
        return f"peg at ({x * MM:.2f}, {z * MM:.2f}) mm, {theta * DEGREE:.1f}°; contact: **{contact}** ({regime}); {shown}"


class _Cells:
    """Strata by look-up in the grid, for pictures: quicker than the geometry, and what regions are counted in."""

    def __init__(self, strata: GriddedStrata) -> None:
        self.names, self._grid, self._labels = strata.names, strata.require_grid(), strata.labels

    def index(self, Y: Floats) -> Ints:
        cells = self._grid.cell(Y)
        return np.where(cells >= 0, self._labels[np.maximum(cells, 0)], INFEASIBLE).astype(np.int64)
