"""Cursor's editor: conversations, workspaces, chats of 2024, titles in the tracking database."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from cursor_store import START, Json, client_on, composer, execute, execute_state, write_state
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from amux.adapters.cursor import ADAPTER
from amux.testing.reading import Reading, read_source, sources_of
from amux.testing.strategies import json_values


def bubble(conversation: str, id: str, type: int, text: str, **more: Any) -> Json:
    return {f"bubbleId:{conversation}:{id}": {"type": type, "text": text, **more}}


def read_state(home: Path) -> Reading:
    (source,) = sources_of(ADAPTER, home)
    return read_source(ADAPTER, source)


def counted(input: int, output: int) -> Json:
    return {"tokenCount": {"inputTokens": input, "outputTokens": output}}


def test_bubbles_come_in_the_order_of_the_headers_and_orphans_are_left_out(tmp_path: Path) -> None:
    values = composer("c", ["z", "a"], name="Named", lastUpdatedAt=START + 9)
    values |= bubble("c", "a", 2, "Done", modelInfo={"modelName": "gpt-5"}, **counted(10, 3))
    values |= bubble("c", "z", 1, "Go")
    values |= bubble("c", "m", 2, "Regenerated", **counted(999, 99))
    write_state(tmp_path, values)
    session = client_on(tmp_path).sessions.get("cursor", "c")
    assert [message.content for message in session.messages] == ["Go", "Done"]
    assert (session.title, session.models, session.turn_count) == ("Named", ("gpt-5",), 1)
    assert session.cost is not None
    assert (session.cost.input_tokens, session.cost.output_tokens) == (10, 3)
    assert "usage-not-recorded" in session.cost.incomplete


def test_bubbles_are_given_to_their_own_conversation(tmp_path: Path) -> None:
    """Ids that begin alike sort differently in the two kinds of keys."""
    values: Json = {}
    for id in ("a", "a-b", "a:c", "b"):
        values |= composer(id, ["x"]) | bubble(id, "x", 1, f"of {id}")
    write_state(tmp_path, values)
    found = {id: [m.content for m in ms] for id, ms in read_state(tmp_path).by_session().items()}
    assert found == {id: [f"of {id}"] for id in ("a", "a-b", "a:c", "b")}


def test_drafts_and_empty_values_are_no_sessions_and_lost_bubbles_are_a_problem(
    tmp_path: Path,
) -> None:
    values: Json = {**composer("draft", []), "composerData:gone": None, "composerData:bad": "{"}
    values |= composer("lost", ["x", "y"]) | bubble("lost", "x", 1, "Here")
    write_state(tmp_path, values)
    reading = read_state(tmp_path)
    assert [facts.session_id for facts in reading.facts] == ["lost"]
    assert [problem.code for problem in reading.problems] == ["bad-record", "bad-record"]


def test_tools_are_read_from_texts_of_json(tmp_path: Path) -> None:
    def tool(status: str, result: str) -> Json:
        return {
            "toolFormerData": {
                "name": "run_terminal_cmd",
                "rawArgs": '{"command": "ls"}',
                "status": status,
                "result": result,
            }
        }

    values = composer("c", ["1", "2", "3", "4"])
    values |= bubble("c", "1", 2, "", **tool("completed", '{"output": "x", "exitCode": 0}'))
    values |= bubble("c", "2", 2, "", **tool("completed", '{"output": "x", "exitCode": 2}'))
    values |= bubble("c", "3", 2, "", **tool("error", "no JSON"))
    values |= bubble("c", "4", 2, "", **tool("loading", ""))
    write_state(tmp_path, values)
    session = client_on(tmp_path).sessions.get("cursor", "c")
    calls = [call for message in session.messages for call in message.tool_calls]
    assert [call.is_error for call in calls] == [False, True, True, None]
    assert calls[0].input == {"command": "ls"}
    assert calls[2].output == "no JSON"


def test_a_conversation_names_its_sub_agents(tmp_path: Path) -> None:
    values = composer("top", ["1"], subagentComposerIds=["low", 7]) | bubble("top", "1", 1, "Go")
    values |= composer("low", ["1"]) | bubble("low", "1", 1, "Part", **counted(4, 2))
    write_state(tmp_path, values)
    client = client_on(tmp_path)
    assert [session.session_id for session in client.sessions.list("cursor")] == ["top"]
    top = client.sessions.get("cursor", "top")
    assert [child.session_id for child in top.children] == ["low"]
    assert top.cost is not None
    assert top.cost.input_tokens == 4


def test_a_recorded_cost_counts_and_the_default_model_is_none(tmp_path: Path) -> None:
    usage = {"gpt-5": {"costInCents": 4, "amount": 1}, "o3": {"costInCents": 1.5}, "x": 7}
    model = {"modelName": "default"}
    values = composer("c", ["1"], usageData=usage, modelConfig=model, isArchived=True)
    write_state(tmp_path, values | bubble("c", "1", 1, "Go"))
    session = client_on(tmp_path).sessions.get("cursor", "c")
    assert session.cost is not None
    assert (session.cost.total_usd, session.cost.source) == (0.055, "native")
    assert session.models == ("gpt-5", "o3")
    assert session.archived


@pytest.mark.parametrize(
    ("identifier", "cwd"),
    [
        ({"id": "x", "uri": {"fsPath": "/src/app"}}, "/src/app"),
        ({"uri": "file:///src/my%20app"}, "/src/my app"),
        ("file:///c%3A/src", "c:/src"),
        (7, None),
    ],
)
def test_newer_conversations_name_their_workspace(
    identifier: Any, cwd: str | None, tmp_path: Path
) -> None:
    values = composer("c", ["1"], workspaceIdentifier=identifier) | bubble("c", "1", 1, "Go")
    write_state(tmp_path, values)
    assert client_on(tmp_path).sessions.get("cursor", "c").cwd == cwd


def workspace(home: Path, values: Json, *, folder: str = "file:///src/app") -> None:
    place = home / ".config" / "Cursor" / "User" / "workspaceStorage" / "abc"
    execute_state(place / "state.vscdb", values, table="ItemTable")
    (place / "workspace.json").write_text(json.dumps({"folder": folder}))


def test_a_workspace_tells_where_its_conversations_belong(tmp_path: Path) -> None:
    write_state(tmp_path, composer("c", ["1"]) | bubble("c", "1", 1, "Go"))
    heads = [{"composerId": "c"}, {"composerId": "deleted"}, 7]
    workspace(tmp_path, {"composer.composerData": {"allComposers": heads}})
    client = client_on(tmp_path)
    assert [(s.session_id, s.cwd) for s in client.sessions.list("cursor")] == [("c", "/src/app")]
    assert client.sessions.get("cursor", "c").cwd == "/src/app"


def test_chats_of_2024_are_sessions_of_their_workspace(tmp_path: Path) -> None:
    bubbles = [
        {"type": "user", "text": "Why?", "id": "1"},
        {"type": "ai", "rawText": "Because.", "modelType": "gpt-4"},
        {"type": "ai"},
    ]
    tabs = [{"tabId": "t", "chatTitle": "Old", "lastSendTime": START, "bubbles": bubbles}, {}, 3]
    workspace(tmp_path, {"workbench.panel.aichat.view.aichat.chatdata": {"tabs": tabs}})
    (summary,) = client_on(tmp_path).sessions.list("cursor")
    assert (summary.session_id, summary.title, summary.cwd) == ("t", "Old", "/src/app")
    assert (summary.models, summary.message_count) == (("gpt-4",), 2)


def test_a_title_kept_by_the_tracking_names_a_conversation(tmp_path: Path) -> None:
    write_state(tmp_path, composer("c", ["1"]) | bubble("c", "1", 1, "Go"))
    execute(
        tmp_path / ".cursor" / "ai-tracking" / "ai-code-tracking.db",
        "CREATE TABLE conversation_summaries (conversationId, model, title, updatedAt);"
        "INSERT INTO conversation_summaries VALUES ('c', 'gpt-5', 'Tracked', 1);"
        "INSERT INTO conversation_summaries VALUES (7, NULL, NULL, 2)",
    )
    assert [s.title for s in client_on(tmp_path).sessions.list("cursor")] == ["Tracked"]


def test_many_conversations_cost_as_many_statements_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    connect = sqlite3.connect
    for number in (1, 30):
        values: Json = {}
        for id in range(number):
            values |= composer(f"c{id}", ["1"]) | bubble(f"c{id}", "1", 1, "Go")
        home = tmp_path / str(number)
        write_state(home, values)
        statements: list[str] = []

        def listening(*arguments: Any, heard: list[str] = statements, **options: Any) -> Any:
            connection = connect(*arguments, **options)
            connection.set_trace_callback(heard.append)
            return connection

        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", listening)
            assert len(client_on(home).sessions.list("cursor", limit=None)) == number
        counts.append(len(statements))
    assert counts[0] == counts[1]


@drawn(50, suppress_health_check=[HealthCheck.too_slow])
@given(odd_composer=json_values(), odd_bubble=json_values(), name=st.sampled_from(range(8)))
def test_any_value_in_any_field_raises_no_exception_and_affects_no_other_record(
    odd_composer: Any, odd_bubble: Any, name: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("odd")
    fields = ("type", "text", "thinking", "toolFormerData", "tokenCount", "modelInfo", "createdAt")
    known = ("name", "createdAt", "usageData", "modelConfig", "workspaceIdentifier", "isArchived")
    values = composer("a", ["1"], **({known[name]: odd_composer} if name < len(known) else {}))
    values |= bubble("a", "1", 2, "Text")
    if name < len(fields):
        values["bubbleId:a:1"] |= {fields[name]: odd_bubble}
    else:
        values = {"composerData:a": odd_composer, "bubbleId:a:1": odd_bubble}
    values |= composer("b", ["1"]) | bubble("b", "1", 1, "Neighbour")
    write_state(home, values)
    reading = read_state(home)
    assert [m.content for m in reading.by_session()["b"]] == ["Neighbour"]
    (source,) = sources_of(ADAPTER, home)
    assert read_source(ADAPTER, source, "facts").facts == reading.facts
