"""The page: a server, a session, controls, and two threads, one for work and one for drawing."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name
from capture_cp.report.live import LiveScene
from capture_cp.viewer.controls import add_control, number_between
from capture_cp.viewer.session import Frame, Session
from capture_cp.viewer.worker import Worker

#: Shortest time between two frames (s).
FRAME = 1 / 40
#: How long (s) sliders are left alone after the user moved one, so that an older value does not push them back.
HANDS_OFF = 0.4
SPEEDS = 0.1, 10.0
LARGEST_UPLOAD, MOST_UPLOADS = 50_000_000, 20  # bytes of a file, and files
LOOK = {"show_logo": False, "show_share_button": False, "control_width": "large", "brand_color": (0, 114, 178)}


class Page:
    """One server, one session, two threads: one does the slow work and the steps, one draws.

    Controls are on the right, pictures of the configuration space on the left, the scene in the middle.

    Args:
        server: viser's.
        session: the subject of the page.
    """

    def __init__(self, server: Any, session: Session) -> None:
        self.server, self.session = server, session
        self._once, self._touched, self._speed, self._uploads = False, 0.0, 1.0, 0
        self._scene = LiveScene(server, self._dragged)
        self._lay_out()
        self._drawing = Worker("drawing", self._draw, self._failed, FRAME)
        self._working = Worker("working", self._work, self._failed)
        server.on_client_connect(lambda client: self._wake())
        self._wake()  # do the slow work before anyone looks

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
        gui, session = self.server.gui, self.session
        gui.configure_theme(dark_mode=False, **LOOK)
        self.server.scene.configure_environment_map(None)
        camera = self.server.initial_camera
        camera.position, camera.look_at = map(tuple, session.camera)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(330)
        self._status = gui.add_markdown("")
        self._recordings: Any = None
        if session.recordings or session.upload:  # otherwise there is nothing to play
            self._add_player()
        self._add_controls()
        with gui.add_folder("State and action", expand_by_default=session.name is None):
            self._sliders = [self._add_slider(number) for number in range(len(session.sliders))]
        self._tables = gui.add_markdown("")
        if session.facts:
            with gui.add_folder("Calibration"):
                gui.add_markdown(session.facts)
        dark = gui.add_checkbox("dark page", False, hint="For everyone who has this page open.")
        self._on(dark, lambda value: gui.configure_theme(dark_mode=bool(value), **LOOK))  # pictures stay light
        self._add_pictures()

    def _add_player(self) -> None:
        gui, session = self.server.gui, self.session
        with gui.add_folder("Steps"):
            first = session.name or session.live
            self._recordings = gui.add_dropdown("recording", (session.live, *session.recordings), initial_value=first)
            self._timeline = gui.add_slider("step", session.first, session.first + 1, 1, session.first)
            deeds = {"Play": session.play, "Pause": session.pause, "Back": session.back, "Step": self._step}
            deeds["Reset"] = session.reset
            buttons = gui.add_button_group("", tuple(deeds))
            buttons.on_click(lambda event: self._do(lambda: deeds[known_name("button", event.target.value, deeds)]()))
            hint = "1 is real time, if the planner keeps up, or four steps per second for a log without times."
            self._speed_slider = gui.add_slider("speed", *SPEEDS, 0.1, self._speed, hint=hint)
            if session.upload:
                upload = gui.add_upload_button("Open a recording", color="gray", mime_type=session.upload)
                upload.on_upload(lambda event: self._do(lambda: self._uploaded(event.target.value)))
        self._on(self._recordings, self._choose)
        self._on(self._timeline, self._seek)
        self._on(self._speed_slider, self._set_speed)

    def _add_controls(self) -> None:
        """Add the controls of settings, those of nested settings to a folder of their own."""
        gui, controls = self.server.gui, self.session.controls
        nested = any("." in path for path in controls)
        outer = gui.add_folder("Regions")
        inner = gui.add_folder("Planner settings", expand_by_default=False) if nested else outer
        self._controls: dict[str, Any] = {}
        for path, control in controls.items():
            with inner if "." in path else outer:
                self._controls[path] = add_control(gui, control, self._change)

    def _add_slider(self, number: int) -> Any:
        slider = self.session.sliders[number]
        first = 0.0 if slider.low < 0 < slider.high else slider.low
        handle = self.server.gui.add_slider(slider.label, slider.low, slider.high, slider.step, first, hint=slider.hint)
        self._on(handle, lambda value: self.session.slide(self.session.sliders[number], value))
        return handle

    def _add_pictures(self) -> None:
        gui = self.server.gui
        panel, blank = gui.add_panel(), np.full((8, 8, 3), 255, np.uint8)
        with panel.add_tab("Configuration space"):
            whole = gui.add_image(blank, label="", format="jpeg", jpeg_quality=92)
            gui.add_html(self.session.legend)
            self._images = whole, gui.add_image(blank, label="", format="jpeg", jpeg_quality=92)
        panel.dock_left()
        panel.set_width(500)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _do(self, deed: Callable[[], object]) -> None:
        """Do what the user requested; an error is reported on the page."""
        self._touched = time.monotonic()
        try:
            deed()
        except CaptureError as error:
            self._failed(error)
        self._wake()

    def _on(self, handle: Any, deed: Callable[[Any], object]) -> None:
        """Do this when a user, not a program, moves a control."""
        handle.on_update(lambda event: self._do(lambda: deed(event.target.value)) if event.client is not None else None)

    def _change(self, path: str, value: Any) -> None:
        self._do(lambda: self.session.change(path, self.session.controls[path].checked(value)))

    def _choose(self, name: str) -> None:
        if name == self.session.live:
            self.session.close()
        else:
            self.session.open(known_name("recording", name, self.session.recordings))

    def _seek(self, position: Any) -> None:
        first = self.session.first
        self.session.seek(number_between("step", position, first, max(first + 1, first + self.session.last)) - first)

    def _set_speed(self, speed: Any) -> None:
        self._speed = number_between("speed", speed, *SPEEDS)

    def _dragged(self, place: Floats) -> None:
        self._do(lambda: self.session.drag(place))

    def _step(self) -> None:
        self.session.pause()
        self._once = True

    def _uploaded(self, file: Any) -> None:
        if len(file.content) > LARGEST_UPLOAD:
            raise CaptureError(f"{file.name} is larger than {LARGEST_UPLOAD // 1_000_000} MB; an episode is not.")
        if self._uploads >= MOST_UPLOADS:
            raise CaptureError(f"the page holds {self._uploads} uploaded recordings; start it again to open more.")
        name = re.sub(r"[^\w.-]", "_", Path(file.name).name)[-80:].lstrip(".") or "recording"
        self.session.uploaded(name, file.content)
        self._uploads += 1
        self._recordings.options = (self.session.live, *self.session.recordings)

    def _wake(self) -> None:
        self._drawing.wake()
        self._working.wake()

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, CaptureError):
            traceback.print_exception(error)  # a bug, reported in the terminal
        self.session.pause()
        for client in self.server.get_clients().values():
            client.add_notification("This cannot be done", text, color="red", auto_close_seconds=8.0)

    # -- the two threads ----------------------------------------------------------------------------------------------

    def _work(self) -> float | None:
        """Do pending slow work; then, if playing, one step. Returns how long (s) to wait until the next."""
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
        return max(0.0, self.session.rest / self._speed - (time.perf_counter() - began))

    def _draw(self) -> float | None:
        """Show the current frame; while slow work is pending, again in a second."""
        numba.set_num_threads(1)  # in this thread: waking others costs more than these small loops
        waiting = self._show()
        if self._held():
            return HANDS_OFF
        return 1.0 if waiting else None

    def _held(self) -> bool:
        """Whether the user has just moved something."""
        return time.monotonic() - self._touched < HANDS_OFF

    def _show(self) -> bool:
        """Show the current frame; returns whether slow work is still pending."""
        frame = self.session.frame()
        with self.server.atomic():
            if frame.scene is not None:
                self._scene.draw(frame.scene)
            for handle, (caption, picture) in zip(self._images, frame.pictures):
                set_new(handle, "label", caption)
                handle.image = picture
            if frame.pictures:
                set_new(self._images[1], "visible", len(frame.pictures) > 1)
            set_new(self._status, "content", frame.status)
            set_new(self._tables, "content", frame.tables)
            if not self._held():
                self._follow(frame)
        return frame.waiting

    def _follow(self, frame: Frame) -> None:
        """Set sliders and menus to their current values."""
        session = self.session
        for slider, handle in zip(session.sliders, self._sliders):
            set_new(handle, "max", slider.high)
            set_new(handle, "value", slider.shown(float(frame.x[slider.entry])))
        for path, handle in self._controls.items():
            value = session.settings
            for name in path.split("."):
                value = getattr(value, name)
            set_new(handle, "value", value)
        if self._recordings is None:
            return
        set_new(self._speed_slider, "value", self._speed)
        set_new(self._timeline, "visible", session.name is not None)
        set_new(self._timeline, "max", session.first + max(1, session.last))
        set_new(self._timeline, "value", session.first + session.time)
        set_new(self._recordings, "value", session.name or session.live)


def set_new(handle: Any, name: str, value: Any) -> None:
    """Send a value only if it is new."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)
