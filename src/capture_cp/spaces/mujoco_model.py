"""MuJoCo models: from a file, MJCF text or a compiled model; names of coordinates and pairs of geoms (extra `sim`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from copy import copy
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name, whole_number
from capture_cp.base.files import existing_file

#: Up to 3.11, MuJoCo's distances between boxes or meshes are wrong in a few percent of poses, and so are contact labels.
OLDEST = (3, 12)

#: Names of joints, or positions in qpos.
Coordinates = Sequence[str | int]
#: A geom or a body by name, or several names, each of which makes its own pairs.
Side = str | Sequence[str]
#: A contact is a bit of a code.
MOST_PAIRS = 62
#: MuJoCo's types of geoms.
PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)


def mujoco_module() -> Any:
    """The mujoco module, or an error that explains how to install it."""
    try:
        mujoco = import_module("mujoco")
    except ImportError:
        raise CaptureError('MuJoCo is not installed; install it with: pip install "capture-cp[sim]".') from None
    if tuple(int(part) for part in mujoco.__version__.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise CaptureError(
            f"MuJoCo is version {mujoco.__version__}, whose distances between geoms are wrong in some poses; "
            f'install {oldest} or later: pip install -U "mujoco>={oldest}".'
        )
    return mujoco


def read_model(source: Any) -> Any:
    """A new compiled model from an MJCF file, MJCF text, or a compiled model, which is copied."""
    mujoco = mujoco_module()
    if isinstance(source, mujoco.MjModel):
        return copy(source)
    if not isinstance(source, str | os.PathLike):
        raise CaptureError(f"the MuJoCo model is a {type(source).__name__}; expected an MJCF file, MJCF text or an MjModel.")
    try:
        if isinstance(source, str) and "<" in source:
            return mujoco.MjModel.from_xml_string(source)
        return mujoco.MjModel.from_xml_path(str(existing_file(source, "MuJoCo model")))
    except CaptureError:
        raise
    except ValueError as error:
        raise CaptureError(f"MuJoCo cannot read the model ({' '.join(str(error).split())}); repair its MJCF.") from None


def named(model: Any, kind: str) -> list[str]:
    """Names of a model's geoms, bodies, joints or actuators (`kind`, in the singular), without unnamed ones."""
    count = {
        "geom": model.ngeom,
        "body": model.nbody,
        "joint": model.njnt,
        "actuator": model.nu,
        "keyframe": model.nkey,
        "site": model.nsite,
    }
    look_up = {"joint": model.jnt, "keyframe": model.key}.get(kind) or getattr(model, kind)
    return [name for i in range(count[kind]) if (name := look_up(i).name)]


def qpos_entries(model: Any, coordinates: Coordinates | None) -> Ints:
    """Positions of the coordinates in qpos, all for None: a joint name refers to all its entries, a number to itself."""
    if coordinates is None:
        return np.arange(model.nq)
    if isinstance(coordinates, str) or not isinstance(coordinates, Iterable):
        raise CaptureError(f"coordinates are {coordinates!r}; expected a list of joint names or of positions in qpos.")
    entries: list[int] = []
    for coordinate in coordinates:
        if isinstance(coordinate, str):
            joint = model.joint(known_name("joint", coordinate, named(model, "joint")))
            entries += range(joint.qposadr[0], joint.qposadr[0] + len(joint.qpos0))
        else:
            entries.append(whole_number("position in qpos", coordinate, 0))
    if not entries or len(set(entries)) != len(entries) or max(entries) >= model.nq:
        raise CaptureError(
            f"coordinates {list(coordinates)!r} refer to entries {entries} of qpos; expected distinct entries "
            f"from 0 to {model.nq - 1}."
        )
    return np.array(entries, dtype=np.int64)


def reference_qpos(model: Any, reference: Any) -> Floats:
    """A qpos (nq,): `reference` itself, the qpos of a keyframe by name, or the model's qpos0 for None."""
    if reference is None:
        return np.array(model.qpos0)
    if isinstance(reference, str):
        return np.array(model.key(known_name("keyframe", reference, named(model, "keyframe"))).qpos)
    return finite_array("reference", reference, (model.nq,), "(nq,): a complete qpos")


# -- pairs of geoms --------------------------------------------------------------------------------------------------------


def geom_pairs(model: Any, pairs: Any) -> dict[str, list[tuple[int, int]]]:
    """Numbers of the geoms in each pair, by the pair's name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for one, other in named_pairs(pairs):
        name, geoms = f"{one}-{other}", list(product(geoms_of(model, one), geoms_of(model, other)))
        if name in found or f"{other}-{one}" in found or any(a == b for a, b in geoms):
            raise CaptureError(f"the pair {name} is listed twice, or is one geom with itself; list each contact once.")
        if any({int(model.geom_type[a]), int(model.geom_type[b])} <= {PLANE, HFIELD} for a, b in geoms):
            raise CaptureError(
                f"the pair {name} consists of planes or height fields only, whose distance MuJoCo does not measure."
            )
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
