"""Open-loop rollouts of the true system, on which a horizon is calibrated, and executed steps of closed-loop episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, same_length, some_rows, whole_number

_EPISODE = "one pair per episode: states (T + 1, ds) and the actions (T, da) between them"


class BatchedStep(Protocol):
    """A model of the whole state: any callable with this signature."""

    def __call__(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) of states (n, ds) and actions (n, da)."""


@dataclass(frozen=True)
class Rollouts:
    """n rollouts of H steps: start states, actions fixed in advance, and the resulting configurations.

    Attributes:
        starts: start states, (n, ds).
        actions: (n, H, da).
        configurations: c₁ to c_H of the true system, (n, H, dc).
        episodes: which episode each rollout was cut from, (n,); rollouts of one episode are not independent.
        states: whole states s₁ to s_H if they are known, (n, H, ds).
    """

    starts: Floats
    actions: Floats
    configurations: Floats
    episodes: Ints
    states: Floats | None = None

    @classmethod
    def from_arrays(
        cls, starts: Any, actions: Any, configurations: Any, episodes: Any = None, states: Any = None
    ) -> Rollouts:
        """Rollouts from arrays, checked; without `episodes`, all rollouts are treated as independent."""
        s = some_rows("starts", finite_array("starts", starts, (None, None), "(n, ds): one start state per row"))
        a = finite_array("actions", actions, (None, None, None), "(n, H, da): H actions per rollout")
        c = finite_array("configurations", configurations, (len(s), a.shape[1], None), "(n, H, dc): one for each action")
        same_length("starts", s, "actions", a)
        number = np.arange(len(s)) if episodes is None else np.asarray(episodes)
        if number.shape != (len(s),):
            raise CaptureError(f"episodes have shape {number.shape}; expected ({len(s)},): the episode of each rollout.")
        whole = None
        if states is not None:
            whole = finite_array("states", states, (len(s), a.shape[1], s.shape[1]), "(n, H, ds): one for each action")
        return cls(s, a, c, np.unique(number, return_inverse=True)[1].astype(np.int64), whole)

    @classmethod
    def simulate(
        cls, step: BatchedStep, starts: Any, actions: Any, axes: Sequence[int], rng: np.random.Generator
    ) -> Rollouts:
        """Simulate rollouts of a system `step(states, actions, rng)` from starts (n, ds) under actions (n, H, da).

        `axes` are the entries of the state that make up the configuration.
        """
        s = some_rows("starts", finite_array("starts", starts, (None, None), "(n, ds): one start state per row"))
        a = finite_array("actions", actions, (len(s), None, None), "(n, H, da): H actions per rollout")
        states = np.empty((len(s), a.shape[1], s.shape[1]))
        for h in range(a.shape[1]):
            states[:, h] = advance(step, states[:, h - 1] if h else s, a[:, h], rng, h + 1)
        return cls.from_arrays(s, a, states[:, :, configuration_axes(axes, s.shape[1])], states=states)

    @classmethod
    def from_episodes(
        cls,
        episodes: Sequence[tuple[Any, Any]],
        horizon: int,
        axes: Sequence[int],
        rng: np.random.Generator,
        stride: int | None = None,
    ) -> Rollouts:
        """Rollouts cut from logged episodes: one per episode, starting at a random step drawn from `rng`.

        Args:
            episodes: one pair per episode: states (T + 1, ds), and the actions (T, da) between them. Episodes with
                T < horizon are left out.
            horizon: number of steps H of a rollout.
            axes: which entries of the state are the configuration.
            stride: if set, cut a rollout every `stride` steps instead. Rollouts of one episode are dependent, and weighted
                accordingly.
        """
        H = whole_number("horizon", horizon, 1)
        checked = [_episode(number, episode) for number, episode in enumerate(episodes)]
        every = None if stride is None else whole_number("stride", stride, 1)
        starts: list[tuple[int, int]] = []
        for number, n in enumerate(len(actions) - H + 1 for _, actions in checked):
            if n > 0:
                firsts = range(0, n, every) if every else [int(rng.integers(n))]
                starts += [(number, first) for first in firsts]
        if not starts:
            raise CaptureError(
                f"none of {len(checked)} episodes has {H} actions; log longer episodes or choose a shorter horizon."
            )
        if len({(states.shape[1], actions.shape[1]) for states, actions in checked}) > 1:
            raise CaptureError("episodes differ in how many numbers a state or an action has; expected the same in all.")
        window = np.stack([checked[number][0][first : first + H + 1] for number, first in starts])
        actions = np.stack([checked[number][1][first : first + H] for number, first in starts])
        kept = configuration_axes(axes, window.shape[2])
        cut_from = [number for number, _ in starts]
        return cls.from_arrays(window[:, 0], actions, window[:, 1:, kept], cut_from, window[:, 1:])

    @classmethod
    def concatenate(cls, parts: Sequence[Rollouts]) -> Rollouts:
        """Concatenate rollouts of several recordings; episodes of different recordings stay distinct."""
        if not parts or len({(part.starts.shape[1], *part.actions.shape[1:], part.states is None) for part in parts}) > 1:
            raise CaptureError("rollouts differ in steps, states or actions, or there are none; expected the same in all.")
        ends = np.cumsum([0, *(int(part.episodes.max()) + 1 for part in parts)])
        episodes = np.concatenate([part.episodes + first for part, first in zip(parts, ends)])
        columns = zip(*((part.starts, part.actions, part.configurations) for part in parts))
        starts, actions, configurations = map(np.concatenate, columns)
        states = [part.states for part in parts if part.states is not None]
        whole = np.concatenate(states) if states else None
        return cls.from_arrays(starts, actions, configurations, episodes, whole)

    @property
    def horizon(self) -> int:
        return int(self.actions.shape[1])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: Any) -> Rollouts:
        """A subset of the rollouts, by a slice, a mask or row numbers."""
        states = None if self.states is None else self.states[rows]
        return Rollouts(self.starts[rows], self.actions[rows], self.configurations[rows], self.episodes[rows], states)

    def configurations_at(self, steps: Sequence[int]) -> Floats:
        """Configurations (n, S, dc) after some of the steps, counted from 1."""
        return np.ascontiguousarray(self.configurations[:, np.array(steps) - 1])

    def transitions(self) -> tuple[Floats, Floats]:
        """Every single step as a transition: X (n * H, ds + da), Y (n * H, dc). Needs whole states."""
        if self.states is None:
            raise CaptureError("these rollouts have no whole states, only configurations; pass `states` to from_arrays.")
        before = np.concatenate([self.starts[:, None], self.states[:, :-1]], axis=1)
        X = np.concatenate([before, self.actions], axis=2)
        return X.reshape(-1, X.shape[2]), self.configurations.reshape(-1, self.configurations.shape[2])


