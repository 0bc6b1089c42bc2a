"""What every page is: a server, a subject, controls, and two threads of which one works and one draws."""

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
#: How long (s) after a person's last move sliders are left alone: what was true a moment ago must not push them back.
HANDS_OFF = 0.4
SPEEDS = 0.1, 10.0


class Subject(Protocol):
    """What a page is about; nothing of it knows of a browser, and threads may call anything at any time."""

    playing: bool

    def change(self, path: str, value: Any) -> None:
        """Another value for one of the settings."""

    def pause(self) -> None:
        """Stop going on by itself."""

    def prepare(self) -> bool:
        """Do some slow work that is missing; False if there is none."""

    def advance(self) -> None:
        """One step."""


class Page(ABC):
    """One server, one subject, two threads: one does the slow work and the steps, one draws.

    Args:
        server: viser's.
        session: what is looked at.
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
        """Show what there is now; whether slow work is under way, after which there is more."""

    @abstractmethod
    def _pause_after(self) -> float:
        """How long (s) the step that was just done stays in view, at speed 1."""

    # -- layout -------------------------------------------------------------------------------------------------------

    def _set_up(self, camera: tuple[Floats, Floats]) -> None:
        """The theme, the docks, and where the camera stands at first and looks at, both (3,)."""
        gui, scene = self.server.gui, self.server.scene
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="large", brand_color=(0, 114, 178))
        scene.configure_environment_map(None)
        self.server.initial_camera.position, self.server.initial_camera.look_at = map(tuple, camera)
        gui.main_panel.dock_right()
        gui.main_panel.set_width(330)

    def _add_controls(self, settings: Mapping[str, Control], folders: Mapping[str, Any]) -> None:
        """Controls of settings by path, each in the folder of the first part of its path."""
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
        """Put the controls of settings, and the speed, where their values are."""
        for path, handle in self._controls.items():
            value = settings
            for name in path.split("."):
                value = getattr(value, name)
            set_new(handle, "value", value)
        if self._speed_slider is not None:
            set_new(self._speed_slider, "value", self._speed)

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
        self._subject.pause()
        self._once = True

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, CaptureError):
            traceback.print_exception(error)  # a fault of ours, for whoever started the page
        self._subject.pause()
        for client in self.server.get_clients().values():
            client.add_notification("This cannot be done", text, color="red", auto_close_seconds=8.0)

    # -- the two threads ----------------------------------------------------------------------------------------------

    def _work(self) -> float | None:
        """Do slow work that is missing; then, if playing, one step. Returns how long to wait until the next."""
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
        """Show what there is now; while slow work is under way, again in a second."""
        numba.set_num_threads(1)  # of this thread: waking others costs more than these small loops
        waiting = self._show()
        if self._held():
            return HANDS_OFF
        return 1.0 if waiting else None

    def _held(self) -> bool:
        """Whether a person has just moved something."""
        return time.monotonic() - self._touched < HANDS_OFF


def set_new(handle: Any, name: str, value: Any) -> None:
    """Send a value only if it is new."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)
