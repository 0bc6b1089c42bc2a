"""The base of every page: a server, a subject, controls, and two threads, one for work and one for drawing."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numba

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.viewer.controls import Control, add_control, number_between
from capture_cp.viewer.worker import Worker

#: Shortest time between two frames (s).
FRAME = 1 / 40
#: How long (s) sliders are left alone after the user moved one, so that an older value does not push them back.
HANDS_OFF = 0.4
SPEEDS = 0.1, 10.0


class Subject(Protocol):
    """The subject of a page. It does not depend on a browser, and any thread can call it at any time."""

    playing: bool

    def change(self, path: str, value: Any) -> None:
        """Change one of the settings."""

    def pause(self) -> None:
        """Stop playing."""

    def prepare(self) -> bool:
        """Do a piece of pending slow work; False if there is none."""

    def advance(self) -> None:
        """One step."""


class Page(ABC):
    """One server, one subject, two threads: one does the slow work and the steps, one draws.

    Args:
        server: viser's.
        session: the subject of the page.
    """

    def __init__(self, server: Any, session: Subject) -> None:
        self.server: Any = server
        self._subject = session
        self._once, self._touched, self._speed = False, 0.0, 1.0
        self._settings: Mapping[str, Control] = {}
        self._controls: dict[str, Any] = {}
        self._speed_slider: Any = None
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

    # -- what differs -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _lay_out(self) -> None:
        """Put everything on the page."""

    @abstractmethod
    def _show(self) -> bool:
        """Show the current frame; returns whether slow work is still pending."""

    @abstractmethod
    def _pause_after(self) -> float:
        """How long (s) the last step stays in view, at speed 1."""

    # -- layout -------------------------------------------------------------------------------------------------------

    def _set_up(self, camera: tuple[Floats, Floats]) -> None:
        """Set the theme, the docks, and the camera's first position and the point it looks at, both (3,)."""
        gui, scene = self.server.gui, self.server.scene
        self._set_dark(False)
        scene.configure_environment_map(None)
        self.server.initial_camera.position, self.server.initial_camera.look_at = map(tuple, camera)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(330)

    def _set_dark(self, dark: bool) -> None:
        look = {"show_logo": False, "show_share_button": False, "control_width": "large", "brand_color": (0, 114, 178)}
        self.server.gui.configure_theme(dark_mode=dark, **look)

    def _add_theme(self) -> None:
        """A switch between a light and a dark page; pictures stay light."""
        switch = self.server.gui.add_checkbox("dark page", False, hint="For everyone who has this page open.")
        switch.on_update(lambda event: self._asked(event, lambda value: self._set_dark(bool(value))))

    def _add_controls(self, settings: Mapping[str, Control], folders: Mapping[str, Any]) -> None:
        """Add controls of settings by path, each to the folder of the first part of its path."""
        self._settings = settings
        for path, control in settings.items():
            with folders[path.rpartition(".")[0]]:
                self._controls[path] = add_control(self.server.gui, control, self._change)

    def _change(self, path: str, value: Any) -> None:
        self._do(lambda: self._subject.change(path, self._settings[path].checked(value)))

    def _add_speed(self, hint: str) -> None:
        self._speed_slider = self.server.gui.add_slider("speed", *SPEEDS, 0.1, self._speed, hint=hint)
        self._speed_slider.on_update(lambda event: self._asked(event, self._set_speed))

    def _set_speed(self, speed: Any) -> None:
        self._speed = number_between("speed", speed, *SPEEDS)

    def _follow_settings(self, settings: Any) -> None:
        """Set the controls of settings, and the speed, to their current values."""
        for path, handle in self._controls.items():
            value = settings
            for name in path.split("."):
                value = getattr(value, name)
            set_new(handle, "value", value)
        if self._speed_slider is not None:
            set_new(self._speed_slider, "value", self._speed)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _do(self, deed: Callable[[], object]) -> None:
        """Do what the user requested; an error is reported on the page."""
        self._touched = time.monotonic()
        try:
            deed()
        except CaptureError as error:
            self._failed(error)
        self._wake()

    def _asked(self, event: Any, deed: Callable[[Any], object]) -> None:
        """Do what the user, not a program, chose with a control."""
        if event.client is not None:
            self._do(lambda: deed(event.target.value))

    def _wake(self) -> None:
        self._drawing.wake()
        self._working.wake()

    def _step(self) -> None:
        self._subject.pause()
        self._once = True

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, CaptureError):
            traceback.print_exception(error)  # a bug, reported in the terminal
        self._subject.pause()
        for client in self.server.get_clients().values():
            client.add_notification("This cannot be done", text, color="red", auto_close_seconds=8.0)

    # -- the two threads ----------------------------------------------------------------------------------------------

    def _work(self) -> float | None:
        """Do pending slow work; then, if playing, one step. Returns how long (s) to wait until the next."""
        began = time.perf_counter()
        once, self._once = self._once, False
        if self._subject.prepare():
            self._once = once
            self._drawing.wake()
            return 0.0
        if not (self._subject.playing or once):
            return None
        self._subject.advance()
        self._drawing.wake()
        if not self._subject.playing:
            return None
        return max(0.0, self._pause_after() / self._speed - (time.perf_counter() - began))

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


def set_new(handle: Any, name: str, value: Any) -> None:
    """Send a value only if it is new."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)