def split_log(states: Any, actions: Any, episode: Any) -> list[tuple[Floats, Floats]]:
    """Split a log with one row per time step into episodes: a new one starts wherever `episode` (N,) changes.

    Row t contains the state (N, ds) and the action (N, da) taken in it. The outcome of the last action of an episode is
    unknown, so that action may be missing (NaN).
    """
    s = some_rows("states", finite_array("states", states, (None, None), "(N, ds): one row per time step"))
    number, last = np.asarray(episode), np.ones(len(s), dtype=bool)
    if number.shape != (len(s),):
        raise CaptureError(f"episode has shape {number.shape}; expected ({len(s)},): the episode of each row.")
    last[:-1] = number[1:] != number[:-1]
    ends = np.flatnonzero(last[:-1]) + 1
    known = np.array(actions, dtype=np.float64)
    if len(known) == len(s):
        known[last] = 0.0
    a = finite_array("actions", known, (len(s), None), "(N, da): the action taken in each state")
    first = np.concatenate([[0], ends])
    if len(np.unique(number[first])) != len(first):
        raise CaptureError("the rows of some episode are not consecutive; sort the log by episode and time.")
    return [(part, act[:-1]) for part, act in zip(np.split(s, ends), np.split(a, ends))]


def configuration_axes(axes: Sequence[int], n_states: int) -> list[int]:
    """The entries of a state that make up the configuration, checked."""
    order = np.asarray(axes)
    sound = order.ndim == 1 and len(order) and order.dtype.kind in "iu" and len(set(order.tolist())) == len(order)
    if not sound or order.min() < 0 or order.max() >= n_states:
        raise CaptureError(f"axes are {axes!r}; expected different entries of the state, from 0 to {n_states - 1}.")
    return [int(axis) for axis in order]


