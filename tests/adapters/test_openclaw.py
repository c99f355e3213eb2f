"""Tests OpenClaw on every capture, documents as specified, archives and older product names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pi_logs import Json, entry, header, host, reply, texts, usage, user, write

from amux.adapters.openclaw import ADAPTER
from amux.client import Client, create_client
from amux.errors import SessionNotFoundError
from amux.testing import AdapterSuite, find_captures
from amux.testing.reading import Reading, read_source, sources_of
from amux.testing.strategies import json_values

CAPTURES = Path(__file__).parent.parent / "captures"
LOGS = Path(".openclaw/agents/main/sessions")
DOCUMENTS = Path(".openclaw/sessions")
ARCHIVED = "2026-11-15T20-00-00.000Z"
TALK = (header(), user("u1", None, 1, "Hi"), reply("a1", "u1", 2))


class TestOpenClaw(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "openclaw")
    relocation = {
        "OPENCLAW_STATE_DIR": "elsewhere",
        "OPENCLAW_HOME": "elsewhere",
        "CLAWDBOT_STATE_DIR": "elsewhere",
    }


def client_of(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def read_all(home: Path) -> list[Reading]:
    return [read_source(ADAPTER, source) for source in sources_of(ADAPTER, home)]


# documents of channels


def document(home: Path, channel: str, stem: str, **root: Any) -> Path:
    path = home / DOCUMENTS / channel / f"{stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(root), encoding="utf-8")
    return path


def said(role: str, content: Any, second: int, **more: Any) -> Json:
    return {"role": role, "content": content, "timestamp": f"2026-01-01T00:00:{second:02}Z", **more}


TURN = [
    said("user", "Question", 1),
    said("assistant", "Answer", 2, model="m", usage={"input": 7, "output": 3, "cost": 0.25}),
]


def test_a_document_is_a_session_named_by_its_file(tmp_path: Path) -> None:
    document(tmp_path, "telegram", "abc", title="Named", messages=TURN)
    session = client_of(tmp_path).sessions.get("openclaw", "abc")
    assert (session.title, session.turn_count, session.model) == ("Named", 1, "m")
    assert session.raw["channel"] == "telegram"
    assert session.cost is not None
    assert (session.cost.total_usd, session.cost.source) == (0.25, "native")
    assert (session.cost.input_tokens, session.cost.output_tokens) == (7, 3)


def test_without_a_title_the_first_message_names_a_document(tmp_path: Path) -> None:
    document(tmp_path, "cli", "abc", messages=TURN)
    assert client_of(tmp_path).sessions.get("openclaw", "abc").title == "Question"


def test_one_id_on_two_channels_is_two_sessions(tmp_path: Path) -> None:
    document(tmp_path, "cli", "abc", title="Older", messages=TURN)
    later = [said("user", "Question", 1), said("assistant", "Answer", 9)]
    document(tmp_path, "telegram", "abc", title="Newer", messages=later)
    client = client_of(tmp_path)
    listed = [(s.session_id, s.title) for s in client.sessions.list("openclaw")]
    assert sorted(listed) == [("abc", "Newer"), ("abc", "Older")]
    assert client.sessions.get("openclaw", "abc").title == "Newer"
    assert client.sessions.get("openclaw", "cli/abc").title == "Older"
    assert client.sessions.get("openclaw", "telegram/abc").title == "Newer"
    with pytest.raises(SessionNotFoundError):
        client.sessions.get("openclaw", "../telegram/abc")


@pytest.mark.parametrize("index", ["off", "on"])
def test_sessions_with_equal_ids_are_listed_and_counted_separately(
    tmp_path: Path, index: str
) -> None:
    for channel in ("cli", "telegram"):
        document(tmp_path, channel, "abc", messages=TURN)
    document(tmp_path, "cli", "other", messages=TURN)
    cache = str(tmp_path / "cache")
    for _ in range(2):  # made, then kept
        client = create_client(home=tmp_path, env={"AMUX_INDEX": index, "AMUX_CACHE_DIR": cache})
        sessions = client.sessions
        listed = [(s.unified_id, s.raw) for s in sessions.list("openclaw")]
        assert sorted(listed, key=str) == [
            ("openclaw:abc", {"channel": "cli"}),
            ("openclaw:abc", {"channel": "telegram"}),
            ("openclaw:other", {"channel": "cli"}),
        ]
        assert {s.raw["channel"] for s in sessions.search("Question")} == {"cli", "telegram"}
        total = sessions.total_cost(group_by="session")
        assert (total.session_count, total.total_usd) == (3, 0.75)
        assert total.breakdowns is not None
        assert {key: group.total_usd for key, group in total.breakdowns.items()} == {
            "openclaw:cli/abc": 0.25,
            "openclaw:telegram/abc": 0.25,
            "openclaw:other": 0.25,
        }
        (block,) = client.cost_blocks()
        assert (block.session_count, block.call_count) == (3, 3)
        for key in ("cli/abc", "telegram/abc"):
            assert sessions.get("openclaw", key).raw["channel"] == key.split("/")[0]


def test_tool_calls_and_thoughts_of_a_document_are_shown(tmp_path: Path) -> None:
    call = {"toolCallId": "t1", "toolName": "exec", "input": {"command": "ls"}}
    result = {"toolCallId": "t1", "toolName": "exec", "output": "a file"}
    answer = said("assistant", "Looking", 2, toolCalls=[call], thinking="Hm")
    messages = [said("user", "Look", 1), answer, said("tool", "", 3, toolResult=result)]
    document(tmp_path, "cli", "abc", messages=messages)
    session = client_of(tmp_path).sessions.get("openclaw", "abc")
    assert [m.role for m in session.messages] == ["user", "assistant", "tool"]
    assert session.messages[1].thinking == "Hm"
    assert session.messages[1].tool_calls[0].output == "a file"


@pytest.mark.parametrize("root", ['"x"', "{}", '{"messages": 5}', "{", "", "[5, null]"])
def test_a_document_of_another_shape_is_a_problem(tmp_path: Path, root: str) -> None:
    document(tmp_path, "cli", "good", messages=TURN)
    document(tmp_path, "cli", "odd").write_text(root)
    client = client_of(tmp_path)
    assert "good" in [s.session_id for s in client.sessions.list("openclaw")]
    readings = [read_source(ADAPTER, s) for s in sources_of(ADAPTER, tmp_path)]
    assert all(reading.problems or reading.facts for reading in readings)


@drawn(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd=json_values(), field=st.sampled_from(["role", "content", "usage", "toolCalls", "cost"]))
def test_any_value_in_a_message_loses_no_neighbour(tmp_path: Path, odd: Any, field: str) -> None:
    changed = {**TURN[1], field: odd}
    document(tmp_path, "cli", "abc", messages=[TURN[0], odd, changed, said("user", "Last", 9)])
    [reading] = read_all(tmp_path)
    assert {m.content for m in reading.messages} >= {"Question", "Last"}


@drawn(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=json_values())
def test_any_list_of_names_is_read(tmp_path: Path, names: Any) -> None:
    write(tmp_path / LOGS / "s1.jsonl", TALK)
    (tmp_path / LOGS / "sessions.json").write_text(
        json.dumps({"key": names, "k": {"label": names}})
    )
    assert {"Hi", "Yes."} <= {m.content for r in read_all(tmp_path) for m in r.messages}


# logs


def test_a_label_in_the_list_of_sessions_is_the_title(tmp_path: Path) -> None:
    write(tmp_path / LOGS / "s1.jsonl", TALK)
    key = {"sessionId": "wrong", "sessionFile": "C:\\x\\s1.jsonl", "label": "Mine"}
    names = {"agent:main:main": {**key, "displayName": "Not this"}, "odd": 5, "none": {}}
    (tmp_path / LOGS / "sessions.json").write_text(json.dumps(names))
    client = client_of(tmp_path)
    assert client.sessions.get("openclaw", "s1").title == "Mine"
    assert [s.title for s in client.sessions.list("openclaw")] == ["Mine"]


@pytest.mark.parametrize(
    "name",
    [
        f"s1.jsonl.deleted.{ARCHIVED}",
        f"s1.jsonl.reset.{ARCHIVED}",
        f"s1.jsonl.bak.{ARCHIVED}",
        "s1.jsonl.bak",
        "s1.jsonl.full.bak",
        "s1.full.bak",
    ],
)
def test_archives_are_found_and_hidden(tmp_path: Path, name: str) -> None:
    write(tmp_path / LOGS / name, TALK)
    client = client_of(tmp_path)
    assert client.sessions.get("openclaw", "s1").archived
    assert client.sessions.list("openclaw") == []
    assert len(client.sessions.list("openclaw", include_archived=True)) == 1
    assert client.sessions.total_cost(agent="openclaw").input_tokens == 102


def test_a_compressed_archive_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / LOGS / f"s1.jsonl.reset.{ARCHIVED}.zst", TALK)
    path.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    [reading] = read_all(tmp_path)
    assert texts(reading) == ["Hi", "Yes."]


def test_copies_beside_a_session_are_not_counted_again(tmp_path: Path) -> None:
    write(tmp_path / LOGS / "s1.jsonl", [*TALK, user("u2", "a1", 3, "More"), reply("a2", "u2", 4)])
    write(tmp_path / LOGS / f"s1.checkpoint.{'0' * 8}-{'0' * 4}-4000-8000-{'0' * 12}.jsonl", TALK)
    write(tmp_path / LOGS / "s1.jsonl.bak", TALK)
    client = client_of(tmp_path)
    session = client.sessions.get("openclaw", "s1")
    assert (session.archived, len(session.messages), len(session.calls)) == (False, 4, 2)
    assert client.sessions.total_cost(agent="openclaw").input_tokens == 102 + 104


def test_traces_locks_and_lists_are_no_sessions(tmp_path: Path) -> None:
    for name in ("s1.trajectory.jsonl", "s1.jsonl.lock", "s1.trajectory-path.json"):
        write(tmp_path / LOGS / name, TALK)
    write(tmp_path / LOGS / f"s1.trajectory.jsonl.deleted.{ARCHIVED}", TALK)
    write(tmp_path / LOGS / "sessions.json.bak.123", TALK)
    assert sources_of(ADAPTER, tmp_path) == []


def test_agents_of_their_own_may_use_one_id(tmp_path: Path) -> None:
    write(tmp_path / LOGS / "s1.jsonl", TALK)
    late = [header(), user("u1", None, 1, "Work"), reply("a1", "u1", 50)]
    write(tmp_path / ".openclaw/agents/work/sessions/s1.jsonl", late)
    client = client_of(tmp_path)
    assert len(client.sessions.list("openclaw")) == 2
    assert client.sessions.get("openclaw", "s1").title == "Work"
    assert client.sessions.get("openclaw", "main/s1").title == "Hi"
    assert client.sessions.total_cost(agent="openclaw").input_tokens == 102 + 150


def test_the_older_product_s_folder_is_read_and_a_moved_session_counted_once(
    tmp_path: Path,
) -> None:
    write(tmp_path / LOGS / "s1.jsonl", TALK)
    write(tmp_path / ".clawdbot/agents/main/sessions/s1.jsonl", TALK)
    write(tmp_path / ".clawdbot/agents/main/sessions/s0.jsonl", [header("s0"), *TALK[1:]])
    client = client_of(tmp_path)
    assert sorted(s.session_id for s in client.sessions.list("openclaw")) == ["s0", "s1"]
    assert len(client.sessions.get("openclaw", "s1").calls) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly.",
        "[Subagent Context] You are running as a subagent (depth 1/1).",
        "[OpenClaw session event]",
    ],
)
def test_text_that_openclaw_writes_as_the_user_is_not_a_prompt(tmp_path: Path, text: str) -> None:
    own = user("u0", None, 1, text)
    write(tmp_path / LOGS / "s1.jsonl", [header(), own, user("u1", "u0", 2, "Hi")])
    session = client_of(tmp_path).sessions.get("openclaw", "s1")
    assert (session.title, session.messages[0].synthetic) == ("Hi", True)


def test_messages_between_sessions_are_no_prompts(tmp_path: Path) -> None:
    sent = user("u0", None, 1, "From another agent", provenance={"kind": "inter_session"})
    typed = user("u1", "u0", 2, "Hi", provenance={"kind": "external_user"})
    write(tmp_path / LOGS / "s1.jsonl", [header(), sent, typed])
    assert client_of(tmp_path).sessions.get("openclaw", "s1").title == "Hi"


@pytest.mark.parametrize(
    ("details", "failed"),
    [
        ({"status": "completed", "exitCode": 1}, True),
        ({"status": "error", "tool": "exec", "error": "x"}, True),
        ({"status": "completed", "exitCode": 0}, False),
        (None, False),
    ],
)
def test_a_command_that_failed_is_a_failed_call(
    tmp_path: Path, details: Json | None, *, failed: bool
) -> None:
    call = [{"type": "toolCall", "id": "t1", "name": "exec", "arguments": {"command": "x"}}]
    result = {"role": "toolResult", "toolCallId": "t1", "isError": False, "details": details}
    asked = [header(), user("u1", None, 1, "Go"), reply("a1", "u1", 2, content=call)]
    write(tmp_path / LOGS / "s1.jsonl", [*asked, entry("r1", "a1", 3, "message", message=result)])
    session = client_of(tmp_path).sessions.get("openclaw", "s1")
    assert session.messages[1].tool_calls[0].is_error is failed


@pytest.mark.parametrize(
    ("api", "figures", "marked"),
    [
        ("openai-completions", usage(9), True),
        ("openai-completions", usage(9) | {"reasoningTokens": 2}, False),
        ("anthropic-messages", usage(9), False),
        ("openai-responses", usage(9), False),
    ],
)
def test_output_that_holds_its_reasoning_twice_is_marked(
    tmp_path: Path, api: str, figures: Json, *, marked: bool
) -> None:
    thought = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}]
    answer = reply("a1", "u1", 2, content=thought, usage=figures, api=api)
    write(tmp_path / LOGS / "s1.jsonl", [header(), user("u1", None, 1, "Hi"), answer])
    cost = client_of(tmp_path).sessions.get("openclaw", "s1").cost
    assert cost is not None
    assert ("output-overstated-on-disk" in cost.incomplete) is marked


@pytest.mark.parametrize("model", ["delivery-mirror", "gateway-injected"])
def test_an_answer_of_the_program_is_a_notice(tmp_path: Path, model: str) -> None:
    zeros = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0}}
    sent = reply("a1", "u1", 2, "Sent.", provider="openclaw", model=model, usage=zeros)
    write(tmp_path / LOGS / "s1.jsonl", [header(), user("u1", None, 1, "/status"), sent])
    session = client_of(tmp_path).sessions.get("openclaw", "s1")
    assert [(m.content, m.synthetic) for m in session.messages] == [
        ("/status", False),
        ("Sent.", True),
    ]
    assert (session.models, session.calls, session.turn_count) == ((), (), 0)
    assert (session.cost, session.unrecorded) == (None, ())


def test_side_files_of_the_list_of_names_are_accounted_for(tmp_path: Path) -> None:
    write(tmp_path / LOGS / "s1.jsonl", TALK)
    side = ("sessions.json.bak.1773129600000", "sessions.json.9f.tmp", "sessions.json.corrupt")
    for name in side:
        (tmp_path / LOGS / name).write_text("{}")
    (report,) = client_of(tmp_path).doctor("openclaw")
    assert {file.path.rpartition("/")[2]: file.status for file in report.files} == {
        "s1.jsonl": "session",
        **dict.fromkeys(side, "bystander"),
    }


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside/sessions/s1.jsonl", TALK)
    agents = tmp_path / ".openclaw/agents"
    agents.mkdir(parents=True)
    (agents / "main").symlink_to(outside.parent.parent)
    (tmp_path / DOCUMENTS).mkdir()
    (tmp_path / DOCUMENTS / "cli").symlink_to(outside.parent)
    assert sources_of(ADAPTER, tmp_path) == []


# places and commands


def test_the_environment_moves_the_state(tmp_path: Path) -> None:
    assert [root.name for root in ADAPTER.roots(host(tmp_path))] == [
        ".openclaw",
        ".clawdbot",
        ".moltbot",
    ]
    own = str(tmp_path / "state")
    assert ADAPTER.roots(host(tmp_path, OPENCLAW_STATE_DIR=own)) == [tmp_path / "state"]
    moved = ADAPTER.roots(host(tmp_path, OPENCLAW_HOME=str(tmp_path / "h")))
    assert moved[0] == tmp_path / "h/.openclaw"
    profiled = ADAPTER.roots(host(tmp_path, OPENCLAW_PROFILE="../work"))
    assert profiled[0] == tmp_path / ".openclaw-work"


def test_a_turn_needs_a_prompt_and_nothing_can_be_forked() -> None:
    def argv(*args: Any, **more: Any) -> tuple[str, ...] | None:
        command = ADAPTER.command(*args, **more)
        return None if command is None else command.argv

    turn = ("openclaw", "agent", "--local")
    assert argv("new") == ("openclaw", "tui")
    assert argv("new", prompt="hi") == (*turn, "--agent", "main", "--message", "hi")
    assert argv("resume", session_id="x", prompt="hi") == (
        *turn,
        "--session-id",
        "x",
        "--message",
        "hi",
    )
    assert argv("resume", session_id="x") is None
    assert argv("fork", session_id="x", prompt="hi") is None
    assert not ADAPTER.info.capabilities.can_fork
