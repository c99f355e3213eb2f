"""`AmuxSessionRepository` and `AmuxStorage` serve Strands Agents, on every backend."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_env
from counted_bytes import counted_bytes
from scripted_strands import ScriptedModel
from strands import Agent, tool
from strands.session.repository_session_manager import RepositorySessionManager
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from suites import Distribution, expected_failures, run_suite

from amux import create_client
from amux.errors import TurnInProgressError, ValidationError
from amux.integrations.strands import AmuxSessionRepository
from amux.integrations.strands_storage import AmuxStorage
from amux.store.session_store import SessionStore

FRAMEWORK = Distribution(
    "strands-agents", "1.62.0", "8732c87f9c1ceb6ef4c5c4bd6d96b4cdf1bbfde095f1537ec2ac6fddb8d5a066"
)

AGENTS = ("default", "cook")
"""The one has its messages in the thread of the session, the other in a thread of its own."""


def new_session(session_id: str = "s") -> Session:
    return Session(session_id=session_id, session_type=SessionType.AGENT)


def new_agent(agent_id: str, **state: Any) -> SessionAgent:
    return SessionAgent(agent_id=agent_id, state=state, conversation_manager_state={})


def said(number: int, text: str, role: Any = "user") -> SessionMessage:
    return SessionMessage.from_message({"role": role, "content": [{"text": text}]}, number)


@pytest.fixture
def repository(store: SessionStore) -> AmuxSessionRepository:
    """Return a repository with the session "s" and its agents."""
    made = AmuxSessionRepository(store)
    made.create_session(new_session())
    for agent_id in AGENTS:
        made.create_agent("s", new_agent(agent_id))
    return made


def texts(messages: list[SessionMessage]) -> list[str]:
    return [each.message["content"][0]["text"] for each in messages]


def test_a_session_comes_back(store: SessionStore) -> None:
    session = new_session("a/b 'quoted' 🦜")
    assert AmuxSessionRepository(store).create_session(session) == session
    assert AmuxSessionRepository(store).read_session(session.session_id) == session
    assert AmuxSessionRepository(store).read_session("other") is None


@pytest.mark.parametrize("agent_id", AGENTS)
def test_what_exists_is_not_created_again(repository: AmuxSessionRepository, agent_id: str) -> None:
    repository.create_message("s", agent_id, said(0, "a"))
    with pytest.raises(SessionException, match="already exists"):
        repository.create_session(new_session())
    with pytest.raises(SessionException, match="already exists"):
        repository.create_agent("s", new_agent(agent_id))
    with pytest.raises(SessionException, match="already exists"):
        repository.create_message("s", agent_id, said(0, "b"))
    assert texts(repository.list_messages("s", agent_id)) == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.create_agent("none", new_agent("default")),
        lambda r: r.create_agent("none", new_agent("cook")),
        lambda r: r.update_agent("none", new_agent("cook")),
        lambda r: r.update_agent("s", new_agent("none")),
        lambda r: r.create_message("none", "cook", said(0, "a")),
        lambda r: r.create_message("none", "default", said(0, "a")),
        lambda r: r.create_message("s", "none", said(0, "a")),
        lambda r: r.update_message("none", "cook", said(0, "a")),
        lambda r: r.update_message("s", "none", said(0, "a")),
        lambda r: r.update_message("s", "cook", said(7, "a")),
        lambda r: r.update_message("s", "default", said(7, "a")),
        lambda r: r.delete_session("none"),
        lambda r: r.begin_turn("none"),
    ],
)
def test_a_change_of_what_is_missing_is_refused(
    repository: AmuxSessionRepository, change: Callable[[AmuxSessionRepository], object]
) -> None:
    with pytest.raises(SessionException, match="does not exist"):
        change(repository)


def test_the_default_agent_of_a_new_session_does_not_exist(store: SessionStore) -> None:
    repository = AmuxSessionRepository(store)
    repository.create_session(new_session())
    assert repository.read_agent("s", "default") is None
    assert repository.list_messages("s", "default") == []
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_message("s", "default", said(0, "a"))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_agent("s", new_agent("default"))


def test_a_read_of_what_is_missing_is_empty(repository: AmuxSessionRepository) -> None:
    for session_id, agent_id in [("none", "cook"), ("s", "none"), ("none", "default")]:
        assert repository.read_agent(session_id, agent_id) is None
        assert repository.read_message(session_id, agent_id, 0) is None
        assert repository.list_messages(session_id, agent_id) == []
    assert repository.read_message("s", "cook", 0) is None
    assert repository.read_multi_agent("none", "graph") is None
    assert repository.read_multi_agent("s", "graph") is None


@pytest.mark.parametrize("agent_id", AGENTS)
def test_an_update_of_an_agent_keeps_its_age(
    repository: AmuxSessionRepository, store: SessionStore, agent_id: str
) -> None:
    first = repository.read_agent("s", agent_id)
    assert first is not None
    changed = new_agent(agent_id, mood="good", data=b"\x00\xff")
    changed.created_at = "2001-01-01T00:00:00+00:00"
    repository.update_agent("s", changed)
    found = AmuxSessionRepository(store).read_agent("s", agent_id)
    assert found is not None
    assert (found.state, found.created_at) == (
        {"mood": "good", "data": b"\x00\xff"},
        first.created_at,
    )


@pytest.mark.parametrize("agent_id", AGENTS)
def test_messages_are_listed_by_number_and_page(
    repository: AmuxSessionRepository, agent_id: str
) -> None:
    for number in (2, 0, 1, 10, 9):
        repository.create_message("s", agent_id, said(number, str(number)))
    assert texts(repository.list_messages("s", agent_id)) == ["0", "1", "2", "9", "10"]
    assert texts(repository.list_messages("s", agent_id, limit=2, offset=1)) == ["1", "2"]
    assert texts(repository.list_messages("s", agent_id, offset=4)) == ["10"]
    assert repository.list_messages("s", agent_id, limit=0) == []


@pytest.mark.parametrize("agent_id", AGENTS)
@pytest.mark.parametrize("on_redact", ["keep", "erase"])
def test_a_redacted_message_is_read_without_its_original(
    store: SessionStore, on_redact: Any, agent_id: str
) -> None:
    repository = AmuxSessionRepository(store, on_redact=on_redact)
    repository.create_session(new_session())
    repository.create_agent("s", new_agent(agent_id))
    for number, text in enumerate(["hello", "my secret is nougat"]):
        repository.create_message("s", agent_id, said(number, text))
    first = repository.read_message("s", agent_id, 1)
    assert first is not None
    changed = said(1, "my secret is nougat")
    changed.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    repository.update_message("s", agent_id, changed)
    repository.create_message("s", agent_id, said(2, "goodbye"))
    found = repository.read_message("s", agent_id, 1)
    assert found is not None
    assert found.to_message() == changed.redact_message
    assert found.created_at == first.created_at
    listed = repository.list_messages("s", agent_id)
    assert [each.to_message()["content"][0]["text"] for each in listed] == [
        "hello",
        "[redacted]",
        "goodbye",
    ]
    assert store.search("nougat") == []
    stored = "".join(
        record.text for each in store.list() for record in store.log.read(each.thread_id)
    )
    assert ("nougat" in stored) == (on_redact == "keep")


@pytest.mark.parametrize("agent_id", AGENTS)
def test_of_several_that_create_at_once_one_succeeds(store: SessionStore, agent_id: str) -> None:
    def attempts(create: Callable[[AmuxSessionRepository], object]) -> int:
        """Return how many of eight threads create something."""
        start = threading.Barrier(8)

        def attempt(repository: AmuxSessionRepository) -> bool:
            start.wait(30)
            try:
                create(repository)
            except SessionException:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(attempt, [AmuxSessionRepository(store) for _ in range(8)]))

    assert attempts(lambda r: r.create_session(new_session())) == 1
    assert attempts(lambda r: r.create_agent("s", new_agent(agent_id))) == 1
    assert attempts(lambda r: r.create_message("s", agent_id, said(0, "a"))) == 1


def test_an_unknown_fate_of_redacted_messages_is_refused(store: SessionStore) -> None:
    wrong: Any = "delete"
    with pytest.raises(ValidationError, match="`on_redact` must be"):
        AmuxSessionRepository(store, on_redact=wrong)


def test_bytes_come_back(repository: AmuxSessionRepository) -> None:
    data = bytes(range(256))
    image: Any = {"image": {"format": "png", "source": {"bytes": data}}}
    message = SessionMessage.from_message({"role": "user", "content": [image]}, 0)
    repository.create_message("s", "cook", message)
    assert repository.list_messages("s", "cook") == [message]


def test_a_message_that_is_not_json_is_refused(repository: AmuxSessionRepository) -> None:
    content: Any = [{"text": object()}]
    message = SessionMessage(message={"role": "user", "content": content}, message_id=0)
    with pytest.raises((SessionException, TypeError)):
        repository.create_message("s", "cook", message)
    assert repository.list_messages("s", "cook") == []


class Graph:
    """Stands for a multi-agent of the framework, of which a repository needs two names."""

    def __init__(self, **state: Any) -> None:
        self.id = "graph"
        self.state = state

    def serialize_state(self) -> dict[str, Any]:
        return self.state


def test_the_state_of_a_multi_agent_is_replaced(repository: AmuxSessionRepository) -> None:
    graph: Any = Graph(step=1)
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_multi_agent("s", graph)
    repository.create_multi_agent("s", graph)
    repository.update_multi_agent("s", Graph(step=2))  # type: ignore[arg-type]
    assert repository.read_multi_agent("s", "graph") == {"step": 2}


def test_a_deleted_session_goes_with_its_agents(
    repository: AmuxSessionRepository, store: SessionStore
) -> None:
    other = AmuxSessionRepository(store)
    other.create_message("s", "cook", said(0, "seen"))
    repository.delete_session("s")
    assert store.list() == []
    assert other.read_session("s") is None
    assert other.list_messages("s", "cook") == []
    with pytest.raises(SessionException, match="does not exist"):
        other.create_message("s", "cook", said(1, "late"))


def test_a_thousand_messages_are_one_read_of_one_file(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, fsync="never")
    repository = AmuxSessionRepository(store)
    repository.create_session(new_session())
    for agent_id in AGENTS:
        repository.create_agent("s", new_agent(agent_id))
        for number in range(1000):
            repository.create_message("s", agent_id, said(number, f"message {number} " * 20))
    sizes = [file.stat().st_size for file in (tmp_path / "sessions").glob("*.jsonl")]
    assert len(sizes) == 2, "one file per agent"
    for agent_id in AGENTS:
        fresh = AmuxSessionRepository(store)
        with counted_bytes() as count:
            found = fresh.list_messages("s", agent_id)
        assert len(found) == 1000
        assert count() < 1.3 * max(sizes)
    store.close()


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: a sweet"


@pytest.mark.parametrize("agent_id", [None, "cook"])
def test_a_conversation_continues_in_another_process(
    store_address: str, tmp_path: Path, agent_id: str | None
) -> None:
    name: dict[str, Any] = {} if agent_id is None else {"agent_id": agent_id}
    step = {"name": "look_up", "input": {"word": "nougat"}}
    repository = AmuxSessionRepository(store_address, model="claude-sonnet-4-5")
    manager = RepositorySessionManager("kitchen", repository)
    model = ScriptedModel(step, "A sweet.")
    Agent(model=model, tools=[look_up], session_manager=manager, callback_handler=None, **name)(
        "What is nougat?"
    )
    repository.close()
    repository = AmuxSessionRepository(store_address)
    again = ScriptedModel("Welcome.")
    manager = RepositorySessionManager("kitchen", repository)
    Agent(model=again, session_manager=manager, callback_handler=None, **name)("Thanks")
    repository.close()
    assert [each["role"] for each in again.seen[0]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    client = create_client(home=tmp_path, env={"AMUX_STORE": store_address})
    (listed,) = client.sessions.list("amux")
    assert listed.title == ("What is nougat?" if agent_id is None else "kitchen")
    whole = client.sessions.get("amux", listed.session_id)
    messages = whole.messages if agent_id is None else whole.children[0].messages
    assert [(each.role, each.content) for each in messages] == [
        ("user", "What is nougat?"),
        ("assistant", ""),
        ("tool", "nougat: a sweet"),
        ("assistant", "A sweet."),
        ("user", "Thanks"),
        ("assistant", "Welcome."),
    ]
    (call,) = messages[1].tool_calls
    assert (call.tool_name, call.input, call.output) == (
        "look_up",
        {"word": "nougat"},
        "nougat: a sweet",
    )
    cost = whole.cost
    assert cost is not None
    assert (cost.input_tokens, cost.cached_tokens, cost.output_tokens) == (120, 180, 60)
    assert cost.incomplete == ()


RUN = """
import sys
from amux.errors import TurnInProgressError
from amux.integrations.strands import AmuxSessionRepository

