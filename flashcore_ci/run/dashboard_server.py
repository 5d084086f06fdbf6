"""Serve the dashboard from the database, to this machine only. There is no route that writes, and no file is read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import clock
from flashcore_ci.dashboard import site
from flashcore_ci.dashboard.page import POLICY
from flashcore_ci.history import address, database, selection
from flashcore_ci.model.errors import FlashcoreError, UsageError
from flashcore_ci.run import dashboard_alerts, dashboard_source

LOCAL = "127.0.0.1"
SECONDS = 10
AGE = 300
"""Seconds after which pages are made again, for they say how old things are."""
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Pages:
    """The files of the site, made again when the history or an alert has changed."""

    def __init__(self, url: address.Address, suite: Path) -> None:
        self._url, self._suite, self._lock = url, suite, threading.Lock()
        self._state: tuple[object, ...] | None = None
        self._files: Mapping[str, bytes] = {}

    def get(self, path: str) -> bytes | None:
        """Return a file, or None if the site has no such path."""
        with self._lock, database.reading(self._url) as connection:
            now, alerts = int(clock.wall()), dashboard_alerts.files(self._suite)
            state = (selection.newest_change(connection), alerts, now // AGE)
            if state != self._state:
                self._files = site.files(dashboard_source.read(connection, now, alerts))
                self._state = state
            return self._files.get(path)


class Handler(BaseHTTPRequestHandler):
    """Answer GET and HEAD of paths of the site, to a client that names this address as its host."""

    server_version, sys_version = "flashcore-ci", ""
    protocol_version = "HTTP/1.1"
    timeout = SECONDS
    server: Server

    def do_GET(self) -> None:
        """Send a file of the site."""
        self._answer()

    def do_HEAD(self) -> None:
        """Send the head of the same."""
        self._answer()

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Refuse every other method."""
        if name.startswith("do_"):
            return self._refuse_method
        raise AttributeError(name)

    def _answer(self) -> None:
        if self.headers.get_all("Host") != [self.server.host] and self.headers.get_all("Host") != [self.server.name]:
            return self._send(HTTPStatus.MISDIRECTED_REQUEST, b"This server answers to its own address only.\n")
        path = self.path.partition("?")[0].removeprefix("/") or "index.html"
        try:
            found = self.server.pages.get(path)
        except FlashcoreError as error:
            return self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
        if found is None:
            return self._send(HTTPStatus.NOT_FOUND, b"There is no such page.\n")
        return self._send(HTTPStatus.OK, found, site.media_type(path))

    def _refuse_method(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"This server only reads.\n", extra={"Allow": "GET, HEAD"})

    def _send(
        self, status: HTTPStatus, body: bytes, media: str = "text/plain; charset=utf-8", extra: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **(extra or {}), "Content-Type": media, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Write nothing: a path is text from outside."""


class Server(ThreadingHTTPServer):
    """A server on the loopback address."""

    daemon_threads = True

    def __init__(self, port: int, pages: Pages) -> None:
        super().__init__((LOCAL, port), Handler)
        self.pages = pages
        self.host, self.name = f"{LOCAL}:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Drop a client that went away."""


def start(db: str, environ: Mapping[str, str], suite: Path, port: int) -> Server:
    """Bind the server. UsageError if there is no history, or the port is taken."""
    pages = Pages(address.parse(db, environ), suite)
    pages.get("index.html")
    try:
        return Server(port, pages)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {LOCAL}:{port}: {error.strerror}", fix="give --port another number, or 0 for any"
        ) from None
