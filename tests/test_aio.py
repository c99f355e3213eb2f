"""The asynchronous client returns what the synchronous client returns."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from amux import AgentNotFoundError, aio, create_client
from amux.annotations.manager import AnnotationManager
from amux.reading.adapter_manager import AdapterManager
from amux.sessions.index_manager import IndexManager
from amux.sessions.manager import SessionManager
from amux.testing import find_captures

T = TypeVar("T")
CAPTURE = next(
    c for c in find_captures(Path(__file__).parent / "captures") if c.version == "2.0.77"
)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return CAPTURE.copy_to(tmp_path)


@pytest.mark.parametrize(
    ("original", "twins"),
    [
        (SessionManager, aio.SessionManager),
        (AnnotationManager, aio.AnnotationManager),
        (AdapterManager, aio.AdapterManager),
        (IndexManager, aio.IndexManager),
    ],
)
def test_every_operation_has_a_twin_with_the_same_signature(original: type, twins: type) -> None:
    for name, method in inspect.getmembers(original, inspect.isfunction):
        if not name.startswith("_"):
            twin = getattr(twins, name)
            assert inspect.signature(twin) == inspect.signature(method)
            assert inspect.getdoc(twin) == inspect.getdoc(method)


def test_a_client_has_every_name_but_those_of_the_command_line(home: Path) -> None:
    names = {name for name in dir(create_client(home=home)) if not name.startswith("_")}
    twins = {name for name in dir(aio.create_client(home=home)) if not name.startswith("_")}
    alone = {
        "fast_list",
        "fast_texts",
        "has_settings",
        "display_settings",
        "index_was_written",
        "start",
        *("background", "needs_indexer"),  # another process completes the index
        *("run", "runs"),  # a run is a process, which one thread reads
    }
    assert names - twins == alone
    assert twins <= names


def test_settings_agents_and_the_index_are_the_same_asynchronously(
    home: Path, tmp_path: Path
) -> None:
    env = {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
    client = create_client(home=home, env=env, default_agent="codex")
    twin = aio.create_client(home=home, env=env, default_agent="codex")
    assert twin.config == client.config
    assert twin.default_agent == "codex"
    assert twin.models.price("claude", "claude-opus-4-1") is not None
    assert twin.run_index.runs == ()
    assert run(twin.adapters.list()) == client.adapters.list()
    assert run(twin.adapters.capabilities("codex", version="0.20.0")).can_fork is False
    assert run(twin.index.update()) == client.index.status()
    other = aio.create_client(home=home, env=env)
    assert run(other.index.check()).checked


def test_the_asynchronous_client_reports_progress_and_changes(home: Path, tmp_path: Path) -> None:
    twin = aio.create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")})
    told: list[tuple[int, int, str]] = []
    twin.watch(lambda done, total, what: told.append((done, total, what)))
    session = run(twin.sessions.list("claude"))[0].session_id
    assert told

    async def first_change() -> str:
        changes = twin.follow("claude", session, from_start=True)
        async with aclosing(changes):
            return "".join(twin.render_change(await anext(changes)))

    assert run(first_change())


def test_asynchronous_read_operations_give_the_same_results(home: Path) -> None:
    client, twin = create_client(home=home), aio.create_client(home=home)
    listed = client.sessions.list("claude")
    assert run(twin.sessions.list("claude")) == listed
    first = listed[0].session_id
    assert run(twin.sessions.get("claude", first)) == client.sessions.get("claude", first)
    assert run(twin.sessions.search("hello")) == client.sessions.search("hello")
    assert run(twin.sessions.total_cost()) == client.sessions.total_cost()
    ids = (listed[0].unified_id, listed[1].unified_id)
    assert run(twin.sessions.diff(*ids)) == client.sessions.diff(*ids)
    assert run(twin.overview()).recent == client.overview().recent


def test_synchronous_and_asynchronous_annotations_are_the_same(home: Path) -> None:
    client, twin = create_client(home=home), aio.create_client(home=home)
    session = client.sessions.list("claude")[0].unified_id
    run(twin.annotations.tag(session, "one", "two"))
    assert run(twin.annotations.add_note(session, "look")) == 1
    assert run(twin.annotations.of(session)) == client.annotations.of(session)
    assert client.annotations.tags() == {"one": 1, "two": 1}


def test_pure_operations_need_no_event_loop(home: Path) -> None:
    twin = aio.create_client(home=home)
    assert twin.sessions.resolve_unified_id("claude", "a:b") == "claude:a:b"
    assert twin.sessions.resolve_native_id("nobody:1") is None


def test_an_export_streams_the_same_text(home: Path) -> None:
    client, twin = create_client(home=home), aio.create_client(home=home)
    session = client.sessions.list("claude")[0].session_id

    async def collect() -> str:
        return "".join([piece async for piece in twin.stream_export("claude", session, "jsonl")])

    assert run(collect()) == client.sessions.export("claude", session, "jsonl")


def test_asynchronous_operations_raise_the_same_errors(home: Path) -> None:
    with pytest.raises(AgentNotFoundError):
        run(aio.create_client(home=home).sessions.list("nope"))


def test_leaving_a_client_closes_it(home: Path, tmp_path: Path) -> None:
    async def ask() -> int:
        env = {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
        async with aio.create_client(home=home, env=env) as client:
            return len(await client.sessions.search("hello"))

    assert run(ask()) == len(create_client(home=home).sessions.search("hello"))
    assert not [*tmp_path.glob("cache/*-wal")], "the last connection that is closed removes it"
