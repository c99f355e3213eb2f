"""Builds Copilot CLI homes and reads them with amux."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from amux import Client, Session, create_client
from amux.adapters.copilot import ADAPTER

OWN = "11111111-1111-4111-8111-111111111111"
ORIGIN = "22222222-2222-4222-8222-222222222222"
AGENT = "33333333-3333-4333-8333-333333333333"

Json = dict[str, Any]


class Log:
    """Writes an event log line by line, a second apart."""

    def __init__(self, *, start: int = 0) -> None:
        self.lines: list[Json] = []
        self.clock = start

    def add(
        self, type: str, /, *, id: str | None = None, agent: str | None = None, **data: Any
    ) -> Log:
        self.clock += 1
        at = f"2026-01-02T{self.clock // 3600:02}:{self.clock // 60 % 60:02}:{self.clock % 60:02}Z"
        line: Json = {
            "type": type,
            "data": data,
            "id": id or f"event-{self.clock}",
            "timestamp": at,
        }
        self.lines.append(line | ({} if agent is None else {"agentId": agent}))
        return self

    def start(self, session_id: str = OWN, **more: Any) -> Log:
        self.add("session.start", sessionId=session_id, copilotVersion="1.0.0", **more)
        return self

    def usage(self, number: int, *, source: str = OWN, agent: str | None = None) -> Log:
        accounting = {"sourceSessionId": source, "sequence": number, "usageId": f"u{number}"}
        usage: Json = {"model": "gpt-5", "inputTokens": 100, "cacheReadTokens": 30}
        usage |= {"cacheWriteTokens": 20, "outputTokens": 10, "reasoningTokens": 4}
        usage |= {"apiCallId": f"api-{source}-{number}", "accounting": accounting}
        return self.add("session.usage_record", agent=agent, usage=usage)

    def answer(
        self, content: str, number: int = 0, *, source: str = OWN, agent: str | None = None
    ) -> Log:
        api = {"apiCallId": f"api-{source}-{number}"} if number else {}
        return self.add("assistant.message", agent=agent, content=content, toolRequests=[], **api)

    def prompt(self, content: str, **more: Any) -> Log:
        return self.add("user.message", content=content, **more)

    def write(self, home: Path, session_id: str = OWN, *, flat: bool = False) -> Path:
        folder = home / ".copilot" / "session-state"
        path = folder / (f"{session_id}.jsonl" if flat else f"{session_id}/events.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


def client(home: Path) -> Client:
    found = create_client(home=home)
    found.adapters.register(ADAPTER)
    return found


def get(home: Path, session_id: str = OWN) -> Session:
    return client(home).sessions.get("copilot", session_id)


def prompts(session: Session) -> list[str]:
    return [m.content for m in session.messages if m.role == "user" and not m.synthetic]


def codes(session: Session) -> list[str]:
    return [problem.code for problem in session.problems]


def outcomes(session: Session) -> list[bool | None]:
    return [m.tool_result.is_error for m in session.messages if m.tool_result]


def document(home: Path, value: object, name: str = "abc") -> Path:
    path = home / ".config" / "github-copilot" / "sessions" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path
