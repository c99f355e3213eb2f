"""Optional methods of adapters of other packages are used if they exist, and guarded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from builders import open_client
from memory_adapter import MemoryAdapter, call

from amux import create_client
from amux.adapters._base import (
    Checkpoint,
    Fingerprinted,
    Item,
    NativeSearch,
    Reading,
    Resumable,
    SourceRef,
    Want,
)
from amux.adapters.plugin import as_adapter
from amux.client import Client
from amux.model.facts import Facts
from amux.model.problems import Problem


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "memory"
    place.mkdir()
    return place


def open_memory(home: Path, memory: MemoryAdapter) -> Client:
    """A client that knows the memory, on which two sessions lie."""
    memory.put("one", call("x"), lines=[(1, "user", "look for the needle")])
    memory.put("two", call("y"), lines=[(2, "user", "nothing here")])
    client = open_client(home)
    client.adapters.register(memory)
    return client


class Strict(MemoryAdapter):
    """Written when there were but two things to want."""

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        assert want in {"facts", "all"}
        return super().read(source, want=want, only=only, until=until)


def test_an_adapter_that_knows_only_facts_and_all_is_never_asked_for_more(
    home: Path, root: Path
) -> None:
    strict = Strict(root)
    client = open_memory(home, strict)
    assert client.sessions.total_cost(agent="memory").input_tokens == 2000
    assert [s.session_id for s in client.sessions.search("needle")] == ["one"]
    guarded = as_adapter(strict)
    (source, _) = guarded.discover(root)
    assert [*guarded.read(source, want="texts")] == [*strict.read(source, want="all")]


# Search


class Searching(MemoryAdapter):
    """Has an index of its own, which knows less than the sessions hold."""

    broken = False

    def native_search(
        self, root: Path, terms: Sequence[str], *, limit: int
    ) -> Iterator[tuple[str, float]]:
        del root, limit
        yield "two", float(len(terms))
        if self.broken:
            raise RuntimeError("out of order")


def search(client: Client) -> list[str]:
    return sorted(session.session_id for session in client.sessions.search("hay"))


def test_native_search_decides_which_sessions_are_read(home: Path, root: Path) -> None:
    memory = Searching(root)
    client = open_client(home)
    client.adapters.register(memory)
    for name in ("one", "two"):  # in a database: an index says nothing about files
        memory.put(name, lines=[(1, "user", "hay")], source={"session_id": None}, name=name)
    assert search(client) == ["two"]
    memory.broken = True
    assert search(client) == ["one", "two"], "half an answer would hide sessions"


# Reading on


class Resuming(MemoryAdapter):
    """Goes on where it stopped, unless it fails."""

    broken = False

    def resume_read(self, source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
        if self.broken:
            raise RuntimeError("lost the place")
        facts = [item for item in self.read(source, want="facts") if isinstance(item, Facts)]
        offset = 1 if checkpoint is None else checkpoint.offset + 1
        return Reading(facts=tuple(facts), checkpoint=Checkpoint(offset=offset, state=b""))


def test_the_guard_has_only_the_optional_methods_of_its_adapter(root: Path) -> None:
    plain, resuming, searching = map(
        as_adapter, (MemoryAdapter(root), Resuming(root), Searching(root))
    )
    assert [isinstance(one, Resumable) for one in (plain, resuming, searching)] == [0, 1, 0]
    assert [isinstance(one, NativeSearch) for one in (plain, resuming, searching)] == [0, 0, 1]


def test_reading_on_is_forwarded_and_a_fault_leads_to_a_direct_reading(root: Path) -> None:
    memory = Resuming(root)
    facts = memory.put("one", call("x"))
    guarded = as_adapter(memory)
    assert isinstance(guarded, Resumable)
    (source,) = guarded.discover(root)
    first = guarded.resume_read(source, checkpoint=None)
    second = guarded.resume_read(source, checkpoint=first.checkpoint)
    assert second == Reading(facts=(facts,), checkpoint=Checkpoint(offset=2, state=b""))
    memory.broken = True
    direct = guarded.resume_read(source, checkpoint=second.checkpoint)
    assert (direct.facts, direct.checkpoint) == ((facts,), None)
    (problem,) = direct.problems
    assert isinstance(problem, Problem)
    assert "lost the place" in problem.message
    assert problem.path == str(source.path)


# Fingerprints


class Knowing(MemoryAdapter):
    """Knows the state of its sources, or fails to say it."""

    answer: object = b"1"

    def fingerprint(self, source: SourceRef | Path) -> object:
        del source
        if self.answer is None:
            raise OSError("no connection")
        return self.answer


@pytest.mark.parametrize(("answer", "expected"), [(b"1", b"1"), (1, b""), (None, b"")])
def test_a_fingerprint_that_fails_is_unknown(root: Path, answer: object, expected: bytes) -> None:
    memory = Knowing(root)
    memory.answer = answer
    guarded = as_adapter(memory)
    assert isinstance(guarded, Fingerprinted)
    assert guarded.fingerprint(root) == expected
    assert not isinstance(as_adapter(MemoryAdapter(root)), Fingerprinted)


def test_an_adapter_that_replaces_a_built_in_one_is_not_indexed(home: Path, root: Path) -> None:
    memory = Knowing(root, name="claude")
    memory.info = msgspec.structs.replace(memory.info, indexable=True)
    for number in range(3):
        memory.put(f"s{number}", call(f"x{number}"))
        with create_client(home=home, env={"AMUX_CACHE_DIR": str(home / "cache")}) as client:
            client.adapters.register(memory)
            assert len(client.sessions.list("claude")) == number + 1
