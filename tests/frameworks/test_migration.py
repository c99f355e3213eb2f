"""Sessions that a framework wrote to its own database are the same after an import.

Every database is written by the framework itself, and the sessions are read by the framework's own
class and by ours.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import psycopg
import pytest
from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from psycopg import sql

from amux.errors import AmuxError, ValidationError
from amux.integrations.adk import AmuxSessionService
from amux.integrations.langgraph import AmuxSaver
from amux.integrations.migration import import_database
from amux.integrations.migration.report import MigrationReport
from amux.integrations.openai_agents import AmuxSession
from amux.store.session_store import SessionStore

ITEMS: list[Any] = [
    {"role": "user", "content": "What is 2+2? ü 🐍"},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "4"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "4", "annotations": []}]},
]


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_sessions_of_the_openai_agents_sdk_come_over(store: SessionStore, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "chats.db"
    names = ["plain", "it's; DROP TABLE --", "ü/../x"]

    async def write() -> None:
        for name in names:
            theirs = SQLiteSession(name, path)
            await theirs.add_items(ITEMS)
            await theirs.add_items([{"role": "user", "content": f"I am {name}"}])
            theirs.close()

    asyncio.run(write())
    open_writer = sqlite3.connect(path)  # what only the log holds comes over as well
    open_writer.execute("PRAGMA journal_mode = WAL")
    open_writer.execute(
        "INSERT INTO agent_messages (session_id, message_data) VALUES ('plain', '{\"role\": 1}')"
    )
    open_writer.commit()
    before = files_of(folder)
    (report,) = import_database(store, path)
    assert files_of(folder) == before
    assert (len(report.imported), report.records, report.problems) == (3, 16, [])
    for name in names:
        theirs = asyncio.run(SQLiteSession(name, path).get_items())
        assert asyncio.run(AmuxSession(name, store).get_items()) == theirs
    open_writer.close()
    (again,) = import_database(store, path)
    assert (again.imported, sorted(again.skipped)) == ([], sorted(names))


def test_branches_and_usage_of_the_openai_agents_sdk_come_over(
    store: SessionStore, tmp_path: Path
) -> None:
    path = tmp_path / "advanced.db"
    theirs = AdvancedSQLiteSession(session_id="s", db_path=path, create_tables=True)
    asyncio.run(theirs.add_items(ITEMS))
    asyncio.run(theirs.add_items([{"role": "user", "content": "and 3+3?"}]))
    asyncio.run(theirs.create_branch_from_turn(2, "other"))
    asyncio.run(theirs.add_items([{"role": "user", "content": "and 4+4?"}]))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO turn_usage (session_id, branch_id, user_turn_number, requests, "
            "input_tokens, output_tokens, total_tokens, input_tokens_details) "
            "VALUES ('s', 'main', 1, 1, 100, 20, 120, '{\"cached_tokens\": 40}')"
        )
    (report,) = import_database(store, path)
    assert len(report.imported) == 2
    ours = AmuxSession("s", store)
    for branch in ("main", "other"):
        asyncio.run(theirs.switch_to_branch(branch))
        asyncio.run(ours.switch_to_branch(branch))
        assert asyncio.run(ours.get_items()) == asyncio.run(theirs.get_items()), branch
    theirs.close()
    (thread,) = [each for each in store.list(limit=None) if each.key == ("s",)]
    assert (thread.input_tokens, thread.cache_read_tokens, thread.output_tokens) == (60, 40, 20)


def test_rows_that_are_no_items_are_reported(store: SessionStore, tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    asyncio.run(SQLiteSession("s", path).add_items(ITEMS[:1]))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO agent_messages (session_id, message_data) VALUES ('s', '{torn')"
        )
    (report,) = import_database(store, path)
    assert report.records == 1
    assert [each.code for each in report.problems] == ["bad-record"]
    assert asyncio.run(AmuxSession("s", store).get_items()) == ITEMS[:1]


async def fill_adk(service: Any) -> None:
    for user in ("ann", "bob"):
        session = await service.create_session(
            app_name="app",
            user_id=user,
            session_id="s",
            state={"n": 1, "user:name": user, "app:x_y": [1]},
        )
        for number, stamp in enumerate((1_700_000_000.25, 1_700_000_100.5)):
            call = types.Part.from_function_call(name="look_up", args={"snake_key": number})
            delta = {"n": number + 2, "deep": {"snake_key": 2**60}}
            event = Event(
                author="model",
                invocation_id=f"i{number}",
                timestamp=stamp,
                content=types.Content(role="model", parts=[types.Part(text="hi"), call]),
                usage_metadata=types.GenerateContentResponseUsageMetadata(
                    prompt_token_count=10, candidates_token_count=3
                ),
                actions=EventActions(state_delta=delta),
            )
            await service.append_event(session, event)


STATES = ("app", "app/ann", "app/bob")


@pytest.mark.parametrize("kind", ["sqlite", "database"])
def test_sessions_of_the_agent_development_kit_come_over(
    store: SessionStore, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "adk.db"

    def make() -> Any:
        if kind == "sqlite":
            return SqliteSessionService(str(path))
        return DatabaseSessionService(f"sqlite+aiosqlite:///{path}")

    async def work() -> Any:
        theirs = make()
        await fill_adk(theirs)
        (report,) = await asyncio.to_thread(import_database, store, path)
        ours = AmuxSessionService(store)
        originals: list[tuple[dict[str, Any], Any]] = []
        for user in ("ann", "bob"):
            place: dict[str, Any] = {"app_name": "app", "user_id": user, "session_id": "s"}
            expected, found = await theirs.get_session(**place), await ours.get_session(**place)
            originals.append((place, expected))
            assert found is not None
            assert found.events == expected.events
            assert found.state == expected.state
            assert found.last_update_time == expected.last_update_time
            more = Event(author="user", invocation_id="i9", timestamp=1_700_000_200.0)
            await ours.append_event(found, more)  # the session can be continued
        (again,) = await asyncio.to_thread(import_database, store, path)
        assert (again.imported, sorted(again.skipped)) == (
            [],
            ["app/ann/s", "app/bob/s", *(f"the state of {each}" for each in STATES)],
        )
        for place, expected in originals:
            assert await theirs.get_session(**place) == expected
        return report

    report = asyncio.run(work())
    assert (len(report.imported), report.records, report.problems) == (2, 4, [])
    threads = [each for each in store.list(limit=None) if each.key and len(each.key) == 3]
    assert {each.user_id for each in threads} == {"ann", "bob"}
    assert all(each.input_tokens == 20 and each.tool_call_count == 2 for each in threads)


class ChatState(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]
    turns: int


@pytest.fixture
def foreign_url(postgres_url: str) -> Iterator[str]:
    """Return the URL of an empty schema for a framework, in the server of our tests."""
    schema = f"theirs_{uuid4().hex}"
    name = sql.Identifier(schema)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        mark = "&" if "?" in postgres_url else "?"
        yield f"{postgres_url}{mark}options=-csearch_path%3D{schema}"
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(name))


def test_sessions_of_the_agent_development_kit_come_over_from_postgresql(
    store: SessionStore, foreign_url: str
) -> None:
    async def work() -> MigrationReport:
        theirs = DatabaseSessionService(foreign_url.replace("://", "+psycopg://", 1))
        await fill_adk(theirs)
        (report,) = await asyncio.to_thread(import_database, store, foreign_url)
        (again,) = await asyncio.to_thread(import_database, store, foreign_url)
        assert (again.imported, len(again.skipped)) == ([], 2 + len(STATES))
        ours = AmuxSessionService(store)
        for user in ("ann", "bob"):
            place: dict[str, Any] = {"app_name": "app", "user_id": user, "session_id": "s"}
            expected, found = await theirs.get_session(**place), await ours.get_session(**place)
            assert expected is not None
            assert found is not None
            assert found.events == expected.events
            assert found.state == expected.state
            assert found.last_update_time == expected.last_update_time
            await ours.append_event(found, Event(author="user", invocation_id="i9"))
        await theirs.close()
        return report

    report = asyncio.run(work())
    assert (len(report.imported), report.records, report.problems) == (2, 4, [])


def test_a_session_that_no_store_can_hold_is_reported_and_the_others_come_over(
    store: SessionStore, tmp_path: Path
) -> None:
    path = tmp_path / "adk.db"
    long = "x" * 3000

    async def write() -> None:
        theirs = SqliteSessionService(str(path))
        for user in (long, "ann"):
            await theirs.create_session(
                app_name="app", user_id=user, session_id="s", state={"n": 1, "user:n": 2}
            )

    asyncio.run(write())
    (report,) = import_database(store, path)
    assert len(report.imported) == 1
    assert len(report.problems) == 2  # the session and the state of the user
    found = asyncio.run(
        AmuxSessionService(store).get_session(app_name="app", user_id="ann", session_id="s")
    )
    assert found is not None
    assert found.state == {"n": 1, "user:n": 2}


def chat(saver: Any, thread: str, prompts: list[str]) -> None:
    def answer(state: ChatState) -> dict[str, Any]:
        last = state["messages"][-1].content
        return {"messages": [AIMessage(f"re: {last}")], "turns": state.get("turns", 0) + 1}

    builder = StateGraph(ChatState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph: Any = builder.compile(checkpointer=saver)
    for prompt in prompts:
        state = {"messages": [HumanMessage(prompt)]}
        graph.invoke(state, {"configurable": {"thread_id": thread}})


def checkpoints_in(saver: Any) -> list[Any]:
    found = [
        (
            each.config["configurable"],
            each.checkpoint,
            each.metadata,
            (each.parent_config or {}).get("configurable"),
            sorted(each.pending_writes, key=repr),
        )
        for each in saver.list(None)
    ]
    return sorted(found, key=lambda each: (each[0]["thread_id"], each[0]["checkpoint_id"]))


def test_checkpoints_of_langgraph_come_over_from_sqlite(
    store: SessionStore, tmp_path: Path
) -> None:
    path = tmp_path / "theirs" / "graph.db"
    path.parent.mkdir()
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        chat(theirs, "one", ["hello", "more", "again"])
        chat(theirs, "two", ["bye", "x" * 20_000])
        expected = checkpoints_in(theirs)
    before = files_of(path.parent)
    (report,) = import_database(store, path)
    assert (len(report.imported), report.records, report.problems) == (2, len(expected), [])
    times = [each[1]["ts"] for each in expected if each[0]["thread_id"] == "one"]
    (thread,) = [each for each in store.list(limit=None) if each.key == ("one",)]
    assert (thread.created_at, thread.last_active) == tuple(
        datetime.fromisoformat(each) for each in (min(times), max(times))
    )
    ours = AmuxSaver(store)
    assert checkpoints_in(ours) == expected
    chat(ours, "one", ["still there?"])  # the conversation can be continued
    latest = ours.get_tuple({"configurable": {"thread_id": "one"}})
    assert latest is not None
    assert len(latest.checkpoint["channel_values"]["messages"]) == 8
    (again,) = import_database(store, path)
    assert again.skipped == ["one", "two"]
    assert files_of(tmp_path / "theirs") == before


class Interrupted(Exception):  # noqa: N818  # stands for a kill
    pass


def test_an_import_that_is_interrupted_leaves_no_half_of_a_thread(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "graph.db"
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        chat(theirs, "one", ["hello"])
        chat(theirs, "two", ["hello", "more"])
        expected = checkpoints_in(theirs)
    puts, put = [0], AmuxSaver.put

    def put_or_stop(saver: AmuxSaver, *args: Any) -> Any:
        puts[0] += 1
        if puts[0] == 6:  # in the second thread
            raise Interrupted
        return put(saver, *args)

    with monkeypatch.context() as patch:
        patch.setattr(AmuxSaver, "put", put_or_stop)
        with pytest.raises(Interrupted):
            import_database(store, path)
    assert [each.key for each in store.list(limit=None)] == [("one",)]
    (report,) = import_database(store, path)
    assert (report.skipped, len(report.imported)) == (["one"], 1)
    assert checkpoints_in(AmuxSaver(store)) == expected


def test_a_damaged_checkpoint_is_reported_and_the_others_come_over(
    store: SessionStore, tmp_path: Path
) -> None:
    path = tmp_path / "graph.db"
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        for thread in ("one", "n" * 3000, "two"):
            chat(theirs, thread, ["hello", "more"])
        latest = theirs.get_tuple({"configurable": {"thread_id": "one"}})
        expected = checkpoints_in(theirs)
    assert latest is not None
    assert latest.parent_config is not None
    damaged = latest.parent_config["configurable"]["checkpoint_id"]
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE checkpoints SET checkpoint = X'c1' WHERE checkpoint_id = ?", (damaged,)
        )
    (report,) = import_database(store, path)
    assert [each.code for each in report.problems] == ["bad-record"] * 2
    assert sorted(each.key or () for each in store.list(limit=None)) == [("one",), ("two",)]
    readable = [
        each
        for each in expected
        if each[0]["thread_id"] in {"one", "two"} and each[0]["checkpoint_id"] != damaged
    ]
    assert checkpoints_in(AmuxSaver(store)) == readable


def test_checkpoints_of_langgraph_come_over_from_postgresql(
    postgres_url: str, foreign_url: str
) -> None:
    with PostgresSaver.from_conn_string(foreign_url) as theirs:
        theirs.setup()
        chat(theirs, "one", ["hello", "more"])
        expected = checkpoints_in(theirs)
    with SessionStore("memory:") as store:
        (report,) = import_database(store, foreign_url)
        assert (len(report.imported), report.records) == (1, len(expected))
        assert checkpoints_in(AmuxSaver(store)) == expected
        (again,) = import_database(store, foreign_url)
        assert (again.imported, again.skipped) == ([], ["one"])
    with PostgresSaver.from_conn_string(foreign_url) as theirs:
        assert checkpoints_in(theirs) == expected
    for url in (postgres_url, "postgresql://nobody@127.0.0.1:1/none"):
        with SessionStore("memory:") as store, pytest.raises(AmuxError) as caught:
            import_database(store, url)
        assert "\n" not in str(caught.value)


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    with SessionStore("memory:") as store:
        with pytest.raises(ValidationError, match="no sessions of a framework"):
            import_database(store, path)
        path.write_bytes(b"SQLite format 3\0" + b"x" * 200)
        with pytest.raises(AmuxError, match="not a usable SQLite database"):
            import_database(store, path)
