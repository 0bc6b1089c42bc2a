"""The columns of a log as the states of a model: matched by name and kind, shown to people, written as TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capture_cp.base.checks import CaptureError, known_name, shortened
from capture_cp.data.roles import UNIT, Pose
from capture_cp.data.roles import Recognised as Recognised
from capture_cp.data.roles import recognise as recognise

Parts = tuple[tuple[str, int, str], ...]
_POSITION, _TURN = ("position", 3, "m"), ("quaternion", 4, "w x y z")
_VELOCITY, _RATES = ("velocity", 3, "m/s"), ("rates", 3, "rad/s")
#: What the entries of a joint are, in qpos and in qvel, by its kind: name, number and unit.
PARTS: dict[str, tuple[Parts, Parts]] = {
    "free": ((_POSITION, _TURN), (_VELOCITY, _RATES)),
    "ball": ((_TURN,), (_RATES,)),
    "hinge": ((("position", 1, "rad"),), (("velocity", 1, "rad/s"),)),
    "slide": ((("position", 1, "m"),), (("velocity", 1, "m/s"),)),
}
SINGLE = ("hinge", "slide")  # joints of one number


@dataclass(frozen=True)
class Joint:
    """A joint of a model or, without a model, of a log; its `kind` is a key of `PARTS`."""

    name: str
    kind: str


@dataclass(frozen=True)
class StateColumns:
    """The column of every entry of qpos (nq,), qvel (nv,) and ctrl (nu,), "" where the log has none.

    Quaternions are in the order w x y z, whatever the log's order. `why` says how columns were recognised, and `world`
    names the joints whose logged rates are about the world's axes rather than the body's.
    """

    joints: tuple[Joint, ...]
    qpos: tuple[str, ...]
    qvel: tuple[str, ...]
    actuators: tuple[str, ...] = ()
    ctrl: tuple[str, ...] = ()
    episode: str | None = None
    time: str | None = None
    why: Mapping[str, str] = field(default_factory=dict)
    world: tuple[str, ...] = ()

    def quantities(self) -> list[tuple[str, tuple[str, ...], str]]:
        """What the log has of the model: quantity, columns and unit."""
        found: list[tuple[str, tuple[str, ...], str]] = []
        for entries, half in ((self.qpos, 0), (self.qvel, 1)):
            at = 0
            for joint in self.joints:
                for part, width, unit in PARTS[joint.kind][half]:
                    found.append((f"{joint.name}.{part}", entries[at : at + width], unit))
                    at += width
        found += [(f"{name}.command", (column,), "") for name, column in zip(self.actuators, self.ctrl)]
        ends = (("episode", (self.episode or "",), ""), ("time", (self.time or "",), "s"))
        return [one for one in (*ends, *found) if all(one[1])]

    def table(self) -> list[tuple[str, str, str, str]]:
        """The model's quantity, the log's columns, the unit, and how they were recognised; for people."""
        return [(what, ", ".join(names), unit, self.why.get(names[0], "")) for what, names, unit in self.quantities()]

    def toml(self) -> str:
        """The mapping as TOML, which `match` takes as `overrides` once it is read by `from_toml`."""
        shown = ((what, names[0] if len(names) == 1 else list(names)) for what, names, _ in self.quantities())
        return "".join(f"{json.dumps(what)} = {json.dumps(names)}\n" for what, names in shown)

    @classmethod
    def from_toml(
        cls,
        text: str,
        found: Recognised,
        joints: Sequence[Joint] | None = None,
        actuators: Sequence[tuple[str, str]] = (),
        file: str = "the file of columns",
    ) -> StateColumns:
        """The mapping that `toml` wrote, perhaps edited: what it leaves out is recognised, unknown names are refused."""
        try:
            given = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise CaptureError(f"{file} is not TOML: {shortened(str(error), 200)}.") from None
        for what, names in given.items():
            if not all(isinstance(name, str) for name in (names if isinstance(names, list) else [names])):
                raise CaptureError(f"{what} in {file} is {shortened(repr(names))}; expected names of columns.")
        return match(found, joints, actuators, overrides=given)


def match(
    found: Recognised,
    joints: Sequence[Joint] | None,
    actuators: Sequence[tuple[str, str]] = (),
    names: Sequence[str] = (),
    overrides: Mapping[str, str | Sequence[str]] | None = None,
    quaternion: str = "",
) -> StateColumns:
    """The columns of every joint and actuator of a model, by name and kind.

    Args:
        found: what the log holds.
        joints: of the model, in its order; None for those that the log itself shows.
        actuators: name, and joint that it moves.
        names: the model's joints in the log's order, where the log calls them otherwise.
        overrides: columns, as a list or separated by commas, by what they hold: "hinge.position", "cube.rates",
            "lift.command", "episode" or "time"; none for what the log lacks. By the name of a joint alone: the name of a
            pose, or the column of a position.
        quaternion: "wxyz" or "xyzw", where names do not tell.
    """
    if joints is None:
        joints = [Joint(pose.name or "body", "free") for pose in found.poses]
        joints += [Joint(name, "hinge") for name in found.joints["position"]]
        actuators = actuators or [(name, name) for name in found.joints["command"]]
    return _Match(found, joints, overrides or {}, quaternion).run(actuators, names)


class _Match:
    """One matching of a log to a model."""

    def __init__(
        self, found: Recognised, joints: Sequence[Joint], given: Mapping[str, str | Sequence[str]], order: str
    ) -> None:
        self.found, self.joints, self.free = found, joints, list(found.poses)
        single = {one.name for one in joints if one.kind in SINGLE}
        self.given = {
            f"{what}.position" if what in single else what: names.split(",") if isinstance(names, str) else names
            for what, names in given.items()
        }
        self.order = known_name("order --quaternion", order, ("wxyz", "xyzw")) if order else "wxyz"
        self.why = dict(found.why)

    def run(self, actuators: Sequence[tuple[str, str]], names: Sequence[str]) -> StateColumns:
        found, called = self.found, self._called(names)
        known = ["episode", "time", *(f"{name}.command" for name, _ in actuators), *(one.name for one in self.joints)]
        known += [f"{one.name}.{part}" for one in self.joints for half in PARTS[one.kind] for part, _, _ in half]
        for what in self.given:
            known_name("quantity that columns are named for", what, known)
        lists = {} if names else self._lists(len(actuators))
        state: tuple[list[str], list[str]] = ([], [])
        world = []
        for joint in self.joints:
            parts = {} if lists else self._parts(joint, called)
            for entries, half, name in zip(state, PARTS[joint.kind], ("qpos", "qvel")):
                for part, width, _ in half:
                    default = parts.get(part, lists.get(name, ())[len(entries) : len(entries) + width])
                    entries += self._given(f"{joint.name}.{part}", width, default)
            world += [joint.name for pose in found.poses if pose.frame == "world" and [*pose.rates] == state[1][-3:]]
        sent = found.joints["command"]
        ctrl = lists.get("ctrl") or [sent.get(name, sent.get(called.get(joint, joint), "")) for name, joint in actuators]
        acts = tuple(name for name, _ in actuators)
        ctrl = [self._given(f"{act}.command", 1, [one])[0] for act, one in zip(acts, ctrl)]
        episode, time = (self._given(what, 1, [getattr(found, what) or ""])[0] or None for what in ("episode", "time"))
        qpos, qvel = map(tuple, state)
        return StateColumns(tuple(self.joints), qpos, qvel, acts, tuple(ctrl), episode, time, self.why, tuple(world))

    def _called(self, names: Sequence[str]) -> dict[str, str]:
        """The log's name of each of the model's joints that --joints names."""
        logged = list(self.found.joints["position"])
        if names and len(names) != len(logged):
            raise CaptureError(
                f"--joints names {len(names)} joints, but {self.found.path} has {len(logged)}: {_some(logged)}; give the "
                "model's name of each of them, in this order."
            )
        for name in names:
            known_name("joint in --joints", name, [one.name for one in self.joints if one.kind in SINGLE])
        return dict(zip(names, logged))

    def _lists(self, nu: int) -> dict[str, list[str]]:
        """Lists called qpos, qvel and ctrl that are as long as the model's own, as users of MuJoCo log them."""
        sizes = [sum(width for one in self.joints for _, width, _ in PARTS[one.kind][half]) for half in (0, 1)]
        wanted = {"qpos": sizes[0], "qvel": sizes[1], "ctrl": nu}
        lists = {base.replace("/", ".").rpartition(".")[2]: names for base, names in self.found.vectors.items()}
        lists = {name: lists[name] for name, size in wanted.items() if size and len(lists.get(name, ())) == size}
        return lists if "qpos" in lists else {}

    def _parts(self, joint: Joint, called: Mapping[str, str]) -> dict[str, Sequence[str]]:
        """The columns of a joint by what they hold."""
        told = all(f"{joint.name}.{part}" in self.given for part, _, _ in PARTS[joint.kind][0])
        if joint.kind not in SINGLE:
            pose = None if told else self._pose(joint)
            parts = {what: getattr(pose, what, ()) for what in ("position", "velocity", "rates")}
            return parts | {"quaternion": self._ordered(pose) if pose else ()}
        name = called.get(joint.name, joint.name)
        position = self.found.joints["position"].get(name, name if name in self.found.numbers else "")
        if not position and not told:
            raise self._missing(joint)
        columns = [position, self.found.joints["velocity"].get(name, "")]
        if joint.name in called:
            self.why |= dict.fromkeys(columns, "by the order of --joints")
        return {"position": columns[:1], "velocity": columns[1:]}

    def _pose(self, joint: Joint) -> Pose:
        """The pose of a joint: the one of its name, or the only one that is left."""
        others = {one.name for one in self.joints}
        if joint.name in self.given:
            named = known_name("pose", ",".join(self.given[joint.name]), [pose.name for pose in self.found.poses])
            able = [pose for pose in self.found.poses if pose.name == named]
        else:
            able = [pose for pose in self.free if pose.position or joint.kind == "ball"]
            same = [pose for pose in able if pose.name == joint.name]
            able = same or [pose for pose in able if pose.name not in others]
        if not able:
            raise self._missing(joint)
        if len(able) > 1:
            raise CaptureError(
                f"{self.found.path} has {len(able)} poses, {_some([_shown(one) for one in able])}, and none is called as "
                f"the joint {joint.name!r}; name its pose with --columns {joint.name}=POSE."
            )
        self.free = [pose for pose in self.free if pose is not able[0]]
        return able[0]

    def _ordered(self, pose: Pose) -> Sequence[str]:
        """The columns of a pose's quaternion as w x y z, checked."""
        four = pose.quaternion
        what = f"the quaternion {', '.join(four)} of {self.found.path}"
        if abs(pose.length - 1) > UNIT:
            raise CaptureError(f"{what} is not a unit quaternion: it has a length of {pose.length:.3g}.")
        if pose.ordered:
            return four
        if pose.fits not in ("", self.order):
            raise CaptureError(
                f"{what} does not fit the logged rates in the order {' '.join(self.order)}, but it does as "
                f"{' '.join(pose.fits)}; give --quaternion {pose.fits}."
            )
        return four if self.order == "wxyz" else (four[3], *four[:3])

    def _given(self, what: str, width: int, default: Sequence[str]) -> Sequence[str]:
        """The columns that an override names, or else the default; "" for each where there are none."""
        if what not in self.given:
            return default or [""] * width
        names = [name.strip() for name in self.given[what] if name.strip()]
        text = [column.name for column in self.found.columns if column.kind == "text"] if what == "episode" else []
        for name in names:
            known_name(f"column in {self.found.path}", name, [*self.found.numbers, *text])
        if len(names) not in (0, width):
            raise CaptureError(f"{what} has {len(names)} columns, {', '.join(names)}; expected {width}.")
        self.why |= dict.fromkeys(names, "named by you")
        return names or [""] * width

    def _missing(self, joint: Joint) -> CaptureError:
        found = self.found
        has = [*(f"the pose {_shown(pose)}" for pose in found.poses), *found.joints["position"]] or found.numbers
        help = "name its columns with --columns, or give the model's names in the log's order with --joints"
        if joint.kind not in SINGLE:
            help = f"name its columns with --columns {joint.name}.quaternion=QW,QX,QY,QZ"
        return CaptureError(
            f"the joint {joint.name!r} ({joint.kind}) of the model is not in {found.path}, which has {_some(has)}; {help}."
        )


def _shown(pose: Pose) -> str:
    return pose.name or ", ".join(pose.quaternion)


def _some(names: Sequence[str]) -> str:
    return ", ".join(shortened(name) for name in names[:12]) + (", ..." if len(names) > 12 else "")
