"""The seeds of the fuzzer: small inputs built from the captures, and their homes.

A slot is one file of a home that some sources are read from; only this file is changed. A seed
contains only lines with a shape that no earlier seed has: short inputs allow many executions.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fuzz_database import MAGIC, NO_PATCHES, SPECIFIED_TABLES, dump_database, write_database

from amux.adapters import load_builtin
from amux.adapters._base import Adapter, Item, SourceRef
from amux.testing.reading import opened_files, sources_of

TESTS = Path(__file__).parents[1] / "tests"
LARGEST = 48 * 1024
LONGEST_LINE = 6 * 1024
"""Of a log or a row; longer ones hold long texts, not more structure."""
FIRST_ROWS = 5
"""Of a table, whatever their shape: rows refer to each other."""
MOST_SLOTS = 256
"""A slot is named by one byte."""
Kind = Literal["files", "documents", "databases"]


class Family(NamedTuple):
    """The agents that share parsers, and which of their files are changed."""

    agents: tuple[str, ...]
    kind: Kind = "files"


FAMILIES: dict[str, Family] = {
    "claude": Family(("claude",)),
    "codex": Family(("codex",)),
    "pi": Family(("pi", "omp", "openclaw")),
    "gemini": Family(("gemini", "qwen")),
    "copilot": Family(("copilot",)),
    "droid": Family(("droid",)),
    "agent": Family(("agent",)),
    "documents": Family(
        ("gemini", "copilot", "openclaw", "codex", "hermes", "cursor", "opencode"), "documents"
    ),
    "databases": Family(("hermes", "opencode", "cursor", "openclaw", "agent"), "databases"),
}
TALK = [
    {"role": "user", "content": "Question", "timestamp": "2026-01-01T00:00:01Z"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Answer"}],
        "toolCalls": [{"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}],
        "timestamp": "2026-01-01T00:00:02Z",
        "model": "m",
        "usage": {"input": 7, "output": 3, "prompt_tokens": 7, "cost": 0.25},
    },
    {"role": "tool", "toolCallId": "c1", "tool_call_id": "c1", "content": "a file"},
]
BY_HAND: dict[str, object] = {
    ".config/github-copilot/sessions/abc.json": {"sessionId": "abc", "messages": TALK},
    ".copilot/history-session-state/session_abc_1794770000000.json": {
        "sessionId": "abc",
        "startTime": "2026-01-01T00:00:00Z",
        "chatMessages": [
            *TALK,
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "function": {"name": "bash", "arguments": "{}"}}],
            },
        ],
        "timeline": [{"type": "user", "text": "Hi"}, {"type": "copilot", "text": "Hello"}],
    },
    ".openclaw/sessions/telegram/abc.json": {"title": "Named", "messages": TALK},
}
DATABASES_BY_HAND = (".local/share/opencode/opencode.db", ".cursor/sessions/sessions.db")


class Slot(NamedTuple):
    """A file to change, what it holds otherwise, and the sources that look into it."""

    adapter: Adapter
    path: Path
    original: bytes
    sources: tuple[SourceRef, ...]
    is_database: bool

    def fill(self, data: bytes) -> None:
        """Write an input to its file."""
        if self.is_database:
            write_database(self.path, data)
        else:
            self.path.write_bytes(data)

    def restore(self) -> None:
        """Restore the seed, because other files are read together with it."""
        self.path.write_bytes(self.original)


def collect(name: str, place: Path) -> list[tuple[Slot, bytes]]:
    """Return the slots of a family, each with its seed."""
    family = FAMILIES[name]
    shapes: dict[str, set[str]] = {agent: set() for agent in family.agents}
    found: list[tuple[Slot, bytes]] = []
    for home in _homes(family.agents, place):
        for agent in family.agents:
            adapter = load_builtin(agent)
            if adapter is not None:
                for slot in _slots(adapter, home, family.kind):
                    seed = _seed(slot, shapes[agent])
                    if seed:
                        slot.fill(seed)  # small neighbours are quickly put back
                        found.append((slot._replace(original=slot.path.read_bytes()), seed))
    return found[:MOST_SLOTS]


def _homes(agents: Iterable[str], place: Path) -> Iterator[Path]:
    """Create copies of the captured homes, and a home with formats that no capture has."""
    for agent in agents:
        for home in sorted((TESTS / "captures").glob(f"{agent}*/*/home")):
            copy = place / agent / home.parent.name
            if not copy.exists():
                shutil.copytree(home, copy)
                yield copy
    yield _write_by_hand(place / "by-hand")


def _write_by_hand(home: Path) -> Path:
    sys.path[:0] = [str(TESTS / "adapters"), str(TESTS)]
    home.mkdir(parents=True)
    import_module("agent_logs").write_home(home)
    for relative, document in BY_HAND.items():
        (home / relative).parent.mkdir(parents=True, exist_ok=True)
        (home / relative).write_text(json.dumps(document))
    for relative in DATABASES_BY_HAND:
        (home / relative).parent.mkdir(parents=True, exist_ok=True)
        write_database(home / relative, SPECIFIED_TABLES.encode())
    return home


def _slots(adapter: Adapter, home: Path, kind: Kind) -> Iterator[Slot]:
    readers: dict[Path, list[SourceRef]] = {}
    for source in sources_of(adapter, home):
        with opened_files() as opened:
            for _ in adapter.read(source, want="all"):
                pass
        for path in {source.path, *map(Path, opened)}:
            if path.is_relative_to(home) and path.is_file():
                readers.setdefault(path, []).append(source)
    for path, sources in sorted(readers.items()):
        content = path.read_bytes()
        is_database = content.startswith(MAGIC)
        wanted = path.suffix == ".json" or "agent-transcripts" in path.parts
        if is_database != (kind == "databases") or (kind == "documents" and not wanted):
            continue
        if not path.name.endswith(("-wal", "-shm", "-journal")):
            yield Slot(adapter, path, content, tuple(sources[:2]), is_database)


def _seed(slot: Slot, shapes: set[str]) -> bytes:
    """Return the records of a slot whose shapes are new; b"" if there are none."""
    if slot.is_database:
        return _database_seed(slot, shapes)
    if slot.path.suffix == ".jsonl":
        lines = [n for n in slot.original.splitlines(keepends=True) if len(n) <= LONGEST_LINE]
        kept = [line for n, line in enumerate(lines) if _is_new(line, shapes) or n == 0]
        return b"".join(kept)[:LARGEST] if len(kept) > 1 or len(lines) == 1 else b""
    if not _is_new(slot.original, shapes) or len(slot.original) > LARGEST:
        return b""
    return _document_seed(slot)


def _document_seed(slot: Slot) -> bytes:
    """Return a document without the fields that no adapter reads."""
    try:
        fields = json.loads(slot.original)
    except ValueError:
        return slot.original
    if not isinstance(fields, dict):
        return slot.original
    expected = _items(slot, slot.original)
    for name in list(fields):
        without = {other: value for other, value in fields.items() if other != name}
        if _items(slot, _line(without)) == expected:
            fields = without
    slot.restore()
    return _line(fields)


def _database_seed(slot: Slot, shapes: set[str]) -> bytes:
    """Return rows of new shapes from the tables that the adapter reads."""
    tables = {
        name: [line for n, line in enumerate(lines) if _is_new(line, shapes) or n <= FIRST_ROWS]
        for name, lines in dump_database(slot.path).items()
    }
    for suffix in ("-wal", "-shm", "-journal"):
        slot.path.with_name(slot.path.name + suffix).unlink(missing_ok=True)
    expected = _items(slot, _joined(tables))
    for name in list(tables):
        without = {other: lines for other, lines in tables.items() if other != name}
        if _items(slot, _joined(without)) == expected:
            tables = without
    return _joined(tables) + NO_PATCHES


def _joined(tables: dict[str, list[bytes]]) -> bytes:
    return b"".join(
        line for lines in tables.values() for line in lines if len(line) <= LONGEST_LINE
    )


def _items(slot: Slot, content: bytes) -> list[Item]:
    slot.fill(content)
    return list(slot.adapter.read(slot.sources[0], want="all"))


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _is_new(line: bytes, shapes: set[str]) -> bool:
    """Return whether a record has a key, type of value or kind that no earlier record has."""
    try:
        found = set(_shapes(json.loads(line), ""))
    except (ValueError, RecursionError):
        found = {repr(line[:3])}  # of another format, one is enough
    is_new = not found <= shapes
    shapes |= found
    return is_new


def _shapes(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            is_kind = key in {"type", "subtype", "role", "kind", "name", "row"}
            yield from _shapes(value, f"{path}.{key}={value}" if is_kind else f"{path}.{key}")
    elif isinstance(tree, list):
        for value in tree:
            yield from _shapes(value, f"{path}[]")
    elif isinstance(tree, str) and tree[:1] in {"{", "["}:
        with suppress(ValueError, RecursionError):
            yield from _shapes(json.loads(tree), f"{path}!")
    else:
        yield f"{path}:{type(tree).__name__}"
