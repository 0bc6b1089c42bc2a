"""The marks of figures, videos and pages: one look each, starts that stay in their panel, pages on a dark ground."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp.report.draw import draw, handles
from capture_cp.report.html import TEMPLATES
from capture_cp.report.panel import Panel
from capture_cp.report.space import Space, Window
from capture_cp.report.style import INSIDE, OUTCOME, OUTSIDE, STEP_MARKS, mark_signs, outcome_look
from capture_cp.spaces.strata import one_stratum
from capture_lab.tasks.figures import with_start


@pytest.fixture
def axis():
    figure = pytest.importorskip("matplotlib.figure")
    return figure.Figure().add_subplot()


def test_no_two_marks_look_alike():
    assert len({(look.shape, look.colour) for look in (*STEP_MARKS, OUTCOME)}) == 6
    assert len({look.name for look in (*STEP_MARKS, OUTCOME)}) == 6
    assert [outcome_look(inside) for inside in (True, False, None)] == [INSIDE, OUTSIDE, OUTCOME]


def test_legends_name_every_mark():
    pytest.importorskip("matplotlib")
    assert [handle.get_label() for handle in handles(STEP_MARKS)] == [look.name for look in STEP_MARKS]
    assert all(look.name in mark_signs(STEP_MARKS) and look.sign in mark_signs(STEP_MARKS) for look in STEP_MARKS)


def test_a_window_grows_for_a_near_start_only():
    window = Window(np.zeros(2), np.ones(2))
    space = Space(one_stratum(), window, ("x", "y"))
    near, far = (with_start(space, window, np.array(start)) for start in ((1.2, 0.5), (5.0, 0.5)))
    assert near.high[0] > 1.2
    assert far is window


@pytest.mark.parametrize(
    ("start", "shown"), [((0.5, 0.25), (0.5, 0.25)), ((-1.0, 0.5), (0.0, 0.5)), ((0.5, 3.0), (0.5, 1.0))]
)
def test_a_start_outside_the_panel_is_on_its_border(axis, start, shown):
    draw(axis, Panel(np.zeros(2), np.ones(2), start=np.array(start), particles=np.full((4, 2), 0.5)))
    line = axis.lines[-1]
    np.testing.assert_allclose([line.get_xdata()[0], line.get_ydata()[0]], shown)


def test_pages_have_a_dark_ground_and_figures_keep_a_light_one():
    style = (TEMPLATES / "style.css").read_text()
    dark = style[style.index("prefers-color-scheme: dark") :]
    assert "figure img, .boards canvas { background: #ffffff" in dark
    named = {line.split(":")[0].strip() for line in style.split("}")[0].split(";") if line.strip().startswith("--")}
    assert all(f"{name}:" in dark.split("}")[0] for name in named)
