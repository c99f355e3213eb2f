"""Stores on every backend, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clocks import Clock

from amux.store.session_store import SessionStore

BACKENDS = ("file", "memory", "postgres")


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the store."""
    return Clock()


@pytest.fixture(params=BACKENDS)
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty store on each backend."""
    backend: str = request.param
    if backend == "memory":
        return "memory:"
    if backend == "postgres":
        url: str = request.getfixturevalue("store_url")
        return url
    return str(tmp_path / "store")


@pytest.fixture
def store(store_address: str, clock: Clock) -> Iterator[SessionStore]:
    """Return an empty store on each backend."""
    with SessionStore(store_address, now=clock) as opened:
        yield opened
