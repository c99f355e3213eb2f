"""A search with the text index finds the same as a search without it, in every capture."""

from __future__ import annotations

import os
import random
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from builders import CAPTURES, ClaudeSession, open_client, uuid_of, write_claude
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from newest_captures import newest_of_each

from amux import create_client
from amux.client import Client
from amux.model.options import SessionQuery
from amux.model.session import SearchHit
from amux.testing import Capture

_WORD = re.compile(r"\w{2,}")


NOW = datetime(2026, 11, 20, tzinfo=UTC)


def indexed(home: Path, cache: Path) -> Client:
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)}, now=NOW)


Found = tuple[str, float | None, int | None, str | None, tuple[SearchHit, ...]]


def hits(client: Client, query: str, *, said_only: bool = False) -> list[Found]:
    """Which sessions are found, best first, in how many messages, and what is shown of them."""
    return [
        (each.unified_id, each.relevance_score, each.hit_count, each.snippet, each.hits)
        for each in client.sessions.search(query, limit=None, said_only=said_only)
    ]


def queries_of(client: Client, agent: str, chance: random.Random) -> list[str]:
    """Queries of every kind, made of words that occur."""
    texts: list[str] = []
    for summary in client.sessions.list(agent, limit=None):
        messages = client.sessions.get(agent, summary.session_id).messages
        texts.extend(message.content for message in messages)
    words = sorted({word for text in texts for word in _WORD.findall(text)}) or ["nothing"]
    some = [chance.choice(words) for _ in range(12)]
    pairs = [" ".join(text.split()[:2]) for text in texts if len(text.split()) > 1][:3]
    return [
        *some[:4],
        *(word[1:4] for word in some[4:6]),
        f"{some[6][:3]}*",
        f"{some[7]} {some[8]}",
        f"{some[7]} OR {some[9]}",
        f"({some[7]} OR {some[9]}) {some[8]} OR -{some[1]} {some[2]}",
        f"{some[7]} NOT {some[10]}",
        *(f'"{pair}"' for pair in pairs),
        f"/{re.escape(some[11])}/",
        f"{some[0]} role:user",
        f"{some[0]}.",
    ]


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_searches_in_every_capture_are_equal_with_an_index(
    capture: Capture, tmp_path: Path
) -> None:
    direct = create_client(home=capture.home, now=NOW)
    queries = queries_of(direct, capture.agent, random.Random(capture.name))
    with indexed(capture.home, tmp_path / "cache") as client:
        for query in queries:
            assert hits(client, query) == hits(direct, query), query
        for query in queries[::3]:
            said = hits(direct, query, said_only=True)
            assert hits(client, query, said_only=True) == said, query


