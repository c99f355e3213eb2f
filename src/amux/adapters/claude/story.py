"""What a conversation is about: its names, its times, and the skeleton of its lines.

None of it bears on cost. A story is plain data: written down, it can be taken up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.samples import Unknowns
from amux.adapters._kit.times import to_millis
from amux.adapters.claude.prompts import UserParts, command_title, summary_title
from amux.adapters.claude.records import KNOWN_TYPES, Block, Entry, Wide, packed, text_of
from amux.model.facts import TitleNote
from amux.model.titles import fold_title
from amux.model.trace import Mark, Trace, key_of

PR_LINKS_KEPT: Final = 20
_LINE: Final = Mark.LINE
_ENVELOPE: Final = ("gitBranch", "entrypoint", "slug")


class Story(msgspec.Struct):
    """Collects what is told; the last word counts unless noted."""

    first_prompt: str | None = None
    first_command: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    updated: datetime | None = None  # the latest record
    notes: list[TitleNote] = []
    labels: dict[str, Any] = {}
    envelope: tuple[Wide, ...] = ()  # the last: branch and entry point change on the way
    unknown: Unknowns = msgspec.field(default_factory=Unknowns)
    keys: bytearray = bytearray()
    times: bytearray = bytearray()
    marks: bytearray = bytearray()

    @property
    def name(self) -> str | None:
        """A name given by a person, else one by the model."""
        return self.custom_title or self.ai_title

    def raw(self) -> dict[str, Any]:
        """What has no field of its own, kept small."""
        said = zip(_ENVELOPE, self.envelope, strict=False)
        told = {name: text for name, text in said if text_of(text)}
        return told | self.labels | self.unknown.raw()

    def settle(self) -> None:
        """Leave nothing in it that is still as it was read: it may be anything."""
        self.envelope = tuple(text_of(said) for said in self.envelope)

    def trace(self) -> Trace:
        """One record per line, more where a line holds several messages."""
        return Trace(keys=bytes(self.keys), times=bytes(self.times), marks=bytes(self.marks))

    def see_marks(self, entry: Entry, marks: Sequence[Mark]) -> None:
        """A line that stands in the trace; without marks it begins no message."""
        key, at = packed(entry.key), packed(to_millis(entry.at))
        if len(marks) < 2:  # noqa: PLR2004 - as nearly all have
            self.keys += key
            self.times += at
            self.marks.append(marks[0] if marks else _LINE)
        else:
            self.keys += key * len(marks)
            self.times += at * len(marks)
            self.marks += bytes(marks)

    def see_user(self, parts: UserParts[Block]) -> None:
        """A user line: the first prompt makes a title, else the first command does."""
        if self.first_prompt is None and parts.typed:
            self.first_prompt = fold_title(text_of(parts.typed[0].text) or "") or None
        if self.first_command is None and parts.injected:
            self.first_command = command_title(text_of(parts.injected[0].text) or "")

    def see_line(self, entry: Entry) -> None:
        """Any line."""
        line, at = entry.line, entry.at
        if at is not None and (self.updated is None or at > self.updated):
            self.updated = at
        if line.version is not None:  # the envelope of messages; bookkeeping has none
            self.envelope = (line.git_branch, line.entrypoint, line.slug)

    def see_record(self, entry: Entry) -> None:
        """A line that is no message."""
        line = entry.line
        match line.type:
            case "summary":
                self._note(entry)
            case "custom-title":
                self.custom_title = text_of(line.custom_title)
            case "ai-title":
                self.ai_title = text_of(line.ai_title)
            case "tag" | "pr-link":
                self._see_label(entry)
            case other:
                name = text_of(other) or ""
                if name not in KNOWN_TYPES:
                    self.unknown.take(name, bytes(entry.raw))

    def _see_label(self, entry: Entry) -> None:
        if entry.line.type == "tag":
            self.labels.pop("tag", None)
            if tag := text_of(entry.line.tag):
                self.labels["tag"] = tag
            return
        links: list[str] = self.labels.setdefault("prLinks", [])
        url = text_of(entry.line.pr_url)
        if url is not None and url not in links and len(links) < PR_LINKS_KEPT:
            links.append(url)

    def _note(self, entry: Entry) -> None:
        title, leaf = summary_title(entry.line), text_of(entry.line.leaf_uuid)
        if title is not None and leaf is not None:
            self.notes.append(TitleNote(text=title, entry=key_of(leaf)))
