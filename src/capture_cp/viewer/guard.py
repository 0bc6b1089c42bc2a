"""Who may talk to the page: a browser that shows this very page, opened by an address that is ours.

A browser lets any website send requests to a server of this machine, and tells the server where they come from. So two
headers decide. `Host`, the name by which the server was reached, must be an IP address or a name of this machine: any other
may be a website's that points here. `Origin`, the page that asks, must be a page of that same host. Programs that are no
browsers send no origin and are let in: they run on this machine, or on one that `--host` lets in.
"""

from __future__ import annotations

import http.client
import inspect
import logging
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
    """While the block lasts, servers that are started refuse requests that are not allowed.

    viser has no option for it, so the function that it starts its server with is replaced for that long.
    """
    from websockets.asyncio import server

    plain, names = server.serve, own_names(host)

    def serve(*arguments: Any, process_request: Any, **options: Any) -> Any:
        async def checked(connection: Any, request: Any) -> Any:
            if not is_allowed(request.headers.get_all("Host"), request.headers.get_all("Origin"), names):
                return connection.respond(HTTPStatus.FORBIDDEN, REFUSED)
            response = process_request(connection, request)
            response = await response if inspect.isawaitable(response) else response
            if response is not None:
                response.headers.update(HEADERS)
            return response

        return plain(*arguments, process_request=checked, logger=_quiet(), **options)

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
