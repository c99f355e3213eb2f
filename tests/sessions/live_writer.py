"""An agent's writer in a process of its own. Reads orders from stdin, one JSON array per line.

    ["bytes", path, text]            append, every byte written and flushed by itself
    ["open", path, script]           open a database with a write-ahead log and keep it open
    ["run", statement, value...]     one transaction in it

Answers "done" after each order.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path


def append_bytes(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        for byte in text.encode():
            file.write(bytes([byte]))


def open_database(path: Path, script: str) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(script)
    return connection


def main() -> None:
    database: sqlite3.Connection | None = None
    for line in sys.stdin:
        match json.loads(line):
            case ["bytes", str(path), str(text)]:
                append_bytes(Path(path), text)
            case ["open", str(path), str(script)]:
                database = open_database(Path(path), script)
            case ["run", str(statement), *values] if database is not None:
                database.execute(statement, values)
            case order:
                raise ValueError(f"unknown order {order}")
        print("done", flush=True)


if __name__ == "__main__":
    main()
