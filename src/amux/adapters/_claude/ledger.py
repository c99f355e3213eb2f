"""What the lines of a source say about the session as a whole: names, times, places, lineage."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final, Literal

from amux.adapters._claude.calls import CostEvents, nano_usd
from amux.adapters._claude.prompts import summary_title
from amux.adapters._claude.records import KNOWN_TYPES, Entry, Line, fork_parent, is_notice, text_of
from amux.model.facts import TitleNote
from amux.model.trace import key_of

PR_LINKS_KEPT: Final = 20
UNKNOWN_TYPES_KEPT: Final = 50
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


class Ledger:
    """Collects what is said about a session; the last word counts unless noted."""

    def __init__(self) -> None:
        self.cwd: str | None = None  # the first: a session may be resumed from elsewhere
        self.version: str | None = None
        self.custom_title: str | None = None
        self.ai_title: str | None = None
        self.notes: list[TitleNote] = []
        self.costs = CostEvents()
        self.first_session: str | None = None  # the first session id on its lines
        self._created: datetime | None = None
        self._earliest_copy: datetime | None = None
        self._updated: datetime | None = None
        self._forked_from: str | None = None
        self._foreign: str | None = None
        self._own_lines = False
        self._total_nusd: int | None = None
        self._envelope = Line()  # the last: branch and entry point change on the way
        self._raw: dict[str, Any] = {}
        self._unknown: dict[str, int] = {}

    def take(self, entry: Entry) -> None:
        """Enter one line."""
        self._see_time(entry)
        self._see_envelope(entry)
        self._see_lineage(entry)
        match entry.type:
            case "summary":
                self._note(entry)
            case "custom-title":
                self.custom_title = text_of(entry.line.custom_title)
            case "ai-title":
                self.ai_title = text_of(entry.line.ai_title)
            case "tag" | "pr-link":
                self._see_label(entry)
            case "cost-state":
                self._total_nusd = nano_usd(entry.line.total_cost_usd)
            case "cost":
                self.costs.take(entry.raw)
            case "assistant" if not is_notice(entry.line):
                self._total_nusd = None  # a total that came before this call does not include it
            case other:
                self._count_unknown(other)

    @property
    def name(self) -> str | None:
        """A name given by a person, else one by the model."""
        return self.custom_title or self.ai_title

    @property
    def created_at(self) -> datetime | None:
        """The first record of the session's own; copied history is older."""
        return self._created or self._earliest_copy

    @property
    def updated_at(self) -> datetime | None:
        """The latest record."""
        return self._updated

    def parent(self, session_id: str) -> str | None:
        """The session whose history this file says it begins with."""
        named = self._forked_from or (self._foreign if self._own_lines else None)
        return named if named != session_id else None

    def native_nusd(self, *, is_fork: bool) -> int | None:
        """The agent's own total; that of a fork starts from its parent's."""
        if self.costs.nusd is not None:
            return self.costs.nusd
        return None if is_fork else self._total_nusd

    def copy_kind(self) -> Literal["fork", "continuation"]:
        """What a file is that turns out to begin with another session's history."""
        return "fork" if can_fork(self.version) else "continuation"

    def raw(self) -> dict[str, Any]:
        """What has no field of its own, kept small."""
        last = self._envelope
        said = {"gitBranch": last.git_branch, "entrypoint": last.entrypoint, "slug": last.slug}
        unknown = {"unknownTypes": self._unknown} if self._unknown else {}
        return {name: text for name, text in said.items() if text_of(text)} | self._raw | unknown

    def _see_time(self, entry: Entry) -> None:
        if entry.at is None:
            return
        if not entry.copied:
            self._created = self._created or entry.at
        elif self._earliest_copy is None:
            self._earliest_copy = entry.at
        if self._updated is None or entry.at > self._updated:
            self._updated = entry.at

    def _see_envelope(self, entry: Entry) -> None:
        line = entry.line
        if self.cwd is None:
            self.cwd = text_of(line.cwd)
        if self.first_session is None:
            self.first_session = text_of(line.session_id)
        if line.version is not None:  # the envelope of messages; bookkeeping has none
            self.version = text_of(line.version) or self.version
            self._envelope = line

    def _see_lineage(self, entry: Entry) -> None:
        line = entry.line
        if self._forked_from is None and (line.forked_from or line.metadata):
            self._forked_from = fork_parent(line)
        if entry.foreign is not None:
            self._foreign = self._foreign or entry.foreign
        elif line.session_id is not None:
            self._own_lines = True

    def _see_label(self, entry: Entry) -> None:
        if entry.type == "tag":
            self._raw.pop("tag", None)
            if tag := text_of(entry.line.tag):
                self._raw["tag"] = tag
            return
        links: list[str] = self._raw.setdefault("prLinks", [])
        url = text_of(entry.line.pr_url)
        if url is not None and url not in links and len(links) < PR_LINKS_KEPT:
            links.append(url)

    def _note(self, entry: Entry) -> None:
        title, leaf = summary_title(entry.line), text_of(entry.line.leaf_uuid)
        if title is not None and leaf is not None:
            self.notes.append(TitleNote(text=title, entry=key_of(leaf)))

    def _count_unknown(self, name: str) -> None:
        if name in KNOWN_TYPES:
            return
        if name in self._unknown or len(self._unknown) < UNKNOWN_TYPES_KEPT:
            self._unknown[name] = self._unknown.get(name, 0) + 1
