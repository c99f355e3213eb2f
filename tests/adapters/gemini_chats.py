"""Builds Gemini CLI homes with logs, documents and projects, and a client that reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from amux.adapters.gemini import ADAPTER
from amux.client import Client, create_client
from amux.model.session import Session

Json = dict[str, Any]

SESSION = "0badcafe-1111-4222-8333-444444444444"
OTHER = "0badcafe-9999-4222-8333-444444444444"  # begins like SESSION: file names look the same
PROJECT = "/home/dev/src/webapp"


def open_home(home: Path) -> Client:
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    return client


def at(second: int) -> str:
    return f"2026-11-15T20:{second // 60:02}:{second % 60:02}.000Z"


def head(session_id: str = SESSION, **more: Any) -> Json:
    return {"sessionId": session_id, "projectHash": "h", "startTime": at(0), **more}


def user(message_id: str, text: str, second: int = 1, **more: Any) -> Json:
    content = [{"text": text}]
    return {"id": message_id, "timestamp": at(second), "type": "user", "content": content, **more}


def tokens(prompt: int = 100, output: int = 10, **more: int) -> Json:
    figures = {"input": prompt, "output": output, "cached": 0, "thoughts": 0, "tool": 0, **more}
    total = figures["input"] + figures["output"] + figures["thoughts"] + figures["tool"]
    return {**figures, "total": total}


def reply(message_id: str, text: str, second: int = 2, **more: Any) -> Json:
    return {
        "id": message_id,
        "timestamp": at(second),
        "type": "gemini",
        "content": text,
        "thoughts": [],
        "tokens": tokens(),
        "model": "gemini-2.5-pro",
        **more,
    }


def tool(call_id: str, name: str = "read_file", output: str | None = "fine", **more: Any) -> Json:
    record: Json = {"id": call_id, "name": name, "args": {"path": "x"}, "status": "success", **more}
    if output is not None:
        response = {"id": call_id, "name": name, "response": {"output": output}}
        record["result"] = [{"functionResponse": response}]
    return record


def tool_answer(message_id: str, call_id: str, name: str = "read_file", second: int = 3) -> Json:
    response = {"id": call_id, "name": name, "response": {"output": "fine"}}
    content = [{"functionResponse": response}]
    return {"id": message_id, "timestamp": at(second), "type": "user", "content": content}


def checkpoint(*messages: Json) -> Json:
    return {"$set": {"messages": list(messages), "lastUpdated": at(30)}}


def write_log(
    home: Path,
    lines: Iterable[Json],
    name: str = "session-2026-11-15T20-00-0badcafe.jsonl",
    project: str = "webapp",
) -> Path:
    path = home / ".gemini" / "tmp" / project / "chats" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_document(
    home: Path,
    messages: Iterable[Json],
    minute: str = "20-00",
    project: str = "webapp",
    **more: Any,
) -> Path:
    name = f"session-2026-11-15T{minute}-0badcafe.json"
    path = home / ".gemini" / "tmp" / project / "chats" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head(), **more, "messages": list(messages)}))
    return path


def get(home: Path, session_id: str = SESSION) -> Session:
    return open_home(home).sessions.get("gemini", session_id)


def prompts(session: Session) -> list[str]:
    return [m.content for m in session.messages if m.role == "user" and not m.synthetic]


def answers(session: Session) -> list[str]:
    return [m.content for m in session.messages if m.role == "assistant" and not m.synthetic]
