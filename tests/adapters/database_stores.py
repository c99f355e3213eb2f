"""Hypothesis strategies for databases of Hermes and OpenCode, with all kinds of relations."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
from hermes_stores import START, Store
from hypothesis import strategies as st
from opencode_store import START as OPENCODE_START
from opencode_store import Database, answer, message_id, tokens

NAMES = [f"s{number}" for number in range(8)]


def rows() -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(NAMES)
    settings = st.fixed_dictionaries(
        {}, optional={"_delegate_from": names, "_branched_from": names}
    )
    return st.fixed_dictionaries(
        {
            "source": st.sampled_from(["cli", "cli", "subagent"]),
            "model": st.sampled_from([None, "m-large", "m-small"]),
            "model_config": st.none() | settings.map(lambda one: msgspec.json.encode(one).decode()),
            "parent_session_id": st.none() | names,
            "started_at": st.sampled_from([0.0, *(START + tens * 10 for tens in range(6))]),
            "ended_at": st.none() | st.just(START + 25),
            "end_reason": st.sampled_from([None, "compression", "branched"]),
            "input_tokens": st.integers(0, 3),
            "cwd": st.sampled_from([None, "/src/app", "/src/other"]),
            "archived": st.sampled_from([0, 1]),
        }
    )


@st.composite
def stores(draw: st.DrawFn) -> dict[str, Any]:
    """Sessions with and without rows, of every kind, also such as are their own ancestors."""
    said = st.tuples(st.sampled_from([*NAMES, "gone"]), st.integers(0, 60))
    return {
        "sessions": draw(st.dictionaries(st.sampled_from(NAMES), rows(), min_size=4)),
        "messages": draw(st.lists(said, max_size=12)),
    }


def write_store(home: Path, store: dict[str, Any]) -> None:
    made = Store(home / ".hermes")
    with made.connect() as connection:
        for id, row in store["sessions"].items():
            cells = {"id": id, **row}
            marks = ", ".join("?" for _ in cells)
            connection.execute(
                f"INSERT INTO sessions ({', '.join(cells)}) VALUES ({marks})", [*cells.values()]
            )
        connection.executemany(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, ?)",
            [(id, f"at {second}", START + second) for id, second in store["messages"]],
        )


def conversation() -> st.SearchStrategy[dict[str, Any]]:
    """A session that may be a fork, a sub-agent or both; some of its answers may be copies.

    Mostly it is plain: where everything is odd everything has to be read.
    """
    moments = [OPENCODE_START + tens * 10_000 for tens in range(6)]
    used = st.tuples(st.integers(0, 20), st.integers(1, 2), st.sampled_from([False] * 4 + [True]))
    return st.fixed_dictionaries(
        {
            "title": st.sampled_from(["A title"] * 8 + ["A title (fork #1)", None]),
            "parent_id": st.sampled_from([None] * 4 + NAMES),
            "directory": st.sampled_from(["/src/app"] * 6 + ["/src/other", None]),
            "time_archived": st.sampled_from([None, None, OPENCODE_START]),
            "at": st.sampled_from([*moments, *moments, 0]),
            "answers": st.lists(used, max_size=2),
        }
    )


def write_conversations(home: Path, sessions: list[dict[str, Any]]) -> None:
    path = Database(home).path
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    number = 0
    for name, session in zip(NAMES, sessions, strict=False):
        if session["title"] is not None:  # else only its messages are left
            connection.execute(
                "INSERT INTO session (id, title, parent_id, directory, time_archived, time_created)"
                " VALUES (:id, :title, :parent_id, :directory, :time_archived, :at)",
                {"id": name, **session, "answers": None},
            )
        for second, used, is_late in session["answers"]:
            number += 1
            at = OPENCODE_START + second * 1000
            id = message_id(at + 60_000 * is_late, number)  # a copy's id is made later
            record, _ = answer("Yes.", at, tokens(used, 1))
            connection.execute(
                "INSERT INTO message VALUES (?, ?, ?, ?)",
                (id, name, at, msgspec.json.encode(record).decode()),
            )
    connection.close()
