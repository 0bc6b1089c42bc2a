"""The page of a user's calibration: controls on the right, pictures on the left, the space in the middle."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import known_name, printable, shortened
from capture_cp.commands.marks import marks_shown
from capture_cp.commands.panels import Panels, panels_of
from capture_cp.commands.replay import Replay
from capture_cp.commands.space import Space
from capture_cp.report.canvas import Picture
from capture_cp.report.movie import MovingFigure
from capture_cp.viewer.controls import number_between
from capture_cp.viewer.log_scene import LogScene
from capture_cp.viewer.log_session import LogFrame, LogSession
from capture_cp.viewer.log_texts import counts_table, facts, legend_parts, status, thresholds_table
from capture_cp.viewer.page import Page, set_new
from capture_cp.viewer.texts import legend
from capture_lab.tasks.scene import whole_steps

BY_HAND = "none: by hand"
#: Size of the pictures in inches of 100 pixels.
WHOLE, CLOSE = (5.6, 4.7), (5.6, 4.2)


class Pictures:
    """The two pictures of the left panel, for one choice of axes and episode."""

    def __init__(self, space: Space, replay: Replay | None) -> None:
        self.subject = space, replay
        self.panels: Panels = panels_of(space, replay)
        self.whole, self.near = MovingFigure(WHOLE, [1.0]), MovingFigure(CLOSE, [1.0])
        for figure, close in ((self.whole, False), (self.near, True)):
            self.panels.set_up(figure.axes[0], close)
            figure.freeze()

    def draw(self, frame: LogFrame) -> tuple[Picture, Picture]:
        """The whole space, and the close-up, (h, w, 3) each."""
        assert frame.look is not None
        for figure in (self.whole, self.near):
            figure.clear()
        self.panels.draw_whole(self.whole.axes[0], frame.look, frame.step)
        self.panels.draw_near(self.near.axes[0], frame.look, frame.step)
        return self.whole.picture(" "), self.near.picture(" ")


class LogPage(Page):
    """A user's calibration, step by step through a log, or at inputs chosen by hand."""

    def __init__(self, server: Any, session: LogSession) -> None:
        self.session = session
        self._scene, self._pictures = LogScene(session.space), Pictures(session.space, None)
        super().__init__(server, session)

    # -- layout -------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        gui, session = self.server.gui, self.session
        self._set_up(self._scene.camera)
        self._scene.build(self.server)
        self._status = gui.add_markdown("")
        self._add_controls(session.controls, {"": gui.add_folder("Regions")})
        if session.runs is not None:
            self._add_log(session.runs.episodes)
            self._add_tables()
            self._add_inputs()
        else:
            self._add_inputs()
            self._add_tables()
        with gui.add_folder("Calibration"):
            parts = 0 if session.runs is None else len(session.runs.names)
            gui.add_markdown(facts(session.robot, len(session.listed), parts))
        self._add_theme()
        panel, blank = gui.add_panel(), np.full((8, 8, 3), 255, np.uint8)
        with panel.add_tab("Configuration space"):
            self._image = gui.add_image(blank, label="", format="jpeg", jpeg_quality=92)
            gui.add_html(legend(legend_parts(session.robot), marks_shown(session.robot, session.runs is not None)))
            self._close = gui.add_image(blank, label="", format="jpeg", jpeg_quality=92)
        panel.dock_left()
        panel.set_width(500)

    def _add_tables(self) -> None:
        self._thresholds, self._counts = (self.server.gui.add_markdown("") for _ in range(2))

    def _add_inputs(self) -> None:
        with self.server.gui.add_folder("Input", expand_by_default=self.session.runs is None):
            self._sliders = [self._add_slider(entry) for entry in range(len(self.session.robot.inputs))]

    def _add_log(self, episodes: bool) -> None:
        gui, session = self.server.gui, self.session
        with gui.add_folder("Log"):
            names = (*session.listed, BY_HAND)
            self._episodes = gui.add_dropdown("episode" if episodes else "rows", names, initial_value=names[0])
            self._timeline = gui.add_slider("step", 1, 2, 1, 1)
            deeds = {"Play": session.play, "Pause": session.pause, "Back": session.back, "Step": self._step}
            buttons = gui.add_button_group("", tuple(deeds))
            buttons.on_click(lambda event: self._do(lambda: deeds[known_name("button", event.target.value, deeds)]()))
            self._add_speed("1 is real time, or four steps per second if the log has no time column.")
        self._episodes.on_update(lambda event: self._asked(event, self._choose))
        self._timeline.on_update(lambda event: self._asked(event, self._seek))

    def _choose(self, name: str) -> None:
        if name == BY_HAND:
            self.session.by_hand()
        else:
            self.session.open(self.session.listed[known_name("episode", name, self.session.listed)])

    def _seek(self, step: Any) -> None:
        self.session.seek(number_between("step", step, 1, max(2, self.session.steps)) - 1)

    def _add_slider(self, entry: int) -> Any:
        low, high, step = whole_steps(*(float(end) for end in self.session.bounds[entry]))
        first = float(np.clip(self.session.x[entry], low, high))
        name = shortened(printable(self.session.robot.inputs[entry]), 24)
        handle = self.server.gui.add_slider(name, low, high, step, first)
        handle.on_update(lambda event: self._asked(event, lambda value: self._aim(entry, value)))
        return handle

    def _aim(self, entry: int, value: Any) -> None:
        bounds = self.session.bounds[entry]
        low, high, _ = whole_steps(*(float(end) for end in bounds))  # the slider's rounded ends
        wanted = number_between(self.session.robot.inputs[entry], value, low, high)
        self.session.aim(entry, float(np.clip(wanted, *bounds)))

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _pause_after(self) -> float:
        return 1 / self.session.rate

    def _show(self) -> bool:
        frame = self.session.frame()
        if frame.look is not None:
            if self._pictures.subject != (frame.space, frame.replay):
                self._pictures = Pictures(frame.space, frame.replay)
            whole, near = self._pictures.draw(frame)
        with self.server.atomic():
            if frame.look is not None:
                self._scene.draw(frame.look, whole)
                self._image.image, self._close.image = whole, near
            set_new(self._status, "content", status(frame))
            set_new(self._thresholds, "content", thresholds_table(frame))
            set_new(self._counts, "content", counts_table(frame))
            if not self._held():
                self._follow(frame)
        return frame.look is None

    def _follow(self, frame: LogFrame) -> None:
        """Set sliders and menus to their current values."""
        x = self.session.x if frame.look is None else frame.look.x
        for handle, value in zip(self._sliders, x):
            set_new(handle, "value", float(np.clip(round(value / handle.step) * handle.step, handle.min, handle.max)))
        self._follow_settings(frame.chosen)
        if frame.runs is not None:
            set_new(self._timeline, "max", max(2, frame.steps))
            set_new(self._timeline, "value", frame.step + 1 if frame.name is not None else 1)
            shown = {name: listed for listed, name in self.session.listed.items()}
            set_new(self._episodes, "value", BY_HAND if frame.name is None else shown[frame.name])