def _episode(number: int, episode: Any) -> tuple[Floats, Floats]:
    try:
        states, actions = episode
    except (TypeError, ValueError):
        raise CaptureError(f"episode {number} is not a pair of arrays; expected {_EPISODE}.") from None
    s = finite_array(f"states of episode {number}", states, (None, None), "(T + 1, ds)")
    a = np.asarray(actions, dtype=np.float64)
    if len(s) < 2 and a.size == 0:
        return s, a.reshape(0, a.shape[1] if a.ndim == 2 else 0)
    a = finite_array(f"actions of episode {number}", actions, (None, None), "(T, da)")
    if len(s) != len(a) + 1:
        raise CaptureError(f"episode {number} has {len(s)} states and {len(a)} actions; expected {_EPISODE}.")
    return s, a


def advance(step: BatchedStep, states: Floats, actions: Floats, rng: np.random.Generator, h: int) -> Floats:
    """Next states (n, ds), or an error that explains what the model did wrong at step h."""
    try:
        after = np.asarray(step(states, actions, rng), dtype=np.float64)
    except CaptureError as error:
        raise CaptureError(f"at step {h} of the rollout: {error}") from error
    except Exception as error:
        raise CaptureError(f"the model raised {type(error).__name__} at step {h} of the rollout: {error}") from error
    if after.shape != states.shape or not np.isfinite(after).all():
        raise CaptureError(
            f"the model returned shape {after.shape} or NaN at step {h} of the rollout; expected finite {states.shape}."
        )
    return after


# -- closed loop ----------------------------------------------------------------------------------------------------------


class Run(Protocol):
    """Interface of an episode of T steps, such as `capture_cp.planning.Episode`."""

    @property
    def states(self) -> Floats:
        """States before the first and after each step: (T + 1, ds)."""

    @property
    def inputs(self) -> Floats:
        """State and action of each executed step: (T, ds + da)."""


class Executed(NamedTuple):
    """The executed steps of several episodes, one row each."""

    X: Floats  # (n, dx)
    Y: Floats  # (n, dc)
    episodes: Ints  # (n,): 0, 1, ...
    steps: Ints  # (n,): 1, 2, ... within the episode


def executed(episodes: Sequence[Run], axes: Sequence[int]) -> Executed:
    """Transitions of episodes; `axes` are the entries of the state that make up the configuration.

    `Capture.fit(rows.X, rows.Y, episodes=rows.episodes)` then calibrates on whole episodes, and `Capture.coverage`, with the
    same arguments, measures what the regions of another calibration hold in closed loop.
    """
    if not any(len(run.inputs) for run in episodes):
        raise CaptureError("these episodes have no executed steps; run some episodes first.")
    lengths = [len(run.inputs) for run in episodes]
    X = np.concatenate([run.inputs for run in episodes])
    Y = np.concatenate([run.states[1:, list(axes)] for run in episodes])
    steps = np.concatenate([np.arange(1, length + 1) for length in lengths])
    return Executed(X, Y, np.repeat(np.arange(len(lengths)), lengths), steps)
