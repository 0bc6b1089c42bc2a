"""Pictures of the arm and the shelf in 3D by MuJoCo's renderer, without a window."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.report.canvas import Picture, rgb
from capture_cp.spaces.mujoco_model import mujoco_module
from capture_cp.spaces.plotting import colour_of
from capture_lab.tasks.shelf.mjcf import scene_model
from capture_lab.tasks.shelf.task import ShelfTask
from capture_lab.tasks.shelf.views import TOUCHED_COLOUR, Cloud

#: Target, distance and direction of the camera (m, degrees).
LOOK_AT, DISTANCE, AZIMUTH, ELEVATION = (0.45, 0.0, 0.43), 1.45, 60.0, -17.0
#: Radii of dots for members of a region, particles, and of the line of the jar's path (m).
MEMBER, PARTICLE, WAY = 0.004, 0.006, 0.0035
SHAPES = 6000


class Renderer:
    """Draws one shelf with its arm; must be used by the thread that made it.

    Raises the graphics library's error if there is none; `renderer_for` returns None instead.
    """

    def __init__(self, task: ShelfTask, height: int, width: int) -> None:
        self._mujoco = mujoco = mujoco_module()
        self._model = model = scene_model(task.shelf, task.physics)
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.55, 0.3
        model.vis.global_.offheight, model.vis.global_.offwidth = height, width
        for i in range(model.ngeom):
            if model.geom_type[i] == mujoco.mjtGeom.mjGEOM_PLANE:
                model.geom_rgba[i] = 1.0, 1.0, 1.0, 1.0
            if model.geom(i).name.startswith("wall"):
                model.geom_rgba[i, 3] = 0.18
        self._glasses = [model.geom(name).id for name in task.shelf.glasses]
        self._data, self._size = mujoco.MjData(model), (height, width)
        self._gl = _context(mujoco)(width, height)
        self._gl.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene, self._option = mujoco.MjvScene(model, SHAPES), mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.lookat[:], self._camera.distance = LOOK_AT, DISTANCE
        self._camera.azimuth, self._camera.elevation = AZIMUTH, ELEVATION

    def picture(
        self, y: Floats, cloud: Cloud | None, particles: Floats, way: Floats, touched: Sequence[int] = ()
    ) -> Picture:
        """The arm at y (7,), a region's jars, particles' jars (L, 3) and the jar's path (t, 3); touched glasses are red."""
        mujoco, (height, width) = self._mujoco, self._size
        before = self._model.geom_rgba[self._glasses].copy()
        for number in touched:
            self._model.geom_rgba[self._glasses[number]] = (*rgb(TOUCHED_COLOUR) / 255, 0.95)
        self._data.qpos[:] = y
        mujoco.mj_forward(self._model, self._data)
        self._gl.make_current()
        every = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, self._data, self._option, None, self._camera, every, self._scene)
        for m, points in cloud.parts() if cloud is not None else ():
            self._dots(points, MEMBER, colour_of(m), 0.75)
        self._dots(particles, PARTICLE, "#000000", 1.0)
        for a, b in pairwise(way):
            self._line(a, b)
        pixels, rect = np.empty((height, width, 3), np.uint8), mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(rect, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, rect, self._context)
        self._model.geom_rgba[self._glasses] = before
        return pixels[::-1]

    def close(self) -> None:
        """Free the graphics memory."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()

    def _dots(self, points: Floats, radius: float, colour: str, opacity: float) -> None:
        paint = np.append(rgb(colour) / 255, opacity).astype(np.float32)
        for point in points:
            shape = self._next()
            if shape is not None:
                kind = self._mujoco.mjtGeom.mjGEOM_SPHERE
                self._mujoco.mjv_initGeom(shape, kind, np.full(3, radius), point, np.eye(3).ravel(), paint)

    def _line(self, a: Floats, b: Floats) -> None:
        shape = self._next()
        if shape is not None:
            kind, paint = self._mujoco.mjtGeom.mjGEOM_CAPSULE, np.array([0.2, 0.2, 0.2, 1.0], np.float32)
            self._mujoco.mjv_initGeom(shape, kind, np.full(3, WAY), a, np.eye(3).ravel(), paint)
            self._mujoco.mjv_connector(shape, kind, WAY, a, b)

    def _next(self) -> Any:
        """The next shape of the scene; None if it is full."""
        number = self._scene.ngeom
        if number >= self._scene.maxgeom:
            return None
        self._scene.ngeom = number + 1
        return self._scene.geoms[number]


def renderer_for(task: ShelfTask, height: int, width: int) -> Renderer | None:
    """A renderer, or None if the machine has no graphics library for it."""
    try:
        return Renderer(task, height, width)
    except Exception:  # libraries fail in different ways: missing files, no device, no display
        return None


def _context(mujoco: Any) -> Any:
    """The drawing surface: by MUJOCO_GL if set, else with the display, else without one."""
    if os.environ.get("MUJOCO_GL") or os.environ.get("DISPLAY") or os.name != "posix":
        return mujoco.GLContext
    try:
        return import_module("mujoco.egl").GLContext
    except (ImportError, AttributeError, OSError, RuntimeError):
        return mujoco.GLContext
