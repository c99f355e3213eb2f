"""Session databases that are closed when a test ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from session_databases import OpenDB, Ticks, ticking_host

from amux import SessionDB


@pytest.fixture
def open_db(tmp_path: Path) -> Iterator[OpenDB]:
    """Return a function that opens a database in a temporary folder, on a clock that ticks."""
    with ExitStack() as stack:

        def opened(name: str = "state.db", *, ticks: Ticks | None = None) -> SessionDB:
            return stack.enter_context(
                SessionDB(tmp_path / name, host=ticking_host(tmp_path, ticks))
            )

        yield opened


@pytest.fixture
def db(open_db: OpenDB) -> SessionDB:
    """Return an empty database."""
    return open_db()
