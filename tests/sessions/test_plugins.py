"""Adapters of other packages: three methods are enough."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from builders import START, open_client, write_claude
from memory_adapter import MemoryAdapter, call
from notes_adapter import NotesAdapter, adapter_folder, write_notes

from amux.adapters._base import Capabilities
from amux.client import Client
from amux.errors import (
    AgentNotFoundError,
    SessionNotFoundError,
    ValidationError,
)
from amux.model.cost import CostRecord
from amux.model.ids import NativeRef
from amux.model.options import ExportFormat
from amux.model.reports import Persistence
from amux.model.session import Session
from amux.model.usage import Tokens


@pytest.fixture
def notes(tmp_path: Path) -> NotesAdapter:
    return write_notes(tmp_path / "notes")


@pytest.fixture
def client(notes: NotesAdapter, home: Path) -> Client:
    client = open_client(home)
    client.adapters.register(notes)
    return client


# Three methods are enough


def test_plugin_sessions_are_listed_and_fetched_with_ids_titles_and_counts(client: Client) -> None:
    one, two = client.sessions.list("notes")
    assert (one.unified_id, two.unified_id) == ("notes:one", "notes:two")
    assert (one.title, one.turn_count, one.message_count) == ("What is a mux?", 1, 2)
    session = client.sessions.get("notes", "one")
    assert session.unified_id == "notes:one", "set by the manager, the adapter left it blank"
    assert [m.role for m in session.messages] == ["user", "assistant"]
    assert client.find("tw") == NativeRef(agent="notes", native_session_id="two")


def test_plugin_sessions_can_be_searched(client: Client) -> None:
    assert [s.unified_id for s in client.sessions.search("device")] == ["notes:one"]


def test_plugin_sessions_have_costs(client: Client) -> None:
    total = client.sessions.total_cost(group_by="agent")
    assert (total.session_count, total.input_tokens, total.output_tokens) == (2, 2000, 9)
    assert total.total_usd == pytest.approx(2000e-6 + 9 * 10e-6)
    assert [one.call.tokens.output for one in client.explain_cost("notes", "one").calls] == [5]


@pytest.mark.parametrize("format", get_args(ExportFormat))
def test_plugin_sessions_can_be_exported(format: ExportFormat, client: Client) -> None:
    text = client.sessions.export("notes", "one", format)
    assert "A device with one output." in text
    assert "".join(client.stream_export("notes", "one", format)) == text


def test_plugin_sessions_can_be_compared(client: Client) -> None:
    by_text = client.sessions.diff("notes:one", "notes:two")
    assert by_text.stats.unchanged == 1
    assert by_text.stats.modifications == 1
    references: list[Any] = [("notes", "one"), {"agent": "notes", "sessionId": "one"}]
    for reference in references:
        assert client.sessions.diff(reference, {"agent": "notes", "session_id": "two"}) == by_text


@pytest.mark.parametrize(
    "reference",
    [
        *("one", "notes:", {"agent": "notes"}, {"sessionId": "one"}, {}, {"agent": 1, 2: 3}),
        *((), ("notes",), ("notes", "one", "two"), ("notes", 1), 5, None, b"notes:one"),
    ],
)
def test_a_reference_that_names_no_session_is_refused(reference: Any, client: Client) -> None:
    for pair in ((reference, ("notes", "one")), (("notes", "one"), reference)):
        with pytest.raises(ValidationError):
            client.sessions.diff(*pair)


def test_an_adapter_is_described_by_its_attributes_or_its_name(
    notes: NotesAdapter, client: Client
) -> None:
    info = {info.name: info for info in client.adapters.list()}["notes"]
    assert (info.label, info.cli_command, info.tier) == ("notes", "notes", "plugin")
    assert not info.capabilities.can_resume

    class Described(NotesAdapter):
        display_name = "My notes"
        cli_command = "note"
        capabilities = Capabilities(session_persistence="file", can_resume=True)

    client.adapters.register(Described(notes.folder))
    info = {info.name: info for info in client.adapters.list()}["notes"]
    assert (info.label, info.cli_command) == ("My notes", "note")
    assert client.adapters.capabilities("notes").can_resume
    assert not client.adapters.capabilities("notes", version="1.0").can_resume


def test_a_recorded_total_is_taken_when_no_message_has_usage(client: Client) -> None:
    class Totals(NotesAdapter):
        agent = "totals"

        def parse_session_file(self, file: str | Path) -> Session:
            session = super().parse_session_file(file)
            bare = tuple(msgspec.structs.replace(m, token_usage=None) for m in session.messages)
            cost = CostRecord(total_usd=0.5, input_tokens=7, output_tokens=3, cached_tokens=2)
            return msgspec.structs.replace(session, messages=bare, cost=cost)

    client.adapters.register(Totals(adapter_folder(client)))
    cost = client.sessions.get("totals", "one").cost
    assert cost is not None
    assert (cost.source, cost.total_usd, cost.input_tokens) == ("native", 0.5, 7)
    assert cost.cached_tokens == 2
    assert client.sessions.total_cost(agent="totals").total_usd == 1.0


def test_calls_and_sub_agents_of_a_plugin_are_preserved(client: Client) -> None:
    class Deep(NotesAdapter):
        agent = "deep"

        def parse_session_file(self, file: str | Path) -> Session:
            session = super().parse_session_file(file)
            child = msgspec.structs.replace(session, session_id=f"{session.session_id}-child")
            own = call(f"{session.session_id}/own", tokens=Tokens(input=5))
            return msgspec.structs.replace(session, calls=(own,), children=(child,))

    client.adapters.register(Deep(adapter_folder(client)))
    session = client.sessions.get("deep", "one")
    assert [child.session_id for child in session.children] == ["one-child"]
    assert [len(child.messages) for child in session.children] == [2]
    assert session.cost is not None
    assert session.cost.input_tokens == 5 + 1000, "its own call and the sub-agent's"
    assert len(client.sessions.list("deep")) == 2
    assert len(client.sessions.list("deep", include_children=True)) == 4


def test_times_without_a_zone_are_utc(client: Client) -> None:
    class Naive(NotesAdapter):
        agent = "naive"

        def parse_session_file(self, file: str | Path) -> Session:
            session = super().parse_session_file(file)
            naive = datetime(2026, 3, 1, 10)  # noqa: DTZ001 - that is the point
            timed = tuple(msgspec.structs.replace(m, timestamp=naive) for m in session.messages)
            return msgspec.structs.replace(
                session, created_at=naive, updated_at=naive, messages=timed
            )

    client.adapters.register(Naive(adapter_folder(client)))
    listed = client.sessions.list("naive", since=START, until=START)
    assert [s.created_at for s in listed] == [datetime(2026, 3, 1, 10, tzinfo=UTC)] * 2
    assert client.sessions.get("naive", "one").messages[0].timestamp == START
    assert client.overview().recent


# Coming and going


def test_a_name_is_valid_while_its_adapter_is_registered(notes: NotesAdapter, home: Path) -> None:
    client = open_client(home)
    assert client.sessions.resolve_native_id("notes:1") is None
    client.adapters.register(notes)
    assert client.sessions.resolve_native_id("notes:1") is not None
    client.adapters.unregister("notes")
    assert client.sessions.resolve_native_id("notes:1") is None
    with pytest.raises(AgentNotFoundError):
        client.sessions.list("notes")
    client.adapters.register(notes)
    assert len(client.sessions.list("notes")) == 2


def test_a_built_in_can_be_removed_and_replaced(notes: NotesAdapter, home: Path) -> None:
    write_claude(home, 1)
    client = open_client(home)
    client.adapters.unregister("claude")
    assert client.adapters.get("claude") is None
    assert "claude" not in [info.name for info in client.adapters.list()]
    assert client.sessions.search("hello") == []
    notes.agent = "claude"
    client.adapters.register(notes)
    assert [s.session_id for s in client.sessions.list("claude")] == ["one", "two"]


def test_clients_do_not_share_what_was_registered(client: Client, home: Path) -> None:
    assert client.sessions.list("notes")
    with pytest.raises(AgentNotFoundError):
        open_client(home).sessions.list("notes")


@pytest.mark.parametrize("name", ["a:b", "", "  ", None, 7])
def test_a_name_that_cannot_stand_in_a_unified_id_is_refused(
    name: Any, notes: NotesAdapter, client: Client
) -> None:
    notes.agent = name
    with pytest.raises(ValidationError) as caught:
        client.adapters.register(notes)
    assert (caught.value.code, caught.value.fields) == ("VALIDATION_ERROR", ("agent",))


@pytest.mark.parametrize("name", ["a:b", ""])
def test_a_full_adapter_is_checked_too(name: str, client: Client, tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        client.adapters.register(MemoryAdapter(tmp_path, name=name))


def test_an_object_that_is_not_an_adapter_is_refused_with_its_missing_members(
    client: Client,
) -> None:
    class Half:
        agent = "half"
        list_session_files = "not callable"

        def session_dir(self) -> str:
            return ""

    with pytest.raises(ValidationError) as caught:
        client.adapters.register(Half())
    assert caught.value.fields == ("list_session_files", "parse_session_file")


# Where sessions are kept


@pytest.mark.parametrize("persistence", get_args(Persistence))
def test_an_agent_without_persistent_sessions_lists_none(
    persistence: Persistence, tmp_path: Path, home: Path
) -> None:
    memory = MemoryAdapter(tmp_path, persistence=persistence)
    memory.put("s", call("x"))
    client = open_client(home)
    client.adapters.register(memory)
    assert client.adapters.capabilities("memory").session_persistence == persistence
    if persistence in ("file", "sqlite"):
        assert len(client.sessions.list("memory")) == 1
    else:
        assert client.sessions.list("memory") == []
        with pytest.raises(SessionNotFoundError):
            client.sessions.get("memory", "s")


def test_capabilities_follow_the_version(tmp_path: Path, home: Path) -> None:
    client = open_client(home)
    client.adapters.register(MemoryAdapter(tmp_path, can_resume=True, can_fork=True))
    able = {
        version: client.adapters.capabilities("memory", version=version)
        for version in (None, "1", "2", "3")
    }
    assert [(able[v].can_resume, able[v].can_fork) for v in (None, "1", "2", "3")] == [
        (True, True),
        (False, False),
        (True, False),
        (True, True),
    ]


@pytest.mark.parametrize(
    ("version", "resumes", "forks"),
    [
        ("0.20.0", False, False),
        ("0.42.0", True, False),
        ("0.80.0", True, False),
        ("0.120.0", True, True),
        ("0.166.0", True, True),
    ],
)
def test_old_versions_of_codex_can_less(
    version: str, resumes: bool, forks: bool, home: Path
) -> None:
    able = open_client(home).adapters.capabilities("codex", version=version)
    assert (able.can_resume, able.can_fork) == (resumes, forks)
