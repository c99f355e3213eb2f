"""Eight processes write through three frameworks into one store in PostgreSQL; some are killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from child_processes import child_env
from store_writer import SHARED

from amux.integrations.claude import AmuxSessionStore
from amux.integrations.openai_agents import AmuxSession
from amux.integrations.strands import AmuxSessionRepository
from amux.store.session_store import SessionStore

WRITERS = {
    **{f"claude-{number}": "claude" for number in range(3)},
    **{f"openai-{number}": "openai_agents" for number in range(3)},
    **{f"strands-{number}": "strands" for number in range(2)},
}
KILLED = ("claude-0", "claude-1", "openai-0", "strands-0")
WRITES = 10

_SCRIPT = Path(__file__).with_name("store_writer.py")


class Writer:
    """A process that writes, and the numbers of the writes that returned."""

    def __init__(self, name: str, address: str, *, first: int = 0, number: int = WRITES) -> None:
        self.acknowledged = first - 1
        words = [WRITERS[name], address, name, str(first), str(number)]
        self._process = subprocess.Popen(
            [sys.executable, str(_SCRIPT), *words],
            stdout=subprocess.PIPE,
            text=True,
            env=child_env(),
        )

    def wait_for(self, number: int) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.acknowledged = int(line)
            if self.acknowledged >= number:
                return
        raise AssertionError(f"the writer ended after {self.acknowledged}")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._finish()

    def finish(self) -> None:
        self._finish()
        assert self._process.returncode == 0

    def _finish(self) -> None:
        rest, _ = self._process.communicate()
        for line in rest.split():
            self.acknowledged = int(line)


def stored_texts(store: SessionStore) -> dict[str, list[str]]:
    """Return what the frameworks read, in their order, by writer."""
    claude: Any = {"project_key": "project", "session_id": SHARED}
    entries: Any = asyncio.run(AmuxSessionStore(store).load(claude))
    items: Any = asyncio.run(AmuxSession(SHARED, store).get_items())
    texts = [*(each["uuid"] for each in entries), *(each["content"] for each in items)]
    repository = AmuxSessionRepository(store)
    for name, framework in WRITERS.items():
        if framework == "strands":
            found = repository.list_messages(SHARED, name)
            texts += [str(each.message["content"][0].get("text")) for each in found]
    return {
        name: [text.removeprefix(f"{name}.") for text in texts if text.startswith(f"{name}.")]
        for name in WRITERS
    }


def test_nothing_acknowledged_is_lost_and_order_is_kept_when_clocks_step_back(
    store_url: str,
) -> None:
    writers = {
        name: Writer(name, store_url, number=0 if name in KILLED else WRITES) for name in WRITERS
    }
    for name in KILLED:
        writers[name].wait_for(3)
        writers[name].kill()
    last = {name: writer.acknowledged for name, writer in writers.items() if name in KILLED}
    again = [Writer(name, store_url, first=number + 1) for name, number in last.items()]
    for writer in [*again, *(writers[name] for name in WRITERS if name not in KILLED)]:
        writer.finish()
    with SessionStore(store_url) as store:
        stored = stored_texts(store)
        for name, numbers in stored.items():
            wanted = WRITES if name not in last else last[name] + 1 + WRITES
            # An item has no id: one that was stored but not acknowledged was written again.
            once = [each for at, each in enumerate(numbers) if numbers[:at][-1:] != [each]]
            assert once == [str(number) for number in range(wanted)], name
            assert len(numbers) - len(once) <= (name in KILLED)
        assert store.doctor().is_healthy
