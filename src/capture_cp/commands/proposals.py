"""Which columns of a log are probably the state, the action and what follows: a guess by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from capture_cp.data.source import Column

EPISODES = ("episode_index", "episode", "episode_id", "run", "run_id", "trajectory", "traj", "demo", "file")
TIMES = ("timestamp", "time", "t", "stamp")
ACTION = re.compile(r"(^|[^a-z])(actions?|act|cmd|commands?|controls?|push|u|torques?)([^a-z]|$)")
STATE = re.compile(r"(^|[^a-z])(state|obs|observation|pos|position|q|qpos|x|y|z|joints?)([^a-z]|$)")
COMMAND = re.compile(r"cmd|command|action|control|target|desired|setpoint")
#: Columns that count rows, and say nothing about the robot.
COUNTERS = ("index", "frame_index", "task_index", "step", "next.done", "next.reward", "next.success", "done", "reward")


@dataclass(frozen=True)
class Proposal:
    """Columns of each part; `next` or `following` is empty."""

    state: list[str] = field(default_factory=list)
    action: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    following: list[str] = field(default_factory=list)
    episode: str | None = None
    time: str | None = None

    def options(self) -> dict[str, str | list[str]]:
        """The options that say this, by name."""
        every = {name: getattr(self, name) for name in ("state", "action", "next", "following", "episode", "time")}
        return {name: value for name, value in every.items() if value}


def proposed(columns: Sequence[Column]) -> Proposal | None:
    """What the columns of a table are for, or None where no guess is plausible."""
    names = {column.name: column for column in columns if column.kind == "number"}
    every = {column.name for column in columns}
    episode = next((name for name in EPISODES if name in every), None)
    time = next((name for name in TIMES if name in names and names[name].width is None), None)
    aside = {episode, time, *COUNTERS}
    rest = [name for name in names if name not in aside]
    for state in ("observation.state", "state", "observation", "obs"):
        if state in rest and "action" in rest:
            return Proposal([state], ["action"], following=[state], episode=episode, time=time)
    if "demo" in every and "actions" in rest:
        vectors = [name for name in rest if name.startswith("obs/") and names[name].width]
        return Proposal(vectors[:1], ["actions"], following=vectors[:1], episode="demo") if vectors else None
    return _paired(rest, episode, time)


def _paired(names: list[str], episode: str | None, time: str | None) -> Proposal | None:
    """A flat table: columns with a partner next_name or name_next; without any, columns called like states and actions."""
    after = {name: partner for name in names for partner in (f"next_{name}", f"{name}_next") if partner in names}
    rest = [name for name in names if name not in after and name not in after.values()]
    actions = [name for name in rest if ACTION.search(name.lower())]
    if after:
        actions = actions or rest
        return Proposal([*after], actions, next=[*after.values()], episode=episode, time=time) if actions else None
    states = [name for name in rest if name not in actions and STATE.search(name.lower())]
    if not states or not actions:
        return None
    return Proposal(states, actions, following=states, episode=episode, time=time)


def proposed_topics(columns: Sequence[Column], kinds: dict[str, str]) -> Proposal | None:
    """What the topics of a bag are for: positions of joints, and what looks most like a command. `kinds` are their types."""
    names = {column.name for column in columns}
    joints = [topic for topic, kind in kinds.items() if kind.endswith("/JointState") and f"{topic}.position" in names]
    commands = [topic for topic in kinds if COMMAND.search(topic.lower())]
    measured = [topic for topic in joints if topic not in commands] or joints
    commands = [topic for topic in commands if topic not in measured[:1]]
    action = next((found for topic in commands if (found := _command(topic, names))), None)
    if not measured or action is None:
        return None
    state = [f"{measured[0]}.position"]
    return Proposal(state, action, following=state, episode="file" if "file" in names else None, time="time")


def _command(topic: str, names: set[str]) -> list[str]:
    """The numbers of a command: its list of numbers, or a velocity."""
    for lists in ("data", "position", "positions", "velocity", "effort"):
        if f"{topic}.{lists}" in names:
            return [f"{topic}.{lists}"]
    for twist in ("", "twist."):
        found = [f"{topic}.{twist}{part}" for part in ("linear.x", "linear.y", "angular.z")]
        if names.issuperset(found):
            return found
    return []
