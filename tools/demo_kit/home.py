"""The demo home: its files, and the account of every session in it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from demo_kit.ledger import Account


class Home:
    """Files by their path below the home; accounts by the key of their story."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.accounts: dict[str, Account] = {}

    def put_lines(self, path: str, lines: Iterable[dict[str, Any]]) -> None:
        """Write a file with one JSON object per line."""
        self.files[path] = b"".join(encode(line) + b"\n" for line in lines)

    def put_object(self, path: str, fields: dict[str, Any]) -> None:
        """Write a file with one JSON object."""
        self.files[path] = encode(fields)

    def lines_of(self, path: str) -> list[dict[str, Any]]:
        """Return the lines of a file that was written before."""
        return [json.loads(line) for line in self.files[path].splitlines()]


def encode(fields: dict[str, Any]) -> bytes:
    """Return JSON as the agents write it: compact, not escaped."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
