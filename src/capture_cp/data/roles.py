"""What the columns of a log hold, recognised by their names and by their values in the first rows."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.data.source import Column, LogSource, Table, open_log

#: Rows that are looked at, pieces that they are read in at most, and numbers per row.
FIRST_ROWS, MOST_PIECES, MOST_READ = 20_000, 64, 400
#: A quaternion's length may differ by this much from 1, through rounding in a text file.
UNIT = 0.02
#: A step that is this near to a full turn (rad) passes the seam of an angle.
NEAR_TURN = 0.5

EPISODE = re.compile(
    r"(episode|toss|throw|motion|run|trial|trajectory|traj|demo|rollout|recording|sequence)(_?(index|id|number|name))?"
)
TIMES = ("timestamp", "time", "time_s", "t", "stamp")
#: Columns that count rows, and say nothing about the robot.
COUNTER = re.compile(r"(frame_|task_)?index|frame|steps?|(next\.)?(done|reward|success)s?")
MODE = re.compile(r"(.*[^a-z])?(contacts?|mode|touch(ing)?|stratum|label)([^a-z].*)?")
ANGLE = re.compile(r"(.*[^a-z])?(theta|yaw|heading|phi|psi|angle)([^a-z].*)?")
#: Words at either end of a name, by what they say of the thing in the rest of it; the first kind that is there decides.
WORDS = {
    "command": "ctrl|cmds?|commands?|controls?|targets?|actions?|act|goal|desired|setpoint|push|u",
    "torque": "torques?|efforts?|tau|currents?|load",
    "velocity": "qvel|vel|velocity|velocities|dq|qd|dot",
    "position": "qpos|pos|positions?|q|states?|observation|obs|measured",
}
_ANY = "|".join(WORDS.values())
EDGE = re.compile(rf"(?P<first>{_ANY})[._/]+(?P<rest>.+)|(?P<stem>.+?)[._/]+(?P<last>{_ANY})", re.IGNORECASE)
#: Plain names of commands and positions.
PLAIN = {
    "command": re.compile(r"(.*[^a-z])?(act|u|left|right)([^a-z].*)?|v|w|omega|speed|steering"),
    "position": re.compile(r"(.*[^a-z])?(q|x|y|z|theta|yaw|heading|phi|psi|angle)([^a-z].*)?"),
}
#: What columns x, y, z, or w, x, y, z, are, by the word before the letter.
VECTORS = {
    "quaternion": "q|quat|quaternion|orientation|rotation|rot|ori",
    "rates": "w|omega|ang|angular|ang_?vel|angular_?velocity|gyro|rates?",
    "velocity": "v|d|vel|velocity|linear|lin_?vel|linear_?velocity",
    "position": "p|pos|position|translation|",
    "other": "a|acc|acceleration|linear_?acceleration|f|force|torque|mag",
}


@dataclass(frozen=True)
class Pose:
    """A body's columns: `position` (3), `quaternion` (4) as w x y z, `velocity` and `rates` (3 each); () where missing.

    Attributes:
        ordered: whether names tell the order of the quaternion; otherwise w x y z is assumed.
        fits: the order that fits the logged rates, "wxyz" or "xyzw"; "" without rates, or where neither fits.
        frame: that of the rates, "body" or "world", by what fits; "" where unknown.
        lengths: smallest and largest length of the quaternion.
    """

    name: str
    position: tuple[str, ...]
    quaternion: tuple[str, ...]
    velocity: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    ordered: bool = True
    fits: str = ""
    frame: str = ""
    lengths: tuple[float, float] = (1.0, 1.0)


@dataclass
class Recognised:
    """The columns of a log by what they hold.

    Attributes:
        rows: values in the first rows, (n,) by column.
        joints: columns by kind, a key of `WORDS`, and joint.
        after: the column of the next configuration by that of the present one.
        vectors: the numbers of each list, and of columns name_0, name_1, ...
        why: how each column was recognised; others are missing here.
    """

    path: Path
    columns: tuple[Column, ...]
    rows: Table
    episode: str | None = None
    time: str | None = None
    poses: list[Pose] = field(default_factory=list)
    joints: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in WORDS})
    angles: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    after: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    @property
    def numbers(self) -> list[str]:
        """Names of all numbers of a row."""
        return [name for column in self.columns if column.kind == "number" for name in column.entries]

    @property
    def left(self) -> list[str]:
        """Names of the numbers that are not recognised."""
        return [name for name in self.numbers if name not in self.why]

    def take(self, names: Iterable[str], why: str) -> None:
        """Note how columns were recognised."""
        self.why |= dict.fromkeys(names, why)


def opened(path: Path) -> LogSource:
    """The log at `path`; the first column of a CSV file that holds text may name its episodes."""
    return open_log(path, _words(path))


def recognise(source: LogSource) -> Recognised:
    """What the columns of a log hold; of a log of messages, which has no rows, by names alone."""
    columns = source.columns()
    found = Recognised(source.path, columns, {})
    if not source.messages:
        found.rows |= _first_rows(source, found.numbers[:MOST_READ])
        for column in columns:
            with suppress(CaptureError):  # text that is too long names no episodes
                found.rows |= _first_rows(source, [column.name] if column.kind == "text" else [])
    _Search(found).run()
    return found


def _first_rows(source: LogSource, names: Sequence[str]) -> Table:
    pieces: list[Table] = []
    for piece in source.pieces(names) if names else ():
        pieces.append(piece)
        if len(pieces) == MOST_PIECES or sum(len(one[names[0]]) for one in pieces) >= FIRST_ROWS:
            break
    return {name: np.concatenate([piece[name] for piece in pieces])[:FIRST_ROWS] for name in names}


def meaning(name: str) -> tuple[str, str]:
    """What a name says that a column holds, a key of `WORDS` or "", and of what: `arm_qpos` is the position of `arm`."""
    kinds, thing = set[str](), name.lstrip("/")
    while match := EDGE.fullmatch(thing):
        kinds.add(_kind(match["first"] or match["last"]))
        thing = match["rest"] or match["stem"]
    kinds.add(_kind(thing))
    return next((kind for kind in WORDS if kind in kinds), ""), thing


def _kind(word: str) -> str:
    return next((kind for kind, words in WORDS.items() if re.fullmatch(words, word, re.IGNORECASE)), "")


def wraps(before: Floats, after: Floats) -> int:
    """How many steps from `before` to `after` (n,) pass the seam of an angle in radians; 0 where the values are no angle."""
    both = np.concatenate([before, after])
    inside = any(np.abs(both - middle).max(initial=0.0) < np.pi + 0.1 for middle in (0, np.pi))
    return int((np.abs(np.abs(after - before) - 2 * np.pi) < NEAR_TURN).sum()) if inside else 0


class _Search:
    """The search for what columns hold, from what names say clearly to what values suggest."""

    def __init__(self, found: Recognised) -> None:
        self.found = found
        flat: dict[str, list[str]] = {}
        for column in found.columns:
            base, _, number = column.name.rpartition("_")
            if column.kind == "number" and column.width:
                found.vectors[column.name] = column.entries
            elif column.kind == "number" and number == str(len(flat.get(base, []))):
                flat.setdefault(base, []).append(column.name)
        found.vectors.update((base, tuple(names)) for base, names in flat.items() if len(names) > 1)
        self.listed = {name for names in found.vectors.values() for name in names}

    def run(self) -> None:
        """Fill in what is found."""
        self._episode()
        rows = self.found.rows.get(self.found.episode or "")
        n = len(next(iter(self.found.rows.values()), ()))
        self.inside = np.ones(max(n - 1, 0), dtype=bool) if rows is None else rows[1:] == rows[:-1]
        self._time()
        for name in self.found.left:
            partner = next((one for one in (f"next_{name}", f"{name}_next") if one in self.found.left), None)
            if partner is not None:
                self.found.after[name] = partner
                self.found.take([partner], "by name")
        self._poses()
        self._joints()
        self._angles()

    def _episode(self) -> None:
        found = self.found
        text = [column.name for column in found.columns if column.kind == "text"]
        able = [*text, *(name for name in found.left if name not in self.listed and self._whole(name))]
        named = [name for name in able if EPISODE.fullmatch(name.lower())]
        runs = [name for name in able if name != "file" and name in found.rows and self._in_runs(name)]
        found.episode = next(iter(named or runs), "file" if "file" in text else None)
        if found.episode is not None:
            found.take([found.episode], "constant over runs of rows" if found.episode in runs and not named else "by name")

    def _in_runs(self, name: str) -> bool:
        """Whether each value fills one run of rows, and there are several."""
        values = self.found.rows[name]
        begins = int((values[1:] != values[:-1]).sum())
        return 0 < begins <= len(values) / 3 and len(np.unique(values)) == begins + 1

    def _time(self) -> None:
        found, free = self.found, [name for name in self.found.left if name not in self.listed]
        named = [name for word in TIMES for name in free if name.lower() == word]
        steps = {name: np.diff(self._of([name])[:, 0])[self.inside] for name in free if name in found.rows}
        steps = {name: step for name, step in steps.items() if len(step) >= 5 and step.min() > 0}
        odd = [name for name in steps if not self._whole(name) and not meaning(name)[0]]
        even = [name for name in odd if steps[name].std() < steps[name].mean() / 2]
        found.time = next(iter(named or even), None)
        for name in free:
            if name == found.time:
                found.take([name], "by name" if named else "grows within episodes")
            elif COUNTER.fullmatch(name.lower()):
                found.take([name], "by name")
            elif name in steps and (steps[name] == 1).all():
                found.take([name], "counts rows")
            elif MODE.fullmatch(name.lower()) and self._whole(name):
                found.modes.append(name)
                found.take([name], "by name")

    # -- poses ------------------------------------------------------------------------------------------------------------

    def _poses(self) -> None:
        triples, quaternions = self._vectors()
        every = [*((one, ()) for one in quaternions), *self._windows()]
        for (prefix, four, ordered), three in every:
            parts: dict[str, tuple[str, ...]] = {"position": three}
            for kind in ("position", "velocity", "rates"):
                kin = {where: names for (what, where), names in triples.items() if what == kind}
                alone = next(iter(kin.values())) if len(kin) == len(every) == 1 else ()
                parts[kind] = parts.get(kind) or kin.get(prefix, alone)
            pose = Pose(prefix, parts["position"], four, parts["velocity"], parts["rates"], ordered)
            self.found.poses.append(self._checked(pose))
            self.found.take([*pose.position, *pose.velocity, *pose.rates], "by name, beside a quaternion")
            self.found.take(four, "unit norm, by name" if ordered else "unit norm, order w x y z assumed")

    def _vectors(self) -> tuple[dict[tuple[str, str], tuple[str, ...]], list[tuple[str, tuple[str, ...], bool]]]:
        """Columns of three by kind and prefix; prefix, columns and whether names tell their order of quaternions."""
        triples, quaternions = dict[tuple[str, str], tuple[str, ...]](), []
        for stem in dict.fromkeys(name[:-1] for name in self.found.left if name[-1:] in "wxyz"):
            (kind, prefix), four = _vector(stem), tuple(f"{stem}{letter}" for letter in "wxyz")
            there = set(four) & set(self.found.left)
            if len(there) == 4 and (kind == "quaternion" or self._unit(four)):
                quaternions.append((prefix, four, True))
            elif there >= set(four[1:]):
                triples[kind, prefix] = four[1:]
        for base, names in self.found.vectors.items():
            kind, prefix = _vector(base)
            if len(names) == 3:
                triples[kind, prefix] = names
            elif len(names) == 13:  # a pose, and how it moves
                triples["velocity", base], triples["rates", base] = names[7:10], names[10:]
            elif len(names) == 4 and self._unit(names):
                quaternions.append((prefix if kind == "quaternion" else base, names, False))
        return triples, quaternions

    def _windows(self) -> list[tuple[tuple[str, tuple[str, ...], bool], tuple[str, ...]]]:
        """Poses within longer lists: four numbers of unit length after three, or before them."""
        found = []
        for base, names in self.found.vectors.items():
            i = 0
            while i + 7 <= len(names):
                after, before = self._unit(names[i + 3 : i + 7]), self._unit(names[i : i + 4])
                if after:
                    found.append(((base, names[i + 3 : i + 7], False), names[i : i + 3]))
                elif before:
                    found.append(((base, names[i : i + 4], False), names[i + 4 : i + 7]))
                i += 7 if after or before else 1
        return found

    def _unit(self, names: Sequence[str]) -> bool:
        """Whether four columns are a unit quaternion that turns."""
        if not set(names) <= set(self.found.left) & set(self.found.rows):
            return False
        four = self._of(names)
        near = np.abs(np.linalg.norm(four, axis=1) - 1) < UNIT
        return bool(near.all() and (np.ptp(four, axis=0) > 0).sum() > 1 and (four != np.rint(four)).any())

    def _checked(self, pose: Pose) -> Pose:
        """A pose with what its values say: lengths, and the order and frame that fit its rates."""
        if not {*pose.quaternion, *pose.rates} <= set(self.found.rows):
            return pose
        four = self._of(pose.quaternion)
        lengths = np.linalg.norm(four, axis=1)
        pose = replace(pose, lengths=(float(lengths.min()), float(lengths.max())))
        if not pose.rates:
            return pose
        rates = self._of(pose.rates)[1:][self.inside]
        alike = {
            (order, frame): _alike(turns[self.inside], rates)
            for order, turned in (("wxyz", four), ("xyzw", four[:, [3, 0, 1, 2]]))
            for frame, turns in zip(("body", "world"), _turns(turned))
        }
        order, frame = max(alike, key=lambda key: alike[key])
        return replace(pose, fits=order, frame=frame) if alike[order, frame] > 0.5 else pose

    # -- joints -----------------------------------------------------------------------------------------------------------

    def _joints(self) -> None:
        hosts = {len(names): base for base, names in self.found.vectors.items() if meaning(base)[0] == "position"}
        for base, names in self.found.vectors.items():
            kind, host = meaning(base)[0], hosts.get(len(names), base)
            for i, name in enumerate(names):
                self._joint(kind, f"{host}_{i}", name)
        for name in self.found.left:
            self._joint(*meaning(name), name)
        for name in self.found.left:  # rates that are called after their joint: vhinge, dhinge
            if name[:1] in "vd" and name[1:] in {*self.found.left, *self.found.joints["position"]}:
                self._joint("velocity", name[1:], name)
        for name in self.found.left:
            kinds = [kind for kind, pattern in PLAIN.items() if pattern.fullmatch(name.lower())]
            partner = any(name in self.found.joints[kind] for kind in ("velocity", "command", "torque"))
            self._joint("position" if partner else next(iter(kinds), ""), name, name)

    def _joint(self, kind: str, joint: str, name: str) -> None:
        if kind and name not in self.found.why and joint not in self.found.joints[kind]:
            self.found.joints[kind][joint] = name
            self.found.take([name], "by name")

    def _angles(self) -> None:
        for name in (*self.found.joints["position"].values(), *self.found.left):
            values = self._of([name])[:, 0]
            if len(values) and wraps(values[:-1][self.inside], values[1:][self.inside]):
                self.found.angles.append(name)
                self.found.take([name], "wraps at a full turn")
            elif ANGLE.fullmatch(name.lower()) and np.abs(values).max(initial=0.0) < 2 * np.pi + 0.1:
                self.found.angles.append(name)

    # -- values -----------------------------------------------------------------------------------------------------------

    def _of(self, names: Sequence[str]) -> Floats:
        """Columns (n, k) of the first rows, 0 where a number is missing; no rows of columns that are not read."""
        rows = self.found.rows
        if not set(names) <= set(rows):
            return np.empty((0, len(names)))
        return np.nan_to_num(np.stack([rows[name].astype(np.float64) for name in names], axis=1), posinf=0.0, neginf=0.0)

    def _whole(self, name: str) -> bool:
        """Whether a column holds whole numbers, as far as it is read."""
        values = self._of([name])
        return bool((values == np.rint(values)).all())


def _vector(stem: str) -> tuple[str, str]:
    """What the columns stem + x, y, z are, a key of `VECTORS`, and the name of the body before that."""
    bare = stem.rstrip("._/")
    for kind, words in VECTORS.items():
        found = re.fullmatch(rf"(?P<body>(?:.*[^A-Za-z0-9])?)(?:{words})", bare, re.IGNORECASE)
        if found:
            return kind, found["body"].rstrip("._/")
    return "position", bare


def _turns(four: Floats) -> tuple[Floats, Floats]:
    """Turns from row to row of quaternions w x y z (n, 4), about the body's axes and the world's: (n - 1, 3) each."""
    w, v, w1, v1 = four[:-1, :1], four[:-1, 1:], four[1:, :1], four[1:, 1:]
    sign = np.sign((four[:-1] * four[1:]).sum(axis=1, keepdims=True))
    turn, across = w * v1 - w1 * v, np.cross(v, v1)
    return sign * (turn - across), sign * (turn + across)


def _alike(a: Floats, b: Floats) -> float:
    """Cosine of the angle between two lists of vectors (n, 3), whatever their units."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float((a * b).sum()) / size if size else 0.0


def _words(path: Path) -> str | None:
    """The first column of a CSV file that holds text in its first row, if any."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return None
    try:
        with path.open(newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text)
            names, row = next(lines, []), next(lines, [])
    except (UnicodeDecodeError, csv.Error):
        return None
    for name, value in zip(names, row):
        try:
            float(value)
        except ValueError:
            return name.strip()
    return None
