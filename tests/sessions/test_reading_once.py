"""An answer reads only what it needs, and nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import open_client, write_claude, write_codex
from memory_adapter import MemoryAdapter, call

from amux.adapters._base import Item, SourceRef, Want
from amux.client import Client
from amux.testing.reading import opened_files


class Counting(MemoryAdapter):
    """Counts how often it is walked and how often each source is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.walks = 0
        self.reads: Counter[tuple[str, Want]] = Counter()

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        self.walks += 1
        return super().discover(root, cwd=cwd)

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        self.reads[source.path.name, want] += 1
        return super().read(source, want=want, only=only, until=until)


@pytest.fixture
def memory(tmp_path: Path) -> Counting:
    root = tmp_path / "memory"
    root.mkdir()
    return Counting(root)


@pytest.fixture
def client(home: Path, memory: Counting) -> Client:
    client = open_client(home)
    client.adapters.register(memory)
    return client


def test_a_session_not_named_by_any_file_is_found_and_read_at_once(
    client: Client, memory: Counting
) -> None:
    for name in ("one", "two"):  # like a database: its name promises no session
        memory.put(name, call(name), lines=[(1, "user", name)], source={"session_id": None})
    assert client.sessions.get("memory", "two").session_id == "two"
    assert memory.reads == {("one.0", "facts"): 1, ("two.1", "facts"): 1, ("two.1", "all"): 1}


def test_one_agent_is_looked_at_alone_and_walked_once(
    home: Path, client: Client, memory: Counting
) -> None:
    others = {str(write_claude(home, 1).path), str(write_codex(home, 2).path)}
    memory.put("one", call("x"))
    with opened_files() as opened:
        (status,) = client.agents("memory")
    assert (status.name, status.session_count) == ("memory", 1)
    assert others.isdisjoint(opened)
    assert memory.walks == 1
    assert client.agents("nobody") == ()


def test_the_first_look_walks_every_agent_once(client: Client, memory: Counting) -> None:
    memory.put("one", call("x"))
    client.overview()
    assert memory.walks == 1
    assert memory.reads == {("one.0", "facts"): 1}
