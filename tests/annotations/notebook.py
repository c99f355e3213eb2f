"""A home with sessions of two agents, and the path of its annotation file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builders import open_client, uuid_of, write_claude, write_codex

from amux.client import Client

ONE, TWO = f"claude:{uuid_of(1)}", f"claude:{uuid_of(2)}"
OTHER = f"codex:{uuid_of(3)}"


def furnish(home: Path) -> Client:
    write_claude(home, 1, prompt="first")
    write_claude(home, 2, prompt="second")
    write_codex(home, 3, prompt="third")
    return open_client(home)


def file_of(home: Path) -> Path:
    return home / ".local" / "share" / "amux" / "annotations.jsonl"


def line(kind: str, *, session: str = ONE, **fields: Any) -> bytes:
    event = {"at": "2026-03-01T10:00:00Z", "session": session, "kind": kind, **fields}
    return json.dumps(event).encode() + b"\n"


def write_file(home: Path, *lines: bytes) -> Path:
    path = file_of(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path
