"""Shared code of the writers of both agents: lines of a file, times, ids and usage."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

FIELDS: Final = ("input", "output", "cache_read", "cache_write", "reasoning")
_LETTERS: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(slots=True)
class Bill:
    """Calls and their tokens. `input` excludes tokens read from or written to a cache."""

    calls: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIELDS, 0))

    def add(self, **tokens: int) -> None:
        """Add one call."""
        self.calls += 1
        for name, count in tokens.items():
            self.tokens[name] += count

    def include(self, other: Bill) -> None:
        """Add the calls of another bill."""
        self.calls += other.calls
        for name, count in other.tokens.items():
            self.tokens[name] += count


@dataclass(slots=True)
class Job:
    """A session to be written."""

    id: str
    begun: int  # milliseconds
    folder: str
    era: str
    size: int  # approximate bytes
    needle: str | None = None  # a word in the first prompt
    is_forked: bool = False  # if it has enough turns


@dataclass(slots=True)
class Written:
    """The files of a session with its forks and sub-agents, and their recorded usage."""

    files: dict[str, list[bytes]]
    bill: Bill
    sessions: int  # includes forks, excludes sub-agents


def line(record: Json) -> bytes:
    """Return a record as agents write it."""
    return _encode(record).encode()


def write_files(home: Path, files: dict[str, list[bytes]]) -> int:
    """Write the files of a session; return the number of bytes."""
    return sum(_write(home / relative, lines) for relative, lines in files.items())


def _write(path: Path, lines: Iterable[bytes]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"\n".join(lines) + b"\n"
    path.write_bytes(content)
    return len(content)


def moment(milliseconds: int) -> str:
    """Return a time such as 2026-01-02T03:04:05.678Z."""
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def uuid4(chance: random.Random) -> str:
    """Return a random id."""
    digits = f"{chance.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def uuid7(chance: random.Random, milliseconds: int) -> str:
    """Return an id that begins with the time."""
    first, rest = f"{milliseconds:012x}", f"{chance.getrandbits(80):020x}"
    return f"{first[:8]}-{first[8:]}-7{rest[:3]}-8{rest[3:6]}-{rest[6:18]}"


def token(chance: random.Random, prefix: str) -> str:
    """Return an id as assigned by model providers: msg_01..., call_..."""
    return prefix + "".join(chance.choices(_LETTERS, k=22))
