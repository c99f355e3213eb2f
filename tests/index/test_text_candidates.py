"""A candidate of the text index is confirmed by reading its message, not the whole session."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from builders import ClaudeSession, CodexSession, open_client, uuid_of
from counted_bytes import counted_bytes

FILLER = "x" * 100_000


def give_back(session: ClaudeSession | CodexSession, number: int, text: str) -> None:
    """A tool is called and gives something back."""
    if isinstance(session, ClaudeSession):
        session.tool_call(f"t{number}", {"command": "ls"})
        session.tool_result(f"t{number}", text)
        return
    name = {"type": "function_call", "name": "shell", "arguments": "{}"}
    session.line("response_item", {"call_id": f"c{number}", **name})
    given = {"type": "function_call_output", "output": text}
    session.line("response_item", {"call_id": f"c{number}", **given})


@pytest.fixture(params=[ClaudeSession, CodexSession])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Forty large results; two have both words, one of them in a row."""
    session: ClaudeSession | CodexSession = request.param(tmp_path / "home", uuid_of(1))
    session.prompt("go")
    for number in range(40):
        words = {7: "connection refused", 31: "refused, said the connection"}.get(number, "")
        give_back(session, number, f"{FILLER} {words}")
    session.reply("done")
    path = session.write()
    past = time.time() - 60
    os.utime(path, (past, past))
    return tmp_path / "home"


QUERIES = [
    '"connection refused"',
    '"refused connection"',
    "connection -said",
    "/connection ref(used|ound)/",
]


@pytest.mark.parametrize("query", QUERIES)
def test_only_messages_that_may_fit_are_read(query: str, home: Path, tmp_path: Path) -> None:
    size = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
    env = {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
    with open_client(home, env=env) as client, open_client(home) as direct:
        client.sessions.search("done")
        with counted_bytes() as count:
            found = client.sessions.search(query, hits=None)
        assert found == direct.sessions.search(query, hits=None)
        assert count() < 600_000 < size
