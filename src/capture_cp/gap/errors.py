"""Errors of predicted configurations in units that people use: mm and degrees, by body, joint and site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name
from capture_cp.data.recognise import Joint
from capture_cp.data.states import Slot, slots
from capture_cp.spaces.modes import body_name
from capture_cp.spaces.mujoco_model import named
from capture_cp.spaces.rigid import angle_between, frames, matrices, placed

Measured = Callable[[Floats, Floats], Floats]  # predicted and measured configurations (m, nq) -> errors (m,)
MM, DEGREES = 1e3, 180 / np.pi
SURFACE = "surface"


@dataclass(frozen=True)
class Quantity:
    """An error with its unit: of a pose, a joint or a site."""

    name: str
    unit: str
    of: Measured
    site: bool = False

    @property
    def tolerated(self) -> bool:
        """Whether a tolerance in its unit holds for it: that of a surface is given by name only."""
        return not self.name.endswith(SURFACE)


def quantities(
    joints: Sequence[Joint], model: Any | None, points: Mapping[int, Floats], sites: Sequence[str]
) -> list[Quantity]:
    """What is measured of configurations with these joints; `points` (p, 3) are those of bodies' geoms, by body."""
    found: list[Quantity] = []
    for number, slot in enumerate(slots(joints)):
        name, kind = slot.joint.name, slot.joint.kind
        if kind == "free":
            body = None if model is None else int(model.jnt_bodyid[number])
            name = name if body is None else body_name(model, body)
            found.append(Quantity(f"{name}.position", "mm", _distance(slot)))
        if kind in ("free", "ball"):
            found.append(Quantity(f"{name}.rotation", "deg", _rotation(slot)))
        if kind == "free" and body is not None and len(points.get(body, ())):
            found.append(Quantity(f"{name}.{SURFACE}", "mm", _surface(slot, points[body])))
        if kind == "hinge":
            found.append(Quantity(name, "deg", _turn(slot)))
        if kind == "slide":
            found.append(Quantity(name, "mm", _distance(slot)))
    return found + [Quantity(site, "mm", _site(model, site), site=True) for site in sites]


def _distance(slot: Slot) -> Measured:
    part = slice(slot.q.start, slot.q.start + 3) if slot.joint.kind == "free" else slot.q
    return lambda predicted, measured: MM * np.linalg.norm(predicted[:, part] - measured[:, part], axis=1)


def _rotation(slot: Slot) -> Measured:
    part = slice(slot.q.stop - 4, slot.q.stop)
    return lambda predicted, measured: DEGREES * angle_between(predicted[:, part], measured[:, part])


def _turn(slot: Slot) -> Measured:
    entry = slot.q.start

    def error(predicted: Floats, measured: Floats) -> Floats:
        off = predicted[:, entry] - measured[:, entry]
        return np.asarray(DEGREES * np.abs((off + np.pi) % (2 * np.pi) - np.pi))

    return error


def _surface(slot: Slot, points: Floats) -> Measured:
    """The largest displacement of any of the points: of D p + t it is a quadratic form in p, so one product serves all."""
    x, y, z = points.T
    powers = np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z, 2 * x, 2 * y, 2 * z, np.ones(len(points))])

    def error(predicted: Floats, measured: Floats) -> Floats:
        one, other = predicted[:, slot.q], measured[:, slot.q]
        D, t = matrices(one[:, 3:]) - matrices(other[:, 3:]), one[:, :3] - other[:, :3]
        G, g = np.einsum("mki,mkj->mij", D, D), np.einsum("mki,mk->mi", D, t)
        terms = [G[:, 0, 0], G[:, 1, 1], G[:, 2, 2], G[:, 0, 1], G[:, 0, 2], G[:, 1, 2], *g.T, (t**2).sum(axis=1)]
        return np.asarray(MM * np.sqrt(np.maximum((np.stack(terms, axis=1) @ powers).max(axis=1), 0)))

    return error


def _site(model: Any | None, site: str) -> Measured:
    if model is None:
        raise CaptureError(f"--site {site} needs a model file, which says where the site is; name one, or use --modes-from.")
    known_name("site", site, named(model, "site"))
    number = model.site(site).id
    body = int(model.site_bodyid[number])

    def at(qpos: Floats) -> Floats:
        return placed(frames(model, qpos, [body])[body], model.site_pos[number], model.site_quat[number])[0]

    return lambda predicted, measured: MM * np.linalg.norm(at(predicted) - at(measured), axis=1)
