"""Limits of age, and the erasure of one user, on what all six frameworks have stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from psycopg import sql
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from amux.integrations.adk import AmuxSessionService
from amux.integrations.claude import AmuxSessionStore
from amux.integrations.langgraph import AmuxSaver
from amux.integrations.openai_agents import AmuxSession
from amux.integrations.pydantic_ai import AmuxConversationStore
from amux.integrations.strands import AmuxSessionRepository
from amux.integrations.strands_storage import AmuxStorage
from amux.store.session_store import SessionStore

ANN, BOB = "ann-4f1c", "bob-77aa"
WORDS = {ANN: "zanzibar", BOB: "tasmania"}
LONG = 9_000
"""Texts of this length are blobs in LangGraph's threads."""


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(
            UTC
        )  # events of ADK and messages of Strands have times of their own

    def __call__(self) -> datetime:
        return self.now


def say_claude(store: SessionStore, user: str) -> None:
    sessions = AmuxSessionStore(store, user_id=user)
    for subpath in ("", "subagents/agent-1"):
        key: Any = {"project_key": "p", "session_id": f"of {user}", "subpath": subpath}
        line: Any = {"type": "user", "message": {"role": "user", "content": WORDS[user]}}
        asyncio.run(sessions.append(key, [line]))


def found_claude(store: SessionStore, user: str) -> str:
    sessions = AmuxSessionStore(store)
    key: Any = {"project_key": "p", "session_id": f"of {user}"}
    inner: Any = {**key, "subpath": "subagents/agent-1"}
    found = [asyncio.run(sessions.load(each)) for each in (key, inner)]
    return "" if found == [None, None] else str(found)


def say_openai(store: SessionStore, user: str) -> None:
    session = AmuxSession(f"of {user}", store, user_id=user)
    for word in ("once", WORDS[user]):
        asyncio.run(session.add_items([{"role": "user", "content": word}]))
    asyncio.run(session.create_branch_from_turn(2, "another"))
    asyncio.run(session.add_items([{"role": "user", "content": WORDS[user]}]))


def found_openai(store: SessionStore, user: str) -> str:
    session = AmuxSession(f"of {user}", store)
    found = [*asyncio.run(session.get_items())]
    if len(asyncio.run(session.list_branches())) > 1:
        asyncio.run(session.switch_to_branch("another"))
        found += asyncio.run(session.get_items())
    return "".join(map(str, found))


def say_langgraph(store: SessionStore, user: str) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda _: {"messages": [HumanMessage("x" * LONG + WORDS[user])]})
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=AmuxSaver(store))
    config: Any = {"configurable": {"thread_id": f"of {user}", "user_id": user}}
    graph.invoke({"messages": [HumanMessage(WORDS[user])]}, config)


def found_langgraph(store: SessionStore, user: str) -> str:
    saved = AmuxSaver(store).get_tuple({"configurable": {"thread_id": f"of {user}"}})
    return "" if saved is None else str(saved)


def say_pydantic_ai(store: SessionStore, user: str) -> None:
    conversations = AmuxConversationStore(store)
    message = ModelRequest(parts=[UserPromptPart(content=WORDS[user])])
    talk = Conversation(messages=[message], conversation_id=f"of {user}")
    asyncio.run(conversations.save(talk, scope=user))


def found_pydantic_ai(store: SessionStore, user: str) -> str:
    found = asyncio.run(AmuxConversationStore(store).load(f"of {user}", scope=user))
    return "" if found is None else str(found.messages)


def say_adk(store: SessionStore, user: str) -> None:
    service = AmuxSessionService(store)

    async def main() -> None:
        state = {"user:word": WORDS[user], "app:name": "shop"}
        session = await service.create_session(
            app_name="app", user_id=user, session_id="s", state=state
        )
        content = types.Content(role="user", parts=[types.Part(text=WORDS[user])])
        actions = EventActions(state_delta={"word": WORDS[user]})
        event = Event(author="user", content=content, actions=actions)
        await service.append_event(session, event)

    asyncio.run(main())


