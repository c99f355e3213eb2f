"""A token count that is not a number is unknown, never zero, in the stores of every agent."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from amux.client import create_client
from amux.model.cost import CostRecord
from amux.testing import Capture, find_captures

pytestmark = pytest.mark.no_cover  # the plain tests reach the same lines

CAPTURES = Path(__file__).parent.parent / "captures"
NEWEST = {
    "claude": "2.1.325",
    "codex": "0.166.0",
    "copilot": "1.0.102",
    "cursor": "handmade",
    "droid": "0.225.2",
    "gemini": "0.61.0",
    "hermes": "0.19.0",
    "omp": "18.2.3",
    "openclaw": "2026.6.11",
    "opencode": "1.18.33",
    "pi": "1.5.0",
    "qwen": "0.24.4",
}
OLDER = {"claude": "1.0.59", "codex": "0.42.0", "gemini": "0.15.4", "opencode": "0.5.29"}
FIGURE = re.compile(
    r'("(?:output_tokens|outputTokens|output|candidatesTokenCount|output_token_count)":\s*)\d+(?![\d.e])'
)
TEXTS = {".json", ".jsonl"}
DATABASES = {".db", ".vscdb"}

Costs = Mapping[str, CostRecord | None]


def chosen(versions: Mapping[str, str]) -> list[Capture]:
    return [c for c in find_captures(CAPTURES) if versions.get(c.folder) == c.version]


def damage(home: Path, odd: str) -> None:
    """Put something else in the place of every count of output."""
    for path in home.rglob("*"):
        if path.suffix in TEXTS and path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(FIGURE.sub(rf"\g<1>{odd}", text), encoding="utf-8")
        elif path.suffix in DATABASES and path.is_file():
            damage_database(path, odd)


def damage_database(path: Path, odd: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("sessions", "session_model_usage"):
            if "output_tokens" in columns_of(connection, table):
                connection.execute(f"UPDATE {table} SET output_tokens = ?", (odd.strip('"'),))
        for table, key, column in (
            ("message", "id", "data"),
            ("part", "id", "data"),
            ("cursorDiskKV", "key", "value"),
        ):
            if column not in columns_of(connection, table):
                continue
            for name, value in connection.execute(
                f"SELECT {key}, {column} FROM {table}"
            ).fetchall():
                text = value.decode() if isinstance(value, bytes) else value
                if isinstance(text, str):
                    changed = FIGURE.sub(rf"\g<1>{odd}", text)
                    statement = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
                    connection.execute(statement, (changed, name))


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def costs_of(home: Path, agent: str, *, index: str, cache: Path) -> Costs:
    env = {"AMUX_INDEX": index, "AMUX_CACHE_DIR": str(cache)}
    with create_client(home=home, env=env) as client:
        listed = client.sessions.list(agent, limit=None, include_archived=True)
        total = client.sessions.total_cost(agent=agent)
        assert "usage-unusable" in total.incomplete
        return {summary.session_id: summary.cost for summary in listed}


CASES = (
    *((capture, '"x"') for capture in chosen(NEWEST)),
    *((capture, odd) for capture in chosen(OLDER) for odd in ("-7", "1e30")),
)


@pytest.mark.parametrize(("capture", "odd"), CASES, ids=lambda given: getattr(given, "name", given))
def test_an_invalid_count_makes_a_session_incomplete(
    capture: Capture, odd: str, tmp_path: Path
) -> None:
    home, cache = capture.copy_to(tmp_path), tmp_path / "cache"
    with create_client(home=home, env={"AMUX_INDEX": "off"}) as client:
        listed = client.sessions.list(capture.agent, limit=None, include_archived=True)
        spent = {one.session_id for one in listed if one.cost and one.cost.output_tokens}
    assert spent
    damage(home, odd)
    direct = costs_of(home, capture.agent, index="off", cache=cache)
    assert costs_of(home, capture.agent, index="on", cache=cache) == direct
    for session_id in spent:
        cost = direct[session_id]
        assert cost is None or "usage-unusable" in cost.incomplete, session_id
