"""The page of a task: controls on the right, the configuration space on the left, the scene in the middle."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, known_name
from capture_cp.planning.episode import Episode
from capture_cp.report.canvas import beside
from capture_cp.viewer.controls import number_between
from capture_cp.viewer.live import Frame
from capture_cp.viewer.page import Page, set_new
from capture_cp.viewer.session import Session
from capture_cp.viewer.texts import counts_table, inside_line, legend, regions_table, status_line
from capture_cp.viewer.view import page_controls
from capture_lab.tasks.scene import Scene, Slider

#: How long (s) a finished episode stays in view at speed 1.
OVER = 1.0
LIVE = "none: live"
LARGEST_UPLOAD, MOST_UPLOADS = 50_000_000, 20  # bytes of a file, and files


class TaskPage(Page):
    """A task with its regions, live planning and replay.

    Args:
        server: viser's.
        session: the subject of the page.
        episodes: recordings to choose from, by name; the session shows the last of them.
    """

    def __init__(self, server: Any, session: Session, episodes: dict[str, Episode]) -> None:
        self.session, self.episodes = session, dict(episodes)
        self._shown: Scene | None = None
        self._uploads = 0
        super().__init__(server, session)

    # -- layout -------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        gui = self.server.gui
        self._set_up(self.session.scene.camera)
        self._status = gui.add_markdown("")
        self._add_planning()
        self._add_settings()
        with gui.add_folder("State and action"):
            self._sliders = [self._add_slider(slider) for slider in self.session.scene.sliders()]
        self._add_replay()
        self._add_theme()
        panel = gui.add_panel()
        with panel.add_tab("Configuration space"):
            self._image = gui.add_image(np.full((8, 8, 3), 255, np.uint8), label="", format="jpeg", jpeg_quality=92)
            scene = self.session.scene
            gui.add_html(legend(scene.legend, scene.marks, scene.key))
            self._enlarged = gui.add_image(
                np.full((8, 8, 3), 255, np.uint8), label="Close-up of the next step", format="jpeg", jpeg_quality=92
            )
            self._counts = gui.add_markdown("")
            self._regions = gui.add_markdown("")
        panel.dock_left()
        panel.set_width(500)

    def _add_settings(self) -> None:
        gui = self.server.gui
        regions, planner = gui.add_folder("Regions"), gui.add_folder("Planner settings", expand_by_default=False)
        folders = {"": regions, "planner": planner, "weights": planner}
        self._add_controls(page_controls(self.session.settings, self.session.places), folders)

    def _add_planning(self) -> None:
        gui, session = self.server.gui, self.session
        with gui.add_folder("Planning live"):
            deeds = {"Start": session.play, "Pause": session.pause, "Step": self._step, "Reset": session.reset}
            buttons = gui.add_button_group("", tuple(deeds))
            buttons.on_click(lambda event: self._do(lambda: deeds[known_name("button", event.target.value, deeds)]()))
            self._add_speed("1 is real time, if the planner keeps up.")
            from_here = gui.add_checkbox("from the state shown", False, hint="Otherwise from the task's start.")
            from_here.on_update(lambda event: setattr(session, "from_here", bool(event.target.value)))

    def _add_slider(self, slider: Slider) -> tuple[Slider, Any]:
        first = 0.0 if slider.low < 0 < slider.high else slider.low
        bounds = slider.low, slider.high, slider.step
        handle = self.server.gui.add_slider(slider.label, *bounds, first, hint=slider.hint)
        handle.on_update(lambda event: self._asked(event, lambda value: self._slide(slider, value)))
        return slider, handle

    def _slide(self, slider: Slider, value: Any) -> None:
        """Change the number of the state or of the action that a slider sets."""
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
        """Put the robot where the user dragged it in the scene."""
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

    # -- requests -----------------------------------------------------------------------------------------------------

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

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _pause_after(self) -> float:
        return OVER if self.session.moment().outcome is not None else 1 / self.session.task.rate

    def _show(self) -> bool:
        frame = self.session.frame()
        with self.server.atomic():
            if self._shown is not frame.scene:
                frame.scene.build(self.server, frame.snapshot, self._dragged)
                self._shown = frame.scene
            frame.scene.draw(frame.snapshot)
            self._picture(frame)
            self._write(frame)
        return bool(frame.waiting)

    def _picture(self, frame: Frame) -> None:
        """Show the configuration space for each method, and the close-ups of the next step."""
        plans = list(frame.plans.values()) or [[]]
        set_new(self._image, "label", " (left), ".join(frame.plans) + " (right)" * (len(plans) > 1))
        self._image.image = beside([frame.scene.picture(frame.snapshot, steps) for steps in plans])
        enlarged = frame.scene.enlarged(frame.snapshot)
        set_new(self._enlarged, "visible", bool(enlarged))
        if enlarged:
            self._enlarged.image = beside(enlarged)

    def _write(self, frame: Frame) -> None:
        """Update texts and controls."""
        lines = [f"**{status_line(frame)}**", frame.scene.reading(frame.snapshot), inside_line(frame)]
        set_new(self._status, "content", "  \n".join(line for line in lines if line))
        set_new(self._regions, "content", regions_table(frame))
        set_new(self._counts, "content", counts_table(frame))
        if not self._held():
            self._follow(frame)

    def _follow(self, frame: Frame) -> None:
        """Set sliders and menus to their current values."""
        moment = frame.moment
        action = moment.plan[0] if len(moment.plan) else self.session.action
        for (slider, handle), now in zip(self._sliders, frame.scene.sliders()):
            set_new(handle, "max", now.high)
            value = (moment.state if slider.of == "state" else action)[slider.index] * slider.unit
            set_new(handle, "value", float(np.clip(round(value / slider.step) * slider.step, now.low, now.high)))
        self._follow_settings(frame.settings)
        replaying = frame.mode == "replay"
        set_new(self._timeline, "max", max(1, frame.steps if replaying else 1))
        set_new(self._timeline, "value", frame.time if replaying else 0)
        if not replaying:
            set_new(self._recordings, "value", LIVE)
