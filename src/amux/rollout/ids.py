"""Ids on the write side: threads, runs, entries, and keys that bind a session to its agent.

A *thread* is a conversation and keeps its id for good; a *run session* is one process that works on
it and gets a new id at every start. Both are random UUIDs (version 4). Ids from callers are never
trusted: they are checked against the pattern of a UUID, of any version and in any case, since other
programs write other versions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container
from typing import Final
from uuid import uuid4

from amux.errors import ValidationError

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ENTRY_ID_BYTES: Final = 4


def is_valid_session_id(value: object) -> bool:
    """Return whether a value is a text of 8-4-4-4-12 hexadecimal digits and nothing else."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def looks_like_session_id(value: object) -> bool:
    """Return whether a value is a session id, possibly with white space around it."""
    return isinstance(value, str) and is_valid_session_id(value.strip())


def new_thread_id() -> str:
    """Return a new id of a thread, a random UUID in lower case."""
    return str(uuid4())


def new_run_session_id() -> str:
    """Return a new id of one run of a thread, a random UUID in lower case."""
    return str(uuid4())


def scoped_key(agent_id: str, session_id: str) -> str:
    """Return the key `<agent>:<session>`; equal session ids of two agents have different keys.

    Raises:
        ValidationError: A part is blank, or the agent contains a colon, which ends it in the key.
    """
    if not agent_id.strip() or ":" in agent_id:
        raise ValidationError(
            f"`{agent_id}` cannot be the agent of a session key",
            fields=("agent_id",),
            hint="give the name of the agent, without a colon",
        )
    if not session_id.strip():
        raise ValidationError(
            "a session key needs the id of a session",
            fields=("session_id",),
            hint="give the id that the agent uses for the session",
        )
    return f"{agent_id}:{session_id}"


def _eight_hex_digits() -> str:
    return os.urandom(_ENTRY_ID_BYTES).hex()


def new_entry_id(taken: Container[str], *, draw: Callable[[], str] = _eight_hex_digits) -> str:
    """Return a new id of an entry, eight hexadecimal digits that are not among those `taken`."""
    while (id := draw()) in taken:
        pass
    return id
