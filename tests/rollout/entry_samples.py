"""The samples of the format's documentation, and a clock that a test sets."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

HEADER = (
    '{"type":"session","id":"a3f7c901-...","version":1,"timestamp":"2026-02-26T14:30:12Z",'
    '"cwd":"/home/user/project"}'
)
USER = (
    '{"type":"message","id":"d4e5f6a7","parent_id":"c3d4e5f6","timestamp":"2026-02-26T14:30:13Z",'
    '"role":"user","message":{"role":"user","content":[{"type":"text","text":"Hello!"}],'
    '"timestamp":1740579013000}}'
)
ASSISTANT = (
    '{"type":"message","id":"e5f6a7b8","parent_id":"d4e5f6a7","timestamp":"2026-02-26T14:30:15Z",'
    '"role":"assistant","message":{"role":"assistant","content":[{"type":"text","text":'
    '"Hello! How can I help?"}],"model":"claude-sonnet-4-5","provider":"anthropic",'
    '"usage":{"input":12,"output":8,"total_tokens":20},"stop_reason":"stop",'
    '"timestamp":1740579015000}}'
)
TOOL_RESULT = (
    '{"type":"message","id":"f6a7b8c9","parent_id":"e5f6a7b8","timestamp":"2026-02-26T14:30:16Z",'
    '"role":"tool_result","message":{"role":"tool_result","tool_call_id":"call_abc","tool_name":'
    '"bash","content":[{"type":"text","text":"main.go\\npkg/\\n"}],"is_error":false,'
    '"timestamp":1740579016000}}'
)
COMPACTION = (
    '{"type":"compaction","id":"a1b2c3d4","parent_id":"f6a7b8c9","timestamp":"2026-02-26T15:00:00Z",'
    '"summary":"## Goal\\nRefactor the auth module...\\n\\n## Progress\\n...",'
    '"first_kept_entry_id":"f6a7b8c9","tokens_before":45000}'
)
BRANCH = (
    '{"type":"branch","id":"b2c3d4e5","timestamp":"2026-02-26T15:30:00Z","parent_session_path":'
    '"/home/user/.config/agent/sessions/20260226-143012-a3f7c901.jsonl","fork_entry_id":"f6a7b8c9",'
    '"branch_summary":"User was refactoring the auth module..."}'
)
LINES = (HEADER, USER, ASSISTANT, TOOL_RESULT, COMPACTION, BRANCH)
LOG = "".join(line + "\n" for line in (HEADER, USER, ASSISTANT, TOOL_RESULT, COMPACTION)).encode()

USER_MESSAGE = """{
  "role": "user",
  "content": [{"type": "text", "text": "..."}],
  "timestamp": 1740579013000
}"""
ASSISTANT_MESSAGE = """{
  "role": "assistant",
  "content": [
    {"type": "text", "text": "..."},
    {"type": "thinking", "thinking": "..."},
    {"type": "tool_call", "id": "call_abc", "name": "bash", "arguments": {"command": "ls"}}
  ],
  "model": "claude-sonnet-4-5",
  "provider": "anthropic",
  "usage": {"input": 100, "output": 50, "cache_read": 80, "cache_write": 20, "total_tokens": 150},
  "stop_reason": "tool_use",
  "timestamp": 1740579015000
}"""
TOOL_RESULT_MESSAGE = """{
  "role": "tool_result",
  "tool_call_id": "call_abc",
  "tool_name": "bash",
  "content": [{"type": "text", "text": "output..."}],
  "details": null,
  "is_error": false,
  "timestamp": 1740579016000
}"""
MESSAGES = (USER_MESSAGE, ASSISTANT_MESSAGE, TOOL_RESULT_MESSAGE)

START = datetime(2026, 2, 26, 14, 30, 12, tzinfo=UTC)


class Clock:
    """The time of day; every look at it may be moved on."""

    def __init__(self, at: datetime = START, *, step: float = 0) -> None:
        self.at = at
        self._step = timedelta(seconds=step)

    def __call__(self) -> datetime:
        now = self.at
        self.at += self._step
        return now


def compact(text: str) -> str:
    """JSON without white space, the fields in their order."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def user(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def answer(text: str, **more: Any) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], **more}


def call(id: str, command: str) -> Json:
    block = {"type": "tool_call", "id": id, "name": "bash", "arguments": {"command": command}}
    return {"role": "assistant", "content": [block], "stop_reason": "tool_use"}


def result(id: str, text: str) -> Json:
    content = [{"type": "text", "text": text}]
    return {"role": "tool_result", "tool_call_id": id, "tool_name": "bash", "content": content}


def texts(messages: list[Json]) -> list[str]:
    """The texts of messages, for short comparisons."""
    return ["".join(block.get("text", "") for block in each["content"]) for each in messages]


def lines_of(data: bytes) -> list[Json]:
    return [json.loads(line) for line in data.splitlines()]
