"""The subject of the page of a user's calibration: a step of a log, or an input chosen by hand.

Nothing here depends on a browser. Any thread can call any method at any time: changes take a lock, and slow work, the
model's prediction of an episode, runs outside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, failure_rate, printable, shortened
from capture_cp.commands.replay import Count, Look, Replay, look_by_hand
from capture_cp.commands.robot import Robot
from capture_cp.commands.runs import RATE, Runs
from capture_cp.commands.space import Space
from capture_cp.viewer.controls import Choices, Control, Range, number_between

#: Episodes that the page lists, letters of their names, and episodes whose predictions are kept.
LISTED, LETTERS, KEPT = 500, 60, 16
#: Fraction of a log's inputs beyond either end of a slider, where the calibration keeps no quantiles.
TAIL = 0.05


@dataclass(frozen=True)
class Chosen:
    """What the user can change: the failure rate, and the axes of pictures by name ("" if there is only one)."""

    alpha: float
    across: str
    up: str = ""


@dataclass(frozen=True)
class LogFrame:
    """Everything that is drawn at one time.

    Attributes:
        name: of the episode, or None for an input chosen by hand.
        look: the step; None until the model has predicted it.
        step, steps: of the episode, counted from 0.
        counts: coverage up to this step, over all and by stratum.
        sizes: calibration points behind the threshold of each stratum, (M,).
    """

    robot: Robot
    runs: Runs | None
    chosen: Chosen
    space: Space
    name: str | None
    replay: Replay | None
    look: Look | None
    step: int
    steps: int
    counts: Sequence[Count]
    sizes: Ints


class LogSession:
    """The subject of one page.

    Attributes:
        chosen: the user's choices.
        x: the input (dx,) chosen by hand.
        listed: names of the log's parts on the page, each with its name in the log.
    """

    def __init__(
        self, robot: Robot, runs: Runs | None, shown: Sequence[int], episode: str | None = None, seed: int = 0
    ) -> None:
        self._lock = RLock()
        self.robot, self.runs, self._seed = robot, runs, seed
        self.chosen = Chosen(robot.alpha, *(robot.axes[axis] for axis in shown))
        self.bounds = self._bounds()
        self.space = Space(robot, runs, shown)
        self.x = np.median(self.bounds, axis=1)
        self._replays: dict[str, Replay] = {}
        self.name: str | None = None
        self.step, self.playing = 0, False
        first = None
        if runs is not None:
            first = runs.names[0] if episode is None else episode
            runs.named(first)
        self.listed = self._listed(first)
        if first is not None:
            self.open(first)

    @property
    def controls(self) -> dict[str, Control]:
        """The controls of the page, by path."""
        found = {"alpha": Control("alpha", self.chosen.alpha, Range(0.01, 0.5, 0.01), "Failure rate of the regions.")}
        if len(self.robot.axes) > 2:
            for side in ("across", "up"):
                menu = Choices(self.robot.axes)
                found[side] = Control(side, getattr(self.chosen, side), menu, "An axis of the configuration.")
        return found

    @property
    def steps(self) -> int:
        """Steps of the episode that is shown; 0 by hand."""
        replay = self._replay
        return 0 if replay is None else len(replay)

    @property
    def rate(self) -> float:
        """Steps per second."""
        return RATE if self.runs is None else self.runs.rate

    # -- changes by the user ------------------------------------------------------------------------------------------

    def change(self, path: str, value: Any) -> None:
        """Change the failure rate or an axis; the two axes swap if they would be the same."""
        with self._lock:
            before, chosen = self.chosen, replace(self.chosen, **{path: value})
            failure_rate(chosen.alpha)
            if chosen.across == chosen.up:
                chosen = replace(chosen, across=before.up, up=before.across)
            if (chosen.across, chosen.up) != (before.across, before.up):
                self.space = self.space.showing([self.robot.axis(name) for name in (chosen.across, chosen.up)])
            self.chosen = chosen

    def open(self, name: str) -> None:
        """Show an episode of the log, from its first step."""
        if self.runs is None:
            raise CaptureError("there is no log; give it to the command: capture view robot.capture log.csv.")
        rows = self.runs.named(name)
        with self._lock:
            if name not in self._replays:
                if len(self._replays) >= KEPT:
                    self._replays.clear()
                self._replays[name] = Replay(self.robot, self.runs.log, rows, self.runs.episodes, self._seed)
            self.name, self.step, self.playing = name, 0, False

    def by_hand(self) -> None:
        """Leave the log, and keep the input of the current step."""
        with self._lock:
            replay = self._replay
            if replay is not None:
                self.x = replay.X[self.step].copy()
            self.name, self.playing = None, False

    def aim(self, entry: int, value: Any) -> None:
        """Set one number of the input by hand; leaves the log."""
        low, high = (float(end) for end in self.bounds[entry])
        wanted = number_between(self.robot.inputs[entry], value, low, high)
        with self._lock:
            self.by_hand()
            self.x = self.x.copy()
            self.x[entry] = wanted

    def seek(self, step: Any) -> None:
        """Go to a step of the episode, counted from 0, or to the nearest."""
        with self._lock:
            replay = self._replay
            if replay is not None:
                self.step = max(0, min(int(step), len(replay) - 1))

    def play(self) -> None:
        """Play the episode; from its first step if it was at its end."""
        with self._lock:
            replay = self._replay
            if replay is None:
                raise CaptureError("there is nothing to play by hand; choose an episode of a log.")
            self.playing = True
            if self.step >= len(replay) - 1:
                self.step = 0

    def pause(self) -> None:
        self.playing = False

    def back(self) -> None:
        """Go one step back."""
        self.pause()
        self.seek(self.step - 1)

    # -- slow work ----------------------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Predict the episode that is shown, if that is not done yet."""
        with self._lock:
            replay = self._replay
        if replay is None or replay.ready:
            return False
        try:
            assert replay.prediction is not None
        except CaptureError:
            self.by_hand()  # otherwise the model would be called again and again
            raise
        return True

    def advance(self) -> None:
        """Go one step forward."""
        with self._lock:
            replay = self._replay
            if replay is None:
                self.playing = False
                return
            self.seek(self.step + 1)
            self.playing = self.playing and self.step < len(replay) - 1

    # -- frames -------------------------------------------------------------------------------------------------------

    def frame(self) -> LogFrame:
        """The current frame."""
        with self._lock:
            chosen, space, name, replay, step, x = self.chosen, self.space, self.name, self._replay, self.step, self.x
        look, counts, steps = None, list[Count](), 0
        if replay is None:
            look = look_by_hand(self.robot, x, chosen.alpha, self._seed)
        else:
            steps = len(replay)
            if replay.ready:
                look, counts = replay.look(step, chosen.alpha), replay.counts(chosen.alpha, step + 1)
        sizes = self.robot.sizes_at(x if look is None else look.x)
        return LogFrame(self.robot, self.runs, chosen, space, name, replay, look, step, steps, counts, sizes)

    @property
    def _replay(self) -> Replay | None:
        return None if self.name is None else self._replays[self.name]

    def _bounds(self) -> Floats:
        """Bounds of each input, (dx, 2): the outer quantiles that the calibration keeps."""
        try:
            values = self.robot.input_quantiles()
        except CaptureError:
            if self.runs is None:
                raise
            values = np.quantile(self.runs.log.X, [TAIL, 1 - TAIL], axis=0).T
        return values[:, [0, -1]]

    def _listed(self, first: str | None) -> dict[str, str]:
        """The first parts of the log by their names on the page, and the one that is shown first."""
        if self.runs is None:
            return {}
        names = self.runs.names[:LISTED]
        found: dict[str, str] = {}
        for name in dict.fromkeys([*names, *([first] if first is not None else [])]):
            shown = shortened(printable(name), LETTERS) or "(no name)"
            found[shown if shown not in found else f"{shown} ({len(found) + 1})"] = name
        return found
