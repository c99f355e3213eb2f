"""A pytest plug-in that runs the tests of Strands Agents with our repository and our storage.

`AMUX_SUITE_STORE` is the address of the store. The repository that their tests share, and the
storage in memory, are replaced before any test module is imported. Every object gets a store of its
own: in memory, in a directory, or in a schema of the database.
"""

from __future__ import annotations

import importlib
import os
import uuid
from pathlib import Path
from typing import Any

import pytest
import strands.storage
import strands.storage.in_memory_storage

from amux.integrations.strands import AmuxSessionRepository
from amux.integrations.strands_storage import AmuxStorage


def new_address() -> str:
    """Return the address of an empty store."""
    address, name = os.environ["AMUX_SUITE_STORE"], f"suite_{uuid.uuid4().hex}"
    if address == "memory:":
        return address
    if "://" in address:
        return f"{address}{'&' if '?' in address else '?'}schema={name}"
    return str(Path(address) / name)


class MockedSessionRepository(AmuxSessionRepository):
    """Our repository, created as the tests create theirs."""

    def __init__(self) -> None:
        super().__init__(new_address())


class InMemoryStorage(AmuxStorage):
    """Our storage, created as the tests create theirs."""

    def __init__(self) -> None:
        super().__init__(new_address())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Replace the classes; the tree with the tests is importable by now."""
    del session
    theirs: Any = importlib.import_module("tests.fixtures.mock_session_repository")
    theirs.MockedSessionRepository = MockedSessionRepository
    if "AMUX_SUITE_STORAGE" in os.environ:
        strands.storage.InMemoryStorage = InMemoryStorage  # type: ignore[assignment,misc]
        strands.storage.in_memory_storage.InMemoryStorage = InMemoryStorage  # type: ignore[assignment,misc]
