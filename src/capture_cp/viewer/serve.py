"""`capture view`: the server of the page. By default only this machine can reach it, and it contacts no other."""

from __future__ import annotations

import errno
import io
import socket
import threading
import webbrowser
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.progress import stage
from capture_cp.report.movie import ENDINGS
from capture_cp.viewer.guard import guarded, holds
from capture_cp.viewer.session import Session

HIGHEST_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class Served:
    """Settings of a page that is served."""

    host: Annotated[str, tyro.conf.arg(help="Address to bind to; other machines cannot reach the default.")] = "127.0.0.1"
    port: Annotated[int, tyro.conf.arg(help="Port; the next free one if it is taken.")] = 8080
    open: Annotated[bool, tyro.conf.arg(help="Also open the page in the default browser.")] = False
    save: Annotated[
        Path | None, tyro.conf.arg(help=f"Write a video to this file, {' or '.join(ENDINGS)}, in place of a page.")
    ] = None
    film_speed: Annotated[
        float, tyro.conf.arg(help="Of a video: 1 is real time, or four steps per second of a log without a time column.")
    ] = 1.0

    @property
    def label(self) -> str:
        """Title of the browser's tab."""
        raise NotImplementedError

    def session(self) -> Session:
        """The subject of the page. Bad settings raise an error now."""
        raise NotImplementedError

    def film(self, file: Path, console: Console) -> None:
        """Write a video of an episode of the subject."""
        raise NotImplementedError

    def run(self, console: Console) -> None:
        """Serve the page until the program is stopped, or write a video."""
        if self.save is not None:
            self.film(self.save, console)
            return
        page = open_page(self, console)
        console.print(f"The page is at {page.address} (Ctrl+C stops).", highlight=False)
        if self.open:
            webbrowser.open(page.address)
        try:
            threading.Event().wait()
        finally:
            with redirect_stdout(io.StringIO()):  # without viser's farewell
                page.stop()


def open_page(settings: Served, console: Console) -> Any:
    """A page that is being served; `stop()` ends it."""
    with stage("preparing the page"):
        viser, port = _viser(), check_port(settings.port)
        session = settings.session()  # errors in the settings are raised before a port is taken
    from capture_cp.viewer.page import Page

    port = free_port(settings.host, port)
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
    return Page(server, session)


def check_port(port: int) -> int:
    """A valid port."""
    if not 1 <= whole_number("port", port, 1) <= HIGHEST_PORT:
        raise CaptureError(f"port is {port}; expected a whole number from 1 to {HIGHEST_PORT}.")
    return port


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
