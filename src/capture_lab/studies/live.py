"""The live page of a task: calibrations, a state set by hand, episodes planned live or recorded, and their counts."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, known_name, shortened
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.capture.region_draws import has_grid
from capture_cp.conformal.coverage import Count
from capture_cp.conformal.groups import Tree
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import TIMED_OUT, Episode, episode_seeds
from capture_cp.planning.mppi import MPPI
from capture_cp.report.canvas import beside
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.viewer.controls import Control
from capture_cp.viewer.session import Frame, Session, Slider
from capture_cp.viewer.texts import coverage_table, legend, table, target
from capture_lab.studies.view import ALONE, TaskView, page_controls, replaced
from capture_lab.tasks.practice import ready_promise
from capture_lab.tasks.recorded import recorded_task
from capture_lab.tasks.rows import FittedRow, acting_row
from capture_lab.tasks.scene import PlanStep, Snapshot, TaskScene, plan_step
from capture_lab.tasks.task import Task

#: The failure rate for which practice runs were played.
PRACTICE_ALPHA = 0.1
#: Number of starts; episodes use them in turn.
STARTS = 50
#: How long (s) a finished episode stays in view at speed 1.
OVER = 1.0
RECORDED = "Regions and counts are those of the recording."


# -- an episode ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """The episode at one time.

    Attributes:
        state: (ds,).
        plan: actions from here on, (H, da); empty when the episode is over.
        trail: states so far, the current one last, (t + 1, ds).
        outcome: how the episode ended, or None.
        plan_ms: time spent on the plan.
        particles: recorded particles of the first step (L, dc), or None.
        outside: whether each state of the trail was outside the region of its step, (t + 1,); None if unknown.
    """

    state: Floats
    plan: Floats
    trail: Floats
    outcome: str | None = None
    plan_ms: float | None = None
    particles: Floats | None = None
    outside: Bools | None = None


class Run:
    """Plans with a calibrated method and acts on the true system; if nothing is changed, the same as `run_episode`.

    Attributes:
        now: the latest moment; replaced as a whole, so that other threads can read it at any time.
        pure: whether all steps were planned with the same settings.
    """

    def __init__(self, fitted: FittedRow, settings: TaskView, start: Floats, episode: int) -> None:
        self.fitted, self.settings, self.pure = fitted, settings, True
        self.task = task = fitted.task
        self._seed, noise = episode_seeds(settings.seed, task.place, episode)
        self._planner = self._planner_of(fitted, settings)
        self._act, self._rng, self._particles = task.closed_loop(start), stream(noise, "system"), stream(noise, "question")
        self._trail, self._outside = [start], [False]
        self.now = self._think()

    def retune(self, fitted: FittedRow, settings: TaskView) -> None:
        """Continue with another method or other settings, from the plan so far if it has the same length."""
        planner = self._planner_of(fitted, settings)
        if planner.nominal.shape == self._planner.nominal.shape:
            planner.nominal = self._planner.nominal
        self.fitted, self.settings, self._planner, self.pure = fitted, settings, planner, False
        self.now = self._think()

    def step(self) -> tuple[int, bool]:
        """Execute the first action and plan again; returns the regime where it ended, and whether inside its region."""
        before, action = self._trail[-1], self.now.plan[0]
        after, outcome = self._act(before.copy(), action.copy(), self._rng)
        self._trail.append(after)
        if outcome is None and len(self._trail) > self.task.max_steps:
            outcome = TIMED_OUT
        Y, alpha = after[list(self.task.axes)][None], self.settings.alpha
        found = self.fitted.executed.executed_regions(before[None], action[None], Y, alpha, rng=self._particles)
        inside = bool(found.inside[0])
        self._outside.append(not inside)
        self.now = self._think() if outcome is None else self._moment(self.now.plan[:0], outcome)
        return int(regimes_of(self.task, Y)[0]), inside

    def _planner_of(self, fitted: FittedRow, settings: TaskView) -> MPPI:
        return fitted.task.planner(fitted.cap, settings.planner, settings.weights, settings.alpha, self._seed)

    def _think(self) -> Moment:
        began = perf_counter()
        self._planner.plan(self._trail[-1])
        return self._moment(self._planner.nominal.copy(), plan_ms=1e3 * (perf_counter() - began))

    def _moment(self, plan: Floats, outcome: str | None = None, plan_ms: float | None = None) -> Moment:
        outside = np.array(self._outside)
        return Moment(self._trail[-1], plan, np.array(self._trail), outcome, plan_ms, outside=outside)


def regimes_of(task: Task, Y: Floats) -> Ints:
    """The regime of every configuration Y (n, dc), -1 where infeasible: (n,)."""
    return np.asarray(np.append(task.stratum_regimes, INFEASIBLE)[task.strata.index(Y)])


@dataclass
class Tally:
    """Running counts of one method: outcomes of episodes, and steps by the regime they ended in."""

    landed: Ints
    held: Ints
    outcomes: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Tally:
        """A copy that later counts do not change."""
        return Tally(self.landed.copy(), self.held.copy(), Counter(self.outcomes))

    def counts(self, regimes: Sequence[str]) -> list[Count]:
        """Steps over all, and by regime."""
        each = [Count(name, int(h), int(n)) for name, h, n in zip(regimes, self.held, self.landed)]
        return [Count("all", int(self.held.sum()), int(self.landed.sum())), *each]


@dataclass(frozen=True)
class TaskMoment:
    """Everything that is shown at one time.

    Attributes:
        mode: "by hand", "live" or "replay".
        plans: steps ahead with their regions, by method; only of methods that are calibrated.
        waiting: methods that are still being calibrated.
        progress: progress of a running calibration, in words.
        time, episode: step and number of the episode.
        practice: by method, runs of this planner on which the regions of executed steps are calibrated; 0 if they are
            calibrated on other transitions, or if the settings differ from those of the runs.
    """

    settings: TaskView
    scene: TaskScene
    mode: str
    moment: Moment
    plans: Mapping[str, list[PlanStep]]
    waiting: tuple[str, ...]
    progress: str
    tallies: Mapping[str, Tally]
    time: int
    episode: int
    practice: Mapping[str, int]

    @property
    def snapshot(self) -> Snapshot:
        """The part that a scene draws."""
        return Snapshot(self.moment.state, self.moment.trail, self.plans, self.moment.outside)


# -- the session ---------------------------------------------------------------------------------------------------------


class TaskSession(Session):
    """A task on the page.

    Attributes:
        places: names of the task's places.
        scene: the scene of the task in the chosen place.
        state, action: those set by hand.
    """

    live, upload = "none: live", ".npz"
    settings: TaskView

    def __init__(self, settings: TaskView) -> None:
        settings.check()
        super().__init__(settings.resolved())
        self.places = list(settings.task.place_names)
        self._tasks: dict[str, Task] = {}
        self._scenes: dict[str, TaskScene] = {}
        self._rows: dict[tuple[Any, ...], FittedRow] = {}
        self._transitions: dict[str, Transitions] = {}
        self._episodes: dict[str, Episode] = {}
        self._progress = ""
        self.close()

    @property
    def task(self) -> Task:
        """The task in the chosen place."""
        return self._task(str(self.settings.place))

    @property
    def mode(self) -> str:
        return "replay" if self._replay is not None else "by hand" if self._run is None else "live"

    @cached_property
    def controls(self) -> Mapping[str, Control]:
        return page_controls(self.settings, self.places)

    @property
    def sliders(self) -> Sequence[Slider]:
        return self.scene.sliders

    @property
    def recordings(self) -> Sequence[str]:
        return list(self._episodes)

    @property
    def last(self) -> int:
        return 0 if self._replay is None else self._replay.steps

    @property
    def rest(self) -> float:
        return OVER if self.now.outcome is not None else 1 / self.task.rate

    @property
    def camera(self) -> tuple[Floats, Floats]:
        return self.scene.camera

    @property
    def legend(self) -> str:
        return legend(self.scene.legend, self.scene.marks, self.scene.key)

    @property
    def now(self) -> Moment:
        """The current state and plan, without regions, which take time."""
        with self._lock:
            if self._replay is not None:
                return recorded_moment(self._replay, self.time, self.settings.method)
            return Moment(self.state, self.action[None], self.state[None]) if self._run is None else self._run.now

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
        """Set one number of the state or of the action by hand; ends a running episode."""
        x = self._x(self.now)
        x[entry] = value
        if entry < len(self.task.states):
            self.place(x[: len(self.task.states)])
        else:
            self.act_by_hand(x[len(self.task.states) :])

    def place(self, state: Floats) -> None:
        """Set the state by hand; ends a running episode."""
        with self._lock:
            wanted = _finite("state", state)
            self._by_hand()
            self.state = self.scene.placed(wanted)

    def act_by_hand(self, action: Floats) -> None:
        """Set the action by hand; ends a running episode."""
        with self._lock:
            wanted = _finite("action", action)
            self._by_hand()
            self.action = wanted

    def drag(self, place: Floats) -> None:
        self.place(self.scene.dragged(self.now.state, place))

    def close(self) -> None:
        """Go back to the start in the chosen place, set counts to zero, and close a recording."""
        with self._lock:
            place = str(self.settings.place)
            if place not in self._scenes:
                self._scenes[place] = self.task.scene()
            self.scene = self._scenes[place]
            self.state, self.action = self.scene.first_look()
            self._tallies: dict[str, Tally] = {}
            self._run: Run | None = None
            self.name, self.playing, self._retune = None, False, False
            self.time = self.episode = 0

    reset = close

    def open(self, name: str) -> None:
        self.show(name, self._episodes[known_name("recording", name, self._episodes)])

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
                "capture video can show it."
            )
        with self._lock:
            place = self._place_of(episode, trusted)
            self.settings = replace(self.settings, place=place, method=planned_with)
            self.close()
            self._episodes[name], self.name = episode, name

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

    def _by_hand(self) -> None:
        """End a running episode and keep its state and action."""
        now = self.now
        self.state = now.state
        if len(now.plan):
            self.action = np.array(now.plan[0])
        self._run, self.name, self.playing = None, None, False

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
        start = self.state if settings.from_here else fitted.task.starts(STARTS)[episode % STARTS]
        run = Run(fitted, settings, start, episode)
        with self._lock:
            if self._run is before and self.settings is settings:
                self._run, self._retune, self.episode = run, False, episode

    # -- frames -------------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        shown = self.moment()
        scene, snapshot, plans = shown.scene, shown.snapshot, list(shown.plans.values()) or [[]]
        pictures, enlarged = [scene.picture(snapshot, steps) for steps in plans], scene.enlarged(snapshot)
        caption = " (left), ".join(shown.plans) + " (right)" * (len(plans) > 1)
        return Frame(
            "  \n".join(line for line in (f"**{status_line(shown)}**", scene.reading(snapshot), inside_line(shown)) if line),
            "\n\n".join(part for part in (counts_table(shown), regions_table(shown)) if part),
            scene.scene(snapshot, pictures[0]),
            [(caption, beside(pictures)), *([("Close-up of the next step", beside(enlarged))] if enlarged else [])],
            self._x(shown.moment),
            bool(shown.waiting),
        )

    def moment(self) -> TaskMoment:
        """What is shown now, with regions, not drawn yet."""
        with self._lock:
            settings, scene, mode, now = self.settings, self.scene, self.mode, self.now
            rows = {name: self._rows.get(_key(settings, name)) for name in _methods(settings)}
            tallies = self._recorded_tally() if mode == "replay" else {k: t.copy() for k, t in self._tallies.items()}
            time, episode = self.time if mode == "replay" else len(now.trail) - 1, self.episode
        ready = {name: fitted for name, fitted in rows.items() if fitted is not None}
        plans = {name: _ahead(scene, fitted, now, settings) for name, fitted in ready.items()}
        waiting = tuple(name for name in rows if name not in ready)
        practice = {name: _practice(fitted, settings) for name, fitted in ready.items()}
        return TaskMoment(settings, scene, mode, now, plans, waiting, self._progress, tallies, time, episode, practice)

    def _recorded_tally(self) -> Mapping[str, Tally]:
        """Counts of the recording so far."""
        episode, task = self._replay, self.task
        if episode is None or not len(episode.inside):
            return {}
        found = regimes_of(task, episode.states[1 : self.time + 1][:, list(task.axes)])
        both = found, found[episode.inside[: self.time]]
        landed, held = (np.bincount(part[part >= 0], minlength=len(task.regimes)) for part in both)
        tally = Tally(landed, held)
        tally.outcomes[episode.outcome] += self.time >= episode.steps
        return {str(episode.info.get("method", "recorded")): tally}

    def _x(self, now: Moment) -> Floats:
        """The input (ds + da,) of a moment."""
        return np.concatenate([now.state, now.plan[0] if len(now.plan) else self.action])

    @property
    def _replay(self) -> Episode | None:
        return None if self.name is None else self._episodes[self.name]

    def _task(self, place: str) -> Task:
        """The task in a place, made when first needed."""
        if known_name("place", place, self.places) not in self._tasks:
            self._tasks[place] = self.settings.task.at(place)
        return self._tasks[place]


def recorded_moment(episode: Episode, time: int, method: str) -> Moment:
    """A recorded episode at one time; its particles are those of `method` only if it was recorded with it."""
    over = time >= episode.steps
    plan = episode.plans[time] if not over else episode.plans[:0].reshape(0, episode.actions.shape[1])
    same = episode.info.get("method") == method
    particles = episode.particles[time] if same and not over and len(episode.particles) else None
    outcome = episode.outcome if over else None
    plan_ms = None if over else float(episode.plan_ms[time])
    outside = np.append(False, ~episode.inside[:time]) if len(episode.inside) else None
    return Moment(episode.states[time], plan, episode.states[: time + 1], outcome, plan_ms, particles, outside)


def _ahead(scene: TaskScene, fitted: FittedRow, now: Moment, settings: TaskView) -> list[PlanStep]:
    """The steps of the plan: the first with the region of an executed step, the others as in the planner's cost."""
    assert isinstance(fitted.cap, Capture)  # the page's methods have one-step regions
    steps = scene.ahead(fitted.cap, now.state, now.plan, settings.alpha, settings.seed, now.particles)
    promise = fitted.promise
    if promise is None or not steps:
        return steps
    x, cloud = np.concatenate([now.state, now.plan[0]]), steps[0].cloud
    return [plan_step(promise, x, cloud, promise.region(x, settings.alpha, prediction=cloud)), *steps[1:]]


