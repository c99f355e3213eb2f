"""The profiles of Hermes: each has its own database and its own files.

An API server derives the id of a session from its first message, so one id in two profiles usually
names two sessions. Only a clone of a profile contains the same session again: it began at the same
time, to the microsecond.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from amux.adapters._base import SourceRef

DATABASE: Final = "state.db"


class Profile(NamedTuple):
    """The name of a profile."""

    name: str

    def alias(self, session_id: str) -> str:
        """Return the name of a session that no session of another profile has."""
        return f"{self.name}/{session_id}"

    def namespace(self, began: datetime | None = None) -> str:
        """Return the namespace of a session's id; it is equal in clones of a profile."""
        return self.name if began is None else began.isoformat()

    @property
    def raw(self) -> dict[str, str]:
        """The field of `Facts.raw` that tells sessions with equal ids apart."""
        return {} if self is DEFAULT_PROFILE else {"profile": self.name}


DEFAULT_PROFILE: Final = Profile("default")
"""The profile in the root, as Hermes calls it."""


def profile_of(source: SourceRef) -> Profile:
    """Return the profile that a database or a file in `sessions/` belongs to."""
    path = source.path
    folder = path.parent if path.name == DATABASE else path.parent.parent
    return DEFAULT_PROFILE if folder == source.root else Profile(folder.name)
