"""Transcripts of the Claude Agent SDK in the store are the sessions that Claude Code has in files.

The captures of real versions are sent to the store by the SDK itself. What the Claude adapter finds
in the folder is the expected value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import CAPTURES, open_client
from claude_agent_sdk import fork_session_via_store, import_session_to_store

from amux.integrations.claude import AmuxSessionStore
from amux.model.session import Session
from amux.rollout.ids import is_valid_session_id
from amux.testing import Capture

CLAUDE = [capture for capture in CAPTURES if capture.agent == "claude"]


class Machine:
    """A capture in a home directory, and a store with everything that the SDK sends from it."""

    def __init__(self, name: str, home: Path, address: str) -> None:
        self.name = name
        self.home = home
        self.address = address
        self.sessions = AmuxSessionStore(address)
        self.projects = home / ".claude" / "projects"
        self.files = sorted(
            path
            for path in self.projects.glob("*/*.jsonl")
            if is_valid_session_id(path.stem) and path.stat().st_size
        )

    def send_all(self) -> None:
        for path in self.files:
            asyncio.run(import_session_to_store(path.stem, self.sessions, batch_size=2))

    def key_of(self, path: Path) -> Any:
        project, session, *subpath = path.relative_to(self.projects).with_suffix("").parts
        key: Any = {"project_key": project, "session_id": session}
        return {**key, "subpath": "/".join(subpath)} if subpath else key

    def sent_files(self) -> list[Path]:
        folders = [path.with_suffix("") / "subagents" for path in self.files]
        return [*self.files, *(file for each in folders for file in each.rglob("*.jsonl"))]

    def client(self, home: Path, cache: str | None = None) -> Any:
        env = {"AMUX_STORE": self.address}
        return open_client(home, env=env if cache is None else {**env, "AMUX_CACHE_DIR": cache})


PLACES = [
    *(pytest.param(("files", capture), id=f"files-{capture.name}") for capture in CLAUDE),
    *(
        pytest.param(("postgres", capture), id=f"postgres-{capture.name}")
        for capture in CLAUDE
        if capture.name in {"claude-2.0.14", "claude-2.1.325"}  # sub-agents inside, and apart
    ),
]


@pytest.fixture(params=PLACES)
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """Return a machine on which a capture was sent to the store."""
    backend: str
    capture: Capture
    backend, capture = request.param
    home = capture.copy_to(tmp_path / "home")
    address = str(tmp_path / "store")
    if backend == "postgres":
        address = request.getfixturevalue("store_url")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    found = Machine(capture.name, home, address)
    found.send_all()
    yield found
    found.sessions.store.close()


def thread_of(machine: Machine, path: Path) -> str:
    project, session = path.parent.name, path.stem
    found = machine.sessions.store.find("claude-agent-sdk", (project, session, ""))
    assert found is not None
    return found.thread_id


def family(session: Session) -> list[Session]:
    return [session, *(each for child in session.children for each in family(child))]


def own_part(session: Session) -> tuple[Any, ...]:
    """Return what must be equal, whichever place a session is read from."""
    return (
        session.messages,
        session.calls,
        session.models,
        session.turn_count,
        session.cwd,
        session.title,
        session.created_at,
        session.updated_at,
        session.unrecorded,
    )


def test_every_line_that_the_sdk_sends_comes_back_equal(machine: Machine) -> None:
    assert machine.files
    for path in machine.sent_files():
        entries = asyncio.run(machine.sessions.load(machine.key_of(path)))
        assert entries is not None
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        kept = [entry for entry in entries if entry["type"] != "agent_metadata"]
        assert kept == lines, path.name


def test_a_session_is_the_same_from_the_store_and_from_the_folder(
    machine: Machine, tmp_path: Path
) -> None:
    in_folder = open_client(machine.home)
    in_store = machine.client(tmp_path / "elsewhere")
    listed = {each.session_id for each in in_folder.sessions.list("claude", include_archived=True)}
    compared = 0
    for path in machine.files:
        if path.stem not in listed:
            continue
        expected = in_folder.sessions.get("claude", path.stem)
        found = in_store.sessions.get("amux", thread_of(machine, path))
        assert own_part(found) == own_part(expected), path.stem
        compared += 1
        sent = {file.stem.removeprefix("agent-") for file in machine.sent_files()}
        if all(each.session_id in sent or "/" in each.session_id for each in family(expected)[1:]):
            assert found.cost == expected.cost
            assert sorted(len(each.messages) for each in family(found)) == sorted(
                len(each.messages) for each in family(expected)
            )
    assert compared


def spent(client: Any) -> tuple[int, ...]:
    total = client.sessions.total_cost()
    return total.input_tokens, total.cached_tokens, total.cache_write_tokens, total.output_tokens


@pytest.mark.parametrize("index", ["with an index", "without an index"])
def test_calls_are_counted_once_while_claude_code_has_the_file(
    machine: Machine, index: str, tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache") if index == "with an index" else None
    only_folder = spent(open_client(machine.home))
    assert spent(machine.client(machine.home, cache)) == only_folder
    for path in machine.sent_files():
        path.unlink()
    only_store = machine.client(machine.home, cache)
    assert only_store.sessions.list("amux")
    assert spent(only_store) == only_folder


def usage_by_answer(lines: list[Any]) -> dict[str, Any]:
    """Return the usage of every answer in a file, from the line with the most output."""
    found: dict[str, Any] = {}
    for line in lines:
        message: Any = line.get("message") or {}
        is_answer = line["type"] == "assistant" and message["model"] != "<synthetic>"
        if not is_answer or "forkedFrom" in line:
            continue
        last = found.setdefault(message["id"], message["usage"])
        if message["usage"]["output_tokens"] >= last["output_tokens"]:
            found[message["id"]] = message["usage"]
    return found


def test_lists_of_the_store_count_an_answer_of_several_lines_once(machine: Machine) -> None:
    store, streamed = machine.sessions.store, 0
    threads = {each.thread_id: each for each in store.list(limit=None)}
    for path in machine.files:
        thread = threads[thread_of(machine, path)]
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        answers = usage_by_answer(lines)
        streamed += sum(line["type"] == "assistant" for line in lines) - len(answers)
        assert thread.input_tokens == sum(each["input_tokens"] for each in answers.values())
        assert thread.output_tokens == sum(each["output_tokens"] for each in answers.values())
        billing = store.open(thread.thread_id).cost.billing
        assert billing.calls == len(answers)
        assert billing.tokens.output == thread.output_tokens
    assert streamed or machine.name == "claude-1.0.3"  # wrote an answer in one line


def test_a_fork_that_the_sdk_makes_does_not_count_its_copies(
    machine: Machine, tmp_path: Path
) -> None:
    client = machine.client(tmp_path / "elsewhere")
    before, path = spent(client), max(machine.files, key=lambda file: file.stat().st_size)
    thread_id = thread_of(machine, path)
    directory = client.sessions.get("amux", thread_id).cwd
    forked = asyncio.run(
        fork_session_via_store(machine.sessions, path.stem, directory=str(directory))
    )
    key = (path.parent.name, forked.session_id, "")
    made = machine.sessions.store.find("claude-agent-sdk", key)
    assert made is not None
    again = machine.client(tmp_path / "elsewhere")
    assert again.sessions.get("amux", made.thread_id).messages
    assert again.sessions.get("amux", made.thread_id).calls == ()
    assert spent(again) == before