def _practice(fitted: FittedRow, settings: TaskView) -> int:
    """Runs on which the regions of executed steps are calibrated; 0 where these are not runs of this very planner."""
    if fitted.promise is None or settings.from_here:
        return 0
    row = fitted.row
    same = (settings.planner, settings.weights, settings.alpha) == (row.planner, row.weights, PRACTICE_ALPHA)
    return int(fitted.promise.data_.get("episodes", 0)) if same else 0


def _finite(name: str, numbers: Any) -> Floats:
    """The requested numbers; NaN and infinity raise an error."""
    wanted = np.asarray(numbers, dtype=np.float64)
    if not np.isfinite(wanted).all():
        raise CaptureError(f"the requested {name} is not finite; choose numbers within the sliders' bounds.")
    return wanted


def _methods(settings: TaskView) -> list[str]:
    return [settings.method] + [settings.beside] * (settings.beside not in (ALONE, settings.method))


def _key(settings: TaskView, method: str) -> tuple[Any, ...]:
    return (settings.place, method, settings.k, settings.particles, settings.seed)


# -- texts ---------------------------------------------------------------------------------------------------------------


def status_line(shown: TaskMoment) -> str:
    """The current activity, in a few words."""
    if shown.waiting:
        return f"calibrating {' and '.join(shown.waiting)}{shown.progress} …"
    if shown.mode == "by hand":
        return "by hand: press Play to plan live, or move the sliders"
    doing = "recording" if shown.mode == "replay" else f"episode {shown.episode + 1}"
    now, text = shown.moment, f"{doing}, step {shown.time}"
    if now.outcome is not None:
        return f"{text}: {now.outcome}"
    return text + (f", plan {now.plan_ms:.0f} ms" if now.plan_ms is not None else "")


