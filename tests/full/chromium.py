"""Runs a real browser from its command line, behind a proxy that records its requests."""

from __future__ import annotations

import os
import shutil
import socketserver
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--proxy-bypass-list=<-loopback>",  # the proxy gets everything, loopback too
    "--virtual-time-budget=5000",  # lets timers run without waiting for them
)
_SECONDS = 120
_SCHEMES = ("dark", "light")


class Proxy(socketserver.ThreadingTCPServer):
    """Notes the first line of every request and refuses it.

    A browser asks for a few things of its own (the time, updates), which stay here too.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Refusal)
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def requests_to(self, host: str) -> list[str]:
        return [request for request in self.requests if host in request]


class _Refusal(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Proxy)
        self.server.requests.append(self.rfile.readline().decode("latin-1").strip())
        self.wfile.write(
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )


@contextmanager
def recording_proxy() -> Generator[Proxy]:
    with Proxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


class Browser:
    """Opens pages, each in a new profile."""

    def __init__(self, place: Path, proxy: Proxy) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            pytest.fail("no Chromium here: install the package `chromium`, as `make browser` does")
        self._program, self._place, self._proxy = program, place, proxy
        self._pages = 0

    def dom(self, html: str) -> str:
        """The document as it is after everything on the page has run."""
        return self._open(html, "--dump-dom").decode()

    def screenshot(
        self, html: str, *, width: int, height: int, scheme: Literal["dark", "light"] = "dark"
    ) -> bytes:
        """A picture of the top of the page, as PNG, for a viewer that prefers a colour scheme."""
        target = self._place / "page.png"
        prefers = f"--blink-settings=preferredColorScheme={_SCHEMES.index(scheme)}"
        self._open(html, f"--screenshot={target}", f"--window-size={width},{height}", prefers)
        return target.read_bytes()

    def _open(self, html: str, *flags: str) -> bytes:
        self._pages += 1
        profile = self._place / f"profile-{self._pages}"
        profile.mkdir()
        page = self._place / f"page-{self._pages}.html"
        page.write_text(html, encoding="utf-8")
        done = subprocess.run(
            [
                self._program,
                *_FLAGS,
                f"--user-data-dir={profile}",
                f"--proxy-server=http://{self._proxy.address}",
                *flags,
                page.as_uri(),
            ],
            env={**os.environ, "HOME": str(profile)},
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        return done.stdout
