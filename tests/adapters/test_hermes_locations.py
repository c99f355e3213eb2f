"""Hermes: the locations of its stores, sessions in single files, the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hermes_stores import Store
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters.hermes import ADAPTER
from amux.client import Client, create_client
from amux.errors import AmbiguousIdError
from amux.host import Host
from amux.testing.reading import read_source, sources_of

ID = "20260102_030405_ab12cd"
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "from a file"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "function": {"name": "terminal", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": '{"output": "", "exit_code": 1}'},
    {"role": "assistant", "content": "done", "reasoning": "hm"},
]


def client_of(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def write_snapshot(folder: Path, id: str = ID, **fields: Any) -> Path:
    path = folder / "sessions" / f"session_{id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "session_id": id,
        "model": "m",
        "session_start": "2026-01-02T03:04:05.000001",
        "last_updated": "2026-01-02T03:05:00",
        "system_prompt": "long",
        "tools": [{"type": "function"}],
        "messages": MESSAGES,
    }
    path.write_text(json.dumps({**document, **fields}))
    return path


def write_log(folder: Path, id: str, *lines: Any) -> Path:
    path = folder / "sessions" / f"{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_store_is_where_the_platform_keeps_it(tmp_path: Path) -> None:
    assert ADAPTER.roots(Host(tmp_path, platform="linux")) == [tmp_path / ".hermes"]
    assert ADAPTER.roots(Host(tmp_path, platform="darwin")) == [tmp_path / ".hermes"]
    local = tmp_path / "AppData" / "Local" / "hermes"
    assert ADAPTER.roots(Host(tmp_path, platform="win32")) == [local, tmp_path / ".hermes"]
    moved = Host(tmp_path, platform="win32", env={"LOCALAPPDATA": str(tmp_path / "data")})
    assert ADAPTER.roots(moved)[0] == tmp_path / "data" / "hermes"


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_hermes_home_sets_the_root_and_the_default_is_ignored(
    platform: str, tmp_path: Path
) -> None:
    host = Host(tmp_path, platform=platform, env={"HERMES_HOME": str(tmp_path / "elsewhere")})
    assert ADAPTER.roots(host) == [tmp_path / "elsewhere"]


def test_every_profile_has_a_store_of_its_own(home: Path) -> None:
    Store(home / ".hermes").session("main")
    Store(home / ".hermes" / "profiles" / "work").session("at-work")
    listed = client_of(home).sessions.list("hermes")
    assert {one.session_id for one in listed} == {"main", "at-work"}


def test_a_link_out_of_the_store_is_not_followed(home: Path, tmp_path: Path) -> None:
    Store(tmp_path / "foreign").session("foreign")
    (home / ".hermes" / "profiles").mkdir(parents=True)
    (home / ".hermes" / "state.db").symlink_to(tmp_path / "foreign" / "state.db")
    (home / ".hermes" / "profiles" / "x").symlink_to(tmp_path / "foreign")
    assert sources_of(ADAPTER, home) == []


def test_a_snapshot_is_read_when_the_database_has_not_its_id(home: Path) -> None:
    store = Store(home / ".hermes")
    store.session("in-database")
    write_snapshot(home / ".hermes")
    client = client_of(home)
    assert {one.session_id for one in client.sessions.list("hermes")} == {"in-database", ID}
    session = client.sessions.get("hermes", ID)
    assert [(m.role, m.content) for m in session.messages if m.role != "tool"] == [
        ("user", "from a file"),
        ("assistant", ""),
        ("assistant", "done"),
    ]
    (call,) = session.messages[1].tool_calls
    assert (call.tool_name, call.is_error) == ("terminal", True)
    assert (session.title, session.models, session.cost) == ("from a file", ("m",), None)
    assert session.created_at.isoformat() == "2026-01-02T03:04:05.000001+00:00"


def test_a_snapshot_may_be_named_by_its_id_alone(home: Path) -> None:
    written = write_snapshot(home / ".hermes", "my-chat", session_id=None)
    written.rename(written.with_name("my-chat.json"))
    session = client_of(home).sessions.get("hermes", "my-chat")
    assert (session.session_id, session.title) == ("my-chat", "from a file")


def test_the_database_wins_over_a_richer_snapshot_also_of_a_sub_agent(home: Path) -> None:
    store = Store(home / ".hermes", version=11)
    store.session("parent", model="m", input_tokens=1)
    store.session(ID, model="m", parent_session_id="parent", input_tokens=1)
    store.talk(ID, "from the database", "yes")
    write_snapshot(home / ".hermes", model="another")
    client = client_of(home)
    assert [one.session_id for one in client.sessions.list("hermes")] == ["parent"]
    session = client.sessions.get("hermes", ID)
    assert [m.content for m in session.messages] == ["from the database", "yes"]
    assert session.kind == "subagent"
    assert session.models == ("m", "another")


def test_without_a_database_files_are_all_there_is(home: Path) -> None:
    write_log(
        home / ".hermes",
        "20260102_030405_ab12cd34",
        {"role": "session_meta", "model": "m", "platform": "telegram", "tools": []},
        {"role": "user", "content": "hello", "timestamp": "2026-01-02T03:04:06"},
        {"role": "assistant", "content": "hi", "timestamp": "2026-01-02T03:04:09"},
    )
    (listed,) = client_of(home).sessions.list("hermes")
    assert (listed.title, listed.models, listed.turn_count) == ("hello", ("m",), 1)
    assert listed.updated_at.isoformat() == "2026-01-02T03:04:09+00:00"


def test_dumps_of_requests_and_the_routing_table_are_no_sessions(home: Path) -> None:
    folder = home / ".hermes" / "sessions"
    write_snapshot(home / ".hermes")
    for name in (f"request_dump_{ID}_1.json", "sessions.json", "notes.txt", "request_dump_1.jsonl"):
        (folder / name).write_text("{}")
    assert [source.session_id for source in sources_of(ADAPTER, home)] == [ID]


def test_a_broken_line_affects_only_itself(tmp_path: Path) -> None:
    path = write_log(tmp_path / ".hermes", "x", {"role": "user", "content": "kept"})
    with path.open("a") as log:
        log.write('{"role": nonsense}\n{"role": "assistant", "content": "kept too"}\n[1]\n{"ro')
    reading = read_source(ADAPTER, sources_of(ADAPTER, tmp_path)[0])
    assert [message.content for message in reading.messages] == ["kept", "kept too"]
    assert [p.code for p in reading.problems] == ["bad-line", "bad-record", "torn-tail"]
    assert reading.facts[0].problem_count == 3


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff\x00", b'{"messages": 3}', b'{"a":'])
def test_a_snapshot_that_is_none_is_a_problem(data: bytes, tmp_path: Path) -> None:
    write_snapshot(tmp_path / ".hermes").write_bytes(data)
    reading = read_source(ADAPTER, sources_of(ADAPTER, tmp_path)[0])
    assert [problem.code for problem in reading.problems] == ["unknown-format"]


def test_odd_messages_of_a_snapshot_are_problems_and_neighbours_stay(tmp_path: Path) -> None:
    odd: list[Any] = [
        7,
        {"role": "tool", "content": "of nothing"},
        {"role": "assistant", "content": "calling", "tool_calls": "no list"},
        {"role": "user", "content": "kept"},
    ]
    write_snapshot(tmp_path / ".hermes", messages=odd)
    reading = read_source(ADAPTER, sources_of(ADAPTER, tmp_path)[0])
    codes = [problem.code for problem in reading.problems]
    assert codes == ["bad-record", "orphan-result", "bad-record"]
    assert reading.messages[-1].content == "kept"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_details", "timestamp")


@drawn(150)
@given(odd=st.dictionaries(st.sampled_from(FIELDS), JSON), role=st.sampled_from(["user", "tool"]))
def test_any_field_of_a_message_may_hold_anything(
    odd: dict[str, Any], role: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("odd")
    kept = {"role": "user", "content": "kept"}
    write_snapshot(home / ".hermes", messages=[{"role": role, "content": "x", **odd}, kept])
    (source,) = sources_of(ADAPTER, home)
    reading = read_source(ADAPTER, source)
    assert reading.messages[-1].content == "kept"
    assert read_source(ADAPTER, source, "facts").facts == reading.facts


def test_an_id_by_prefix_is_sought_in_database_and_files_alike(home: Path) -> None:
    Store(home / ".hermes").session("20260102_999999_ffffff")
    write_snapshot(home / ".hermes")
    client = client_of(home)
    with pytest.raises(AmbiguousIdError):
        client.sessions.get("hermes", "20260102")
    assert client.sessions.get("hermes", "20260102_0").session_id == ID


def test_commands_resume_by_id_and_never_take_a_prompt_for_an_option() -> None:
    def argv(action: Any, **given: Any) -> tuple[str, ...] | None:
        command = ADAPTER.command(action, **given)
        return None if command is None else command.argv

    assert argv("new") == ("hermes",)
    assert argv("new", prompt="--help") == ("hermes", "chat", "--query=--help")
    assert argv("resume", session_id=ID) == ("hermes", f"--resume={ID}")
    resumed = ("hermes", "chat", f"--resume={ID}", "--query=go on")
    assert argv("resume", session_id=ID, prompt="go on") == resumed
    assert argv("resume") is None
    assert argv("fork", session_id=ID) is None
