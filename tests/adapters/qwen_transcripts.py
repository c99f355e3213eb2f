"""Builds Qwen Code transcripts, and a client that reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from amux.adapters.qwen import ADAPTER
from amux.client import Client, create_client
from amux.model.session import Session

Json = dict[str, Any]

SESSION = "11111111-2222-4333-8444-555555555555"
FORK = "99999999-2222-4333-8444-555555555555"
CWD = "/home/dev/src/webapp"
FOLDER = "-home-dev-src-webapp"


def open_home(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def get(home: Path, session_id: str = SESSION) -> Session:
    return open_home(home).sessions.get("qwen", session_id)


class Transcript:
    """Lines in a chain, one second after the other."""

    def __init__(self, session_id: str = SESSION, version: str = "0.24.4") -> None:
        self.session_id = session_id
        self.version = version
        self.lines: list[Json] = []

    def add(self, kind: str, **more: Any) -> Json:
        number = len(self.lines)
        line: Json = {
            "uuid": f"{self.session_id[:4]}-{number}",
            "parentUuid": self.lines[-1]["uuid"] if self.lines else None,
            "sessionId": self.session_id,
            "timestamp": f"2026-11-15T20:{number // 60:02}:{number % 60:02}.000Z",
            "type": kind,
            "cwd": CWD,
            "version": self.version,
            **more,
        }
        self.lines.append(line)
        return line

    def user(self, text: str, **more: Any) -> Json:
        return self.add("user", message={"role": "user", "parts": [{"text": text}]}, **more)

    def reply(self, text: str, usage: Json | None, *parts: Json, **more: Any) -> Json:
        if usage is not None:
            more["usageMetadata"] = usage
        message = {"role": "model", "parts": [{"text": text}, *parts]}
        more.setdefault("model", "qwen3-coder")
        return self.add("assistant", message=message, **more)

    def result(self, call_id: str, output: str, status: str = "success") -> Json:
        response = {"id": call_id, "name": "run_shell_command", "response": {"output": output}}
        message = {"role": "user", "parts": [{"functionResponse": response}]}
        details = {"callId": call_id, "status": status}
        return self.add("tool_result", message=message, toolCallResult=details)

    def event(self, name: str, **more: Any) -> Json:
        event = {"event.name": f"qwen-code.{name}", "model": "qwen3-coder", **more}
        return self.add("system", subtype="ui_telemetry", systemPayload={"uiEvent": event})

    def response(self, usage: Json, response_id: str = "r1", **more: Any) -> Json:
        figures = {
            "input_token_count": usage["promptTokenCount"],
            "output_token_count": usage["candidatesTokenCount"],
            "cached_content_token_count": usage["cachedContentTokenCount"],
            "thoughts_token_count": usage["thoughtsTokenCount"],
            "total_token_count": usage["totalTokenCount"],
        }
        return self.event("api_response", response_id=response_id, **figures, **more)

    def write(self, home: Path, name: str | None = None) -> Path:
        relative = name or f"chats/{self.session_id}.jsonl"
        return write(home / ".qwen" / "projects" / FOLDER / relative, self.lines)


def write(path: Path, lines: Iterable[Json]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def usage(prompt: int = 100, output: int = 10, cached: int = 0, thoughts: int = 0) -> Json:
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": output,
        "cachedContentTokenCount": cached,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": prompt + output,
    }


def shell(call_id: str) -> Json:
    return {"functionCall": {"id": call_id, "name": "run_shell_command", "args": {"command": "x"}}}


def prompts(session: Session) -> list[str]:
    return [m.content for m in session.messages if m.role == "user" and not m.synthetic]
