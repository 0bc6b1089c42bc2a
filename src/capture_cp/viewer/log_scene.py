"""The middle of the page of a user's calibration: three axes in 3D, otherwise the flat picture."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, printable, shortened
from capture_cp.capture.region_plots import Members, members_of
from capture_cp.commands.replay import Look
from capture_cp.commands.space import Space, finite_region
from capture_cp.report.canvas import Picture, rgb
from capture_cp.spaces.marks import PARTICLES, PATH_COLOUR, outcome_look

#: Length of a side of the box, configurations that show a region, and sizes of points.
SIDE, MEMBERS = 1.2, 700
REGION, PARTICLE, MARK = 0.007, 0.014, 0.045


class LogScene:
    """Draws steps on a viser server; three axes fill a box, each scaled to its side."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.solid = len(space.robot.axes) == 3

    @property
    def camera(self) -> tuple[Floats, Floats]:
        """Initial position of the camera, and the point it looks at, both (3,)."""
        if self.solid:
            return np.array([1.5, -1.9, 1.3]), np.array([0.0, 0.0, -0.05])
        return np.array([0.0, -0.12, 1.5]), np.array([0.0, 0.0, 0.0])

    def build(self, server: Any) -> None:
        """Set up the scene: for three axes, the box with their names."""
        self.server = server
        server.scene.add_frame("/task", show_axes=False)
        server.scene.add_light_hemisphere("/task/sky", intensity=2.5, position=(0.0, 0.0, 3.0))
        if not self.solid:
            return
        server.scene.add_line_segments("/task/box", _edges(SIDE / 2), (160, 160, 160), thickness=0.004)
        half, robot, window = SIDE / 2, self.space.robot, self.space.window
        ends = {0: (0.0, -half - 0.08, -half), 1: (half + 0.08, 0.0, -half), 2: (-half - 0.05, -half - 0.05, 0.0)}
        for axis, place in ends.items():
            unit = " rad" if axis in robot.angles else ""
            span = f"{window.low[axis]:.3g} to {window.high[axis]:.3g}{unit}"
            text = f"{shortened(printable(robot.axes[axis]), 24)}: {span}"
            server.scene.add_label(f"/task/axis{axis}", text, position=place, anchor="center-center")

    def draw(self, look: Look, picture: Picture) -> None:
        """Update the scene."""
        if not self.solid:
            size = SIDE * np.array(picture.shape[1::-1]) / max(picture.shape[:2])
            turned = (0.0, 1.0, 0.0, 0.0)  # images of viser have their top at -y
            self.server.scene.add_image("/task/space", picture, *size, format="jpeg", jpeg_quality=92, wxyz=turned)
            return
        members = self._members(look)
        self._cloud("region", members.Y, self.space.paint[members.labels], REGION)
        self._cloud("particles", look.cloud, PARTICLES.colour, PARTICLE)
        self._cloud("path", look.path, PATH_COLOUR, PARTICLE)
        none = look.cloud[:0]
        self._cloud("before", none if look.start is None else look.start[None], "#999999", MARK, "diamond")
        outcome = outcome_look(look.inside).colour
        self._cloud("went", none if look.went is None else look.went[None], outcome, MARK, "sparkle")

    def _members(self, look: Look) -> Members:
        """Configurations of the region, without the parts that cover a whole stratum; may be none."""
        try:
            return members_of(finite_region(look.region), MEMBERS, 0)
        except CaptureError:
            return Members(look.cloud[:0], np.empty(0, dtype=np.int64))

    def _cloud(self, name: str, Y: Floats, colours: Any, size: float, shape: str = "circle") -> None:
        """Configurations (n, 3) as points, in place of those with the same name; `colours` are one or (n, 3)."""
        path = f"/task/{name}"
        window = self.space.window
        along = (window.placed(Y) - window.low) / (window.high - window.low) if len(Y) else Y
        seen = ((along >= 0) & (along <= 1)).all(axis=1)
        if not seen.any():
            self.server.scene.remove_by_name(path)
            return
        paint = np.tile(rgb(colours), (len(Y), 1)) if isinstance(colours, str) else np.asarray(colours)
        look = {"point_size": size, "point_shape": shape, "precision": "float32", "point_shading": "flat"}
        self.server.scene.add_point_cloud(path, SIDE * (along[seen] - 0.5), paint[seen].astype(np.uint8), **look)


def _edges(half: float) -> Floats:
    """The edges of a cube about the origin, (12, 2, 3)."""
    corners = half * np.array(list(product((-1.0, 1.0), repeat=3)))
    return np.array([(a, b) for a, b in combinations(corners, 2) if (a != b).sum() == 1])
