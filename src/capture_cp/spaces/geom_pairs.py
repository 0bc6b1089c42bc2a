"""Pairs of a MuJoCo model's geoms, by the names of geoms and bodies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.spaces.mujoco_model import mujoco_module, named

#: A geom or a body by name, or several names, each of which makes its own pairs.
Side = str | Sequence[str]

#: A contact is a bit of a code.
MOST_PAIRS = 62


def geom_pairs(model: Any, pairs: Any) -> dict[str, list[tuple[int, int]]]:
    """Numbers of the geoms in each pair, by the pair's name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for one, other in named_pairs(pairs):
        name, geoms = f"{one}-{other}", list(product(geoms_of(model, one), geoms_of(model, other)))
        if name in found or f"{other}-{one}" in found or any(a == b for a, b in geoms):
            raise CaptureError(f"the pair {name} is listed twice, or is one geom with itself; list each contact once.")
        _check_measurable(model, name, geoms)
        found[name] = geoms
    if len(found) > MOST_PAIRS:
        raise CaptureError(f"{len(found)} pairs are listed; at most {MOST_PAIRS} are supported, so name bodies instead.")
    return found


def named_pairs(pairs: Any) -> list[tuple[Any, Any]]:
    """Pairs of two names each, with lists on either side expanded into one pair per name."""
    return [
        pair
        for sides in _listed(pairs)
        for pair in product(*(list(side) if isinstance(side, list | tuple) else [side] for side in sides))
    ]


def geoms_of(model: Any, name: Any) -> list[int]:
    """The geom with that name, or the colliding geoms of the body with that name."""
    if name in named(model, "geom"):
        return [model.geom(name).id]
    bodies = named(model, "body")
    body = model.body(known_name("geom or body", name, [*named(model, "geom"), *bodies]))
    first, count = body.geomadr[0], body.geomnum[0]
    geoms = [g for g in range(first, first + count) if model.geom_contype[g] or model.geom_conaffinity[g]]
    if not geoms:
        raise CaptureError(f"body {name} has no colliding geom; name a geom, or a body that has one.")
    return geoms


def _listed(pairs: Any) -> Sequence[Any]:
    sound = isinstance(pairs, list | tuple) and len(pairs) > 0
    if not sound or any(not isinstance(pair, list | tuple) or len(pair) != 2 or [] in pair for pair in pairs):
        raise CaptureError(f'pairs are {pairs!r}; expected a list of two names each, such as [("peg", ["wall", "floor"])].')
    return list(pairs)


def _check_measurable(model: Any, name: str, geoms: list[tuple[int, int]]) -> None:
    types = mujoco_module().mjtGeom
    flat = {int(types.mjGEOM_PLANE), int(types.mjGEOM_HFIELD)}
    if any({int(model.geom_type[a]), int(model.geom_type[b])} <= flat for a, b in geoms):
        raise CaptureError(
            f"the pair {name} consists of planes or height fields only, whose distance MuJoCo does not measure."
        )
