"""A home of `agent`, written by hand after its documentation, and its expected contents."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FIRST = "a3f7c901-0000-4000-8000-000000000001"
FORK = "b4e8d012-0000-4000-8000-000000000002"
LONG = "c5f9e123-0000-4000-8000-000000000003"
IN_DATABASE = "20260321T101112.123456789"
MODEL = "claude-sonnet-4-5"


def header(id: str = FIRST, **more: Any) -> Json:
    return {
        "type": "session",
        "id": id,
        "version": 1,
        "timestamp": "2026-02-26T14:30:12Z",
        "cwd": "/home/user/project",
        **more,
    }


def entry(id: str, parent: str, role: str, *blocks: Json, second: int = 13, **more: Any) -> Json:
    """A message entry as the documentation shows it."""
    message = {"role": role, "content": list(blocks), **more, "timestamp": 1740579013000}
    return {
        "type": "message",
        "id": id,
        "parent_id": parent,
        "timestamp": f"2026-02-26T14:30:{second:02}Z",
        "role": role,
        "message": message,
    }


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def answer(id: str, parent: str, *blocks: Json, usage: Json, **more: Any) -> Json:
    known: Json = {"model": MODEL, "provider": "anthropic", "usage": usage, "stop_reason": "stop"}
    return entry(id, parent, "assistant", *blocks, **{**known, **more})


def compaction(id: str, parent: str, summary: str, kept: str) -> Json:
    return {
        "type": "compaction",
        "id": id,
        "parent_id": parent,
        "timestamp": "2026-02-26T15:00:00Z",
        "summary": summary,
        "first_kept_entry_id": kept,
        "tokens_before": 45000,
    }


def branch(parent_path: str, last: str, **more: Any) -> Json:
    return {
        "type": "branch",
        "id": "b2c3d4e5",
        "timestamp": "2026-02-26T15:30:00Z",
        "parent_session_path": parent_path,
        "fork_entry_id": last,
        **more,
    }


def write_log(folder: Path, id: str, *lines: Json) -> Path:
    path = folder / "sessions" / f"20260226-143012-{id[:8]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


# Anthropic's way: the cache is beside the input, and the total has everything.
BESIDE = {"input": 12, "output": 8, "cache_read": 100, "cache_write": 20, "total_tokens": 140}
# OpenAI's way: the cache is part of the input.
INSIDE = {"input": 100, "output": 50, "cache_read": 80, "cache_write": 0, "total_tokens": 150}

CONVERSATION: list[Json] = [
    entry("d4e5f6a7", "", "user", text("List the files")),
    answer(
        "e5f6a7b8",
        "d4e5f6a7",
        {"type": "thinking", "thinking": "I need bash."},
        {"type": "tool_call", "id": "call_abc", "name": "bash", "arguments": {"command": "ls"}},
        usage=BESIDE,
        stop_reason="tool_use",
    ),
    entry(
        "f6a7b8c9",
        "e5f6a7b8",
        "tool_result",
        text("main.go\npkg/\n"),
        tool_call_id="call_abc",
        tool_name="bash",
        is_error=False,
    ),
    answer("a7b8c9d0", "f6a7b8c9", text("Two entries."), usage=INSIDE, second=20),
]


def write_home(home: Path) -> None:
    """Three logs (plain, forked, compacted) and one session in a database."""
    logs = home / ".config" / "agent"
    first = write_log(logs, FIRST, header(), *CONVERSATION)
    own = [
        entry("11111111", "a7b8c9d0", "user", text("And hidden ones?"), second=40),
        answer("22222222", "11111111", text("None."), usage=INSIDE, second=41),
    ]
    write_log(logs, FORK, header(FORK), branch(str(first), "a7b8c9d0"), *CONVERSATION, *own)
    write_log(
        logs,
        LONG,
        header(LONG),
        entry("33333333", "", "user", text("one"), second=50),
        answer("44444444", "33333333", text("1"), usage=INSIDE, second=51),
        compaction("55555555", "44444444", "## Goal\nCount.", "44444444"),
        entry("66666666", "55555555", "user", text("two"), second=55),
        answer("77777777", "66666666", text("2"), usage=INSIDE, second=56),
    )
    write_database(home / ".agent")


def write_database(folder: Path) -> Path:
    path = folder / "sessions" / "sessions.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    at = "2026-03-21 10:11:12.123456789 +0000 UTC m=+0.01"
    call = {"toolCalls": [{"ID": "c1", "ToolID": "core/bash", "Arguments": {"command": "ls"}}]}
    entries = [
        ("message", "user", "hello database", "", ""),
        ("event", "", "turn started", "turn", ""),
        ("message", "assistant", "", "", json.dumps(call)),
        ("message", "tool", "a b", "", json.dumps({"toolCallId": "c1", "toolName": "core/bash"})),
        ("compaction", "system", "said hello", "", ""),
        ("message", "assistant", "hi", "", "{}"),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(
            """CREATE TABLE sessions (id TEXT PRIMARY KEY, profile TEXT NOT NULL, cwd TEXT NOT NULL,
                created_at TIMESTAMP NOT NULL, updated_at TIMESTAMP NOT NULL);
            CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
                kind TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL,
                event_type TEXT NOT NULL, metadata TEXT NOT NULL DEFAULT '',
                created_at TIMESTAMP NOT NULL);"""
        )
        connection.execute(
            "INSERT INTO sessions VALUES (?, 'coder', '/home/user/project', ?, ?)",
            (IN_DATABASE, at, at),
        )
        connection.executemany(
            "INSERT INTO entries (session_id, kind, role, content, event_type, metadata,"
            " created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(IN_DATABASE, *one, at) for one in entries],
        )
    return path


def _tokens(input: int, cache_read: int, cache_write: int, output: int) -> Json:
    buckets = {"input": input, "cache_read": cache_read, "cache_write": cache_write}
    return {**buckets, "output": output, "thinking": 0}


_LOGS = ".config/agent/sessions/20260226-143012-"
_TOOLS = [{"name": "bash", "ok": True}]
_COMMON: Json = {"listed": True, "cwd": "/home/user/project", "archived": False}

EXPECTED: Json = {
    "agent": "agent",
    "version": "handmade",
    "sessions": [
        {
            **_COMMON,
            "session_id": FIRST,
            "file": f"{_LOGS}{FIRST[:8]}.jsonl",
            "kind": "session",
            "title": "List the files",
            "models": [MODEL],
            "primary_model": MODEL,
            "user_prompts": ["List the files"],
            "assistant_texts": ["Two entries."],
            "thinking_texts": ["I need bash."],
            "tool_calls": _TOOLS,
            "turns": 1,
            "tokens_recoverable": _tokens(32, 180, 20, 58),
            "own_tokens_recoverable": _tokens(32, 180, 20, 58),
            "incomplete": [],
            "compactions": 0,
            "created_between": ["2026-02-26T14:30:12.000Z", "2026-02-26T14:30:12.999Z"],
        },
        {
            **_COMMON,
            "session_id": FORK,
            "file": f"{_LOGS}{FORK[:8]}.jsonl",
            "kind": "fork",
            "parent": FIRST,
            "forked_from": FIRST,
            "title": "List the files",
            "user_prompts": ["List the files", "And hidden ones?"],
            "assistant_texts": ["Two entries.", "None."],
            "tool_calls": _TOOLS,
            "turns": 2,
            "tokens_recoverable": _tokens(20, 80, 0, 50),
            "incomplete": [],
        },
        {
            **_COMMON,
            "session_id": LONG,
            "file": f"{_LOGS}{LONG[:8]}.jsonl",
            "kind": "session",
            "title": "one",
            "user_prompts": ["one", "two"],
            "assistant_texts": ["1", "2"],
            "turns": 2,
            "tokens_recoverable": _tokens(40, 160, 0, 100),
            "incomplete": ["compaction-call-not-recorded"],
            "incomplete_detectable": True,
            "compactions": 1,
        },
        {
            **_COMMON,
            "session_id": IN_DATABASE,
            "file": ".agent/sessions/sessions.db",
            "kind": "session",
            "title": "hello database",
            "user_prompts": ["hello database"],
            "assistant_texts": ["hi"],
            "tool_calls": [{"name": "core/bash", "ok": True}],
            "turns": 1,
            "tokens_recoverable": _tokens(0, 0, 0, 0),
            "incomplete": ["usage-not-recorded"],
            "incomplete_detectable": True,
            "compactions": 1,
            "created_between": ["2026-03-21T10:11:12.123Z", "2026-03-21T10:11:12.124Z"],
        },
    ],
    "home_totals": {
        "tokens_recoverable": {**_tokens(92, 420, 20, 208), "thinking": None},
        "accept": [_tokens(92, 420, 20, 208)],
        "sessions_listed_between": [4, 4],
    },
}


def write_capture(folder: Path) -> None:
    place = folder / "agent" / "handmade"
    write_home(place / "home")
    (place / "expected.json").write_text(json.dumps(EXPECTED))
