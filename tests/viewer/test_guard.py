"""Who may talk to the page, and what it believes: foreign websites, foreign names, and values that no control can send."""

from __future__ import annotations

import io
import json
import math
import socket
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from capture_cp import CaptureError
from capture_cp.planning.episode import Episode
from capture_cp.viewer import serve
from capture_cp.viewer.controls import Choices, Range
from capture_cp.viewer.guard import guarded, is_allowed, is_sound, own_names
from capture_lab.studies.view import TaskView, page_controls
from capture_lab.tasks.box import Box
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.peg.options import PegOptions
from viewer.sessions import VIEW, ready

pytest.importorskip("viser", reason="viser is not installed (extra view)")

import msgspec

from viewer.visitor import move, status, visit, wait_for


@pytest.fixture(scope="module")
def page():
    page = serve.open_page(VIEW, Console(file=io.StringIO()))
    yield page
    page.stop()


@pytest.fixture
def errors(page, monkeypatch):
    """What the page has refused."""
    found, failed = [], page._failed
    monkeypatch.setattr(page, "_failed", lambda error: (found.append(str(error)), failed(error)))
    return found


# -- requests ---------------------------------------------------------------------------------------------------------

NAMES = {"localhost", "robot"}


@pytest.mark.parametrize(
    ("host", "origin", "allowed"),
    [
        ("127.0.0.1:8080", None, True),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", True),
        ("localhost:9999", "http://localhost:9999", True),  # a forwarded port
        ("ROBOT:8080", "http://robot:8080", True),
        ("[::1]:8080", "http://[::1]:8080", True),
        ("192.168.1.7:8080", "https://192.168.1.7:8080", True),
        ("localhost:8080", "http://localhost:3000", False),  # another page of this machine
        ("localhost:8080", "https://evil.example", False),
        ("localhost:8080", "null", False),
        ("localhost:8080", "file://", False),
        ("localhost:8080", "", False),
        ("localhost:8080", "http://localhost:8080.evil.example", False),
        ("evil.example:8080", "http://evil.example:8080", False),  # a name of theirs that points here
        ("evil.example:8080", None, False),
        ("localhost.evil.example", None, False),
        ("evil.example@localhost", None, False),
        ("localhost/evil.example", None, False),
        ("", None, False),
        ("[::1", None, False),
    ],
)
def test_only_our_own_page_is_answered(host, origin, allowed):
    assert is_allowed([host], [] if origin is None else [origin], NAMES) is allowed


def test_a_header_must_not_come_twice():
    assert not is_allowed([], [], NAMES)
    assert not is_allowed(["localhost", "localhost"], [], NAMES)
    assert not is_allowed(["localhost"], ["http://localhost", "http://localhost"], NAMES)


def test_names_of_this_machine_and_the_given_host_are_ours():
    assert {"localhost", "lab.example", socket.gethostname().lower()} <= own_names("Lab.Example")


def test_the_page_is_served_to_its_own_address_only(page):
    port = page.server.get_port()
    code, headers, content = status(page)
    assert code == 200
    assert b"<html" in content
    assert headers["X-Frame-Options"] == "DENY"
    assert status(page, origin=f"http://127.0.0.1:{port}")[0] == 200
    for host, origin in [("evil.example", None), (None, "https://evil.example"), (None, "null")]:
        code, _, content = status(page, host, origin)
        assert code == 403
        assert content == b"capture view answers only its own page. Open it by the address that the command printed.\n"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000"])
def test_a_foreign_website_cannot_open_a_connection(page, origin):
    from websockets.exceptions import InvalidStatus

    with pytest.raises(InvalidStatus, match="403"), visit(page, origin):
        pass
    with visit(page, page.address):
        pass
    with visit(page, None):
        pass


def test_a_server_that_cannot_be_guarded_is_not_left_running(monkeypatch):
    stopped = []
    import viser

    monkeypatch.setattr(serve, "guarded", lambda host: io.StringIO())  # as if viser started its server in another way
    monkeypatch.setattr(viser.ViserServer, "stop", lambda self, stop=viser.ViserServer.stop: (stopped.append(1), stop(self)))
    with pytest.raises(CaptureError, match="requests of other websites could not be rejected with viser"):
        serve.open_page(replace(VIEW, port=8750), Console(file=io.StringIO()))
    assert stopped


def test_the_guard_leaves_other_servers_alone():
    from websockets.asyncio import server

    plain = server.serve
    with guarded("localhost"):
        assert server.serve is not plain
    assert server.serve is plain


def test_an_address_of_version_6_has_brackets():
    try:
        page = serve.open_page(replace(VIEW, host="::1", port=8760), Console(file=io.StringIO()))
    except CaptureError as error:
        pytest.skip(f"no IPv6 here: {error}")
    try:
        assert page.address == f"http://[::1]:{page.server.get_port()}"
    finally:
        page.stop()


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [TaskView.of(kind()).resolved() for kind in (Box, MarbleOptions, PegOptions)])
def test_every_number_on_the_page_has_bounds_that_hold_its_value(view):
    for control in page_controls(view).values():
        if isinstance(control.marks, Choices) or isinstance(control.value, bool):
            continue
        assert isinstance(control.marks, Range), control.path
        low, high = control.bounds
        assert low <= control.value <= high < 1e5
        assert control.checked(control.value) == control.value
        for bad in (math.nan, math.inf, -math.inf, low - 1, high + 1, "1", None, True, [1]):
            with pytest.raises(CaptureError, match=rf"{control.label} is .*; expected a .*number from"):
                control.checked(bad)
    with pytest.raises(CaptureError, match=r"horizon is 6\.5; expected a whole number from 1 to 60"):
        page_controls(view)["planner.horizon"].checked(6.5)


