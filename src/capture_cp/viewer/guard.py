"""Who may talk to the page, and what they may send.

Who: a browser that shows this very page, opened by an address that is ours. A browser lets any website send requests to a
server of this machine, and reports where they come from. So two headers decide. `Host`, the name by which the server was
reached, must be an IP address or a name of this machine: any other may be a website's that points here. `Origin`, the page
that asks, must be a page of that same host. Programs that are no browsers send no origin and are let in: they run on this
machine, or on one that `--host` lets in.

What: messages whose numbers are numbers. The rest is dropped before viser sees it, because viser believes a control's new
value and passes it on to every browser before it asks us. A number too large to be sent would then cut all of them off, and
another property than the value would change the page under them.
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
#: No other page may show this one in a frame, where a click meant for that page would land here.
HEADERS = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
#: Nobody's name (RFC 2606), to try the guard with.
FOREIGN = "foreign.invalid"
#: Largest number and longest text of a message; whole numbers beyond have no exact value in a browser either.
LARGEST, LONGEST = 2**53, 10_000


def own_names(host: str) -> set[str]:
    """Names by which a page served at `host` may be reached; IP addresses need not be listed."""
    machine = socket.gethostname()
    return {name.lower() for name in ("localhost", host, machine, f"{machine}.local")}


def is_allowed(hosts: Collection[str], origins: Collection[str], names: Collection[str]) -> bool:
    """Whether a request with these `Host` and `Origin` headers comes from our own page, or from no page at all."""
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
    """While the block lasts, servers that are started refuse requests that are not allowed, and drop unsound messages.

    viser has no option for it, so the function that it starts its server with is replaced for that long.
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
    """Whether the server there refuses a request by a foreign name."""
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
    """A connection whose `recv` returns only messages that are sound; in all else the connection itself."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> Any:
        """The next message that may be passed on."""
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
    """Whether numbers are finite and of a size that can be sent on, and texts short; files come as bytes."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return len(value) <= LONGEST
    if isinstance(value, int | float):
        return math.isfinite(value) and abs(value) <= LARGEST
    return value is None or isinstance(value, bytes)
