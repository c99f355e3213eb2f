"""One conversation of a file: the session itself, or one inline sidechain.

Its state says what affects cost (`Origin`, `CallState`) and what describes the conversation
(`Description`). It is plain data, so it can be serialized and resumed. `messages.Dialogue` builds
messages on top of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from amux.adapters._kit.fold import Unknowns
from amux.adapters._kit.values import to_millis
from amux.adapters.claude.call_state import CallState, UserLine
from amux.adapters.claude.calls import CostEvents, nano_usd, tokens_by_model
from amux.adapters.claude.prompts import UserParts, summary_title
from amux.adapters.claude.records import (
    KNOWN_TYPES,
    AnyJson,
    Block,
    Entry,
    fork_parent,
    is_notice,
    packed,
    text_of,
)
from amux.model.facts import TitleNote
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, Trace, key_of
from amux.model.usage import Purpose, Tokens

_APPENDS_SINCE: Final = (1, 0, 120)
"""Since this version a resume appends to the file; before, each resume made a copy."""

_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")


def version_key(version: str | None) -> tuple[int, int, int] | None:
    """Parse a version into numbers; None if it is not a version."""
    found = _VERSION.match(version or "")
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def can_fork(version: str | None) -> bool:
    """Return whether a version resumes in place and can fork; an unknown one (None) can."""
    key = version_key(version)
    return key is None or key >= _APPENDS_SINCE


class Origin(msgspec.Struct):
    """Where a conversation comes from, and which cost the agent recorded itself.

    All of it affects to which session calls are attributed: lineage, folder, first time, totals.
    Later values replace earlier ones unless noted.
    """

    cwd: str | None = None  # the first one: a session may be resumed elsewhere
    version: str | None = None
    costs: CostEvents = msgspec.field(default_factory=CostEvents)
    first_session: str | None = None  # the first session id in its lines
    created: datetime | None = None
    earliest_copy: datetime | None = None
    forked_from: str | None = None
    foreign: str | None = None
    own_lines: bool = False
    total_nusd: int | None = None
    total_tokens: dict[str, Tokens] | None = None  # what the last total covers, by model

    def take(self, entry: Entry) -> None:
        """Record one line."""
        line = entry.line
        if self.lacks_beginning:
            self._note_beginning(entry)
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
                self.total_nusd = None  # an earlier total does not include this call
        elif kind == "cost-state":
            self.total_nusd = nano_usd(line.total_cost_usd)
            self.total_tokens = tokens_by_model(entry.raw)
        elif kind == "cost":
            self.costs.take(entry.raw)

    @property
    def lacks_beginning(self) -> bool:
        """Whether the start time, the folder or the session id is still unknown."""
        return self.created is None or self.cwd is None or self.first_session is None

    @property
    def created_at(self) -> datetime | None:
        """The time of the first own record; copied history is older."""
        return self.created or self.earliest_copy

    def parent(self, session_id: str) -> str | None:
        """Return the session whose history the file begins with, according to its lines."""
        named = self.forked_from or (self.foreign if self.own_lines else None)
        return named if named != session_id else None

    def native_nusd(self, *, is_fork: bool) -> int | None:
        """Return the total recorded by the agent; a fork has none, as it includes its parent's."""
        if self.costs.nusd is not None:
            return self.costs.nusd
        return None if is_fork else self.total_nusd

    def native_tokens(self, *, is_fork: bool) -> dict[str, Tokens] | None:
        """Return the tokens by model that `native_nusd` covers; None if they are unknown."""
        if self.costs.nusd is not None or is_fork or self.total_nusd is None:
            return None
        return self.total_tokens

    def copy_kind(self) -> Literal["fork", "continuation"]:
        """Return the kind of the session if it turns out to begin with copied history."""
        return "fork" if can_fork(self.version) else "continuation"

    def _note_beginning(self, entry: Entry) -> None:
        if self.cwd is None:
            self.cwd = text_of(entry.line.cwd)
        if self.first_session is None:
            self.first_session = text_of(entry.line.session_id)
        if not entry.copied:
            self.created = self.created or entry.at
        elif self.earliest_copy is None:
            self.earliest_copy = entry.at


PR_LINKS_KEPT: Final = 20
_LINE: Final = LineKind.LINE
_ENVELOPE: Final = ("gitBranch", "entrypoint", "slug")


class Commands(msgspec.Struct):
    """The slash commands that may be the title of a conversation without any other prompt."""

    answered: str | None = None  # the first one that led to a model call
    typed: str | None = None  # the first one that should have
    waiting: str | None = None  # the last one, until it is answered

    @property
    def title(self) -> str | None:
        """The command that describes the conversation best."""
        return self.answered or self.typed

    def note_user(self, parts: UserParts[Block]) -> None:
        """Record a user line without any other prompt."""
        if parts.command:
            self.waiting = fold_title(text_of(parts.typed[0].text) or "")
            self.typed = self.typed or self.waiting

    def note_reply(self) -> None:
        """Record that the model answered."""
        self.answered = self.answered or self.waiting
        self.waiting = None


