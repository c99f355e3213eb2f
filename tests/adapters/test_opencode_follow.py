"""OpenCode: `follow` reports an answer that is written in parts, into rows that are updated."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from followed import applied, follow
from opencode_store import START, Database, answer, client_on, message_id, tokens, user


def add_part(database: Database, message: str, number: int, part: dict[str, Any]) -> None:
    database.insert(
        "part",
        id=f"prt_{message[4:]}{number:02}",
        message_id=message,
        session_id="ses_1",
        data=json.dumps(part),
    )


def change_part(database: Database, message: str, number: int, part: dict[str, Any]) -> None:
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute(
            "UPDATE part SET data = ? WHERE id = ?",
            (json.dumps(part), f"prt_{message[4:]}{number:02}"),
        )


def tool(status: str, **more: Any) -> dict[str, Any]:
    state = {"status": status, "input": {"command": "ls"}, **more}
    return {"type": "tool", "tool": "bash", "callID": "c1", "state": state}


def test_an_answer_that_is_written_in_parts_is_told_and_updated(home: Path) -> None:
    database = Database(home).session("ses_1").message("ses_1", user("hello", START))
    own = message_id(START + 1)
    begun = answer("I look", START + 1, tokens(1, 1), steps=False)

    changes = follow(
        home,
        "opencode",
        "ses_1",
        (1, lambda: database.message("ses_1", begun, id=own)),
        (9, lambda: add_part(database, own, 1, tool("running"))),
        (19, lambda: change_part(database, own, 1, tool("completed", output="a.txt"))),
        (29, lambda: add_part(database, own, 2, {"type": "text", "text": "one file"})),
        from_start=True,
    )
    whole = client_on(home).sessions.get("opencode", "ses_1")
    assert [c.kind for c in changes[:2]] == ["message", "message"]
    assert "updated-message" in {c.kind for c in changes}
    told = applied(changes)["ses_1"]
    assert [(m.role, m.content, m.id) for m in told] == [
        (m.role, m.content, m.id) for m in whole.messages
    ]
    assert [m.tool_result for m in told] == [m.tool_result for m in whole.messages]


def test_a_session_that_is_deleted_from_the_database_ends(home: Path) -> None:
    database = Database(home).session("ses_1").message("ses_1", user("hello", START))
    database.session("ses_2").message("ses_2", user("other", START + 9))

    def delete() -> None:
        with closing(sqlite3.connect(database.path)) as connection, connection:
            for table, column in (("session", "id"), ("message", "session_id")):
                connection.execute(f"DELETE FROM {table} WHERE {column} = 'ses_1'")

    changes = follow(home, "opencode", "ses_1", (1, delete))
    assert [c.kind for c in changes][-1] == "ended"
