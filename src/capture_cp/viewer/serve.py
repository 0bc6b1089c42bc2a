"""`capture view`: the server of the page. By default only this machine can reach it, and it contacts no other."""

from __future__ import annotations

import errno
import io
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.progress import stage
from capture_cp.viewer.guard import guarded, holds

if TYPE_CHECKING:
    from capture_cp.viewer.page import Page

HIGHEST_PORT = 65535


class Served(Protocol):
    """Settings that can be served: an address, and a function that makes a page."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def open(self) -> bool: ...

    @property
    def label(self) -> str:
        """Title of the browser's tab."""

    def prepared(self) -> Callable[[Any], Page]:
        """The function that makes the page on a server. Bad settings raise an error now."""


def serve(settings: Served, console: Console) -> None:
    """Serve the page until the program is stopped."""
    page = open_page(settings, console)
    console.print(f"The page is at {page.address} (Ctrl+C stops).", highlight=False)
    if settings.open:
        webbrowser.open(page.address)
    try:
        threading.Event().wait()
    finally:
        with redirect_stdout(io.StringIO()):  # without viser's farewell
            page.stop()


def open_page(settings: Served, console: Console) -> Any:
    """A page that is being served; `stop()` ends it."""
    with stage("preparing the page"):
        viser = _viser()
        make = settings.prepared()  # errors in the settings are raised before a port is taken
    port = free_port(settings.host, settings.port)
    if port != settings.port:
        console.print(f"Port {settings.port} is taken; the page uses {port}.", highlight=False)

    class LocalServer(viser.ViserServer):  # type: ignore[misc, name-defined]
        """A server without viser's public tunnel, which a message from any page could request."""

        def request_share_url(self, verbose: bool = True) -> None:
            return None

    with redirect_stdout(io.StringIO()), guarded(settings.host):  # without viser's banner: we print the address
        server = LocalServer(settings.host, port, label=settings.label, verbose=False)
    if not holds(loopback(settings.host), server.get_port()):
        server.stop()
        raise CaptureError(
            f"the page is not served: requests of other websites could not be rejected with viser {viser.__version__}; "
            "install the version that is known to work: pip install viser==1.1.1."
        )
    return make(server)


def check_port(port: int) -> None:
    """Reject an invalid port."""
    if not 1 <= whole_number("port", port, 1) <= HIGHEST_PORT:
        raise CaptureError(f"port is {port}; expected a whole number from 1 to {HIGHEST_PORT}.")


def loopback(host: str) -> str:
    """The host at which this machine reaches a page bound to `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def free_port(host: str, wanted: int) -> int:
    """The first free port from `wanted` on; an address that cannot be bound raises an error."""
    for port in range(wanted, HIGHEST_PORT + 1):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
            return port
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise CaptureError(f"cannot serve the page on host {host!r}: {error.strerror}.") from None
    raise CaptureError(f"no port from {wanted} to {HIGHEST_PORT} is free; choose a lower one with --port.")


def _viser() -> Any:
    try:
        import viser
    except ImportError:
        raise CaptureError("the live page needs viser; install it with: pip install 'capture-cp[view]'") from None
    return viser
