"""Where a conversation comes from and what the agent itself says that it cost.

All of it bears on who pays for which call: lineage, the folder, the first time, totals. A ledger is
plain data: written down, it can be taken up again.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, Literal

import msgspec

from amux.adapters.claude.calls import CostEvents, nano_usd
from amux.adapters.claude.records import Entry, fork_parent, is_notice, text_of

_APPENDS_SINCE: Final = (1, 0, 120)
"""From here on a resumed session goes on in its own file; before, every resume made a copy."""

_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")


def version_key(version: str | None) -> tuple[int, int, int] | None:
    """A version as numbers; None when it does not look like one."""
    found = _VERSION.match(version or "")
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def can_fork(version: str | None) -> bool:
    """Whether a version (None: unknown, so probably current) resumes in place and can fork."""
    key = version_key(version)
    return key is None or key >= _APPENDS_SINCE


class Ledger(msgspec.Struct):
    """Collects what is said about a session; the last word counts unless noted."""

    cwd: str | None = None  # the first: a session may be resumed from elsewhere
    version: str | None = None
    costs: CostEvents = msgspec.field(default_factory=CostEvents)
    first_session: str | None = None  # the first session id on its lines
    created: datetime | None = None
    earliest_copy: datetime | None = None
    forked_from: str | None = None
    foreign: str | None = None
    own_lines: bool = False
    total_nusd: int | None = None

    def take(self, entry: Entry) -> None:
        """Enter one line."""
        line = entry.line
        if self.lacks_beginning:
            self._see_beginning(entry)
        if line.version is not None:
            self.version = text_of(line.version) or self.version
        if self.forked_from is None and (line.forked_from or line.metadata):
            self.forked_from = fork_parent(line)
        if entry.foreign is not None:
            self.foreign = self.foreign or entry.foreign
        elif line.session_id is not None:
            self.own_lines = True
        kind = line.type
        if kind == "assistant":
            if self.total_nusd is not None and not is_notice(line):
                self.total_nusd = None  # a total that came before this call does not include it
        elif kind == "cost-state":
            self.total_nusd = nano_usd(line.total_cost_usd)
        elif kind == "cost":
            self.costs.take(entry.raw)

    @property
    def lacks_beginning(self) -> bool:
        """Whether it is still unknown where or when the session began."""
        return self.created is None or self.cwd is None or self.first_session is None

    @property
    def created_at(self) -> datetime | None:
        """The first record of the session's own; copied history is older."""
        return self.created or self.earliest_copy

    def parent(self, session_id: str) -> str | None:
        """The session whose history this file says it begins with."""
        named = self.forked_from or (self.foreign if self.own_lines else None)
        return named if named != session_id else None

    def native_nusd(self, *, is_fork: bool) -> int | None:
        """The agent's own total; that of a fork starts from its parent's."""
        if self.costs.nusd is not None:
            return self.costs.nusd
        return None if is_fork else self.total_nusd

    def copy_kind(self) -> Literal["fork", "continuation"]:
        """What a file is that turns out to begin with another session's history."""
        return "fork" if can_fork(self.version) else "continuation"

    def _see_beginning(self, entry: Entry) -> None:
        if self.cwd is None:
            self.cwd = text_of(entry.line.cwd)
        if self.first_session is None:
            self.first_session = text_of(entry.line.session_id)
        if not entry.copied:
            self.created = self.created or entry.at
        elif self.earliest_copy is None:
            self.earliest_copy = entry.at