def inside_line(shown: TaskMoment) -> str:
    """How many executed steps of the first method ended inside their region; empty if there are none."""
    tally = shown.tallies.get(shown.settings.method)
    if tally is None or not tally.landed.sum():
        return ""
    held, landed = int(tally.held.sum()), int(tally.landed.sum())
    return (
        f"{held} of {landed} steps inside their region ({100 * held / landed:.0f}%, target {target(shown.settings.alpha)})"
    )


def regions_table(shown: TaskMoment) -> str:
    """Cells of the first region by regime, or volumes without a grid, one column per method: Markdown."""
    cells = {name: steps[0].cells for name, steps in shown.plans.items() if steps}
    task, gridded = shown.scene.task, has_grid(shown.scene.task.strata)
    if not cells:
        return ""
    of = np.append(task.stratum_regimes, len(task.regimes))
    counts = np.array([np.bincount(of, weights=found, minlength=len(task.regimes) + 1) for found in cells.values()])
    rows = [
        [regime, *(f"{int(count):,}" if gridded else f"{count:.3g}" for count in line)]
        for regime, line in zip((*task.regimes, "infeasible"), counts.T)
    ]
    title = f"**Size of the next step's region** ({'cells' if gridded else 'volume'}, α = {shown.settings.alpha:g})"
    return table(title, ["stratum", *cells], rows)


