"""What the page shows besides tables: curves, the object measured and predicted, and what was assumed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.conformal.hierarchical import episode_quantiles
from capture_cp.gap.errors import SURFACE
from capture_cp.gap.measure import Errors
from capture_cp.models.simulators import Start
from capture_cp.report.solids import body_shapes
from capture_cp.spaces.modes import body_name
from capture_cp.spaces.rigid import frames

if TYPE_CHECKING:
    from capture_cp.gap.result import Gap

ALPHAS = tuple(round(0.05 * i, 2) for i in range(1, 20))
PICTURED = 10  # steps ahead that pictures show, or the nearest number that tables show
FRAMES = 6  # of a strip


def page_of(gap: Gap) -> dict[str, Any]:
    """The part of the document that only the page needs."""
    part, stated = gap.parts[0], gap.stated
    step = min(stated.steps, key=lambda one: abs(one - PICTURED))
    simulator = next(iter(part.errors))
    return {
        "headline": headline(gap, step),
        "first_line": gap.config.get("first_line"),
        "log": {
            "name": str(gap.config.get("log", "the log")),
            "episodes": len(np.unique(part.log.episode)),
            "rows": len(part.log),
            "period": part.log.period,
        },
        "tolerance": dict(stated.tolerance) or None,
        "simulators": [{"name": one.name, "kind": one.kind, "note": one.note} for p in gap.parts for one in p.simulators],
        "modes": [_mode(part, m, name) for m, name in enumerate(part.modes)],
        "quantities": [{"name": one.name, "unit": one.unit} for one in part.quantities],
        "curves": [curve for one in part.errors for curve in _curves(gap, part, one)],
        "alphas": [curve for one in part.errors for curve in _alphas(part, one, step)],
        "bodies": [] if part.model is None else body_shapes(part.model),
        "ground": _ground(part.model),
        "cases": [case for one in _files(part) for case in _cases(part, one, step, stated.alpha)],
        "strip": _strip(part, simulator, step),
        "drift": [
            f"{one['simulator']}, {one['mode']}: the median error after {one['steps']} steps is {one['early']:.3g} in the "
            f"first half of the episodes and {one['late']:.3g} in the second (p = {one['p']:.2g}). The log is not one: what "
            "is said below holds for episodes like a mixture of both."
            for one in gap.drifts
        ],
        "notes": [*part.log.notes, *(note for one in gap.parts for note in one.diverged())],
        "assumed": assumed(gap),
        "columns": [list(row) for row in part.log.columns.table()],
        "commands": [str(gap.config["command"])] if gap.config.get("command") else [],
    }


def headline(gap: Gap, step: int) -> str:
    """One sentence: how far the first simulator is off."""
    part = gap.parts[0]
    name, primary = next(iter(part.errors)), part.primary
    own = [row for row in gap.rows if (row["simulator"], row["steps"], row["mode_at"]) == (name, step, "end")]
    shown = [row for row in own if row["quantity"] == primary] or own
    known = {row["mode"]: row for row in shown if row["bound"] is not None}
    if not known:
        return f"The log has too few episodes to bound the errors of {name}."
    level = f"{100 * (1 - gap.stated.alpha):g}%"
    each = ", ".join(f"{row['bound']:.3g} {row['unit']} ({mode})" for mode, row in known.items())
    what = shown[0]["quantity"].replace(".", " ")
    return f"After {step} steps ({step * part.log.period:.2g} s), {level} of errors of {name} at {what} are at most {each}."


def assumed(gap: Gap) -> list[str]:
    """What the statements take for granted."""
    part = gap.parts[0]
    files = [one.name for one in part.simulators if one.kind == "model file"]
    left_out = gap.config.get("without")
    found = [
        "Episodes are independent and alike: drawn in the same way as the next one.",
        f"{left_out} episodes on which a simulator was fitted are left out."
        if left_out
        else "No simulator was fitted on the episodes of this log; if one was, leave these out with --without.",
    ]
    if len(part.modes) > 1 and files:
        model = Path(str(gap.config.get("modes_from") or files[0])).name
        found.append(f"Contact modes are those of {model} at the measured states.")
    return found


def _files(part: Errors) -> list[str]:
    """The simulators that pictures show: the first two that are not rules."""
    return [one.name for one in part.simulators if one.kind != "rule"][:2] or list(part.errors)[:1]


def _mode(part: Errors, m: int, name: str) -> dict[str, Any]:
    rows = np.flatnonzero(part.mode == m)
    return {"name": name, "episodes": len(np.unique(part.log.episode[rows])), "rows": len(rows)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _curves(gap: Gap, part: Errors, name: str) -> list[dict[str, Any]]:
    """Bound and median error against the number of steps, of every mode and quantity."""
    found, alphas = [], [gap.stated.alpha, 0.5]
    for m, mode in enumerate(part.modes):
        cells: dict[str, list[Floats]] = {one.name: [] for one in part.quantities}
        steps = []
        for s, step in enumerate(part.steps):
            rows = part.rows_in(step, "end", m)
            rows = rows[~np.isnan(part.errors[name][rows, s]).any(axis=1)]
            if len(rows):
                steps.append(step)
                episodes = part.log.episode[part.starts[rows]]
                for q, quantity in enumerate(part.quantities):
                    cells[quantity.name].append(episode_quantiles(part.errors[name][rows, s, q], episodes, alphas))
        for quantity in part.quantities if steps else ():
            bounds, medians = ([_number(float(one[i])) for one in cells[quantity.name]] for i in (0, 1))
            more = {"steps": steps, "bound": bounds, "median": medians}
            found.append({"simulator": name, "mode": mode, "quantity": quantity.name, **more})
    return found


def _alphas(part: Errors, name: str, step: int) -> list[dict[str, Any]]:
    """The bound of the primary quantity after so many steps, at many levels."""
    found, errors = [], part.main(name)[:, part.steps.index(step)]
    for m, mode in enumerate(part.modes):
        rows = part.rows_in(step, "end", m)
        rows = rows[~np.isnan(errors[rows])]
        if len(rows):
            bounds = episode_quantiles(errors[rows], part.log.episode[part.starts[rows]], ALPHAS)
            more = {"steps": step, "alpha": list(ALPHAS), "bound": [_number(float(one)) for one in bounds]}
            found.append({"simulator": name, "mode": mode, "quantity": part.primary, **more})
    return found


# -- pictures -------------------------------------------------------------------------------------------------------------


def _ground(model: Any) -> float | None:
    """The height of a horizontal plane that is fixed to the world."""
    if model is None:
        return None
    planes = [g for g in range(model.ngeom) if model.geom_type[g] == 0 and model.geom_bodyid[g] == 0]
    level = [g for g in planes if abs(model.geom_quat[g, 0]) > 0.999]
    return float(model.geom_pos[level[0], 2]) if level else None


def _poses(part: Errors, qpos: Floats) -> dict[str, list[float]]:
    """Position and quaternion of every body at one configuration (nq,)."""
    found = frames(part.model, qpos[None], range(1, part.model.nbody))
    return {
        body_name(part.model, body): np.round(np.concatenate([pos[0], quat[0]]), 5).tolist()
        for body, (pos, quat) in found.items()
        if body
    }


def _cases(part: Errors, name: str, step: int, alpha: float) -> list[dict[str, Any]]:
    """The median, the bound and the worst case of each mode: rows whose errors are nearest to these."""
    if part.model is None:
        return []
    quantity = next((one.name for one in part.quantities if one.name.endswith(SURFACE)), part.primary)
    names = [one.name for one in part.quantities]
    s = part.steps.index(step)
    errors = part.errors[name][:, s, names.index(quantity)] if quantity in names else part.main(name)[:, s]
    found = []
    for m, mode in enumerate(part.modes):
        rows = part.rows_in(step, "end", m)
        rows = rows[np.isfinite(errors[rows])]
        if not len(rows):
            continue
        goals = episode_quantiles(errors[rows], part.log.episode[part.starts[rows]], [0.5, alpha])
        for which, goal in zip(("median", "bound", "worst"), (*goals, np.inf)):
            goal = errors[rows].max() if np.isinf(goal) else goal
            chosen = int(rows[np.argmin(np.abs(errors[rows] - goal))])
            found.append(
                {
                    "simulator": name,
                    "mode": mode,
                    "quantity": quantity,
                    "which": which,
                    "error": float(errors[chosen]),
                    **_pictured(part, name, chosen, step),
                }
            )
    return found


def _pictured(part: Errors, name: str, chosen: int, step: int) -> dict[str, Any]:
    """One prediction: episode, row, and the bodies at the start, as measured and as predicted."""
    row = int(part.starts[chosen])
    outcome = part.log.qpos[row + step]
    return {
        "episode": part.log.names[part.log.episode[row]],
        "row": row,
        "steps": step,
        "start": _poses(part, part.log.start[row]),
        "measured": _poses(part, outcome),
        "predicted": _poses(part, _predicted(part, name, row, (step,))[0]),
        "contacts": [] if part.points is None else np.round(part.points(outcome), 5).tolist(),
    }


def _predicted(part: Errors, name: str, row: int, steps: tuple[int, ...]) -> Floats:
    """Configurations (S, nq) predicted from one row."""
    simulator = next(one for one in part.simulators if one.name == name)
    start = Start.of(part.log, np.array([row]), steps)
    return np.asarray(simulator.predict(start, np.random.default_rng(0))[0])


def _strip(part: Errors, name: str, step: int) -> dict[str, Any] | None:
    """The prediction of the episode with the largest mean error, from its worst start, in a few frames."""
    if part.model is None:
        return None
    errors = part.main(name)[:, part.steps.index(step)]
    known = np.flatnonzero(np.isfinite(errors))
    if not len(known):
        return None
    episodes = part.log.episode[part.starts[known]]
    mean = np.bincount(episodes, errors[known]) / np.maximum(np.bincount(episodes), 1)
    here = known[episodes == int(np.argmax(mean))]
    row = int(part.starts[here[np.argmax(errors[here])]])
    shown = tuple(np.unique(np.linspace(1, step, min(FRAMES, step)).astype(int)).tolist())
    predicted = _predicted(part, name, row, shown)
    measured = [_poses(part, part.log.qpos[row + one]) for one in shown]
    frames_ = [
        {"step": one, "measured": before, "predicted": _poses(part, after)}
        for one, before, after in zip(shown, measured, predicted)
    ]
    episode = part.log.names[part.log.episode[row]]
    return {"simulator": name, "episode": episode, "steps": step, "frames": frames_}
