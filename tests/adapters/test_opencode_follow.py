"""OpenCode: `follow` reports an answer that is written in parts, into rows that are updated."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from following import applied, follow
from opencode_store import (
    START,
    Database,
    answer,
    client_on,
    data_dir,
    message_id,
    tokens,
    user,
    write_session,
)


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


def part_files(home: Path) -> list[Path]:
    return sorted((data_dir(home) / "storage" / "part").glob("*/*.json"))


def rewrite(path: Path, text: str) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"text": text}))


def replace(path: Path, text: str) -> None:
    new = path.with_name("new.tmp")
    new.write_text(json.dumps(json.loads(path.read_text()) | {"text": text}))
    new.replace(path)


def add(path: Path, text: str) -> None:
    new = path.with_name(path.stem + "9.json")
    new.write_text(json.dumps(json.loads(path.read_text()) | {"text": text, "id": new.stem}))


@pytest.mark.parametrize("change", [rewrite, replace, add])
def test_a_part_file_that_changes_is_reported(
    home: Path, change: Callable[[Path, str], None]
) -> None:
    write_session(home, "ses_1", [user("hello", START), answer("I look", START + 1, tokens(1, 1))])
    write_session(home, "ses_2", [user("another", START + 9)])
    [changed] = [path for path in part_files(home) if "I look" in path.read_text()]

    changes = follow(home, "opencode", "ses_1", (3, lambda: change(changed, "one file")))
    assert [each.kind for each in changes] == ["updated-message"]
    whole = client_on(home).sessions.get("opencode", "ses_1").messages
    assert "one file" in whole[1].content
    assert changes[0].message.content == whole[1].content


def test_a_part_of_a_new_message_is_reported(home: Path) -> None:
    spoken = [user("hello", START), answer("I look", START + 5, tokens(1, 1))]
    write_session(home, "ses_1", spoken[:1])
    grown = partial(write_session, home, "ses_1", spoken)

    def change() -> None:
        [path] = [path for path in part_files(home) if "I look" in path.read_text()]
        rewrite(path, "one file")

    changes = follow(home, "opencode", "ses_1", (3, grown), (9, change))
    assert [each.kind for each in changes] == ["message", "updated-message"]
    assert changes[-1].message.content == "one file"
