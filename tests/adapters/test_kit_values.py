"""Values of unknown types, tables with unknown columns, and an empty database."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._kit.sqlite import read_foreign
from amux.adapters._kit.tables import columns, quoted, rows
from amux.adapters._kit.values import (
    count,
    document,
    first,
    items,
    mapping,
    moment,
    nano_usd,
    number,
    plain_text,
    text,
)
from amux.testing.captures import fingerprint
from amux.testing.strategies import json_values

ANYTHING = json_values() | st.binary() | st.floats() | st.integers()


@given(value=ANYTHING)
@pytest.mark.parametrize("read", [count, moment, nano_usd, number, text, mapping, items, document])
def test_no_value_is_an_exception(read: Callable[[object], Any], value: object) -> None:
    read(value)


@given(st.integers())
def test_a_count_is_kept_exactly_or_not_at_all(value: int) -> None:
    assert count(value) in (value, None)
    assert count(float("nan")) is count(math.inf) is count(True) is count(-1) is count(0.5) is None


@pytest.mark.parametrize(
    "value", [1_794_770_000, 1_794_770_000_000, "1794770000", "2026-11-15T19:13:20Z"]
)
def test_a_moment_is_a_moment_however_it_is_written(value: object) -> None:
    assert moment(value) == datetime(2026, 11, 15, 19, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "raw", ['{"a": "\\ud800"}', b'\xef\xbb\xbf {"a": "caf\xe9"}', b'{"a": 1}\x00']
)
def test_odd_bytes_in_a_document_hide_nothing(raw: str | bytes) -> None:
    assert "a" in mapping(document(raw))


@given(json_values())
def test_plain_text_of_a_value_is_the_text_or_its_json(value: Any) -> None:
    shown = plain_text(value)
    if value is not None and not isinstance(value, str):
        assert msgspec.json.encode(msgspec.json.decode(shown)) == msgspec.json.encode(value)


def test_the_first_field_that_says_something_counts() -> None:
    assert first({"a": None, "b": "", "c": 0, "d": 1}, "a", "b", "c", "d") == 0
    assert first({}, "a") is None


def test_names_of_columns_cannot_break_out() -> None:
    name = 'x" FROM t; DROP TABLE t; --'
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t ({quoted(name)})")
        connection.execute("INSERT INTO t VALUES (7)")
        assert columns(connection, "t") == (name,)
        assert list(rows(connection, "t", [name])) == [{name: 7}]
        assert columns(connection, "absent") == ()


def test_a_log_beside_an_empty_database_survives(tmp_path: Path) -> None:
    """SQLite deletes the log of a database without pages, even when it opens it to read."""
    live, seen = tmp_path / "live.db", tmp_path / "store" / "seen.db"
    seen.parent.mkdir()
    with closing(sqlite3.connect(live)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        for suffix in ("-wal", "-shm"):
            shutil.copy(f"{live}{suffix}", f"{seen}{suffix}")
    seen.write_bytes(b"")
    before = fingerprint(seen.parent)
    read_foreign(seen, lambda connection: connection.execute("SELECT 1").fetchall())
    assert fingerprint(seen.parent) == before
