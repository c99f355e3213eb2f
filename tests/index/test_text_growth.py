"""New messages of a growing session are found, and only the new bytes are read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from builders import ClaudeSession, CodexSession, open_client, uuid_of
from counted_bytes import counted_bytes
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.client import Client
from amux.model.session import SessionSummary

S = TypeVar("S", ClaudeSession, CodexSession)
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


def grow(
    session: S, place: Path, steps: Sequence[tuple[Callable[[S, int], None], int | None]]
) -> None:
    """Write a session step by step; whenever somebody searches, compare with its files."""
    written = 0
    for number, (step, missing) in enumerate(steps):
        step(session, number)
        whole = session.write(place / "whole").read_bytes()
        end = len(whole) - (missing or 0)
        append(session.path, whole[written:end])
        written = max(end, written)
        if missing is None and number < len(steps) - 1:
            continue
        home = place / "home"
        with indexed(home, place / "cache") as client, open_client(home) as direct:
            for each in WORDS:
                assert found(client, each) == found(direct, each)


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
def test_searches_of_a_growing_session_equal_those_without_an_index(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int | None]]
) -> None:
    place = tmp_path_factory.mktemp("growing")
    session = ClaudeSession(place / "home", uuid_of(1))
    grow(session, place, [(partial(_step, *step[:2]), step[2]) for step in steps])


@drawn(40)
@given(steps=STEPS)
def test_searches_of_a_growing_rollout_equal_those_without_an_index(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int | None]]
) -> None:
    place = tmp_path_factory.mktemp("growing")
    session = CodexSession(place / "home", uuid_of(1))
    grow(session, place, [(partial(_codex_step, *step[:2]), step[2]) for step in steps])


def _codex_step(kind: str, word: str, session: CodexSession, number: int) -> None:
    call = {"call_id": f"c{number}"}
    match kind:
        case "prompt":
            session.prompt(f"{word} please")
        case "reply":
            session.reply(f"{word} done")
        case "again":
            asked = {"type": "function_call", "name": "shell", "arguments": f'{{"a":"{word}"}}'}
            session.line("response_item", {**call, **asked})
        case "result":
            given = {"type": "function_call_output", "output": f"{word} came out"}
            session.line("response_item", {"call_id": f"c{number - 1}", **given})
        case _:
            session.line("event_msg", {"type": "agent_reasoning", "text": f"about {word}"})


def _step(kind: str, word: str, session: ClaudeSession, number: int) -> None:
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


@pytest.mark.parametrize("kind", [ClaudeSession, CodexSession])
def test_a_search_after_one_more_answer_reads_only_the_last_messages(
    kind: type[ClaudeSession | CodexSession], tmp_path: Path
) -> None:
    home, session = tmp_path / "home", kind(tmp_path / "home", uuid_of(1))
    for number in range(40):
        session.prompt(f"question {number}").reply("x" * 100_000)
    append(session.path, session.write(tmp_path / "whole").read_bytes())
    with indexed(home, tmp_path / "cache") as client:
        assert not found(client, "newneedle")
        session.lines = []
        session.prompt("a newneedle").reply("done")
        append(session.path, session.write(tmp_path / "more").read_bytes())
        with counted_bytes() as count:
            (hit,) = found(client, "newneedle")
        assert count() < 1_000_000 < session.path.stat().st_size
        assert hit.hits[0].message_number == 81


def test_a_truncated_and_rewritten_answer_is_no_longer_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = ClaudeSession(home, uuid_of(1)).prompt("go").reply("an old needle")
    append(session.path, session.write(tmp_path / "first").read_bytes())
    with indexed(home, tmp_path / "cache") as client:
        assert found(client, "old")
        session.lines[-1:] = []
        session.reply("a new needle, longer than the one before it")
        session.path.write_bytes(b"")  # the same file
        append(session.path, session.write(tmp_path / "second").read_bytes())
        assert not found(client, "old")
        assert found(client, "new")


def test_a_rewritten_session_is_read_completely(tmp_path: Path) -> None:
    home = tmp_path / "home"
    session = ClaudeSession(home, uuid_of(1)).prompt("old needle").reply("one")
    append(session.path, session.write(tmp_path / "first").read_bytes())
    with indexed(home, tmp_path / "cache") as client:
        assert found(client, "old")
        # Of another length: its edges differ even if it gets the number of the file that is gone.
        other = ClaudeSession(home, uuid_of(1)).prompt("a new needle").reply("one").reply("two")
        session.path.unlink()
        append(session.path, other.write(tmp_path / "second").read_bytes())
        assert not found(client, "old")
        assert found(client, "new")