def test_new_messages_are_found_and_deleted_ones_are_not(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    old = write_claude(home, 1, prompt="the quick brown fox")
    with indexed(home, cache) as client:
        assert len(hits(client, "fox")) == 1
    write_claude(home, 2, prompt="another fox")
    with indexed(home, cache) as client:
        assert len(hits(client, "fox")) == 2
    old.path.unlink()
    with indexed(home, cache) as client:
        assert [name for name, *_ in hits(client, "fox")] == [f"claude:{uuid_of(2)}"]
    ClaudeSession(home, uuid_of(2)).prompt("a hen").reply("done").write()
    with indexed(home, cache) as client:
        assert hits(client, "fox") == []
        assert len(hits(client, "hen")) == 1


@pytest.mark.parametrize("text", ["日", "日本", "検索インデックス", "Straße", "naïve", "i̇stanbul"])
def test_every_script_is_found(text: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_claude(home, 1, prompt=f"before{text}after and {text}", answer="ok")
    write_claude(home, 2, prompt="日記 only", answer="検索")
    direct = open_client(home)
    with indexed(home, tmp_path / "cache") as client:
        assert hits(client, text) == hits(direct, text)
        assert f"claude:{uuid_of(1)}" in {name for name, *_ in hits(client, text)}


def test_a_damaged_text_index_is_ignored_and_rebuilt(tmp_path: Path) -> None:
    home, cache = tmp_path / "home", tmp_path / "cache"
    write_claude(home, 1, prompt="the quick brown fox")
    past = time.time() - 60
    for path in home.rglob("*"):
        os.utime(path, (past, past))
    with indexed(home, cache) as client:
        wanted = hits(client, "fox")
    (texts,) = cache.glob("texts-*.db")
    for leftover in cache.glob("texts-*-*"):
        leftover.unlink()
    texts.write_bytes(b"this is no database" * 1000)
    for _ in range(2):
        with indexed(home, cache) as client:
            assert hits(client, "fox") == wanted


_PHRASES = [f'"{first} {second}"' for first in ("red", "fox", "x_y") for second in ("red", "fox")]
_part = st.lists(
    st.sampled_from(("red", "fox", "x_y", "redfox", ".", "\n")), min_size=1, max_size=4
).map(" ".join)


@drawn(25)
@given(
    st.lists(_part, min_size=1, max_size=3),
    st.one_of(_part, st.lists(_part.map(lambda text: {"type": "text", "text": text}), max_size=3)),
)
def test_phrases_in_tool_text_are_equal_with_an_index(given_: list[str], output: Any) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder, "home")
        session = ClaudeSession(home, uuid_of(1)).prompt("red")
        session.tool_call("t1", {str(at): text for at, text in enumerate(given_)}, name="fox")
        session.tool_result("t1", output).reply("fox").write()
        direct = create_client(home=home, now=NOW)
        with indexed(home, Path(folder, "cache")) as client:
            for query in _PHRASES:
                assert hits(client, query) == hits(direct, query), query


def test_a_text_of_an_output_is_found_although_a_longer_word_contains_it(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path, uuid_of(1)).prompt("look").tool_call("t1", {})
    blocks = [{"type": "text", "text": "redfox"}, {"type": "other", "note": "fox"}]
    session.tool_result("t1", blocks).reply("done").write()
    direct = create_client(home=tmp_path, now=NOW)
    with indexed(tmp_path, tmp_path / "cache") as client:
        for query in ("fox*", '"fox"', "fox"):
            assert len(hits(direct, query)) == 1
            assert hits(client, query) == hits(direct, query)


def test_tool_text_is_not_what_was_said(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path, uuid_of(1)).prompt("look")
    session.tool_call("t1", {"command": "grep needle"}).tool_result("t1", "a needle")
    session.reply("It is here.").write()
    ClaudeSession(tmp_path, uuid_of(2)).prompt("x").reply("no needle").write()
    for client in (create_client(home=tmp_path), indexed(tmp_path, tmp_path / "cache")):
        (only,) = client.sessions.search("needle", said_only=True)
        assert (only.session_id, [hit.message_number for hit in only.hits]) == (uuid_of(2), [2])
        assert len(client.sessions.search("needle")) == 2
        client.close()


def test_a_file_name_that_is_not_valid_text_does_not_prevent_searching(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = write_claude(home, 1, prompt="a needle").path
    path.rename(path.with_name(os.fsdecode(b"\xff\xfe.jsonl")))
    write_claude(home, 2, prompt="a needle \ud83d in a haystack")
    with indexed(home, tmp_path / "cache") as client, create_client(home=home) as direct:
        assert len(hits(client, "needle")) == 2
        assert hits(client, "needle") == hits(direct, "needle")


SPOKEN = ("alpha", "beta qq", "beta zz", "gamma", "the payment")
QUERIES = (
    "alpha OR beta /q+/",
    "alpha OR (beta /z/) OR gamma",
    "alpha -beta role:thinking",
    '(alpha OR gamma) NOT "beta qq" role:thinking',
    "beta -/qq/ OR alpha",
    "paymnet",
    "alhpa role:thinking",
    "gama tool:Bash",
    "betta --qq",
    "gamma alhpa",
)


@drawn(40)
@given(
    sessions=st.lists(
        st.lists(
            st.tuples(st.sampled_from(["said", "thought", "tool"]), st.sampled_from(SPOKEN)),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_small_homes_give_the_same_answers_with_and_without_an_index(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[list[tuple[str, str]]]
) -> None:
    place = tmp_path_factory.mktemp("small")
    for number, said in enumerate(sessions):
        session = ClaudeSession(place, uuid_of(number + 1)).prompt("hello")
        for kind, text in said:
            if kind == "said":
                session.reply(text)
            elif kind == "thought":
                session.reply("so", blocks=[{"type": "thinking", "thinking": text}])
            else:
                session.tool_call("t1", {"command": text}).tool_result("t1", text)
        session.write()
    with indexed(place, place / "cache") as client, create_client(home=place, now=NOW) as direct:
        for query in QUERIES:
            wanted = SessionQuery(text=query, exact=False, limit=None)
            with_it, without = client.search_report(wanted), direct.search_report(wanted)
            assert with_it.sessions == without.sessions
            assert with_it.did_you_mean == without.did_you_mean
