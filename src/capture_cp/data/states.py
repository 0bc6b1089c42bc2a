"""A log as states of a model: positions, rates and commands of every row, and which rows lie h steps apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.data.logged import not_finite, runs_of
from capture_cp.data.recognise import PARTS, Joint, StateColumns
from capture_cp.data.source import LogSource
from capture_cp.data.transitions import check_order
from capture_cp.spaces.rigid import conjugate, from_vector, multiplied, rotated, to_vector

#: Numbers of qpos and of qvel that a joint has, by its kind.
WIDTHS = {kind: tuple(sum(width for _, width, _ in half) for half in halves) for kind, halves in PARTS.items()}
#: What a unit is worth in m and rad.
UNITS = {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "rad": 1.0, "mrad": 1e-3, "deg": np.pi / 180}
GAP = 1.5  # times the usual time between rows from which rows are missing
FITTED = 5  # rows up to the start that a start state is fitted to
FAR, WIDE = 30.0, 4 * np.pi  # m and rad that no robot in a room reaches: other units


@dataclass(frozen=True)
class Slot:
    """A joint and where its numbers are in qpos and qvel."""

    joint: Joint
    q: slice
    v: slice


def slots(joints: Collection[Joint]) -> list[Slot]:
    """The joints with their places in qpos and qvel, in order."""
    found, q, v = [], 0, 0
    for joint in joints:
        nq, nv = WIDTHS[joint.kind]
        found.append(Slot(joint, slice(q, q + nq), slice(v, v + nv)))
        q, v = q + nq, v + nv
    return found


@dataclass(frozen=True)
class StateLog:
    """The rows of a log, in m, rad and s.

    Attributes:
        columns: where they come from.
        qpos, qvel, ctrl: positions (n, nq), rates (n, nv) as MuJoCo has them, and commands (n, nu).
        start: positions that predictions start from, (n, nq): those measured, or fitted ones.
        time: (n,).
        episode: number of the episode of each row, in the order of the log: (n,).
        names: of the episodes.
        after, before: how many rows follow and precede each row without a gap, (n,) each.
        period: usual time between rows.
        notes: what was done to the numbers, a sentence each.
    """

    columns: StateColumns
    qpos: Floats
    qvel: Floats
    ctrl: Floats
    start: Floats
    time: Floats
    episode: Ints
    names: tuple[str, ...]
    after: Ints
    before: Ints
    period: float
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.qpos)

    @classmethod
    def read(
        cls,
        source: LogSource,
        columns: StateColumns,
        units: Mapping[str, str] | None = None,
        fit_start: bool = False,
        without: Collection[str] = (),
    ) -> StateLog:
        """The log in `source`; `without` names episodes to leave out, and `units` the units of joints that differ."""
        given = [name for name in (*columns.qpos, *columns.qvel, *columns.ctrl, columns.time) if name]
        table = _table(source, dict.fromkeys(given))
        episode, names = _episodes(source, columns)
        if columns.time is None:
            raise CaptureError("the log has no column of times; name it with --time: simulators need the time between rows.")
        check_order([(table[columns.time], episode)], columns.time)
        unknown = sorted(set(without) - set(names))
        if unknown:
            raise CaptureError(f"episode {unknown[0]!r} is to be left out, but the log has none of that name.")
        if len(set(without)) == len(names):
            raise CaptureError("all episodes of the log are left out, so there is nothing to measure on.")
        kept = np.flatnonzero(~np.isin(np.array(names)[episode], list(without)))
        table[""] = np.full(len(episode), np.nan)  # of what the log does not have
        qpos, qvel, ctrl = (
            np.array([table[name][kept] for name in part]).reshape(len(part), len(kept)).T.copy()
            for part in (columns.qpos, columns.qvel, columns.ctrl)
        )
        _rescale(columns, units or {}, qpos, qvel, ctrl)
        time, episode = table[columns.time][kept], episode[kept]
        before, after, period, notes = _reach(time, episode)
        log = cls(columns, qpos, qvel, ctrl, qpos, time, episode, names, after, before, period, tuple(notes))
        return log._with_rates(fit_start)

    def starts(self, every: int = 1) -> Ints:
        """The rows that a prediction can start from, each `every`-th: those with rates and a row after them."""
        _, first, rank = np.unique(self.episode, return_index=True, return_inverse=True)
        chosen = (np.arange(len(self)) - first[rank]) % every == 0
        return np.flatnonzero((self.after > 0) & chosen & np.isfinite(self.qvel).all(axis=1))

    def _with_rates(self, fit_start: bool) -> StateLog:
        """Quaternions of length 1; rates in the frames that MuJoCo has them in, estimated where the log has none."""
        qpos, qvel, notes = self.qpos.copy(), self.qvel.copy(), list(self.notes)
        steps = differences(self, qpos, 1)
        for slot in slots(self.columns.joints):
            _normalise(slot, qpos, self.columns)
            missing = np.isnan(qvel[:, slot.v]).all(axis=0)
            if missing.any():
                qvel[:, slot.v] = np.where(missing, steps[:, slot.v], qvel[:, slot.v])
                notes.append(f"rates of {slot.joint.name} are differences between a row and the one before it.")
            elif slot.joint.name in self.columns.world:
                turns = qvel[:, slot.v.stop - 3 : slot.v.stop]
                turns[:] = rotated(conjugate(qpos[:, slot.q][:, -4:]), turns)
                notes.append(
                    f"rates of rotation of {slot.joint.name} are in the world's frame: they fit its quaternions so."
                )
        log = replace(self, qpos=qpos, start=qpos, qvel=qvel, notes=tuple(notes))
        return _fitted(log) if fit_start else log


def differences(log: StateLog, qpos: Floats, back: int) -> Floats:
    """Mean rates (n, nv) over the `back` rows up to each row; NaN where there are fewer before it."""
    rows = np.flatnonzero(log.before >= back)
    found = np.full((len(qpos), sum(WIDTHS[joint.kind][1] for joint in log.columns.joints)), np.nan)
    found[rows] = change(log.columns.joints, qpos[rows - back], qpos[rows]) / (back * log.period)
    return found


def change(joints: Collection[Joint], one: Floats, other: Floats) -> Floats:
    """How configurations `one` (n, nq) became `other`: (n, nv), rotation vectors in the body's frame."""
    parts = []
    for slot in slots(joints):
        a, b = one[:, slot.q], other[:, slot.q]
        if slot.joint.kind in ("free", "ball"):
            turn = to_vector(multiplied(conjugate(a[:, -4:]), b[:, -4:]))
            parts.append(np.hstack([b[:, :-4] - a[:, :-4], turn]))
        elif slot.joint.kind == "hinge":
            parts.append((b - a + np.pi) % (2 * np.pi) - np.pi)
        else:
            parts.append(b - a)
    return np.hstack(parts) if parts else np.empty((len(one), 0))


