"""Access to the page: which requests are answered, and which messages are passed on.

Requests must come from a browser that shows this page, opened by an address of this machine. A browser lets any website send
requests to a local server, and reports their origin, so two headers are checked. `Host`, the name used to reach the server,
must be an IP address or a name of this machine: any other name may belong to a website that points here. `Origin`, the page
that sends the request, must be on that same host. Programs other than browsers send no origin and are accepted: they run on
this machine, or on one that `--host` admits.

Messages must contain valid values. Others are dropped before viser reads them, because viser passes a control's new value on
to every browser before our code can check it. A number too large to be sent would disconnect all of them, and a change of
another property would alter their page.
"""

from __future__ import annotations

import http.client
import inspect
import logging
import math
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

REFUSED = "capture view answers only its own page. Open it by the address that the command printed.\n"
#: No other page may show this one in a frame, where a click meant for that page would reach this one.
HEADERS = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
#: A reserved name (RFC 2606), to test the guard with.
FOREIGN = "foreign.invalid"
#: Largest number and longest text of a message; larger whole numbers are not exact in a browser.
LARGEST, LONGEST = 2**53, 10_000


def own_names(host: str) -> set[str]:
    """Names by which a page served at `host` can be reached, other than IP addresses."""
    machine = socket.gethostname()
    return {name.lower() for name in ("localhost", host, machine, f"{machine}.local")}


def is_allowed(hosts: Collection[str], origins: Collection[str], names: Collection[str]) -> bool:
    """Whether a request with these `Host` and `Origin` headers comes from our own page, or from no page."""
    if len(hosts) != 1 or len(origins) > 1:
        return False
    (host,) = (value.lower() for value in hosts)
    return _is_ours(host, names) and all(origin.lower() in (f"http://{host}", f"https://{host}") for origin in origins)


def _is_ours(host: str, names: Collection[str]) -> bool:
    if any(letter in host for letter in "@/\\?# "):
        return False
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in names or bool(ip_address(name))
    except ValueError:
        return False


@contextmanager
def guarded(host: str) -> Iterator[None]:
    """Servers started within this context reject requests that are not allowed, and drop invalid messages.

    viser has no option for this, so its function that starts a server is replaced meanwhile.
    """
    from websockets.asyncio import server

    plain, names = server.serve, own_names(host)

    def serve(handler: Any, *arguments: Any, process_request: Any, **options: Any) -> Any:
        async def sound(connection: Any) -> None:
            await handler(SoundMessages(connection))

        async def checked(connection: Any, request: Any) -> Any:
            if not is_allowed(request.headers.get_all("Host"), request.headers.get_all("Origin"), names):
                return connection.respond(HTTPStatus.FORBIDDEN, REFUSED)
            response = process_request(connection, request)
            response = await response if inspect.isawaitable(response) else response
            if response is not None:
                response.headers.update(HEADERS)
            return response

        return plain(sound, *arguments, process_request=checked, logger=_quiet(), **options)

    server.serve = serve  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        server.serve = plain  # type: ignore[misc]


def holds(host: str, port: int) -> bool:
    """Whether the server there rejects a request by a foreign name."""
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", "/", headers={"Host": FOREIGN})
        return connection.getresponse().status == HTTPStatus.FORBIDDEN
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _quiet() -> logging.Logger:
    """A logger that keeps broken requests, which anyone can send, out of the terminal."""
    logger = logging.getLogger("capture_cp.viewer.requests")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


# -- messages ------------------------------------------------------------------------------------------------------------


class SoundMessages:
    """A connection whose `recv` returns only valid messages; otherwise the connection itself."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> Any:
        """The next valid message."""
        while True:
            message = await self._connection.recv()
            if is_sound(message):
                return message


def is_sound(message: Any) -> bool:
    """Whether a message is one that the page's own script could have sent."""
    import msgspec

    if not isinstance(message, bytes):
        return False
    try:
        content = msgspec.msgpack.decode(message)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    if not isinstance(content, dict) or not _is_plain(content):
        return False
    return content.get("type") != "GuiUpdateMessage" or _is_value(content.get("updates"))


def _is_value(updates: Any) -> bool:
    return isinstance(updates, dict) and set(updates) == {"value"}


def _is_plain(value: Any) -> bool:
    """Whether numbers are finite and small enough to be sent, and texts short; files are bytes."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return len(value) <= LONGEST
    if isinstance(value, int | float):
        return math.isfinite(value) and abs(value) <= LARGEST
    return value is None or isinstance(value, bytes)
