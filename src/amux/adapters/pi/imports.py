"""Recognises entries that omp imported from a session of another agent.

`omp --from-claude` and `--from-codex` write the history of the other session with ids of their own
and the original times, followed by an entry that names the session. The calls belong to that one.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from amux.adapters._kit.values import mapping, text

IMPORT: Final = "foreign_session_import"
_IMPORTED_ID: Final = re.compile(r"(?:claude|codex)-.+", re.DOTALL)


class ForeignSession(msgspec.Struct, frozen=True):
    """The session that was imported: its agent, its id, and the path of its file at that time."""

    agent: str
    session_id: str
    path: str

    def raw(self) -> dict[str, str]:
        """Return the session as `raw` shows it."""
        return {"agent": self.agent, "sessionId": self.session_id}


def is_imported(entry_id: str | None) -> bool:
    """Return whether an entry was imported; omp's own ids are hexadecimal."""
    return entry_id is not None and _IMPORTED_ID.fullmatch(entry_id) is not None


def foreign_session(data: Any) -> ForeignSession | None:
    """Return the session that the entry of an import names; None if it is damaged."""
    fields = mapping(data)
    found = [text(fields.get(name)) for name in ("source", "sourceId", "sourcePath")]
    named = [value for value in found if value is not None]
    return ForeignSession(*named) if len(named) == len(found) else None
