"""Several processes send transcripts to one store, and some are killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from child_processes import child_env

from amux.integrations.claude import AmuxSessionStore

KEY: Final[Any] = {"project_key": "project", "session_id": "shared"}
WRITERS: Final = 8
ENTRIES: Final = 12

_WRITER: Final = """
import asyncio, itertools, sys
from amux.integrations.claude import AmuxSessionStore

address, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = AmuxSessionStore(address)
key = {"project_key": "project", "session_id": "shared"}

async def main():
    for number in itertools.count() if count == 0 else range(count):
        entry = {"uuid": f"{name}.{number}", "type": "user", "timestamp": "2026-01-01"}
        await store.append(key, [entry, {"type": "mark", "of": f"{name}.{number}"}])
        print(number, flush=True)

asyncio.run(main())
"""


def start(address: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, address, name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=child_env(),
    )


@pytest.fixture(params=["files", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "files":
        return str(tmp_path / "store")
    url: str = request.getfixturevalue("store_url")
    return url


@pytest.fixture
def reader(address: str) -> Iterator[AmuxSessionStore]:
    opened = AmuxSessionStore(address)
    yield opened
    opened.store.close()


def stored(reader: AmuxSessionStore) -> list[Any]:
    return asyncio.run(reader.load(KEY)) or []


def test_eight_processes_that_append_to_one_session_lose_nothing(
    address: str, reader: AmuxSessionStore
) -> None:
    writers = [start(address, f"w{number}", ENTRIES) for number in range(WRITERS)]
    assert [writer.communicate()[1] or writer.returncode for writer in writers] == [0] * WRITERS
    entries = stored(reader)
    for number in range(WRITERS):
        own = [f"w{number}.{each}" for each in range(ENTRIES)]
        sent = [each["uuid"] for each in entries if each.get("uuid", "").startswith(f"w{number}.")]
        assert sent == own  # each once, in the order of its writer
    assert len(entries) == 2 * WRITERS * ENTRIES
    (summary,) = asyncio.run(reader.list_session_summaries("project"))
    assert summary["session_id"] == "shared"


def test_what_was_acknowledged_to_a_killed_process_is_stored(
    address: str, reader: AmuxSessionStore
) -> None:
    acknowledged: dict[str, int] = {}
    for round_number in range(3):
        name = f"k{round_number}"
        with start(address, name, 0) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                acknowledged[name] = int(line)
                if acknowledged[name] >= 5:
                    break
            writer.send_signal(signal.SIGKILL)
            acknowledged[name] = max([acknowledged[name], *map(int, writer.stdout.read().split())])
    entries = stored(reader)
    known = [each["uuid"] for each in entries if "uuid" in each]
    marks = [each["of"] for each in entries if each["type"] == "mark"]
    assert known == marks  # a batch is stored whole or not at all
    for name, last in acknowledged.items():
        own = [uuid for uuid in known if uuid.startswith(f"{name}.")]
        assert own[: last + 1] == [f"{name}.{each}" for each in range(last + 1)]
        assert len(own) <= last + 2  # at most one more was stored and not acknowledged
