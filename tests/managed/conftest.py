"""A home with stand-ins for the agents, and a stub of OpenCode's server."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from managed_home import ManagedHome, ServerProcess


@pytest.fixture
def managed_home(tmp_path: Path) -> Iterator[ManagedHome]:
    found = ManagedHome(tmp_path)
    yield found
    for client in found.clients:
        client.close()
    left = found.living()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == [], "an agent outlived its test"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    servers: list[ServerProcess] = []

    def start(**options: Any) -> ServerProcess:
        server = ServerProcess(tmp_path, **options)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def opencode_server(
    managed_home: ManagedHome, serve: Callable[..., ServerProcess]
) -> ServerProcess:
    server = serve()
    managed_home.configure(opencode={"server_url": server.url})
    return server
