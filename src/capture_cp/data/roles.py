"""What the columns of a log hold, recognised by their names and by their values in the first rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.data.source import Column, LogSource, Table
from capture_cp.spaces.rigid import conjugate, multiplied, to_vector

#: Rows that are looked at, and numbers per row.
FIRST_ROWS, MOST_READ = 20_000, 400
LONGEST_NAME = 200  # of a column; the search for words in a name takes the square of its length
#: A quaternion's length may differ by this much from 1, through rounding in a text file.
UNIT = 0.02
#: A step that is this near to a full turn (rad) passes the seam of an angle.
NEAR_TURN = 0.5
#: Words at either end of a name, by what they say of the thing in the rest of it; the first kind that is there decides.
WORDS = {
    "command": "ctrl|cmds?|commands?|controls?|targets?|actions?|act|goal|desired|setpoint|push|u",
    "torque": "torques?|efforts?|tau|currents?|load",
    "velocity": "qvel|vel|velocity|velocities|dq|qd|dot",
    "position": "qpos|pos|positions?|q|states?|observation|obs|measured",
}
_ANY, _TURN = "|".join(WORDS.values()), "theta|yaw|heading|phi|psi|angle"
EDGE = re.compile(rf"(?P<first>{_ANY})[._/]+(?P<rest>.+)|(?P<stem>.+?)[._/]+(?P<last>{_ANY})", re.IGNORECASE)


def _within(words: str) -> str:
    """A pattern of names that contain one of some words."""
    return rf"(.*[^a-z])?({words})([^a-z].*)?"


#: Patterns of whole names, in lower case, by what they say.
NAMES = {
    "episode": "(episode|toss|throw|motion|run|trial|trajectory|traj|demo|rollout|recording|sequence)"
    "(_?(index|id|number|name))?",
    "time": "timestamp|time|time_s|t|stamp",
    "counter": r"(frame_|task_)?index|frame|steps?|(next\.)?(done|reward|success)s?",
    "contact mode": _within("contacts?|mode|touch(ing)?|stratum|label"),
    "angle": _within(_TURN),
    "command": _within("act|u|left|right") + "|v|w|omega|speed|steering",
    "position": _within(f"q|x|y|z|{_TURN}"),
    "topic of commands": ".*(cmd|command|action|control|target|desired|setpoint).*",
}
#: What columns x, y, z, or w, x, y, z, are, by the word before the letter.
VECTORS = {
    "quaternion": "q|quat|quaternion|orientation|rotation|rot|ori",
    "rates": "w|omega|ang|angular|ang_?vel|angular_?velocity|gyro|rates?",
    "velocity": "v|d|vel|velocity|linear|lin_?vel|linear_?velocity",
    "position": "p|pos|position|translation|",
    "other": "a|acc|acceleration|linear_?acceleration|f|force|torque|mag",
}
Vectors = dict[tuple[str, str], Sequence[str]]  # three columns by kind and body
Fours = list[tuple[str, Sequence[str], bool]]  # body, quaternion, and whether the order is known


@dataclass(frozen=True)
class Pose:
    """A body's columns: `position`, `velocity` and `rates` (3 each, () where missing), and `quaternion` (4) as w x y z.

    Attributes:
        ordered: whether names tell the order of the quaternion; otherwise w x y z is assumed.
        length: of the quaternion in the row where it is farthest from 1.
        fits: the order that fits the logged rates, "wxyz" or "xyzw"; "" without rates, or where neither fits.
        frame: that of the rates, "body" or "world", by what fits; "" where unknown.
    """

    name: str
    position: Sequence[str]
    velocity: Sequence[str]
    rates: Sequence[str]
    quaternion: Sequence[str]
    ordered: bool
    length: float
    fits: str
    frame: str


@dataclass
class Recognised:
    """The columns of a log by what they hold.

    Attributes:
        rows: values in the first rows, (n,) by column.
        joints: columns by kind, a key of `WORDS`, and joint.
        angles: columns that wrap at a full turn, or are called like angles.
        after: the column of the next configuration by that of the present one.
        vectors: the numbers of each list, and of columns name_0, name_1, ...
        roles: what each column holds, in a word or two; those that are not recognised are missing here.
        why: how it was recognised.
    """

    path: Path
    columns: tuple[Column, ...]
    rows: Table = field(default_factory=dict)
    episode: str | None = None
    time: str | None = None
    poses: list[Pose] = field(default_factory=list)
    joints: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in WORDS})
    angles: list[str] = field(default_factory=list)
    after: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, list[str]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)

    @property
    def numbers(self) -> list[str]:
        """Names of the numbers of a row."""
        able = [column for column in self.columns if column.kind == "number" and len(column.name) <= LONGEST_NAME]
        return [name for column in able for name in column.entries]

    @property
    def left(self) -> list[str]:
        """Names of the numbers that are not recognised."""
        return [name for name in self.numbers if name not in self.roles]

    def take(self, names: Iterable[str], role: str, why: str = "by name") -> None:
        """Note what columns hold, and how that was recognised."""
        for name in names:
            self.roles[name], self.why[name] = role, why


def recognise(source: LogSource) -> Recognised:
    """What the columns of a log hold; of a log of messages, which has no rows, by names alone."""
    found = Recognised(source.path, source.columns())
    if not source.messages:
        found.rows |= _first_rows(source, found.numbers[:MOST_READ])
        for name in (column.name for column in found.columns if column.kind == "text"):
            with suppress(CaptureError):  # text that is too long names no episodes
                found.rows |= _first_rows(source, [name])
    _Search(found, source.entry_names()).run()
    return found


def _first_rows(source: LogSource, names: Sequence[str]) -> Table:
    pieces = list(source.pieces(names, 0, FIRST_ROWS)) if names else []
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}


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


def _said(name: str, what: str) -> bool:
    """Whether the whole name says what a column holds, a key of `NAMES`."""
    return re.fullmatch(NAMES[what], name.lower(), re.DOTALL) is not None


def wraps(before: Floats, after: Floats) -> int:
    """How many steps from `before` to `after` (n,) pass the seam of an angle in radians; 0 where the values are no angle."""
    both = np.concatenate([before, after])
    inside = any(np.abs(both - middle).max(initial=0.0) < np.pi + 0.1 for middle in (0, np.pi))
    return int((np.abs(np.abs(after - before) - 2 * np.pi) < NEAR_TURN).sum()) if inside else 0


class _Search:
    """The search for what columns hold, from what names say clearly to what values suggest."""

    def __init__(self, found: Recognised, called: Mapping[str, str]) -> None:
        self.found, self.called = found, called
        for name in found.numbers:
            base, _, number = name.rpartition("_")
            if number == str(len(found.vectors.get(base, []))):
                found.vectors.setdefault(base, []).append(name)
        listed = {name for names in found.vectors.values() for name in names}
        self.single = [name for name in found.numbers if name not in listed]

    def run(self) -> None:
        """Fill in what is found."""
        found = self.found
        self._episode()
        rows, n = found.rows.get(found.episode or ""), len(next(iter(found.rows.values()), ()))
        self.inside = np.ones(max(n - 1, 0), dtype=bool) if rows is None else rows[1:] == rows[:-1]
        self._time()
        left = set(found.left)
        for name in found.left:
            for partner in left & {f"next_{name}", f"{name}_next"}:
                found.after[name] = partner
                found.take([partner], "next configuration")
        self._poses()
        self._joints()
        for name in (name for name in (*found.joints["position"].values(), *found.left) if name in found.rows):
            values = self._of([name])[:, 0]
            turns = wraps(values[:-1][self.inside], values[1:][self.inside])
            if turns or (_said(name, "angle") and np.abs(values).max(initial=0.0) < 2 * np.pi + 0.1):
                found.angles.append(name)
                found.take([name], "angle", "wraps at a full turn" if turns else "by name")

    def _episode(self) -> None:
        """The column that names the episode: by its name, or each of its values fills one run of rows."""
        found = self.found
        text = [column.name for column in found.columns if column.kind == "text"]
        able = [*text, *(name for name in self.single if self._whole(name))]
        named, runs = [name for name in able if _said(name, "episode")], []
        for name in able if not named else ():
            values = found.rows.get(name, np.empty(0))
            begins = int((values[1:] != values[:-1]).sum())
            if name != "file" and 0 < begins <= len(values) / 3 and len(np.unique(values)) == begins + 1:
                runs.append(name)
        found.episode = next(iter(named or runs), "file" if "file" in text else None)
        if found.episode is not None:
            found.take([found.episode], "episode", "constant over runs of rows" if runs else "by name")

    def _time(self) -> None:
        """The column with the time: by its name, or it grows evenly within episodes; and columns that count rows."""
        found, free = self.found, [name for name in self.single if name in self.found.left]
        steps = {name: np.diff(self._of([name])[:, 0])[self.inside] for name in free if name in found.rows}
        grow = {name: step for name, step in steps.items() if len(step) >= 5 and step.min() > 0}
        named = [name for name in free if _said(name, "time")]
        even = [name for name, step in grow.items() if step.std() < step.mean() / 2 and not meaning(name)[0]]
        found.time = next(iter(named or [name for name in even if not self._whole(name)]), None)
        for name in free:
            counts = name in grow and bool((grow[name] == 1).all())
            if name == found.time:
                found.take([name], "time", "by name" if named else "grows within episodes")
            elif counts or _said(name, "counter"):
                found.take([name], "counter", "counts rows" if counts else "by name")
            elif _said(name, "contact mode") and self._whole(name):
                found.take([name], "contact mode")

    # -- poses ------------------------------------------------------------------------------------------------------------

    def _poses(self) -> None:
        """Quaternions, and the vectors that share their name, or are the only ones of their kind."""
        triples, fours = Vectors(), Fours()
        self._lettered(triples, fours)
        self._numbered(triples, fours)
        for name, four, ordered in fours:
            parts, body = list[Sequence[str]](), name or "a body"
            for kind in ("position", "velocity", "rates"):
                kin = {of: names for (what, of), names in triples.items() if what == kind}
                parts.append(kin.get(name, next(iter(kin.values())) if len(kin) == len(fours) == 1 else ()))
                self.found.take(parts[-1], f"{kind} of {body}", "by name, beside a quaternion")
            self.found.take(four, f"quaternion of {body}", "unit norm" + (", by name" if ordered else ", as w x y z"))
            position, velocity, rates = parts
            self.found.poses.append(Pose(name, position, velocity, rates, four, ordered, *self._fit(four, rates)))

    def _lettered(self, triples: Vectors, fours: Fours) -> None:
        """Columns that end in x, y, z, and in w, x, y, z."""
        left = set(self.found.left)
        for stem in dict.fromkeys(name[:-1] for name in self.found.left if name[-1:] in "wxyz"):
            (kind, body), names = _vector(stem), [f"{stem}{letter}" for letter in "wxyz"]
            if left >= set(names) and (kind == "quaternion" or self._unit(names)):
                fours.append((body, names, True))
            elif left >= set(names[1:]) and self._meaning(names[1])[0] != "command":
                triples[kind, body] = names[1:]

    def _numbered(self, triples: Vectors, fours: Fours) -> None:
        """Lists of three numbers, and four of unit length within longer ones, after the three of a position or before."""
        for base, names in self.found.vectors.items():
            kind, body = _vector(base)
            if len(names) == 3:
                triples[kind, body] = names
            elif len(names) == 13:  # a pose, and how it moves
                triples["velocity", base], triples["rates", base] = names[7:10], names[10:]
            i, body = 0, body if kind == "quaternion" else base
            while i + 4 <= len(names):
                late = self._unit(names[i + 3 : i + 7])
                if late or self._unit(names[i : i + 4]):
                    four, three = (i + 3, i) if late else (i, i + 4)
                    if i + 7 <= len(names):
                        triples["position", body] = names[three : three + 3]
                    fours.append((body, names[four : four + 4], False))
                    i, body = i + 6, f"{base}_{i + 7}"  # of the next one
                i += 1

    def _unit(self, names: Sequence[str]) -> bool:
        """Whether these are the four columns of a unit quaternion that turns."""
        if len(names) != 4 or any(name not in self.found.rows or name in self.found.roles for name in names):
            return False
        four = self._of(names)
        near = np.abs(np.linalg.norm(four, axis=1) - 1) < UNIT
        return bool(near.all() and (np.ptp(four, axis=0) > 0).sum() > 1 and (four != np.rint(four)).any())

    def _fit(self, four: Sequence[str], rates: Sequence[str]) -> tuple[float, str, str]:
        """The length of a quaternion that is farthest from 1, and the order and the frame that fit its rates."""
        if not {*four, *rates} <= set(self.found.rows):
            return 1.0, "", ""
        turning, fits = self._of(four), [(0.5, "", "")]
        length = max(np.linalg.norm(turning, axis=1).tolist(), key=lambda one: abs(one - 1))
        for order in ("wxyz", "xyzw") if rates else ():
            then = turning if order == "wxyz" else turning[:, [3, 0, 1, 2]]
            now, logged = conjugate(then[:-1]), self._of(rates)[1:][self.inside]
            for frame, turns in ("body", multiplied(now, then[1:])), ("world", multiplied(then[1:], now)):
                turned = to_vector(turns)[self.inside]
                size = float(np.linalg.norm(turned) * np.linalg.norm(logged)) or 1.0
                fits.append((float((turned * logged).sum()) / size, order, frame))  # a cosine, whatever the units
        return (length, *max(fits)[1:])

    # -- joints -----------------------------------------------------------------------------------------------------------

    def _joints(self) -> None:
        """Columns by what their names say of a joint; entries of lists of one length belong together."""
        found = self.found
        kinds = {base: self._meaning(base)[0] for base in found.vectors}
        hosts = {len(found.vectors[base]): base for base, kind in kinds.items() if kind == "position"}
        for base, names in found.vectors.items():
            kind, host = kinds[base], hosts.get(len(names), base)
            for i, name in enumerate(names):
                inner, joint = meaning(self.called.get(name, ""))  # action: shoulder_pan.pos
                self._joint(kind if kind == "command" else inner or kind, joint or f"{host}_{i}", name)
        for name in found.left:
            self._joint(*self._meaning(name), name)
        known = {*found.left, *found.joints["position"]}
        for name in found.left:  # rates that are called after their joint: vhinge, dhinge
            if name[:1] in "vd" and name[1:] in known:
                self._joint("velocity", name[1:], name)
        for name in found.left:
            plain = next((kind for kind in ("command", "position") if _said(name, kind)), "")
            partner = any(name in found.joints[kind] for kind in ("velocity", "command", "torque"))
            self._joint("position" if partner else plain, name, name)

    def _meaning(self, name: str) -> tuple[str, str]:
        """The meaning of a name; of the fields of a topic, `/arm/cmd_vel.linear.x`, by that of the topic."""
        kind, thing = meaning(name)
        topic, field, _ = name.partition(".")
        return "command" if not self.found.rows and field and _said(topic, "topic of commands") else kind, thing

    def _joint(self, kind: str, joint: str, name: str) -> None:
        if kind and name not in self.found.roles and joint not in self.found.joints[kind]:
            self.found.joints[kind][joint] = name
            self.found.take([name], kind)

    # -- values -----------------------------------------------------------------------------------------------------------

    def _of(self, names: Sequence[str]) -> Floats:
        """Columns (n, k) of the first rows, 0 where a number is missing."""
        columns = [self.found.rows[name].astype(np.float64) for name in names]
        return np.nan_to_num(np.stack(columns, axis=1), posinf=0.0, neginf=0.0)

    def _whole(self, name: str) -> bool:
        """Whether a column holds whole numbers, as far as it is read."""
        values = self.found.rows.get(name, np.empty(0))
        return bool((values == np.rint(values)).all())


def _vector(stem: str) -> tuple[str, str]:
    """What the columns stem + x, y, z are, a key of `VECTORS`, and the name of the body before that."""
    bare = stem.rstrip("._/")
    for kind, words in VECTORS.items():
        found = re.fullmatch(rf"(?P<body>(?:.*[^A-Za-z0-9])?)(?:{words})", bare, re.IGNORECASE)
        if found:
            return kind, found["body"].rstrip("._/")
    return "position", bare
