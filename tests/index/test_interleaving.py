"""Two clients use one index at the same time; the test chooses how their statements interleave.

Each client runs in a thread and proceeds only when it is its turn. The first executes a number of
statements, then the second, then the first runs to its end, then the second.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from builders import ClaudeSession, uuid_of, write_claude, write_codex

from amux import create_client
from amux.client import Client
from amux.model.options import SessionListOptions
from amux.model.usage import Tokens

pytestmark = pytest.mark.no_cover  # the plain tests reach the same lines

USED = Tokens(input=10, output=20)
ROUNDS: Final = 15
LONGEST: Final = 20.0
Ask = Callable[[Client], bytes]
_CONNECT: Final = sqlite3.connect
_NO_STOP: Final = (
    "--",  # of a virtual table, which may write by itself
    *("PRAGMA", "CREATE"),  # while a database is being made
    "SELECT body",  # of a cached property: in Python 3.11 all of a class share a lock
)


class Turns:
    """Who runs. Nobody is stopped while writing: the other one could not go on either."""

    def __init__(self, quotas: Sequence[int]) -> None:
        self._left = list(quotas)  # statements until the first, the second is stopped, once
        self._running = 0
        self._changed = threading.Condition()
        self._writing: set[tuple[int, int]] = set()  # who, and in which database
        self._has_ended = [False, False]

    def hear(self, one: int, database: int, statement: str) -> None:
        """A statement is about to be carried out."""
        if statement.startswith("BEGIN IMMEDIATE"):
            self._writing.add((one, database))
        is_busy = any(who == one for who, _ in self._writing)
        if statement in {"COMMIT", "ROLLBACK"}:
            self._writing.discard((one, database))
        if is_busy or statement.startswith(_NO_STOP):
            return
        self._left[one] -= 1
        if self._left[one] == 0:
            self._give_way(one)

    def begin(self, one: int) -> None:
        """Wait to be let run."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._running == one, LONGEST)

    def end(self, one: int) -> None:
        with self._changed:
            self._has_ended[one] = True
            self._running = 1 - one
            self._changed.notify_all()

    def _give_way(self, one: int) -> None:
        with self._changed:
            if not self._has_ended[1 - one]:
                self._running = 1 - one
                self._changed.notify_all()
                assert self._changed.wait_for(lambda: self._running == one, LONGEST)


def at_once(asks: Sequence[Ask], quotas: Sequence[int], **options: Any) -> list[bytes]:
    """The answers of two clients that are made to take turns."""
    turns = Turns(quotas)
    answers = [b"", b""]
    numbers: dict[int, int] = {}

    def connect(*arguments: Any, **more: Any) -> sqlite3.Connection:
        connection = _CONNECT(*arguments, **more)
        own = numbers[threading.get_ident()]
        database = id(connection)
        connection.set_trace_callback(lambda statement: turns.hear(own, database, statement))
        return connection

    def run(one: int) -> None:
        numbers[threading.get_ident()] = one
        turns.begin(one)
        try:
            with create_client(**options) as client:
                answers[one] = asks[one](client)
        finally:
            turns.end(one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        threads = [threading.Thread(target=run, args=(one,)) for one in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONGEST)
    return answers


def listed(client: Client, /) -> bytes:
    options = SessionListOptions(limit=None, include_children=True, include_archived=True)
    return msgspec.json.encode(client.list_report(None, options))


def costs(client: Client, /) -> bytes:
    return msgspec.json.encode(client.sessions.total_cost(group_by="day"))


def searched(client: Client, /) -> bytes:
    return msgspec.json.encode(client.sessions.search("tests", limit=None))


PAIRS: dict[str, tuple[Ask, Ask]] = {
    "report and list": (costs, listed),
    "list and report": (listed, costs),
    "list and list": (listed, listed),
    "search and search": (searched, searched),
    "search and list": (searched, listed),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Sessions by themselves, and two that share history."""
    home = tmp_path / "home"
    write_claude(home, 1, tokens=USED, turns=2)
    write_codex(home, 2, tokens=USED)
    first = ClaudeSession(home, uuid_of(3), cwd="/src/p").prompt("fix the tests")
    first.reply("the tests pass", tokens=USED).write()
    first.path.with_name(f"{uuid_of(4)}.jsonl").write_bytes(first.path.read_bytes())
    past = time.time() - 60
    for path in home.rglob("*"):
        os.utime(path, (past, past))
    return home


@pytest.mark.parametrize("pair", PAIRS)
def test_every_answer_is_correct_however_two_processes_interleave(
    pair: str, home: Path, tmp_path: Path
) -> None:
    asks = PAIRS[pair]
    with create_client(home=home, env={"AMUX_INDEX": "off"}) as client:
        wanted = {ask: ask(client) for ask in (listed, costs, searched)}
    draw = random.Random(pair)
    for number in range(ROUNDS):
        quotas = (draw.randint(1, 150), draw.randint(1, 150))
        env = {"AMUX_CACHE_DIR": str(tmp_path / f"cache{number}")}
        answers = at_once(asks, quotas, home=home, env=env)
        assert answers == [wanted[ask] for ask in asks], quotas
        with create_client(home=home, env=env) as client:
            found = {ask: ask(client) for ask in wanted}
        assert found == wanted, f"after {quotas}"
