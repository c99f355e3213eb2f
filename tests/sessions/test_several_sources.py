"""One session in several sources: fragments, superseded copies, file names with half an id."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders import START, open_client, uuid_of, write_claude
from hypothesis import given
from hypothesis import strategies as st
from memory_adapter import Line, MemoryAdapter, call

from amux.client import Client
from amux.errors import AmbiguousIdError, ParseError, SessionNotFoundError
from amux.model.facts import TitleNote
from amux.model.trace import LineKind, TraceBuilder, merged_trace
from amux.testing.reading import opened_files

LATER = START + timedelta(hours=1)


@pytest.fixture
def memory(tmp_path: Path) -> MemoryAdapter:
    return MemoryAdapter(tmp_path)


@pytest.fixture
def client(memory: MemoryAdapter) -> Client:
    client = open_client(memory.root / "home")
    client.adapters.register(memory)
    return client


def said(client: Client, session_id: str) -> list[str]:
    return [message.content for message in client.sessions.get("memory", session_id).messages]


def test_fragments_make_one_conversation_and_what_they_share_is_shown_once(
    memory: MemoryAdapter, client: Client
) -> None:
    memory.put(
        "s",
        call("b"),
        at=LATER,
        fragment=True,
        lines=[(2, "assistant", "two"), (3, "user", "three"), (4, "assistant", "four")],
    )
    memory.put("s", call("a"), fragment=True, lines=[(1, "user", "one"), (2, "assistant", "two")])
    memory.put("s", call("a"), fragment=True, lines=[(1, "user", "one")])
    assert said(client, "s") == ["one", "two", "three", "four"]
    (found,) = client.sessions.list("memory")
    assert (found.title, found.message_count, found.turn_count) == ("one", 4, 2)
    assert found.cost is not None
    assert found.cost.input_tokens == 2000


def test_a_superseded_copy_is_shown_only_if_there_is_no_other(
    memory: MemoryAdapter, client: Client
) -> None:
    long: list[Line] = [(1, "user", "old"), (2, "assistant", "copy"), (3, "user", "longer")]
    memory.put("both", call("x"), lines=long, archived=True, source={"superseded": True})
    memory.put("both", call("x"), lines=[(1, "user", "new")])
    memory.put("only", lines=long, source={"superseded": True})
    assert said(client, "both") == ["new"]
    assert said(client, "only") == ["old", "copy", "longer"]
    assert {s.session_id: s.archived for s in client.sessions.list("memory")} == {
        "both": False,
        "only": False,
    }


def test_a_file_name_with_the_beginning_of_an_id_finds_the_session(
    memory: MemoryAdapter, client: Client
) -> None:
    for number in range(3):
        name = f"abc{number}-rest-of-the-id"
        memory.put(name, source={"session_id": None, "id_prefix": f"abc{number}"})
    assert client.find("abc1").native_session_id == "abc1-rest-of-the-id"
    assert client.find("memory:abc2-rest").native_session_id == "abc2-rest-of-the-id"
    assert client.sessions.get("memory", "abc0-rest-of-the-id").session_id.startswith("abc0")
    with pytest.raises(AmbiguousIdError):
        client.find("abc")
    with pytest.raises(SessionNotFoundError):
        client.find("abc1-other")


def test_an_alias_is_a_name_too(memory: MemoryAdapter, client: Client) -> None:
    memory.put("real", aliases=("other-name",), lines=[(1, "user", "hi")])
    memory.put("second", lines=[(1, "user", "ho")])
    assert client.find("other-name").native_session_id == "real"
    assert client.sessions.get("memory", "other").session_id == "real"


def test_a_title_may_be_noted_by_id_in_a_source_of_names(
    memory: MemoryAdapter, client: Client
) -> None:
    memory.put("s", lines=[(1, "user", "the prompt")])
    memory.put(
        "names",
        attributed=False,
        addressable=False,
        notes=(TitleNote(text="noted", session_id="s"),),
        source={"role": "names", "session_id": None},
    )
    assert client.sessions.get("memory", "s").title == "noted"
    assert [s.title for s in client.sessions.list("memory")] == ["noted"]
    with pytest.raises(SessionNotFoundError):
        client.sessions.get("memory", "names")


def test_a_session_without_any_time_is_dated_to_the_epoch(
    memory: MemoryAdapter, client: Client
) -> None:
    memory.put("s", created_at=None, updated_at=None)
    assert [s.created_at for s in client.sessions.list("memory")] == [
        datetime.fromtimestamp(0, UTC)
    ]


def test_a_call_of_unknown_model_and_time_is_counted_but_not_priced(
    memory: MemoryAdapter, client: Client
) -> None:
    memory.put("s", call("x", model=None, at=None), call("y", at=None))
    total = client.sessions.total_cost(agent="memory", group_by="model")
    assert (total.input_tokens, total.incomplete) == (2000, ("unpriced-model",))
    assert [unpriced.model for unpriced in total.unpriced] == ["(calls that name no model)"]
    assert total.total_usd == 0.001


def test_a_session_without_an_address_is_not_a_search_result(
    memory: MemoryAdapter, client: Client
) -> None:
    memory.put("s", lines=[(1, "user", "needle")])
    memory.put(
        "1", kind="subagent", parent="gone", addressable=False, lines=[(1, "user", "needle")]
    )
    assert [s.session_id for s in client.sessions.search("needle")] == ["s"]


def test_an_empty_transcript_is_no_session(home: Path) -> None:
    write_claude(home, 1).path.write_bytes(b"")
    client = open_client(home)
    assert client.sessions.list("claude") == []
    with pytest.raises(ParseError, match=uuid_of(1)):
        client.sessions.get("claude", uuid_of(1))


def test_finding_by_an_id_opens_nothing(home: Path) -> None:
    for number in range(5):
        write_claude(home, number)
    client = open_client(home)
    client.find(uuid_of(1))
    with opened_files() as opened:
        client.find(f"claude:{uuid_of(2)}")
        client.find(f"claude:{uuid_of(3)[:8]}")
    assert [path for path in opened if path.startswith(str(home / ".claude"))] == []


TRACES = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(list(LineKind)))), min_size=1
)


@given(lines=TRACES)
def test_merged_traces_hold_every_key_once_where_it_came_first(
    lines: list[list[tuple[int, LineKind]]],
) -> None:
    built: list[TraceBuilder] = [TraceBuilder() for _ in lines]
    for builder, rows in zip(built, lines, strict=True):
        for key, mark in dict(rows).items():
            builder.add(key, key * 1000, mark)
    merged = merged_trace([builder.build() for builder in built])
    first: dict[int, LineKind] = {}
    for rows in lines:
        for key, mark in dict(rows).items():
            first.setdefault(key, mark)
    assert list(merged.key_list()) == list(first)
    assert list(merged.kinds) == list(first.values())
    assert list(merged.time_list()) == [key * 1000 for key in first]