def test_a_place_is_chosen_by_name_only(page, errors, tmp_path):
    own = tmp_path / "secret.json"
    own.write_text("what no page may see")
    before = page.session.settings
    with visit(page) as send:
        for path in (own, tmp_path / "no-such.json", "../secret"):
            move(send, page._controls["place"], str(path))
        wait_for(lambda: len(errors) == 3)
    assert all("unknown place" in sentence and "what no page" not in sentence for sentence in errors)
    assert page.session.settings == before


def test_no_number_beyond_its_bounds_reaches_the_session(page, errors):
    before = page.session.settings
    asked = [("planner.samples", 20_000_000), ("planner.horizon", 10**9), ("alpha", "nan"), ("alpha", 7.0), ("k", 99)]
    with visit(page) as send:
        for path, value in asked:
            move(send, page._controls[path], value)
        wait_for(lambda: len(errors) == len(asked))
        assert page.session.settings == before
        wait_for(lambda: all(page._controls[path].value == getattr(before, path) for path in ("alpha", "k")))
        move(send, page._controls["alpha"], 0.2)
        wait_for(lambda: page.session.settings.alpha == 0.2)
        move(send, page._controls["alpha"], 0.1)
        wait_for(lambda: page.session.settings.alpha == 0.1)


@pytest.mark.parametrize(
    ("content", "sound"),
    [
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"value": 0.5}}, True),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"value": [1, "b", None, True]}}, True),
        ({"type": "FileTransferPart", "transfer_uuid": "a", "part_index": 0, "content": bytes(100_000)}, True),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"value": math.nan}}, False),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"value": 1e308}}, False),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"value": 2**63}}, False),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"value": "x" * 10_001}}, False),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"max": 5}}, False),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": {"value": 1, "label": "b"}}, False),
        ({"type": "GuiUpdateMessage", "uuid": "a", "updates": []}, False),
        ({"type": "ViewerCameraMessage", "position": [0.0, math.inf, 0.0]}, False),
        ({1: 2}, False),
        ([1, 2], False),
    ],
)
def test_only_sound_messages_are_passed_on(content, sound):
    assert is_sound(msgspec.msgpack.encode(content)) is sound


@pytest.mark.parametrize("message", [b"", b"\xc1", b"\x91" * 100_000, "text"], ids=["empty", "no code", "deep", "text"])
def test_what_is_no_message_is_dropped(message):
    assert not is_sound(message)


def test_what_is_beyond_a_slider_does_not_stick(page, errors):
    dial, slider, speed = page.session.sliders[0], page._sliders[0], page._speed_slider
    with visit(page) as send:
        wait_for(lambda: slider.value > 0)
        state, shown = page.session.state.copy(), slider.value
        for handle in (slider, speed):
            for value in (math.nan, math.inf, 1e308):
                move(send, handle, value)  # dropped, and and not reported
        for handle, value in [(slider, "nan"), (slider, "inf"), (slider, dial.high + 1), (speed, "nan"), (speed, 0.0)]:
            before = len(errors)
            move(send, handle, value)
            wait_for(lambda: len(errors) == before + 1)  # noqa: B023
        np.testing.assert_array_equal(page.session.state, state)
        assert page._speed == 1.0
        wait_for(lambda: slider.value == shown and speed.value == 1.0)
        move(send, slider, shown + 2 * dial.step)
        wait_for(lambda: page.session.state[0] == pytest.approx((shown + 2 * dial.step) / dial.unit))


def test_a_state_or_action_that_is_not_finite_is_refused():
    session = ready()
    before = session.state.copy(), session.action.copy()
    for part, numbers in (("state", before[0]), ("action", before[1])):
        for bad in (math.nan, math.inf):
            with pytest.raises(CaptureError, match=r"requested .* is not finite"):
                session.put(**{part: np.append(bad, numbers[1:])})
    np.testing.assert_array_equal(session.state, before[0])
    np.testing.assert_array_equal(session.action, before[1])


def test_a_recording_from_the_page_names_no_file(tmp_path):
    session = ready()
    for _ in range(3):
        session.advance()
    states, steps = session.now.trail, len(session.now.trail) - 1
    own = tmp_path / "own.json"
    own.write_text(json.dumps("what no page may see"))

    def episode(name):
        empty = np.zeros((steps, 6, 2)), np.zeros(steps), np.ones(steps)
        return Episode("success", states, np.zeros((steps, 2)), *empty, {"task": "marble", "options": {}, "map": name})

    for name in (str(own), ["own.json"], 3):
        with pytest.raises(CaptureError, match="unknown place of the episode"):
            session.show("episode.npz", episode(name), trusted=False)
    session.show("episode.npz", episode("bottom-right"), trusted=False)
    with pytest.raises(CaptureError, match="unknown map"):
        session.show("episode.npz", episode(["own.json"]))
