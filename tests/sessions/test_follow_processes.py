"""`follow` in real time, while another process writes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from builders import ClaudeSession, CodexSession, uuid_of
from following import HERMES_TABLES

from amux import SessionChange, aio, create_client

ID = uuid_of(1)
LONGEST = 30.0
"""Nothing waits for so long; without it a failing test would wait for ever."""


class Writer:
    """A process that writes what it is told to and says when it has."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def order(self, *words: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@pytest.fixture
def writer() -> Iterator[Writer]:
    script = Path(__file__).parent / "live_writer.py"
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Writer(process)


@contextmanager
def in_background(*orders: tuple[object, ...], writer: Writer) -> Generator[None]:
    thread = Thread(target=lambda: [writer.order(*each) for each in orders])
    thread.start()
    try:
        yield
    finally:
        thread.join()


def open_handles() -> Counter[str]:
    handles: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            handles[str(entry.readlink())] += 1
        except FileNotFoundError:  # the one that lists them
            continue
    return handles


def opened_since(before: Counter[str]) -> list[str]:
    """Only what came up since: other tests' clients may be swept away at any moment."""
    return sorted((open_handles() - before).elements())


def lines_since(session: ClaudeSession | CodexSession, count: int) -> str:
    return "".join(json.dumps(line) + "\n" for line in session.lines[count:])


@pytest.mark.parametrize("kind", [ClaudeSession, CodexSession])
def test_whole_messages_arrive_from_a_process_that_writes_byte_by_byte(
    home: Path, writer: Writer, kind: type[ClaudeSession | CodexSession]
) -> None:
    session = kind(home, ID)
    session.prompt("first").reply("one").write()
    before = len(session.lines)
    session.prompt("second").reply("two " * 500).prompt("third")
    text = lines_since(session, before)
    agent = "claude" if kind is ClaudeSession else "codex"
    client = create_client(home=home)
    handles = open_handles()
    with (
        client.follow(agent, ID, idle_timeout=LONGEST) as changes,
        in_background(("bytes", str(session.path), text), writer=writer),
    ):
        found = [next(changes) for _ in range(3)]
    assert [(c.kind, c.number, c.message.content) for c in found if c.message] == [
        ("message", 3, "second"),
        ("message", 4, "two " * 500),
        ("message", 5, "third"),
    ]
    assert opened_since(handles) == []


def test_committed_rows_of_a_live_database_arrive_and_no_trace_is_left(
    home: Path, writer: Writer
) -> None:
    say = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)"
    begin = "INSERT INTO sessions (id, source, started_at, parent_session_id) VALUES (?, ?, ?, ?)"
    database = home / ".hermes" / "state.db"
    writer.order("open", str(database), HERMES_TABLES)
    writer.order("run", begin, "s1", "cli", 1_770_000_000, None)
    writer.order("run", say, "s1", "user", "hello", 1_770_000_001)
    client = create_client(home=home)
    handles, files = open_handles(), sorted(path.name for path in database.parent.iterdir())
    with client.follow("hermes", "s1", idle_timeout=LONGEST, poll=0.1) as changes:
        writer.order("run", say, "s1", "assistant", "hi", 1_770_000_002)
        first = next(changes)
        writer.order("run", begin, "s2", "subagent", 1_770_000_003, "s1")
        writer.order("run", say, "s2", "user", "task", 1_770_000_004)
        second = next(changes)
    assert (first.session_id, first.parent, first.number) == ("s1", None, 2)
    assert (second.session_id, second.parent, second.number) == ("s2", "s1", 1)
    assert [c.message.content for c in (first, second) if c.message] == ["hi", "task"]
    assert opened_since(handles) == []
    assert sorted(path.name for path in database.parent.iterdir()) == files


def test_waiting_uses_no_processor_time(home: Path) -> None:
    ClaudeSession(home, ID).prompt("first").write()
    changes = create_client(home=home).follow("claude", ID, idle_timeout=2)
    before = time.process_time()
    assert list(changes) == []
    assert time.process_time() - before < 0.5


def test_closing_from_another_thread_ends_following(home: Path) -> None:
    ClaudeSession(home, ID).prompt("first").write()
    changes = create_client(home=home).follow("claude", ID, poll=LONGEST)
    found: list[SessionChange] = []
    thread = Thread(target=lambda: found.extend(changes))
    began = time.monotonic()
    thread.start()
    changes.close()
    thread.join()
    assert found == []
    assert time.monotonic() - began < LONGEST / 2


def test_the_asynchronous_iterator_yields_the_same_and_can_be_closed(home: Path) -> None:
    session = ClaudeSession(home, ID)
    session.prompt("first").reply("one").write()

    async def collect() -> list[SessionChange]:
        found: list[SessionChange] = []
        client = aio.create_client(home=home)
        async with aclosing(client.follow("claude", ID, from_start=True)) as changes:
            async for change in changes:
                found.append(change)
                if len(found) == 2:
                    break
        return found

    handles = open_handles()
    texts = [change.message.content for change in asyncio.run(collect()) if change.message]
    assert texts == ["first", "one"]
    assert opened_since(handles) == []


def test_a_cancelled_asynchronous_iterator_leaves_no_thread_behind(home: Path) -> None:
    ClaudeSession(home, ID).prompt("first").write()

    async def listen(begun: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()

        def is_looking() -> bool:
            loop.call_soon_threadsafe(begun.set)
            return False

        client = aio.create_client(home=home)
        async for _ in client.follow("claude", ID, poll=LONGEST, stop=is_looking):
            raise AssertionError("nothing happens")

    async def cancel() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(listen(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(cancel())
    assert time.monotonic() - began < LONGEST / 2
