"""A database as lines of JSON, so that one mutator serves logs and databases.

A line creates a table, adds a row or overwrites bytes of the finished file. Columns have no type:
a cell keeps the type that a mutation gave it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

Patch = tuple[int, int, int]
"""Offset, value and number of bytes."""

MAGIC = b"SQLite format 3\x00"
NO_PATCHES = b"".join(b'{"bytes": [%d, 255, 0]}\n' % offset for offset in (20, 105, 4099))
"""Patches without effect, from which mutations start."""

SPECIFIED_TABLES = """
{"table": "sessions", "columns": ["id", "title", "parent_id", "cwd", "created_at"]}
{"row": "sessions", "cells": {"id": "a", "title": "T", "cwd": "/src", "created_at": 1794770000}}
{"row": "sessions", "cells": {"id": "b", "parent_id": "a", "created_at": "2026-01-01"}}
{"table": "messages", "columns": ["id", "session_id", "role", "content", "model", "input_tokens", \
"output_tokens", "cost"]}
{"row": "messages", "cells": {"id": 1, "session_id": "a", "role": "user", "content": "Hi"}}
{"row": "messages", "cells": {"id": 2, "session_id": "a", "role": "assistant", "model": "m", \
"content": "[{\\"text\\": \\"Yes\\"}]", "input_tokens": 7, "output_tokens": 3, "cost": 0.5}}
{"table": "tool_calls", "columns": ["id", "session_id", "message_id", "name", "input", "output"]}
{"row": "tool_calls", "cells": {"id": "c", "session_id": "a", "message_id": 2, "name": "bash", \
"input": "{\\"command\\": \\"ls\\"}", "output": "ok"}}
"""
"""Tables from the specification of two agents whose captures differ from it."""


def dump_database(path: Path) -> dict[str, list[bytes]]:
    """Return every ordinary table of a database (a copy) as lines."""
    tables: dict[str, list[bytes]] = {}
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            with suppress(sqlite3.Error):  # a virtual table without its module
                cursor = connection.execute(f'SELECT * FROM "{name}" LIMIT 400')
                columns = [column[0] for column in cursor.description]
                tables[name] = [_line({"table": name, "columns": columns})]
                for row in cursor:
                    cells = {
                        column: _cell_of(value) for column, value in zip(columns, row, strict=True)
                    }
                    tables[name].append(_line({"row": name, "cells": cells}))
    return tables


def write_database(path: Path, data: bytes) -> None:
    """Build the database that lines describe; ignore lines that fail."""
    path.unlink(missing_ok=True)
    patches: list[Patch] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN")
        for line in data.splitlines():
            with suppress(ValueError, RecursionError, sqlite3.Error):
                patches += _follow(connection, json.loads(line))
        connection.execute("COMMIT")
    if patches:
        path.write_bytes(_patched(path.read_bytes(), patches))


def _follow(connection: sqlite3.Connection, line: Any) -> list[Patch]:
    """Execute a line, except for patches of the file itself, which are applied later."""
    match line:
        case {"table": str(table), "columns": [*columns]}:
            names = ", ".join(_quoted(column) for column in columns)
            connection.execute(f"CREATE TABLE {_quoted(table)} ({names})")
        case {"row": str(table), "cells": dict(cells)}:
            _insert(connection, table, cells)
        case {"bytes": [int(offset), int(byte), int(length)]}:
            return [(offset, byte, length)]
        case _:
            pass
    return []


def _patched(content: bytes, patches: Iterable[Patch]) -> bytes:
    """Overwrite runs of bytes in the file; every number is mapped to an offset in it."""
    changed = bytearray(content)
    for offset, byte, length in patches if content else ():
        start = offset % len(content)
        run = bytes([byte % 256]) * (length % 64)
        changed[start : start + len(run)] = run
    return bytes(changed[: len(content)])


def _insert(connection: sqlite3.Connection, table: str, cells: dict[str, Any]) -> None:
    values = [_bound(cell) for cell in cells.values()]
    names = ", ".join(map(_quoted, cells))
    places = ", ".join("CAST(? AS TEXT)" if is_text else "?" for _, is_text in values)
    statement = f"INSERT INTO {_quoted(table)} ({names}) VALUES ({places})"
    connection.execute(statement, [value for value, _ in values])


def _bound(cell: Any) -> tuple[object, bool]:
    """Return a value for SQLite, and whether it is bytes that represent text."""
    match cell:
        case {"hex": str(text)}:
            return bytes.fromhex(text), False
        case {"blob": str(text)}:
            return text.encode("utf-8", "surrogatepass"), False
        case str():
            return cell.encode("utf-8", "surrogatepass"), True
        case dict() | list():
            return json.dumps(cell).encode(), True
        case bool() | None | float():
            return cell, False
        case _:
            return cell if abs(cell) < 2**63 else float(str(cell)[:300]), False


def _cell_of(value: object) -> object:
    if not isinstance(value, bytes):
        return value
    with suppress(UnicodeDecodeError):
        return {"blob": value.decode()}
    return {"hex": value.hex()}


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
