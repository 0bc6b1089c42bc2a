"""The live page of a task: calibrations, a state set by hand, episodes planned live or recorded, and their pictures."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name, shortened
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import Tree
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import Episode
from capture_cp.report.canvas import Picture
from capture_cp.report.draw import Frames
from capture_cp.report.panel import Panel
from capture_cp.viewer.session import Frame, Session
from capture_cp.viewer.texts import legend
from capture_lab.studies.live_run import Run, regimes_of
from capture_lab.studies.live_texts import Shown, Tally, counts_table, inside_line, regions_table, status_line
from capture_lab.studies.view import ALONE, TaskView, page_controls, replaced
from capture_lab.tasks.drawing import Drawing
from capture_lab.tasks.moment import Moment, PlanStep, plan_step, recorded_moment
from capture_lab.tasks.recorded import recorded_task
from capture_lab.tasks.rows import FittedRow, acting_row, ready_promise
from capture_lab.tasks.task import Task

#: The failure rate for which practice runs were played.
PRACTICE_ALPHA = 0.1
#: Number of starts; episodes use them in turn. How long (s) a finished one stays in view at speed 1.
STARTS, OVER = 50, 1.0
#: Size of a picture with one panel, in inches of 100 pixels.
INCHES = 5.2, 4.4
FIRST_PLAN = "planning; the first plan of a planner is compiled, for some seconds …"


class TaskSession(Session):
    """A task on the page.

    Attributes:
        places: names of the task's places.
        scene: the scene of the task in the chosen place.
        state, action: those set by hand.
    """

    live, upload = "none: live", ".npz"
    settings: TaskView
    recordings: dict[str, Episode]
    state: Floats
    action: Floats
    _run: Run | None

    def __init__(self, settings: TaskView) -> None:
        super().__init__()
        settings.check()
        self.settings, self.places, self.recordings = settings.resolved(), list(settings.task.place_names), {}
        self._tasks: dict[str, Task] = {}
        self._scenes: dict[str, Drawing] = {}
        self._frames: dict[Any, Frames] = {}
        self._rows: dict[tuple[Any, ...], FittedRow] = {}
        self._transitions: dict[str, Transitions] = {}
        self._progress = ""
        self.close()
        self.controls, self.camera = page_controls(self.settings, self.places), self.scene.camera
        self.legend = legend(self.scene.legend, self.scene.marks, self.scene.key)

    @property
    def task(self) -> Task:
        """The task in the chosen place."""
        return self._task(str(self.settings.place))

    @property
    def mode(self) -> str:
        return "replay" if self.name is not None else "by hand" if self._run is None else "live"

    @property
    def last(self) -> int:
        return 0 if self.name is None else self.recordings[self.name].steps

    @property
    def rest(self) -> float:
        return OVER if self.now.outcome is not None else 1 / self.task.rate

    @property
    def now(self) -> Moment:
        """The current state and plan, without regions, which take time."""
        with self._lock:
            if self.name is not None:
                episode = self.recordings[self.name]
                now, method = recorded_moment(episode, self.time), episode.info.get("method")
                return now if method == self.settings.method else replace(now, particles=None)
            if self._run is not None:
                return self._run.now
            return Moment(self.state, self.state[None], np.zeros(1, dtype=bool), self.action[None])

    # -- changes by people --------------------------------------------------------------------------------------------

    def change(self, path: str, value: Any) -> None:
        settings = replaced(self.settings, path, value)
        settings.check()
        self._task(str(settings.place))
        with self._lock:
            before, self.settings = self.settings, settings
            if settings.place != before.place:
                self.close()
            elif path not in ("method", "beside"):
                self._tallies.clear()
            self._retune = path != "beside"

    def aim(self, entry: int, value: float) -> None:
        x, ds = self._x(self.now), len(self.task.states)
        x[entry] = value
        self.put(x[:ds] if entry < ds else None, None if entry < ds else x[ds:])

    def drag(self, place: Floats) -> None:
        self.put(self.scene.dragged(self.now.state, place))

    def put(self, state: Any = None, action: Any = None) -> None:
        """Set the state or the action by hand; ends a running episode and keeps the rest of its input."""
        given = [None if part is None else np.asarray(part, dtype=np.float64) for part in (state, action)]
        for name, part in zip(("state", "action"), given):
            if part is not None and not np.isfinite(part).all():
                raise CaptureError(f"the requested {name} is not finite; choose numbers within the sliders' bounds.")
        with self._lock:
            now = self.now
            self.state = now.state if given[0] is None else self.scene.placed(given[0])
            if given[1] is not None:
                self.action = given[1]
            elif len(now.plan):
                self.action = np.array(now.plan[0])
            self._run, self.name, self.playing = None, None, False

    def close(self) -> None:
        """Go back to the start in the chosen place, set counts to zero, and close a recording."""
        with self._lock:
            place = str(self.settings.place)
            if place not in self._scenes:
                self._scenes[place] = self.task.drawing()
            self.scene = self._scenes[place]
            self.sliders = self.scene.sliders
            self.state, self.action = self.scene.first_look()
            self._tallies: dict[str, Tally] = {}
            self._run, self.name, self.playing, self._retune = None, None, False, False
            self.time = self.episode = 0

    reset = close

    def open(self, name: str) -> None:
        self.show(name, self.recordings[name])

    def uploaded(self, name: str, content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(content)
            episode = Episode.load(path)
        self.show(name, episode, trusted=False)

    def show(self, name: str, episode: Episode, trusted: bool = True) -> None:
        """Show a recorded episode, with the method it was recorded with.

        A file uploaded to the page is not trusted: its place must be one of the page's, so that it cannot make us read
        other files.
        """
        planned_with = episode.info.get("method", METHODS[0])
        if planned_with not in METHODS:
            raise CaptureError(
                f"the episode was planned with {planned_with!r}; the page shows the paper's methods only, "
                "capture view --save FILE can make a video of it."
            )
        with self._lock:
            place = self._place_of(episode, trusted)
            self.settings = replace(self.settings, place=place, method=planned_with)
            self.close()
            self.recordings[name], self.name = episode, name

    def _place_of(self, episode: Episode, trusted: bool) -> str:
        """The place where an episode was recorded; rejects one of another task, or of a place that is not shown here."""
        name, place = self.settings.task.name, str(episode.info.get("map", self.settings.place))
        if episode.info.get("task", name) != name:
            raise CaptureError(f"the episode's task is {shortened(repr(episode.info['task']))}; this page shows {name!r}.")
        if not trusted:
            known_name("place of the episode", place, self.places)
        its = recorded_task(episode)
        shown = self._task(place) if place in self.places else its
        if shown.place != its.place:
            raise CaptureError(
                f"the episode was recorded in {its.place!r}, and this page shows {shown.place!r} there; "
                "capture view --save FILE can make a video of it."
            )
        if place not in self.places:
            self.places.append(place)
            self._tasks[place] = its
        return place

    def _task(self, place: str) -> Task:
        """The task in a place, made when first needed."""
        if known_name("place", place, self.places) not in self._tasks:
            self._tasks[place] = self.settings.task.at(place)
        return self._tasks[place]

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

    def _calibrated(self, task: Task, name: str, settings: TaskView) -> FittedRow:
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

    def act(self) -> None:
        """Plan a step and let the true system execute it. After an episode, the next begins."""
        with self._lock:
            settings, run, retune = self.settings, self._run, self._retune
            fitted = self._rows.get(_key(settings, settings.method))
        if fitted is None:
            raise CaptureError(f"{settings.method} is not calibrated yet; call prepare() until it is.")
        if run is None or run.now.outcome is not None:
            self._begin(settings, fitted, run)
            return
        if retune:
            run.retune(fitted, settings)
        regime, inside = run.step()
        with self._lock:
            if self._run is run:
                self._retune = self._retune and settings is not self.settings
                none = np.zeros(len(self.task.regimes), np.int64)
                tally = self._tallies.setdefault(settings.method, Tally(none, none.copy()))
                if regime >= 0:
                    tally.landed[regime] += 1
                    tally.held[regime] += inside
                if run.now.outcome is not None and run.pure:
                    tally.outcomes[run.now.outcome] += 1

    def _begin(self, settings: TaskView, fitted: FittedRow, before: Run | None) -> None:
        """Plan the first step of the next episode, unless the user has changed something meanwhile."""
        episode = self.episode + (before is not None)
        start = self.state if settings.from_state_shown else fitted.task.starts(STARTS)[episode % STARTS]
        self._progress = FIRST_PLAN if before is None else ""
        try:
            run = Run(fitted, settings, start, episode)
        finally:
            self._progress = ""
        with self._lock:
            if self._run is before and self.settings is settings:
                self._run, self._retune, self.episode = run, False, episode

    # -- frames -------------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        shown = self.shown()
        scene, now = shown.scene, shown.now
        whole, near = scene.page_panels(now)
        caption = " (left), ".join(now.plans) + " (right)" * (len(now.plans) > 1)
        lines = f"**{status_line(shown)}**", scene.reading(now), inside_line(shown)
        return Frame(
            "  \n".join(line for line in lines if line),
            "\n\n".join(part for part in (counts_table(shown), regions_table(shown)) if part),
            scene.scene(now),
            [
                (caption, self._drawn("whole", list(zip(*whole)) if len(whole) > 1 else whole)),
                *([("Close-up of the next step", self._drawn("near", [near]))] if near else []),
            ],
            self._x(now),
            bool(shown.waiting or shown.progress),
        )

    def _drawn(self, which: str, rows: Sequence[Sequence[Panel]]) -> Picture:
        """Panels in rows as one picture."""
        across = len(rows[0])
        key = which, len(rows), across
        if key not in self._frames:
            letters = iter(ascii_uppercase)
            places = ";".join("".join(next(letters) for _ in row) for row in rows)
            width, height = INCHES
            self._frames[key] = Frames((width * (1 + 0.7 * (across - 1)), height * len(rows)), places=places)
        return self._frames[key].draw([panel for row in rows for panel in row])

    def shown(self) -> Shown:
        """What is shown now, with regions, not drawn yet."""
        with self._lock:
            settings, scene, mode, now, episode = self.settings, self.scene, self.mode, self.now, self.episode
            rows = {name: self._rows.get(_key(settings, name)) for name in _methods(settings)}
            tallies = {name: tally.copy() for name, tally in self._counted().items()}
        waiting = tuple(name for name, fitted in rows.items() if fitted is None)
        plans = {name: _ahead(scene, fitted, now, settings) for name, fitted in rows.items() if fitted is not None}
        practice, now = _practice(rows[settings.method], settings), replace(now, plans=plans)
        return Shown(settings, scene, mode, now, waiting, self._progress, tallies, episode, practice)

    def _counted(self) -> dict[str, Tally]:
        """Counts of the live episodes, or of the recording so far."""
        if self.name is None:
            return self._tallies
        episode, task = self.recordings[self.name], self.task
        if not len(episode.inside):
            return {}
        found = regimes_of(task, episode.states[1 : self.time + 1][:, list(task.axes)])
        both = found, found[episode.inside[: self.time]]
        landed, held = (np.bincount(part[part >= 0], minlength=len(task.regimes)) for part in both)
        ended = Counter({episode.outcome: int(self.time >= episode.steps)})
        return {str(episode.info.get("method", "recorded")): Tally(landed, held, ended)}

    def _x(self, now: Moment) -> Floats:
        """The input (ds + da,) of a moment."""
        return np.concatenate([now.state, now.plan[0] if len(now.plan) else self.action])


def _ahead(scene: Drawing, fitted: FittedRow, now: Moment, settings: TaskView) -> list[PlanStep]:
    """The steps of the plan: the first with the region of an executed step, the others as in the planner's cost."""
    assert isinstance(fitted.cap, Capture)  # the page's methods have one-step regions
    steps, promise = scene.ahead(fitted.cap, now, settings.alpha, settings.seed), fitted.promise
    if promise is None or not steps:
        return steps
    x, cloud = np.concatenate([now.state, now.plan[0]]), steps[0].cloud
    return [plan_step(promise, x, cloud, promise.region(x, settings.alpha, prediction=cloud)), *steps[1:]]


def _practice(fitted: FittedRow | None, settings: TaskView) -> int:
    """Runs on which the regions of executed steps are calibrated; 0 where these are not runs of this very planner."""
    if fitted is None or fitted.promise is None or settings.from_state_shown:
        return 0
    row = fitted.row
    same = (settings.planner, settings.weights, settings.alpha) == (row.planner, row.weights, PRACTICE_ALPHA)
    return int(fitted.promise.data_.get("episodes", 0)) if same else 0


def _methods(settings: TaskView) -> list[str]:
    return [settings.method] + [settings.beside] * (settings.beside not in (ALONE, settings.method))


def _key(settings: TaskView, method: str) -> tuple[Any, ...]:
    return (settings.place, method, settings.k, settings.particles, settings.seed)