def changed(joints: Collection[Joint], qpos: Floats, by: Floats) -> Floats:
    """Configurations qpos (n, nq) changed by (n, nv), the inverse of `change`."""
    found = qpos.copy()
    for slot in slots(joints):
        step = by[:, slot.v]
        if slot.joint.kind in ("free", "ball"):
            found[:, slot.q.stop - 4 : slot.q.stop] = multiplied(qpos[:, slot.q][:, -4:], from_vector(step[:, -3:]))
            found[:, slot.q.start : slot.q.stop - 4] += step[:, :-3]
        else:
            found[:, slot.q] += step
    return found


def _table(source: LogSource, names: Collection[str]) -> dict[str, Floats]:
    pieces = list(source.pieces(list(names)))
    table = {name: np.concatenate([piece[name] for piece in pieces]).astype(np.float64) for name in names}
    for name, values in table.items():
        if not np.isfinite(values).all():
            raise not_finite(source, name)
    source.release()
    return table


def _episodes(source: LogSource, columns: StateColumns) -> tuple[Ints, tuple[str, ...]]:
    """The episode of each row, numbered in the order of the log, and their names."""
    if columns.episode is None:
        parts = source.parts()
        if len(parts) < 2:
            raise CaptureError(
                f"{source.path} has no column that names the episode of each row, such as episode, toss or motion; name it "
                "with --episode, or pass a folder with one file per episode. Without episodes, rows that follow each other "
                "would count as independent."
            )
        lengths = np.diff([*parts.tolist(), source.rows])
        return np.repeat(np.arange(len(parts)), lengths), tuple(f"recording {i + 1}" for i in range(len(parts)))
    runs = runs_of(source, columns.episode)
    runs.check_together(source, columns.episode)
    number = np.repeat(np.arange(len(runs.numbers)), np.diff(runs.starts))
    return number, tuple(str(runs.labels[i]) for i in runs.numbers)


