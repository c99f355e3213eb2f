"""Any number of threads may read at once, and answers equal those of one thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from builders import CAPTURES, LARGE, open_client, write_claude, write_codex

from amux.client import Client
from amux.testing import fingerprint

THREADS = 32


def questions(client: Client, agent: str) -> list[Callable[[], Any]]:
    """All kinds of reads."""
    sessions = client.sessions
    names = [s.session_id for s in sessions.list(agent)][:4]
    return [
        lambda: sessions.list(agent),
        lambda: sessions.list(agent, sort="cost", include_children=True, include_archived=True),
        lambda: sessions.search("hello OR file"),
        lambda: sessions.search("/hel+o/", sort="date"),
        lambda: sessions.total_cost(group_by="model"),
        client.overview,
        *(lambda name=name: sessions.get(agent, name) for name in names),
        *(lambda name=name: sessions.export(agent, name, "markdown") for name in names),
    ]


def ask_at_once(asked: list[Callable[[], Any]]) -> list[Any]:
    """Ask from many threads that all start together."""
    start = Barrier(THREADS)

    def ask(number: int) -> Any:
        start.wait()
        return asked[number % len(asked)]()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(ask, range(THREADS)))


def test_thirty_two_threads_on_one_client_get_the_serial_answers(tmp_path: Path) -> None:
    for capture in (c for c in CAPTURES if c.name in {"claude-2.1.50", "codex-0.166.0"}):
        home = capture.copy_to(tmp_path / capture.name)
        before = fingerprint(home)
        client = open_client(home)
        asked = questions(client, capture.agent)
        serial = [ask() for ask in asked]
        assert ask_at_once(asked) == [serial[n % len(asked)] for n in range(THREADS)]
        assert fingerprint(home) == before


def test_a_new_client_may_be_used_first_by_many_threads(home: Path) -> None:
    for number in range(5):
        write_claude(home, number, model=LARGE)
        write_codex(home, number)
    serial = open_client(home).sessions.search("hello")
    client = open_client(home)
    assert ask_at_once([lambda: client.sessions.search("hello")]) == [serial] * THREADS
