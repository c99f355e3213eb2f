"""Builds logs of Pi and its descendants."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from amux.adapters._base import Adapter, SourceRef
from amux.host import Host
from amux.testing.reading import Reading, read_source, sources_of

Json = dict[str, Any]

START = "2026-11-15T20:00:00.000Z"


def at(second: int) -> str:
    """A moment of the day all logs were written on."""
    return f"2026-11-15T20:{second // 60:02}:{second % 60:02}.000Z"


def header(session_id: str = "s1", **more: Any) -> Json:
    return {"type": "session", "version": 3, "id": session_id, "timestamp": START, **more}


def entry(entry_id: str, parent: str | None, second: int, kind: str, /, **more: Any) -> Json:
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": at(second), **more}


def user(entry_id: str, parent: str | None, second: int, said: str, **more: Any) -> Json:
    message = {"role": "user", "content": [{"type": "text", "text": said}], **more}
    return entry(entry_id, parent, second, "message", message=message)


def reply(entry_id: str, parent: str | None, second: int, said: str = "Yes.", **more: Any) -> Json:
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": said}],
        "model": "fake-large",
        "usage": usage(100 + second),
        "stopReason": "stop",
        "timestamp": 1_794_772_800_000 + second * 1000,
        **more,
    }
    return entry(entry_id, parent, second, "message", message=message)


def usage(tokens: int, usd: float = 0.5) -> Json:
    return {"input": tokens, "output": 10, "cacheRead": 5, "cacheWrite": 1, "cost": {"total": usd}}


def without_ids(lines: Iterable[Json]) -> list[Json]:
    """The same as a version 1 log: a list, not a tree."""
    plain = [{key: v for key, v in line.items() if key not in {"id", "parentId"}} for line in lines]
    return [{**plain[0], "id": "s1"}, *plain[1:]]


def write(path: Path, lines: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def only_source(adapter: Adapter, home: Path) -> SourceRef:
    [source] = sources_of(adapter, home)
    return source


def read_only(adapter: Adapter, home: Path) -> Reading:
    """The one source of a home, read whole; facts must be the same without bodies."""
    source = only_source(adapter, home)
    whole = read_source(adapter, source)
    assert read_source(adapter, source, "facts").facts == whole.facts
    return whole


def texts(reading: Reading) -> list[str]:
    return [message.content for message in reading.messages if not message.synthetic]


def host(home: Path, **env: str) -> Host:
    return Host(home, env=env)