def _reach(time: Floats, episode: Ints) -> tuple[Ints, Ints, float, list[str]]:
    """How many rows precede and follow each row without a gap, the usual time between rows, and notes."""
    steps, same = np.diff(time), np.diff(episode) == 0
    if not same.any():
        raise CaptureError("no episode of the log has two rows, so there is nothing to predict.")
    period = float(np.median(steps[same]))
    if period <= 0:
        raise CaptureError(
            "most rows of the log have the time of the row before them; name the column of times with --time."
        )
    gaps = same & (steps > GAP * period)
    first = np.concatenate([[0], np.flatnonzero(~same | gaps) + 1, [len(time)]])
    lengths = np.diff(first)
    before = np.arange(len(time)) - np.repeat(first[:-1], lengths)
    count = int(gaps.sum())
    lost = f"rows are missing at {count} places; no prediction goes across them." if count else ""
    return before, np.repeat(lengths, lengths) - 1 - before, period, [lost] if lost else []


def _rescale(columns: StateColumns, units: Mapping[str, str], qpos: Floats, qvel: Floats, ctrl: Floats) -> None:
    """Convert to m and rad in place; refuse numbers that look like other units."""
    by_name = {slot.joint.name: slot for slot in slots(columns.joints)}
    for name, unit in units.items():
        if name not in by_name or unit not in UNITS:
            raise CaptureError(
                f"--units {name}={unit} is not understood; expected JOINT=UNIT with one of the joints "
                f"{', '.join(by_name)} and one of the units {', '.join(UNITS)}."
            )
        slot, scale = by_name[name], UNITS[unit]
        qpos[:, slot.q][:, :3] *= scale  # of a free joint the position alone
        qvel[:, slot.v][:, :3] *= scale
        moved = [i for i, actuator in enumerate(columns.actuators) if actuator == name]
        ctrl[:, moved] *= scale
    for slot in by_name.values():
        values, angle = np.abs(qpos[:, slot.q][:, :3]), slot.joint.kind == "hinge"
        most = float(np.median(values, axis=0).max()) if slot.joint.kind != "ball" else 0.0
        if most > (WIDE if angle else FAR) and slot.joint.name not in units:
            likely, unit, other = ("degrees", "rad", "deg") if angle else ("millimetres", "m", "mm")
            name = slot.joint.name
            raise CaptureError(
                f"{name} has values such as {most:.4g} {unit}, which look like {likely}; give --units {name}={other}, or "
                f"--units {name}={unit} if they are right."
            )


def _normalise(slot: Slot, qpos: Floats, columns: StateColumns) -> None:
    """Give quaternions the length 1, in place."""
    if slot.joint.kind not in ("free", "ball"):
        return
    q = qpos[:, slot.q][:, -4:]
    length = np.linalg.norm(q, axis=1, keepdims=True)
    if (np.abs(length - 1) > 0.02).any():
        row, names = int(np.argmax(np.abs(length - 1))), columns.qpos[slot.q][-4:]
        raise CaptureError(
            f"{', '.join(names)} in data row {row + 1} have length {length[row, 0]:.4g}; expected a unit quaternion. If the "
            "columns are another rotation, convert it; if they are out of order, name them with --column."
        )
    q /= length


def _fitted(log: StateLog) -> StateLog:
    """Start states fitted to the rows up to each row: a line through each number, evaluated at its end."""
    rows = np.flatnonzero(log.before >= FITTED - 1)
    ago = np.arange(FITTED - 1, -1, -1)
    t = -ago * log.period
    past = np.stack([change(log.columns.joints, log.qpos[rows], log.qpos[rows - back]) for back in ago], axis=1)
    weights = np.linalg.lstsq(np.stack([np.ones(FITTED), t], axis=1), np.eye(FITTED), rcond=None)[0]  # (2, FITTED)
    offset, slope = (np.einsum("r,nrv->nv", weight, past) for weight in weights)
    start, qvel = log.qpos.copy(), np.full_like(log.qvel, np.nan)
    start[rows], qvel[rows] = changed(log.columns.joints, log.qpos[rows], offset), slope
    note = f"start states are lines fitted to the {FITTED} rows up to the start; earlier rows of an episode start nothing."
    return replace(log, start=start, qvel=qvel, notes=(*log.notes, note))
