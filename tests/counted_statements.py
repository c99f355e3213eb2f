"""Counts the statements that SQLite executes in this process."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def counted_statements() -> Generator[list[str]]:
    """Record the statements on connections that the body opens; other processes are not seen."""
    executed: list[str] = []
    connect = sqlite3.connect

    def note(statement: str) -> None:
        # A statement that another one executes, as those of FTS5 are, is noted as a comment.
        if not statement.startswith("--"):
            executed.append(statement)

    def watched(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **named)
        connection.set_trace_callback(note)
        return connection

    with patch.object(sqlite3, "connect", watched):
        yield executed