class Description(msgspec.Struct):
    """Titles, times and the trace of a conversation. None of it affects cost.

    Later values replace earlier ones unless noted.
    """

    first_prompt: str | None = None  # slash commands apart
    commands: Commands = msgspec.field(default_factory=Commands)
    custom_title: str | None = None
    ai_title: str | None = None
    updated: datetime | None = None  # the time of the latest record
    notes: list[TitleNote] = []
    labels: dict[str, Any] = {}
    envelope: tuple[AnyJson, ...] = ()  # the last one: branch and entry point may change
    unknown: Unknowns = msgspec.field(default_factory=Unknowns)
    keys: bytearray = bytearray()
    times: bytearray = bytearray()
    kinds: bytearray = bytearray()

    @property
    def name(self) -> str | None:
        """The title given by a person, else the one given by the model."""
        return self.custom_title or self.ai_title

    def raw(self) -> dict[str, Any]:
        """Return native fields that have no field in `Facts`, limited in size."""
        fields = zip(_ENVELOPE, self.envelope, strict=False)
        described = {name: text for name, text in fields if text_of(text)}
        return described | self.labels | self.unknown.raw()

    def settle(self) -> None:
        """Replace decoded values of unknown type, so that the state can be serialized."""
        self.envelope = tuple(map(text_of, self.envelope))

    def trace(self) -> Trace:
        """Return one row per line, more if a line holds several messages."""
        return Trace(keys=bytes(self.keys), times=bytes(self.times), kinds=bytes(self.kinds))

    def note_kinds(self, entry: Entry, kinds: Sequence[LineKind]) -> None:
        """Add a line to the trace; without kinds it begins no message."""
        key, at = packed(entry.key), packed(to_millis(entry.at))
        if len(kinds) < 2:  # noqa: PLR2004 - nearly all lines
            self.keys += key
            self.times += at
            self.kinds.append(kinds[0] if kinds else _LINE)
        else:
            self.keys += key * len(kinds)
            self.times += at * len(kinds)
            self.kinds += bytes(kinds)

    def note_user(self, parts: UserParts[Block]) -> None:
        """Record a user line: the first prompt is the title, else a command."""
        if parts.command or (parts.injected and not parts.typed):
            self.commands.note_user(parts)
        elif parts.typed:
            self.commands.waiting = None
            if self.first_prompt is None:
                self.first_prompt = fold_title(text_of(parts.typed[0].text) or "") or None

    def note_record(self, entry: Entry) -> None:
        """Record a line that is not a message."""
        line = entry.line
        match line.type:
            case "summary":
                title, leaf = summary_title(line), text_of(line.leaf_uuid)
                if title is not None and leaf is not None:
                    self.notes.append(TitleNote(text=title, entry=key_of(leaf)))
            case "custom-title":
                self.custom_title = text_of(line.custom_title)
            case "ai-title":
                self.ai_title = text_of(line.ai_title)
            case "tag":
                self.labels.pop("tag", None)
                if tag := text_of(line.tag):
                    self.labels["tag"] = tag
            case "pr-link":
                links: list[str] = self.labels.setdefault("prLinks", [])
                url = text_of(line.pr_url)
                if url is not None and url not in links and len(links) < PR_LINKS_KEPT:
                    links.append(url)
            case other:
                name = text_of(other) or ""
                if name not in KNOWN_TYPES:
                    self.unknown.take(name, bytes(entry.raw))


OnProblem = Callable[[Problem], None]


def orphan_result(line: int) -> Problem:
    """Return the problem of a tool result without a call."""
    message = "a tool result belongs to no call"
    return Problem(code="orphan-result", message=message, line=line)


class Conversation(msgspec.Struct):
    """The state of one conversation."""

    call_state: CallState
    agent_id: str | None = None
    origin: Origin = msgspec.field(default_factory=Origin)
    description: Description = msgspec.field(default_factory=Description)

    @classmethod
    def begin(cls, purpose: Purpose, *, agent_id: str | None = None) -> Conversation:
        """Create an empty conversation."""
        return cls(CallState(purpose), agent_id)

    def settle(self) -> None:
        """Replace decoded values of unknown type, so that the state can be serialized."""
        self.call_state.book.settle_tokens()
        self.description.settle()

    def take(self, entry: Entry, on_problem: OnProblem) -> UserLine | Sequence[LineKind]:
        """Record one line; return the user line, or the kinds of the messages it begins."""
        description = self.description
        self.origin.take(entry)
        line, at = entry.line, entry.at
        if at is not None and (description.updated is None or at > description.updated):
            description.updated = at
        if line.version is not None:  # only messages have these fields
            description.envelope = (line.git_branch, line.entrypoint, line.slug)
        match line.type:
            case "assistant":
                kind = self.call_state.take_answer(entry)
                kinds: Sequence[LineKind] = (kind,)
                if kind is LineKind.REPLY and description.commands.waiting is not None:
                    description.commands.note_reply()
            case "user":
                user = self.call_state.take_user(entry)
                description.note_user(user.parts)
                description.note_kinds(entry, user.kinds)
                for orphan in user.orphans:
                    on_problem(orphan_result(orphan))
                return user
            case "system":
                kinds = self.call_state.take_system(entry)
            case _:
                self.call_state.take_record(entry)
                description.note_record(entry)
                if text_of(line.uuid) is not None or at is not None:
                    description.note_kinds(entry, ())
                return ()
        description.note_kinds(entry, kinds)
        return kinds
