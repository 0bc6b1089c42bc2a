"""A program that talks to a page as a browser does, and may say what no browser would."""

from __future__ import annotations

import http.client
import time
from contextlib import contextmanager

import msgspec
from websockets.sync.client import connect

CAMERA = {
    "wxyz": [1.0, 0, 0, 0], "position": [0.0, 0, 0], "fov": 1.0, "near": 0.1, "far": 10.0, "image_height": 10,
    "image_width": 10, "look_at": [0.0, 0, 1], "up_direction": [0.0, 0, 1],
}  # fmt: skip


def status(page, host=None, origin=None, path="/"):
    """How the page answers a plain request with these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", page.server.get_port(), timeout=10)
    own = f"127.0.0.1:{page.server.get_port()}"
    headers = {"Host": own if host is None else host} | ({} if origin is None else {"Origin": origin})
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


@contextmanager
def visit(page, origin=None):
    """An open connection; `send(kind, **fields)` sends one message of viser's."""
    import viser

    address = page.address.replace("http", "ws")
    protocol = [f"viser-v{viser.__version__}"]
    with connect(address, origin=origin, subprotocols=protocol, compression=None, max_size=None) as socket:

        def send(kind, **fields):
            socket.send(msgspec.msgpack.encode({"type": kind, **fields}))

        send("ViewerCameraMessage", **CAMERA)
        wait_for(lambda: page.server.get_clients())
        yield send


def move(send, handle, value):
    """Set a control to any value."""
    send("GuiUpdateMessage", uuid=handle._impl.uuid, updates={"value": value})


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "still not"
        time.sleep(0.02)
