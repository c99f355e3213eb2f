"""Stores for the tests of the integrations: every test that asks for one runs on each backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from amux.store.session_store import SessionStore

pytest_plugins = ["postgres_fixtures"]

BACKENDS = ("files", "memory", "postgres")
DURABLE = ("files", "postgres")

OpenStore = Callable[[], SessionStore]


def _address(request: pytest.FixtureRequest, backend: str) -> str:
    if backend == "memory":
        return "memory:"
    if backend == "files":
        folder: Path = request.getfixturevalue("store_folder")
        return str(folder)
    url: str = request.getfixturevalue("store_url")
    return url


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest) -> Iterator[SessionStore]:
    """Return an empty store, on files, in memory and in PostgreSQL."""
    opened = SessionStore(_address(request, request.param))
    yield opened
    opened.close()


@pytest.fixture(params=DURABLE)
def store_address(request: pytest.FixtureRequest) -> str:
    """Return the address of an empty store that other processes can open."""
    return _address(request, request.param)


@pytest.fixture
def reopened(store_address: str) -> Iterator[OpenStore]:
    """Return a function that opens the store of `store_address` once more."""
    with ExitStack() as stack:

        def opened() -> SessionStore:
            found = SessionStore(store_address)
            stack.callback(found.close)
            return found

        yield opened
