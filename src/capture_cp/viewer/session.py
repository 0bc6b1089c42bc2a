"""The subject of a task's page: settings, task, calibrations, a state set by hand, a live or a recorded episode.

Nothing here depends on a browser. Any thread can call any method at any time: short changes take a lock; slow work
(`prepare`, `advance`) runs outside the lock, and its result is kept only if nothing has changed meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name, shortened
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import Tree
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import Episode
from capture_cp.viewer.controls import replaced
from capture_cp.viewer.live import Frame, Landing, Moment, Run, Tally, regimes_of
from capture_cp.viewer.view import ALONE, View
from capture_lab.tasks.practice import ready_promise
from capture_lab.tasks.recorded import recorded_task
from capture_lab.tasks.rows import FittedRow, acting_row
from capture_lab.tasks.scene import PlanStep, Scene, plan_step
from capture_lab.tasks.task import Task

#: The failure rate for which practice runs were played.
PRACTICE_ALPHA = 0.1
#: Number of starts; episodes use them in turn.
STARTS = 50


class Session:
    """The subject of one page.

    Attributes:
        settings: the current settings.
        places: names of the task's places.
        scene: the scene of the task in the chosen place.
    """

    def __init__(self, settings: View) -> None:
        settings.check()
        self._lock = RLock()
        self.settings, self.places = settings.resolved(), list(settings.task.place_names)
        self._tasks: dict[str, Task] = {}
        self._scenes: dict[str, Scene] = {}
        self._rows: dict[tuple[Any, ...], FittedRow] = {}
        self._transitions: dict[str, Transitions] = {}
        self._progress = ""
        self.playing, self.from_here, self._retune = False, False, False
        self.time, self.episode = 0, 0
        self._tallies: dict[str, Tally] = {}
        self._replay: Episode | None = None
        self._run: Run | None = None
        self._enter()

    @property
    def task(self) -> Task:
        """The task in the chosen place."""
        return self._task(str(self.settings.place))

    # -- changes by the user ------------------------------------------------------------------------------------------

    def change(self, path: str, value: Any) -> None:
        """Change one of the settings; checked as on the command line."""
        settings = replaced(self.settings, path, value)
        settings.check()
        self._task(str(settings.place))
        with self._lock:
            before, self.settings = self.settings, settings
            if settings.place != before.place:
                self._enter()
            elif path not in ("method", "beside"):
                self._tallies.clear()
            self._retune = path != "beside"

    def place(self, state: Floats) -> None:
        """Set the state by hand; ends a running episode."""
        with self._lock:
            wanted = _finite("state", state)
            self._by_hand()
            self.state = self.scene.placed(wanted)

    def aim(self, action: Floats) -> None:
        """Set the action by hand; ends a running episode."""
        with self._lock:
            wanted = _finite("action", action)
            self._by_hand()
            self.action = wanted

    def play(self) -> None:
        """Start playing: plan and act, or play the recording."""
        with self._lock:
            self.playing = True
            if self._replay is not None and self.time >= self._replay.steps:
                self.time = 0

    def pause(self) -> None:
        self.playing = False

    def reset(self) -> None:
        """Go back to the start, set counts to zero, and close a recording."""
        with self._lock:
            self._enter()

    def open(self, episode: Episode, trusted: bool = True) -> None:
        """Show a recorded episode, with the method it was recorded with.

        A file uploaded to the page is not trusted: its place must be one of the page's, so that it cannot make us read
        other files.
        """
        planned_with = episode.info.get("method", METHODS[0])
        if planned_with not in METHODS:
            raise CaptureError(
                f"the episode was planned with {planned_with!r}; the page shows the paper's methods only, "
                "capture video can show it."
            )
        with self._lock:
            place = self._place_of(episode, trusted)
            self.settings = replace(self.settings, place=place, method=planned_with)
            self._enter()
            self._replay = episode

    def _place_of(self, episode: Episode, trusted: bool) -> str:
        """The place where an episode was recorded; rejects one of another task, or of a place that is not shown here."""
        name, place = self.settings.task.name, str(episode.info.get("map", self.settings.place))
        if episode.info.get("task", name) != name:
            raise CaptureError(f"the episode's task is {shortened(repr(episode.info['task']))}; this page shows {name!r}.")
        if not trusted:
            known_name("place of the episode", place, self.places)
        recorded = recorded_task(episode)
        shown = self._task(place) if place in self.places else recorded
        if shown.place != recorded.place:
            raise CaptureError(
                f"the episode was recorded in {recorded.place!r}, and this page shows {shown.place!r} there; capture video "
                "can show it."
            )
        if place not in self.places:
            self.places.append(place)
            self._tasks[place] = recorded
        return place

    def seek(self, time: int) -> None:
        """Go to a step of the recording."""
        with self._lock:
            if self._replay is not None:
                self.time = max(0, min(int(time), self._replay.steps))

    # -- slow work ----------------------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Calibrate one chosen method that is not calibrated yet; False if there is none."""
        with self._lock:
            settings, task = self.settings, self.task
            missing = [name for name in _methods(settings) if _key(settings, name) not in self._rows]
        if not missing:
            return False
        fitted = self._calibrated(task, missing[0], settings)
        with self._lock:
            self._rows[_key(settings, missing[0])] = fitted
        return True

    def _calibrated(self, task: Task, name: str, settings: View) -> FittedRow:
        """A method, fitted to the task's calibration transitions as in the planning study.

        Executed steps have regions calibrated on runs of the planner, where such a calibration is shipped.
        """
        done, place = 0, str(settings.place)

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress = f", {done:,} of {settings.calibration or task.calibration_size:,} transitions"

        if place not in self._transitions:
            self._transitions[place] = task.calibration(settings.seed, settings.calibration, advance)
        self._progress, data = "", self._transitions[place]
        tree = Tree(**(task.tree.get_params(deep=False) | {"max_leaves": settings.max_leaves}))
        cap = task.method(name, settings.particles, tree, task.seed_here(settings.seed), settings.k)
        fitted = acting_row(task.rows[name], task, cap.fit(data.X, data.Y))
        return replace(fitted, promise=ready_promise(fitted, task, settings.seed))

    def advance(self) -> None:
        """One step: of the recording, or planned and executed by the true system. After an episode, the next begins."""
        with self._lock:
            if self._replay is not None:
                self.seek(self.time + 1)
                self.playing = self.playing and self.time < self._replay.steps
                return
            settings, run, retune = self.settings, self._run, self._retune
            fitted = self._rows.get(_key(settings, settings.method))
        if fitted is None:
            raise CaptureError(f"{settings.method} is not calibrated yet; call prepare() until it is.")
        if run is None or run.now.outcome is not None:
            self._begin(settings, fitted, run)
            return
        if retune:
            run.retune(fitted, settings)
        landing = run.step()
        with self._lock:
            if self._run is run:
                self._retune = self._retune and settings is not self.settings
                self._count(settings.method, landing, run)

    def _begin(self, settings: View, fitted: FittedRow, before: Run | None) -> None:
        """Plan the first step of the next episode, unless the user has changed something meanwhile."""
        episode = self.episode + (before is not None)
        start = self.state if self.from_here else fitted.task.starts(STARTS)[episode % STARTS]
        run = Run(fitted, settings, start, episode)
        with self._lock:
            if self._run is before and self.settings is settings:
                self._run, self._retune, self.episode = run, False, episode

    def _count(self, method: str, landing: Landing, run: Run) -> None:
        none = np.zeros(len(self.task.regimes), np.int64)
        tally = self._tallies.setdefault(method, Tally(none, none.copy()))
        if landing.regime >= 0:
            tally.landed[landing.regime] += 1
            tally.held[landing.regime] += landing.inside
        if run.now.outcome is not None and run.pure:
            tally.outcomes[run.now.outcome] += 1

    # -- frames -------------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        """The current frame, with regions."""
        with self._lock:
            settings, scene, mode, moment = self.settings, self.scene, self.mode, self._moment()
            rows = {name: self._rows.get(_key(settings, name)) for name in _methods(settings)}
            tallies = {
                name: Tally(t.landed.copy(), t.held.copy(), Counter(t.outcomes)) for name, t in self._counts().items()
            }
            steps = self._replay.steps if self._replay is not None else max(0, len(moment.trail) - 1)
            time, episode = self.time, self.episode
        ready = {name: fitted for name, fitted in rows.items() if fitted is not None}
        plans = {name: self._ahead(scene, fitted, moment, settings) for name, fitted in ready.items()}
        waiting = tuple(name for name in rows if name not in ready)
        practice = {name: self._practice(fitted, settings) for name, fitted in ready.items()}
        return Frame(settings, scene, mode, moment, plans, waiting, self._progress, tallies, time, steps, episode, practice)

    def _practice(self, fitted: FittedRow, settings: View) -> int:
        """Runs on which the regions of executed steps are calibrated; 0 where these are not runs of this very planner."""
        if fitted.promise is None or self.from_here:
            return 0
        row = fitted.row
        same = (settings.planner, settings.weights, settings.alpha) == (row.planner, row.weights, PRACTICE_ALPHA)
        return int(fitted.promise.data_.get("episodes", 0)) if same else 0

    def _ahead(self, scene: Scene, fitted: FittedRow, moment: Moment, settings: View) -> list[PlanStep]:
        """The steps of the plan: the first with the region of an executed step, the others as in the planner's cost."""
        seen = moment.state, moment.plan, settings.alpha, settings.seed, moment.particles
        assert isinstance(fitted.cap, Capture)  # the page's methods have one-step regions
        steps = scene.ahead(fitted.cap, *seen)
        promise = fitted.promise
        if promise is None or not steps:
            return steps
        x, cloud = np.concatenate([moment.state, moment.plan[0]]), steps[0].cloud
        region = promise.region(x, settings.alpha, prediction=cloud)
        return [plan_step(promise, x, cloud, region), *steps[1:]]

    def moment(self) -> Moment:
        """The current state and plan, without regions, which take time."""
        with self._lock:
            return self._moment()

    @property
    def mode(self) -> str:
        return "replay" if self._replay is not None else "by hand" if self._run is None else "live"

    def _moment(self) -> Moment:
        if self._replay is not None:
            return self._recorded(self._replay, self.time)
        if self._run is not None:
            return self._run.now
        return Moment(self.state, self.action[None], self.state[None])

    def _recorded(self, episode: Episode, time: int) -> Moment:
        over = time >= episode.steps
        plan = episode.plans[time] if not over else episode.plans[:0].reshape(0, episode.actions.shape[1])
        same = episode.info.get("method") == self.settings.method
        particles = episode.particles[time] if same and not over and len(episode.particles) else None
        outcome = episode.outcome if over else None
        plan_ms = None if over else float(episode.plan_ms[time])
        outside = np.append(False, ~episode.inside[:time]) if len(episode.inside) else None
        return Moment(episode.states[time], plan, episode.states[: time + 1], outcome, plan_ms, particles, outside)

    def _counts(self) -> Mapping[str, Tally]:
        """Counts of the live episodes, or of the recording so far."""
        if self._replay is None or not len(self._replay.inside):
            return self._tallies if self._replay is None else {}
        regimes, episode = len(self.task.regimes), self._replay
        found = regimes_of(self.task, episode.states[1 : self.time + 1][:, list(self.task.axes)])
        both = found, found[episode.inside[: self.time]]
        landed, held = (np.bincount(part[part >= 0], minlength=regimes) for part in both)
        tally = Tally(landed, held)
        tally.outcomes[episode.outcome] += self.time >= episode.steps
        return {str(episode.info.get("method", "recorded")): tally}

    # -- places -------------------------------------------------------------------------------------------------------

    def _task(self, place: str) -> Task:
        """The task in a place, made when first needed."""
        if known_name("place", place, self.places) not in self._tasks:
            self._tasks[place] = self.settings.task.at(place)
        return self._tasks[place]

    def _enter(self) -> None:
        """Start again in the chosen place."""
        place, task = str(self.settings.place), self.task
        if place not in self._scenes:
            self._scenes[place] = task.scene()
        self.scene = self._scenes[place]
        self.state, self.action = self.scene.first_look()
        self._tallies, self._replay, self._run = {}, None, None
        self._retune, self.playing = False, False
        self.time = self.episode = 0

    def _by_hand(self) -> None:
        """End a running episode and keep its state and action."""
        moment = self._moment()
        self.state = moment.state
        if len(moment.plan):
            self.action = np.array(moment.plan[0])
        self._run, self._replay, self.playing = None, None, False


def _finite(name: str, numbers: Any) -> Floats:
    """The requested numbers; NaN and infinity raise an error."""
    wanted = np.asarray(numbers, dtype=np.float64)
    if not np.isfinite(wanted).all():
        raise CaptureError(f"the requested {name} is not finite; choose numbers within the sliders' bounds.")
    return wanted


def _methods(settings: View) -> list[str]:
    return [settings.method] + [settings.beside] * (settings.beside not in (ALONE, settings.method))


def _key(settings: View, method: str) -> tuple[Any, ...]:
    return (settings.place, method, settings.k, settings.particles, settings.seed)
