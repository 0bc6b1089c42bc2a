"""What a page is looking at: settings, world, calibrations, the state by hand, a live episode or a recorded one.

Nothing here knows of a browser. Threads may call anything at any time: short changes take a lock, slow work (`prepare`,
`advance`) is done outside it and kept only if nothing has changed in the meantime.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from threading import RLock
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name, shortened
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.planning.episode import Episode
from capture_cp.viewer.controls import replaced
from capture_cp.viewer.frame import Frame, Tally
from capture_cp.viewer.run import Landing, Moment, Run
from capture_cp.viewer.settings import ALONE, View
from capture_cp.viewer.world import World, kinds_of


class Session:
    """One page's subject."""

    def __init__(self, settings: View, make_world: Callable[[Any], World]) -> None:
        settings.check()
        self._make_world, self._lock = make_world, RLock()
        self._worlds: dict[tuple[Any, ...], World] = {}
        self._caps: dict[tuple[Any, ...], Capture] = {}
        self.settings = settings
        self.playing, self.from_here, self._retune = False, False, False
        self.time, self.episode = 0, 0
        self._tallies: dict[str, Tally] = {}
        self._replay: Episode | None = None
        self._run: Run | None = None
        self._enter_world()

    # -- changes by a person ------------------------------------------------------------------------------------------

    def change(self, path: str, value: Any) -> None:
        """Another value for one of the settings; refused as on the command line."""
        settings = replaced(self.settings, path, value)
        settings.check()
        with self._lock:
            if settings.where != self.settings.where:
                self._world(settings)
            before, self.settings = self.settings, settings
            if settings.where != before.where:
                self._enter_world()
            elif path not in ("method", "beside"):
                self._tallies.clear()
            self._retune = path != "beside"

    def place(self, state: Floats) -> None:
        """Put the robot by hand; ends what was running."""
        with self._lock:
            wanted = _finite("state", state)
            self._by_hand()
            self.state = self.world.placed(wanted)

    def aim(self, action: Floats) -> None:
        """Choose the action by hand; ends what was running."""
        with self._lock:
            wanted = _finite("action", action)
            self._by_hand()
            self.action = wanted

    def play(self) -> None:
        """Go on by itself: plan and act, or show the recording."""
        with self._lock:
            self.playing = True
            if self._replay is not None and self.time >= self._replay.steps:
                self.time = 0

    def pause(self) -> None:
        self.playing = False

    def reset(self) -> None:
        """Back to the start, with counts at zero; closes a recording."""
        with self._lock:
            self._enter_world()

    def open(self, episode: Episode, maps: Collection[str] | None = None) -> None:
        """Show a recorded episode, with the method it was recorded with.

        `maps` are those that it may name, by default any: a file that came from a page must not make us read others.
        """
        planned_with = episode.info.get("method", METHODS[0])
        if planned_with not in METHODS:
            raise CaptureError(
                f"the episode was planned with {planned_with!r}; the page knows the paper's methods only, "
                "capture video can show it."
            )
        with self._lock:
            settings = self.settings
            for name in ("map", "system", "method"):
                if name in episode.info and hasattr(settings, name):
                    known = maps if name == "map" else None
                    settings = replaced(settings, name, _recorded_name(name, episode.info[name], known))
            settings.check()
            self._world(settings).check_episode(episode)
            self.settings = settings
            self._enter_world()
            self._replay = episode

    def seek(self, time: int) -> None:
        """A step of the recording."""
        with self._lock:
            if self._replay is not None:
                self.time = max(0, min(int(time), self._replay.steps))

    # -- slow work ----------------------------------------------------------------------------------------------------

    def prepare(self) -> bool:
        """Calibrate one chosen method that is not calibrated yet; False if there is none."""
        with self._lock:
            settings, world = self.settings, self.world
            missing = [name for name in _methods(settings) if _key(settings, name) not in self._caps]
        if not missing:
            return False
        cap = world.calibrated(missing[0], settings)
        with self._lock:
            self._caps[_key(settings, missing[0])] = cap
        return True

    def advance(self) -> None:
        """One step: of the recording, or planned and done by the true system. A finished episode gives way to the next."""
        with self._lock:
            if self._replay is not None:
                self.seek(self.time + 1)
                self.playing = self.playing and self.time < self._replay.steps
                return
            settings, world, run, retune = self.settings, self.world, self._run, self._retune
            cap = self._caps.get(_key(settings, settings.method))
        if cap is None:
            raise CaptureError(f"{settings.method} is not calibrated yet; call prepare() until it is.")
        if run is None or run.now.outcome is not None:
            self._begin(settings, world, cap, run)
            return
        if retune:
            run.retune(cap, settings)
        landing = run.step()
        with self._lock:
            if self._run is run:
                self._retune = self._retune and settings is not self.settings
                self._count(settings.method, landing, run)

    def _begin(self, settings: View, world: World, cap: Capture, before: Run | None) -> None:
        """Plan the first step of the next episode, unless a person has changed something in the meantime."""
        episode = self.episode + (before is not None)
        start = self.state if self.from_here else world.start(episode)
        run = Run(world, cap, settings, start, episode)
        with self._lock:
            if self._run is before and self.settings is settings:
                self._run, self._retune, self.episode = run, False, episode

    def _count(self, method: str, landing: Landing, run: Run) -> None:
        kinds = len(self.world.kinds)
        tally = self._tallies.setdefault(method, Tally(np.zeros(kinds, np.int64), np.zeros(kinds, np.int64)))
        if landing.kind >= 0:
            tally.landed[landing.kind] += 1
            tally.held[landing.kind] += landing.inside
        if run.now.outcome is not None and run.pure:
            tally.outcomes[run.now.outcome] += 1

    # -- what is seen -------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        """What there is to draw now, regions included."""
        with self._lock:
            settings, world, mode, moment = self.settings, self.world, self.mode, self._moment()
            caps = {name: self._caps.get(_key(settings, name)) for name in _methods(settings)}
            tallies = {
                name: Tally(t.landed.copy(), t.held.copy(), Counter(t.outcomes)) for name, t in self._counts().items()
            }
            steps = self._replay.steps if self._replay is not None else max(0, len(moment.trail) - 1)
            time, episode = self.time, self.episode
        ready = {name: cap for name, cap in caps.items() if cap is not None}
        ahead = {
            name: world.ahead(cap, moment.state, moment.plan, settings, moment.particles) for name, cap in ready.items()
        }
        waiting = tuple(name for name in caps if name not in ready)
        return Frame(settings, world, mode, moment, ahead, waiting, tallies, time, steps, episode)

    def moment(self) -> Moment:
        """The state and the plan now, without regions: quick."""
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
        return Moment(episode.states[time], plan, episode.states[: time + 1], outcome, plan_ms, particles)

    def _counts(self) -> Mapping[str, Tally]:
        """Counts of the live episodes; of a recording, those of its steps so far."""
        if self._replay is None or not len(self._replay.inside):
            return self._tallies if self._replay is None else {}
        kinds, episode = len(self.world.kinds), self._replay
        Y = episode.states[1 : self.time + 1][:, list(self.world.axes)]
        kind = kinds_of(self.world, self.world.strata.index(Y))
        landed, held = (np.bincount(part[part >= 0], minlength=kinds) for part in (kind, kind[episode.inside[: self.time]]))
        tally = Tally(landed, held)
        tally.outcomes[episode.outcome] += self.time >= episode.steps
        return {str(episode.info.get("method", "recorded")): tally}

    # -- worlds -------------------------------------------------------------------------------------------------------

    def _world(self, settings: View) -> World:
        if settings.where not in self._worlds:
            self._worlds[settings.where] = self._make_world(settings)
        return self._worlds[settings.where]

    def _enter_world(self) -> None:
        self.world = self._world(self.settings)
        self.state, self.action = self.world.first_look()
        self._tallies, self._replay, self._run = {}, None, None
        self._retune, self.playing = False, False
        self.time = self.episode = 0

    def _by_hand(self) -> None:
        """Take over from what was running, at the place it had come to."""
        moment = self._moment()
        self.state = moment.state
        if len(moment.plan):
            self.action = np.array(moment.plan[0])
        self._run, self._replay, self.playing = None, None, False


def _finite(name: str, numbers: Any) -> Floats:
    """What a page asked for, unless it is a NaN, which would stay in everything that is worked out from it."""
    wanted = np.asarray(numbers, dtype=np.float64)
    if not np.isfinite(wanted).all():
        raise CaptureError(f"the {name} asked for is not finite; choose numbers within the sliders' bounds.")
    return wanted


def _recorded_name(kind: str, given: Any, known: Collection[str] | None) -> str:
    """What an episode says of its map, system or method, which its file may not have from us."""
    if known is not None:
        return known_name(f"{kind} of the episode", given, known)
    if not isinstance(given, str):
        raise CaptureError(f"the episode's {kind} is {shortened(repr(given))}; expected a name.")
    return given


def _methods(settings: View) -> list[str]:
    return [settings.method] + [settings.beside] * (settings.beside not in (ALONE, settings.method))


def _key(settings: View, method: str) -> tuple[Any, ...]:
    return (*settings.where, method, settings.k, settings.particles, settings.seed)