repository = AmuxSessionRepository(sys.argv[1])
try:
    with repository.begin_turn("s"):
        print("began")
except TurnInProgressError as error:
    print(error.code.name)
"""


def test_a_turn_keeps_another_process_out(store_address: str) -> None:
    repository = AmuxSessionRepository(store_address)
    repository.create_session(new_session())
    command = [sys.executable, "-c", RUN, store_address]

    def other_process() -> str:
        done = subprocess.run(
            command, env=child_env(), capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    with repository.begin_turn("s"):
        with pytest.raises(TurnInProgressError):
            repository.begin_turn("s")
        assert other_process() == "TURN_IN_PROGRESS"
    assert other_process() == "began"
    repository.close()


def test_a_storage_replaces_lists_and_deletes(store: SessionStore) -> None:
    async def use() -> None:
        storage = AmuxStorage(store)
        for key, data in [("b/2", b"\x00\xff"), ("/a//1/", b"x"), ("b/1", b""), ("b/2", b"new")]:
            await storage.write(key, data)
        assert await storage.read("b/2") == b"new"
        assert await storage.read("a/1") == b"x"
        assert await storage.read("none") is None
        assert await storage.list("b/") == ["b/1", "b/2"]
        assert await storage.namespace("b").list() == ["1", "2"]
        assert [each.key for each in await storage.search("new")] == ["b/2"]
        await storage.delete("b/1")
        await storage.delete("b/1")
        assert await storage.list("") == ["a/1", "b/2"]
        for key in ("", "/", "a/../b", "a\\b", "nul\0"):
            with pytest.raises(StorageError):
                await storage.write(key, b"")

    asyncio.run(use())


def test_a_snapshot_of_an_agent_is_restored(store_address: str) -> None:
    for prompts in (1, 2):
        with AmuxStorage(store_address) as storage:
            manager = SnapshotSessionManager("kitchen", storage=storage)
            agent = Agent(
                model=ScriptedModel("Hi."), session_manager=manager, callback_handler=None
            )
            agent("Hello")
            assert len(agent.messages) == 2 * prompts


REPOSITORY_TESTS = (
    "tests/strands/session/test_repository_session_manager.py",
    "tests/strands/agent/test_agent.py",
    "tests/strands/agent/test_agent_delegation.py",
    "tests/strands/models/routing/test_router.py",
)
STORAGE_TESTS = (
    "tests/strands/storage/test_in_memory_storage.py",
    "tests/strands/storage/test_storage.py",
    "tests/strands/session/test_snapshot_session_manager.py",
)


@pytest.mark.parametrize(
    ("backend", "tests", "passes"),
    [
        ("files", REPOSITORY_TESTS, 347),
        ("memory", REPOSITORY_TESTS, 347),
        ("postgres", REPOSITORY_TESTS, 347),
        ("files", STORAGE_TESTS, 163),
        ("memory", STORAGE_TESTS, 163),
        ("postgres", STORAGE_TESTS, 163),
    ],
    ids=["files", "memory", "postgres", "storage-files", "storage-memory", "storage-postgres"],
)
def test_the_tests_of_the_framework_pass(
    backend: str,
    tests: tuple[str, ...],
    passes: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    store = {"files": str(tmp_path / "store"), "memory": "memory:"}.get(backend)
    env = {"AMUX_SUITE_STORE": store or request.getfixturevalue("postgres_url")}
    if tests[0] in STORAGE_TESTS:
        env["AMUX_SUITE_STORAGE"] = "1"
    outcome = run_suite(
        FRAMEWORK.unpacked(),
        tests,
        plugin="strands_suite",
        report=tmp_path / "report.xml",
        env=env,
    )
    modules = tuple(test.removesuffix(".py").replace("/", ".") for test in tests)
    expected = {
        name for name in expected_failures("strands_failures.txt") if name.startswith(modules)
    }
    assert outcome.failed == expected, outcome.output
    assert len(outcome.passed) == passes
