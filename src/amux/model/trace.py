"""The trace of a session: one small record per native line, in order, without text.

It provides message and turn counts, and shows which session holds a line and which lines two files
have in common. It is stored as bytes, so that half a million lines take eight megabytes.
"""

from __future__ import annotations

import re
from _blake2 import blake2b  # `hashlib` would load OpenSSL
from array import array
from collections.abc import Sequence
from enum import IntEnum

from amux.model.base import Model

_NEW_KEY = blake2b(digest_size=8)


class LineKind(IntEnum):
    """The kind of a line. Every kind except LINE begins a message."""

    LINE = 0  # begins no message: bookkeeping, or a further line of a streamed message
    PROMPT = 1  # typed by the user
    INJECTED = 2  # role user or system, synthetic
    REPLY = 3  # written by the model
    NOTICE = 4  # role assistant, synthetic: an error notice, not a reply
    TOOL = 5
    SYSTEM = 6


_TURN = re.compile(b"%c[^%c]*%c" % (LineKind.PROMPT, LineKind.REPLY, LineKind.REPLY))


class Trace(Model, frozen=True, kw_only=True):
    """Three columns of equal length: key (64 bit), time (Unix ms, 0 = unknown), kind of line."""

    keys: bytes = b""
    times: bytes = b""
    kinds: bytes = b""

    def __len__(self) -> int:
        return len(self.kinds)

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def key_list(self) -> array[int]:
        """Return the keys as integers."""
        return array("q", self.keys)

    def time_list(self) -> array[int]:
        """Return the times in Unix milliseconds; 0 where the line has none."""
        return array("q", self.times)

    def before(self, key: int) -> Trace:
        """Return the records with a smaller key: the prefix of a numbered log a fork refers to."""
        keep = [i for i, k in enumerate(self.key_list()) if k < key]
        keys, times = self.key_list(), self.time_list()
        return Trace(
            keys=array("q", [keys[i] for i in keep]).tobytes(),
            times=array("q", [times[i] for i in keep]).tobytes(),
            kinds=bytes(self.kinds[i] for i in keep),
        )

    def __add__(self, other: Trace) -> Trace:
        return Trace(
            keys=self.keys + other.keys,
            times=self.times + other.times,
            kinds=self.kinds + other.kinds,
        )


class TraceBuilder:
    """Builds a trace line by line."""

    __slots__ = ("_keys", "_kinds", "_times")

    def __init__(self) -> None:
        self._keys = array("q")
        self._times = array("q")
        self._kinds = bytearray()

    def add(self, key: int, at_ms: int, kind: LineKind) -> int:
        """Append one line and return its position, which `remark` takes."""
        self._keys.append(key)
        self._times.append(at_ms)
        self._kinds.append(kind)
        return len(self._kinds) - 1

    def remark(self, position: int, kind: LineKind) -> None:
        """Change the kind of an earlier line after a later line has revealed it."""
        self._kinds[position] = kind

    def build(self) -> Trace:
        """Return the finished trace."""
        return Trace(
            keys=self._keys.tobytes(), times=self._times.tobytes(), kinds=bytes(self._kinds)
        )


def merged_trace(traces: Sequence[Trace]) -> Trace:
    """Concatenate the traces of one conversation; a line with a repeated key is added only once."""
    if len(traces) == 1:
        return traces[0]
    builder = TraceBuilder()
    seen: set[int] = set()
    for trace in traces:
        rows = zip(trace.key_list(), trace.time_list(), trace.kinds, strict=True)
        for key, at_ms, kind in rows:
            if key not in seen:
                seen.add(key)
                builder.add(key, at_ms, LineKind(kind))
    return builder.build()


def key_of(text: str) -> int:
    """Return a stable 63-bit key of an id."""
    digest = _NEW_KEY.copy()  # cheaper than a new hash object
    digest.update(text.encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()) >> 1


def count_messages(kinds: bytes) -> int:
    """Return the number of messages of a trace, given its kinds of lines."""
    return len(kinds) - kinds.count(LineKind.LINE)


def count_turns(kinds: bytes) -> int:
    """Return the number of prompts with a reply. Tool messages and injected texts do not count."""
    return len(_TURN.findall(kinds))
