"""The page: controls on the right, the configuration space on the left, the scene between; all in viser's client."""

from __future__ import annotations

import re
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name
from capture_cp.planning.episode import Episode
from capture_cp.report.canvas import beside
from capture_cp.tasks.scene import Scene, Slider
from capture_cp.viewer.controls import add_control, number_between
from capture_cp.viewer.live import Frame
from capture_cp.viewer.session import Session
from capture_cp.viewer.texts import counts_table, legend, regions_table, status_line
from capture_cp.viewer.view import page_controls
from capture_cp.viewer.worker import Worker

#: Shortest time between two frames (s), and how long a finished episode stays in view at speed 1.
FRAME, OVER = 1 / 40, 1.0
#: How long (s) after a person's last move sliders are left alone: what was true a moment ago must not push them back.
HANDS_OFF = 0.4
LIVE = "none: live"
LARGEST_UPLOAD, MOST_UPLOADS = 50_000_000, 20  # bytes of a file, and files
SPEEDS = 0.1, 10.0


class Page:
    """One server, one session, two threads: one plans and calibrates, one draws.

    Args:
        server: viser's.
        session: what is looked at.
        episodes: recordings to choose from, by name; the session shows the last of them.
    """

    def __init__(self, server: Any, session: Session, episodes: dict[str, Episode]) -> None:
        self.server, self.session, self.episodes = server, session, dict(episodes)
        self._shown: Scene | None = None
        self._once, self._touched, self._speed, self._uploads = False, 0.0, 1.0, 0
        self._lay_out()
        self._drawing = Worker("drawing", self._draw, self._failed, FRAME)
        self._working = Worker("planning", self._work, self._failed)
        server.on_client_connect(lambda client: self._wake())
        self._wake()  # calibrate before anyone looks

    @property
    def address(self) -> str:
        host = self.server.get_host()
        name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        return f"http://{name}:{self.server.get_port()}"

    def stop(self) -> None:
        """End both threads and the server."""
        self._working.stop()
        self._drawing.stop()
        self.server.stop()

    # -- layout -------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        gui, scene = self.server.gui, self.server.scene
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="large", brand_color=(0, 114, 178))
        scene.configure_environment_map(None)
        self.server.initial_camera.position, self.server.initial_camera.look_at = map(tuple, self.session.scene.camera)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(330)
        self._status = gui.add_markdown("")
        self._add_settings()
        self._add_planning()
        with gui.add_folder("State and action"):
            self._sliders = [self._add_slider(slider) for slider in self.session.scene.sliders()]
        self._add_replay()
        panel = gui.add_panel()
        with panel.add_tab("Configuration space"):
            self._image = gui.add_image(np.full((8, 8, 3), 255, np.uint8), label="", format="jpeg", jpeg_quality=92)
            gui.add_html(legend(self.session.scene.legend))
            self._enlarged = gui.add_image(
                np.full((8, 8, 3), 255, np.uint8), label="Enlarged, around the next step", format="jpeg"
            )
            self._regions = gui.add_markdown("")
            self._counts = gui.add_markdown("")
        panel.dock_left()
        panel.set_width(500)

    def _add_settings(self) -> None:
        gui = self.server.gui
        self._settings, self._controls = page_controls(self.session.settings, self.session.places), {}
        regions, planner = gui.add_folder("Regions"), gui.add_folder("Planner settings", expand_by_default=False)
        folders = {"": regions, "planner": planner, "weights": planner}
        for path, control in self._settings.items():
            with folders[path.rpartition(".")[0]]:
                self._controls[path] = add_control(gui, control, self._change)

    def _change(self, path: str, value: Any) -> None:
        self._do(lambda: self.session.change(path, self._settings[path].checked(value)))

    def _add_planning(self) -> None:
        gui, session = self.server.gui, self.session
        with gui.add_folder("Planning live"):
            deeds = {"Start": session.play, "Pause": session.pause, "Step": self._step, "Reset": session.reset}
            buttons = gui.add_button_group("", tuple(deeds))
            buttons.on_click(lambda event: self._do(lambda: deeds[known_name("button", event.target.value, deeds)]()))
            hint = "1 is real time, if the planner keeps up."
            self._speed_slider = gui.add_slider("speed", *SPEEDS, 0.1, self._speed, hint=hint)
            self._speed_slider.on_update(lambda event: self._asked(event, self._set_speed))
            from_here = gui.add_checkbox("from the state shown", False, hint="Else from the task's own start.")
            from_here.on_update(lambda event: setattr(session, "from_here", bool(event.target.value)))

    def _set_speed(self, speed: Any) -> None:
        self._speed = number_between("speed", speed, *SPEEDS)

    def _add_slider(self, slider: Slider) -> tuple[Slider, Any]:
        first = 0.0 if slider.low < 0 < slider.high else slider.low
        bounds = slider.low, slider.high, slider.step
        handle = self.server.gui.add_slider(slider.label, *bounds, first, hint=slider.hint)
        handle.on_update(lambda event: self._asked(event, lambda value: self._slide(slider, value)))
        return slider, handle

    def _slide(self, slider: Slider, value: Any) -> None:
        """Change the one number of the state or of the action that a slider stands for."""
        moment, scene = self.session.moment(), self.session.scene
        now = next(one for one in scene.sliders() if one.label == slider.label)
        by_hand = moment.state if slider.of == "state" else moment.plan[0] if len(moment.plan) else self.session.action
        numbers = by_hand.copy()
        numbers[slider.index] = number_between(slider.label, value, float(now.low), float(now.high)) / slider.unit
        if slider.of == "state":
            self.session.place(numbers)
        else:
            self.session.aim(numbers)

    def _dragged(self, entries: Sequence[int], values: Floats) -> None:
        """Put the robot where a person has dragged it in the scene."""
        state = self.session.moment().state.copy()
        state[list(entries)] = values
        self._do(lambda: self.session.place(state))

    def _add_replay(self) -> None:
        gui = self.server.gui
        with gui.add_folder("Replay", expand_by_default=bool(self.episodes)):
            shown = list(self.episodes)[-1] if self.episodes else LIVE
            self._recordings = gui.add_dropdown("episode", (LIVE, *self.episodes), initial_value=shown)
            self._timeline = gui.add_slider("time (steps)", 0, 1, 1, 0)
            upload = gui.add_upload_button("Open a recording", mime_type=".npz", hint="A file of capture plan --record.")
        self._recordings.on_update(lambda event: self._asked(event, self._choose))
        self._timeline.on_update(lambda event: self._asked(event, self.session.seek))
        upload.on_upload(lambda event: self._do(lambda: self._uploaded(event.target.value)))

    # -- deeds --------------------------------------------------------------------------------------------------------

    def _do(self, deed: Callable[[], object]) -> None:
        """What a person asked for; a refusal is reported on the page."""
        self._touched = time.monotonic()
        try:
            deed()
        except CaptureError as error:
            self._failed(error)
        self._wake()

    def _asked(self, event: Any, deed: Callable[[Any], object]) -> None:
        """What a person, not a program, chose with a control."""
        if event.client is not None:
            self._do(lambda: deed(event.target.value))

    def _wake(self) -> None:
        self._drawing.wake()
        self._working.wake()

    def _step(self) -> None:
        self.session.pause()
        self._once = True

    def _choose(self, name: str) -> None:
        if name == LIVE:
            self.session.reset()
        else:
            self.session.open(self.episodes[known_name("recording", name, self.episodes)])

    def _uploaded(self, file: Any) -> None:
        if len(file.content) > LARGEST_UPLOAD:
            raise CaptureError(f"{file.name} is larger than {LARGEST_UPLOAD // 1_000_000} MB; an episode is not.")
        if self._uploads >= MOST_UPLOADS:
            raise CaptureError(f"the page holds {self._uploads} uploaded recordings; start it again to open more.")
        name = re.sub(r"[^\w.-]", "_", Path(file.name).name)[-80:].lstrip(".") or "episode.npz"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(file.content)
            episode = Episode.load(path)
        self.session.open(episode, trusted=False)
        self._uploads += 1
        self.episodes[name] = episode
        self._recordings.options = (LIVE, *self.episodes)
        self._recordings.value = name

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, CaptureError):
            traceback.print_exception(error)  # a fault of ours, for whoever started the page
        self.session.pause()
        for client in self.server.get_clients().values():
            client.add_notification("This cannot be done", text, color="red", auto_close_seconds=8.0)

    # -- the two threads ----------------------------------------------------------------------------------------------

    def _work(self) -> float | None:
        """Calibrate what is missing; then, if playing, do one step. Returns how long to wait until the next."""
        began = time.perf_counter()
        once, self._once = self._once, False
        if self.session.prepare():
            self._once = once
            self._drawing.wake()
            return 0.0
        if not (self.session.playing or once):
            return None
        self.session.advance()
        self._drawing.wake()
        if not self.session.playing:
            return None
        over = self.session.moment().outcome is not None
        wait = (OVER if over else 1 / self.session.task.rate) / self._speed
        return max(0.0, wait - (time.perf_counter() - began))

    def _draw(self) -> float | None:
        """Show what there is now; while a calibration is under way, again in a second."""
        numba.set_num_threads(1)  # of this thread: waking others costs more than these small loops
        frame = self.session.frame()
        with self.server.atomic():
            if self._shown is not frame.scene:
                frame.scene.build(self.server, frame.snapshot, self._dragged)
                self._shown = frame.scene
            frame.scene.draw(frame.snapshot)
            self._picture(frame)
            self._tell(frame)
        if self._held():
            return HANDS_OFF
        return 1.0 if frame.waiting else None

    def _held(self) -> bool:
        """Whether a person has just moved something."""
        return time.monotonic() - self._touched < HANDS_OFF

    def _picture(self, frame: Frame) -> None:
        """The configuration space, method beside method, and the same enlarged around the next step."""
        plans = list(frame.plans.values()) or [[]]
        _set(self._image, "label", " (left), ".join(frame.plans) + " (right)" * (len(plans) > 1))
        self._image.image = beside([frame.scene.picture(frame.snapshot, steps) for steps in plans])
        enlarged = frame.scene.enlarged(frame.snapshot)
        _set(self._enlarged, "visible", bool(enlarged))
        if enlarged:
            self._enlarged.image = beside(enlarged)

    def _tell(self, frame: Frame) -> None:
        """Bring texts, and what shows values, up to date."""
        _set(self._status, "content", f"**{status_line(frame)}**  \n{frame.scene.reading(frame.snapshot)}")
        _set(self._regions, "content", regions_table(frame))
        _set(self._counts, "content", counts_table(frame))
        if not self._held():
            self._follow(frame)

    def _follow(self, frame: Frame) -> None:
        """Put sliders and menus where their values are."""
        moment = frame.moment
        action = moment.plan[0] if len(moment.plan) else self.session.action
        for (slider, handle), now in zip(self._sliders, frame.scene.sliders()):
            _set(handle, "max", now.high)
            value = (moment.state if slider.of == "state" else action)[slider.index] * slider.unit
            _set(handle, "value", float(np.clip(round(value / slider.step) * slider.step, now.low, now.high)))
        for path, handle in self._controls.items():
            value = frame.settings
            for name in path.split("."):
                value = getattr(value, name)
            _set(handle, "value", value)
        _set(self._speed_slider, "value", self._speed)
        replaying = frame.mode == "replay"
        _set(self._timeline, "max", max(1, frame.steps if replaying else 1))
        _set(self._timeline, "value", frame.time if replaying else 0)
        if not replaying:
            _set(self._recordings, "value", LIVE)


def _set(handle: Any, name: str, value: Any) -> None:
    """Send a value only if it is new."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)