def found_adk(store: SessionStore, user: str) -> str:
    service = AmuxSessionService(store)
    place: Any = {"app_name": "app", "user_id": user}
    session = asyncio.run(service.get_session(**place, session_id="s"))
    state = asyncio.run(service.get_user_state(**place))
    return "" if session is None and not state else f"{session} {state}"


def say_strands(store: SessionStore, user: str) -> None:
    repository = AmuxSessionRepository(store, user_id=user)
    session_id = f"of {user}"
    repository.create_session(Session(session_id=session_id, session_type=SessionType.AGENT))
    for name in ("default", "helper"):
        agent = SessionAgent(agent_id=name, state={"w": WORDS[user]}, conversation_manager_state={})
        repository.create_agent(session_id, agent)
        message: Any = {"role": "user", "content": [{"text": WORDS[user]}]}
        repository.create_message(session_id, name, SessionMessage(message, 0))


def found_strands(store: SessionStore, user: str) -> str:
    repository = AmuxSessionRepository(store)
    found = [repository.list_messages(f"of {user}", name) for name in ("default", "helper")]
    return "".join(str(message.to_message()) for messages in found for message in messages)


FRAMEWORKS: dict[
    str, tuple[Callable[[SessionStore, str], None], Callable[[SessionStore, str], str]]
] = {
    "claude-agent-sdk": (say_claude, found_claude),
    "openai-agents": (say_openai, found_openai),
    "langgraph": (say_langgraph, found_langgraph),
    "pydantic-ai": (say_pydantic_ai, found_pydantic_ai),
    "google-adk": (say_adk, found_adk),
    "strands": (say_strands, found_strands),
}


def fill(store: SessionStore) -> None:
    for say, found in FRAMEWORKS.values():
        for user in (ANN, BOB):
            say(store, user)
            assert WORDS[user] in found(store, user)


def test_everything_that_the_frameworks_stored_of_a_user_is_erased(store: SessionStore) -> None:
    fill(store)
    assert len(store.search(WORDS[ANN], limit=100)) >= len(FRAMEWORKS)
    store.erase_user(ANN)
    for name, (_, found) in FRAMEWORKS.items():
        assert found(store, ANN) == "", name
        assert WORDS[BOB] in found(store, BOB), name
    assert store.search(WORDS[ANN], limit=100) == []
    asked = asyncio.run(AmuxSessionService(store).list_sessions(app_name="app"))
    assert [(each.user_id, each.state["app:name"]) for each in asked.sessions] == [(BOB, "shop")]


def test_no_file_and_no_row_holds_a_word_of_an_erased_user(
    store_address: str, postgres_url: str
) -> None:
    with SessionStore(store_address) as store:
        fill(store)
        for user in (ANN, BOB):
            snapshots = AmuxStorage(store).namespace(user)
            asyncio.run(snapshots.write("agent", WORDS[user].encode()))
        store.erase_user(ANN)
    traces = _rows(store_address, postgres_url) if "://" in store_address else _files(store_address)
    secrets = (ANN.encode(), WORDS[ANN].encode(), WORDS[ANN].encode().hex().encode())
    assert [secret for secret in secrets if secret in traces] == []
    assert WORDS[BOB].encode() in traces


def _files(folder: str) -> bytes:
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return b"\n".join(str(path).encode() + path.read_bytes() for path in paths)


def _rows(address: str, postgres_url: str) -> bytes:
    schema = address.rpartition("schema=")[2]
    found: list[str] = []
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,)
        )
        for (table,) in tables.fetchall():
            query = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, table))
            found += [row[0] for row in connection.execute(query)]
    return "\n".join(found).encode()


@pytest.mark.parametrize("namespace", FRAMEWORKS)
def test_sessions_of_a_framework_expire_and_those_of_others_stay(
    store_address: str, namespace: str
) -> None:
    clock = Clock()
    with SessionStore(store_address, now=clock) as store:
        for say, _ in FRAMEWORKS.values():
            say(store, ANN)
        clock.now += timedelta(days=31)
        FRAMEWORKS[namespace][0](store, BOB)
        store.set_retention(namespace, 30)
        store.prune()
        for name, (_, found) in FRAMEWORKS.items():
            assert (found(store, ANN) == "") == (name == namespace), name
        assert WORDS[BOB] in FRAMEWORKS[namespace][1](store, BOB)
