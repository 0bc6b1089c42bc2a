"""The live page attacked from other websites, and with messages that no page of ours would send."""

from __future__ import annotations

import io
import itertools
import math
import resource
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from attack.row import Row
from mutations.raw import ODD

HOSTS = [
    "evil.example",
    "localhost.evil.example",
    "evil.example:8080",
    "evil.example@localhost",
    "",
    "[::1",
    "0x7f.1",
    "a b",
]
ORIGINS = [
    "https://evil.example",
    "http://localhost:1",
    "http://127.0.0.1",
    "null",
    "file://",
    "",
    "HTTP://",
    "moz-extension://x",
]
MESSAGES = 400
#: Bytes that the page may grow by while it is attacked.
ROOM = 500 << 20


def rows(seed: int) -> Iterator[Row]:
    if find_spec("viser") is None:
        yield Row("foreign website", note="left out: viser is not installed")
        return
    from rich.console import Console

    from capture_cp.viewer.serve import open_page
    from viewer.sessions import VIEW

    page = open_page(VIEW, Console(file=io.StringIO()))
    try:
        yield from (requests(page), connections(page), messages(page, seed))
    finally:
        page.stop()


def requests(page: Any) -> Row:
    from viewer.visitor import status

    row, own = Row("page: request of a foreign website"), f"127.0.0.1:{page.server.get_port()}"
    pairs = [*itertools.product(HOSTS, [None, *ORIGINS]), *itertools.product([own], ORIGINS)]
    for host, origin in pairs:
        with row.trying((host, origin)):
            assert status(page, host, origin)[0] in (400, 403)
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cetc", "//etc/passwd"):
        with row.trying(path):
            assert status(page, path=path)[0] == 404
    with row.trying("the page itself"):
        assert status(page, own, f"http://{own}")[0] == 200
    return row


def connections(page: Any) -> Row:
    from websockets.exceptions import InvalidStatus

    from viewer.visitor import visit

    row = Row("page: connection of a foreign website")
    for origin in filter(None, ORIGINS):
        with row.trying(origin), pytest.raises(InvalidStatus, match="403"), visit(page, origin):
            pass
    with row.trying("the page itself"), visit(page, page.address):
        pass
    return row


def messages(page: Any, seed: int) -> Row:
    """Odd values for every control, from a program that was let in; the page must stay sound, and of the same size."""
    from viewer.visitor import move, visit, wait_for

    rng, row = np.random.default_rng(seed), Row("page: value that no control can send")
    values = [value for value in ODD if not isinstance(value, int) or abs(value) < 2**63]
    values += [math.nan, 20_000_000, "/etc/passwd.json", "../../x.json", [1e308] * 100]
    wait_for(lambda: page.session.shown().waiting == (), 300)  # a calibration takes memory, too
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handles = [*page._controls.values(), *page._sliders, page._speed_slider, page._timeline]
    for number in range(MESSAGES):
        handle, value = handles[int(rng.integers(len(handles)))], values[int(rng.integers(len(values)))]
        with row.trying((number, value)):
            with visit(page) as send:
                move(send, handle, value)
            check(page)
    with row.trying("memory"):
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < ROOM
    with row.trying("the page still works"), visit(page) as send:
        move(send, page._controls["alpha"], 0.2 if page.session.settings.alpha != 0.2 else 0.3)
        wait_for(lambda: page.session.settings.alpha in (0.2, 0.3))
    return row


def check(page: Any) -> None:
    """Everything within its bounds."""
    settings = page.session.settings
    settings.check()
    for path, control in page.session.controls.items():
        value = settings
        for name in path.split("."):
            value = getattr(value, name)
        control.checked(value)
    assert np.isfinite(page.session.state).all()
    assert np.isfinite(page.session.action).all()
    assert 0.1 <= page._speed <= 10
