"""Puts `AmuxSaver` in the place of the SQLite savers, before LangGraph's own tests are collected.

`AMUX_SUITE_STORE` says where: "memory:", a `postgresql://` URL, or "files" for a new directory per
test. LangGraph's fixtures make one saver per test; in a database, each gets a schema of its own.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncGenerator, Generator

import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
import psycopg
from psycopg import sql

from amux.integrations.langgraph import AmuxSaver


@contextlib.contextmanager
def _schema(address: str) -> Generator[str]:
    name = f"suite_{os.urandom(8).hex()}"
    yield f"{address}{'&' if '?' in address else '?'}schema={name}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


@contextlib.contextmanager
def _saver() -> Generator[AmuxSaver]:
    address = os.environ["AMUX_SUITE_STORE"]
    with contextlib.ExitStack() as stack:
        if address == "files":
            address = stack.enter_context(tempfile.TemporaryDirectory())
        elif address.startswith("postgresql:"):
            address = stack.enter_context(_schema(address))
        yield stack.enter_context(AmuxSaver(address))


class AmuxInsteadOfSqlite(AmuxSaver):
    """Is created as LangGraph's fixtures create `SqliteSaver`."""

    @classmethod
    @contextlib.contextmanager
    def from_conn_string(cls, _: str) -> Generator[AmuxSaver]:
        with _saver() as saver:
            yield saver


class AmuxInsteadOfAsyncSqlite(AmuxSaver):
    """Is created as LangGraph's fixtures create `AsyncSqliteSaver`."""

    @classmethod
    @contextlib.asynccontextmanager
    async def from_conn_string(cls, _: str) -> AsyncGenerator[AmuxSaver]:
        with _saver() as saver:
            yield saver


langgraph.checkpoint.sqlite.SqliteSaver = AmuxInsteadOfSqlite  # type: ignore[assignment,misc]
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AmuxInsteadOfAsyncSqlite  # type: ignore[assignment,misc]
