"""A session that grows is found as it grows, and only what is new is read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from builders import ClaudeSession, open_client, uuid_of
from counted_bytes import counted_bytes
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.client import Client
from amux.model.session import SessionSummary

WORDS = ("alpha", "beta", "gamma")


def indexed(home: Path, cache: Path) -> Client:
    return open_client(home, env={"AMUX_CACHE_DIR": str(cache)})


def append(path: Path, data: bytes) -> None:
    """Write on, as if it had happened a moment ago: what is newer is read again anyway."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        log.write(data)
    past = time.time() - 60
    os.utime(path, (past, past))


def found(client: Client, word: str) -> list[SessionSummary]:
    return client.sessions.search(word, hits=None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["prompt", "reply", "again", "result", "system"]),
        st.sampled_from(WORDS),
        st.sampled_from([None, 0, 0, 0, 1, 30]),  # bytes still missing when somebody searches
    ),
    min_size=2,
    max_size=14,
)


@drawn(40)
@given(steps=STEPS)
def test_every_search_of_a_growing_session_is_that_of_its_files(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int | None]]
) -> None:
    place = tmp_path_factory.mktemp("growing")
    home, session = place / "home", ClaudeSession(place / "home", uuid_of(1))
    written = 0
    for number, (kind, word, missing) in enumerate(steps):
        _step(session, kind, word, number)
        whole = session.write(place / "whole").read_bytes()
        end = len(whole) - (missing or 0)
        append(session.path, whole[written:end])
        written = max(end, written)
        if missing is not None or number == len(steps) - 1:
            with indexed(home, place / "cache") as client, open_client(home) as direct:
                for each in WORDS:
                    assert found(client, each) == found(direct, each)


def _step(session: ClaudeSession, kind: str, word: str, number: int) -> None:
    match kind:
        case "prompt":
            session.prompt(f"{word} please")
        case "reply":
            session.tool_call(f"t{number}", {"command": word})
        case "again":
            session.reply(f"and {word}", message_id="msg-again")
        case "result":
            session.tool_result(f"t{number - 1}", f"{word} came out")
        case _:
            session.line("system", content=f"{word} was noticed")


def test_one_more_answer_costs_a_look_at_the_last(tmp_path: Path) -> None:
    home, session = tmp_path / "home", ClaudeSession(tmp_path / "home", uuid_of(1))
    for number in range(40):
        session.prompt(f"question {number}").reply("x" * 100_000)
    messages = len(session.lines)
    append(session.path, session.write(tmp_path / "whole").read_bytes())
    with indexed(home, tmp_path / "cache") as client:
        assert not found(client, "newneedle")
        session.lines = []
        session.prompt("a newneedle").reply("done")
        append(session.path, session.write(tmp_path / "more").read_bytes())
        with counted_bytes() as count:
            (hit,) = found(client, "newneedle")
        assert count() < 1_000_000 < session.path.stat().st_size
        assert hit.hits[0].message_number == messages + 1


def test_a_session_that_was_written_anew_is_read_as_a_whole(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = ClaudeSession(home, uuid_of(1)).prompt("old needle").reply("one")
    append(session.path, session.write(tmp_path / "first").read_bytes())
    with indexed(home, tmp_path / "cache") as client:
        assert found(client, "old")
        other = ClaudeSession(home, uuid_of(1)).prompt("new needle").reply("one").reply("two")
        session.path.unlink()
        append(session.path, other.write(tmp_path / "second").read_bytes())
        assert not found(client, "old")
        assert found(client, "new")