def counts_table(shown: TaskMoment) -> str:
    """Executed steps that ended inside their region, and episodes by outcome, one column per method: Markdown."""
    if not shown.tallies:
        return ""
    alpha, practice = shown.settings.alpha, shown.practice.get(shown.settings.method, 0)
    why = RECORDED if shown.mode == "replay" else why_it_differs(practice, target(alpha))
    counts = {name: tally.counts(shown.scene.task.regimes) for name, tally in shown.tallies.items()}
    named = dict.fromkeys(outcome for tally in shown.tallies.values() for outcome in tally.outcomes)
    failed = [outcome for outcome in named if outcome not in ("success", TIMED_OUT)] or ["fell"]
    rows = [
        [outcome, *(f"{tally.outcomes[outcome]} / {tally.outcomes.total()}" for tally in shown.tallies.values())]
        for outcome in ("success", *failed, TIMED_OUT)
    ]
    episodes = table("**Episodes so far**", ["ended with", *shown.tallies], rows)
    return f"{coverage_table(counts, alpha, [why])}\n\n{episodes}"


def why_it_differs(practice: int, target: str) -> str:
    """How the counts relate to the target, in a sentence or two; `practice` runs of the planner made the calibration."""
    if practice:
        return (
            f"Calibrated on {practice:,} runs of this planner. New runs are exchangeable with them: a random step of a run "
            f"is inside its region with probability at least {target}. Steps of one run are not independent."
        )
    return (
        "Calibrated on states and actions that this planner did not choose. Its steps are not exchangeable with them, so "
        "the percentage can differ from the target."
    )
