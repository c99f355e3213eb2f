"""Turns the lines of one log into facts: messages, the current branch, usage and metadata.

One pass over all lines decides everything, without bodies. Usage counts on every branch; messages,
title and message counts are those of the current branch.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from amux.adapters._kit.commands import TitlePrompt
from amux.adapters._kit.fold import MAX_PROBLEMS, Unknowns
from amux.adapters._kit.tree import NOTHING, EntryTree
from amux.adapters._kit.values import count, moment, text, to_millis
from amux.adapters.pi.adapter import Writer, session_id_in
from amux.adapters.pi.calls import CallCollector, ExpectedAnswers
from amux.adapters.pi.imports import IMPORT, ForeignSession, foreign_session, is_imported
from amux.adapters.pi.kinds import classify
from amux.adapters.pi.prompts import UserTexts
from amux.adapters.pi.records import (
    KNOWN_TYPES,
    MESSAGE_TYPES,
    SUMMARY_TYPES,
    Entry,
    line_in_file,
)
from amux.model.facts import Facts, Kind
from amux.model.incomplete import (
    CALL_INTERRUPTED,
    CALLS_ELSEWHERE,
    USAGE_NOT_RECORDED,
)
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, TraceBuilder, key_of

_MOST_TREE_ENTRIES: Final = 20_000
_NO_ENTRIES: Final = frozenset({"session", "title"})
_COPYING: Final = frozenset({"fork", "continuation"})
_ANSWERS: Final = frozenset({LineKind.REPLY, LineKind.NOTICE})
_HELPER_TYPES: Final = frozenset({"usage", "model_usage"})


NEWEST_VERSION: Final = 4
"""The newest supported format version: Pi writes 3, OpenClaw 4."""

_SEPARATORS: Final = re.compile(r"[/\\]")
_DATABASE: Final = "sqlite:"
_MOST_LABELS: Final = 100


def _is_unknown(session: ForeignSession) -> None:
    """Return that it is unknown whether an imported session still exists."""
    del session


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a log that follow from its location or its database."""

    session_id: str
    path: str
    decides_id: bool = False  # `session_id` overrides the id in the header
    leaf: Literal["last", "newest"] = "last"  # the current branch if `leaf_id` is None
    leaf_id: str | None = None
    kind: Kind | None = None
    parent: str | None = None
    name: str | None = None
    archived: bool = False
    namespace: str = ""
    aliases: tuple[str, ...] = ()
    texts: UserTexts = UserTexts()  # the rules by which the agent writes in the user's name
    doubles_reasoning: bool = False  # some answers contain their reasoning twice (OpenClaw)
    has_original: Callable[[ForeignSession], bool | None] = _is_unknown  # is an import still there?
    raw: dict[str, Any] = {}


class SessionLog:
    """Collects the lines of one log."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.info = SessionInfo()
        self.collector = CallCollector(
            "subagent" if origin.kind == "subagent" else "main",
            doubles_reasoning=origin.doubles_reasoning,
        )
        self.problems: list[Problem] = []
        self.problem_count = 0
        self.records: dict[int, Any] = {}  # records of other branches by line number
        self._has_messages = False
        self._tree = EntryTree()
        self._keys = array("q")
        self._kinds = bytearray()
        self._numbers = array("q")
        self._times = array("q")
        self._names: list[str | None] = []  # entry ids, while the tree is small enough to show
        self._prompts: dict[int, str] = {}
        self.wrapped: set[int] = set()  # positions where an injected text precedes the prompt
        self._by_program: set[int] = set()  # positions of answers that no model wrote
        self._models: dict[int, str] = {}
        self._renamed: set[int] = set()
        self._compactions: set[int] = set()
        self._expected = ExpectedAnswers()
        self._earliest: datetime | None = None
        self._latest: datetime | None = None

    # reading

    def add_problem(self, problem: Problem) -> None:
        """Record a problem; beyond the limit it is only counted."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def take(self, entry: Entry) -> None:
        """Add one line."""
        self.info.take(entry)
        if entry.type in _NO_ENTRIES:
            return
        key = key_of(f"{entry.type}\n{entry.id or ''}\n{entry.stamp or entry.number}")
        known = None if entry.id is None else self._tree.find(entry.id)
        if known is not None and self._keys[known] == key:
            return  # a repetition in another file of the session
        kind, said = classify(entry, self.origin.texts)
        position = self._append(entry, key, kind, is_repeat=known is not None)
        copied = False
        if (at := entry.at) is not None:
            self._earliest = at if self._earliest is None else min(self._earliest, at)
            self._latest = at if self._latest is None else max(self._latest, at)
            born = self.info.created_at
            copied = born is not None and at < born and self._kind_and_parent()[0] in _COPYING
        self._count(entry, position, kind, copied=copied)
        if entry.role or kind is LineKind.PROMPT:
            self._has_messages = True
            self._expected.take(entry, kind, copied=copied or is_imported(entry.id))
        elif text(entry.line.custom_type) == "session_exit":
            self._expected.stop_waiting()
        if kind is LineKind.PROMPT:
            self._prompts[position] = fold_title(said.typed)
            if said.injected.strip():
                self.wrapped.add(position)

    def _append(self, entry: Entry, key: int, kind: LineKind, *, is_repeat: bool) -> int:
        parent = entry.line.parent_id
        position = self._tree.add(
            entry.id, text(parent), at_ms=to_millis(entry.at), is_root=parent is None
        )
        if is_repeat:
            self._renamed.add(position)
        self._keys.append(key)
        self._times.append(to_millis(entry.at))
        self._kinds.append(kind)
        self._numbers.append(entry.number)
        if position < _MOST_TREE_ENTRIES:
            self._names.append(entry.id)
        return position

    def _count(self, entry: Entry, position: int, kind: LineKind, *, copied: bool) -> None:
        """Add the usage that the line records."""
        if kind in {LineKind.REPLY, LineKind.NOTICE}:
            self._count_reply(entry, position, spoke=kind is LineKind.REPLY, copied=copied)
        elif entry.type in SUMMARY_TYPES:
            self.collector.summary(entry, copied=copied)
            if entry.type == "compaction":
                self._compactions.add(position)
        elif kind is LineKind.TOOL or entry.type in _HELPER_TYPES:
            self.collector.helper(entry, copied=copied)

    def _count_reply(self, entry: Entry, position: int, *, spoke: bool, copied: bool) -> None:
        message_id = self.message_id(position, entry.id, entry.number)
        billed = self.collector.reply(entry, message_id, spoke=spoke, copied=copied)
        if entry.is_by_program:
            self._by_program.add(position)
        model = text(entry.message.model)
        if spoke and model is not None and (not billed or is_imported(entry.id)):
            self._models[position] = model

    # results

    def message_id(self, position: int, entry_id: str | None, number: int) -> str:
        """Return the id of a message: that of its entry, unless it is missing or already used."""
        return f"line-{number}" if entry_id is None or position in self._renamed else entry_id

    def finish(self) -> None:
        """Record the gaps and problems that are certain only after the last line."""
        self._count_imports()
        if self._expected.misses_an_answer:
            self.collector.gaps.setdefault(CALL_INTERRUPTED)
        for number in self._expected.orphans():
            message, line = "a tool result belongs to no call", line_in_file(number)
            path = self.origin.path
            self.add_problem(Problem(code="orphan-result", message=message, path=path, line=line))
        if self.info.has_newer_format:
            supported = f"amux reads versions up to {NEWEST_VERSION}"
            message = f"the log has format version {self.info.version}; {supported}"
            path = self.origin.path
            self.add_problem(Problem(code="unknown-format", message=message, path=path))

    def _count_imports(self) -> None:
        """Count imported calls if the session they belong to is gone."""
        if not self.collector.imported and not self.collector.imports_lack_usage:
            return
        foreign = self.info.imported_from
        exists = None if foreign is None else self.origin.has_original(foreign)
        if exists is None:
            self.collector.gaps.setdefault(CALLS_ELSEWHERE)
        elif not exists:
            self.collector.keep_imported()

    @property
    def is_session(self) -> bool:
        """Whether the log holds a message or a call; a header alone is not a session."""
        return self._has_messages or bool(self.collector.calls)

    def branch(self) -> list[int]:
        """Return the positions of the current branch, its root first."""
        named = self.origin.leaf_id
        leaf = None if named is None else self._tree.find(named)
        if leaf is None:
            is_newest = self.origin.leaf == "newest"
            leaf = self._tree.newest_leaf() if is_newest else len(self._tree) - 1
        return self._tree.branch(leaf)

    def lines_of_other_branches(self) -> set[int]:
        """Return the line numbers of all other branches; none if the tree is too large to show."""
        size = len(self._tree)
        if size > _MOST_TREE_ENTRIES or len(self._tree.leaves()) <= 1:
            return set()
        return {self._numbers[position] for position in {*range(size)} - {*self.branch()}}

    def messages(self) -> list[tuple[int, int, LineKind]]:
        """Return position, line number and kind of the current branch's messages, in order."""
        return [
            (position, self._numbers[position], LineKind(self._kinds[position]))
            for position in self.branch()
            if self._kinds[position] != LineKind.LINE
        ]

    @property
    def session_id(self) -> str:
        """The id in the header, unless it is missing or the origin overrides it."""
        origin = self.origin
        recorded = None if origin.decides_id else next(iter(self.info.ids), None)
        return recorded or origin.session_id

    def _kind_and_parent(self) -> tuple[Kind, str | None]:
        origin = self.origin
        parent = origin.parent or self.info.parent
        if parent is None or parent == self.session_id:
            return origin.kind if origin.kind == "subagent" else "session", None
        return origin.kind or "fork", parent

    def facts(self) -> Facts:
        """Return the facts of the whole log."""
        info, origin = self.info, self.origin
        branch = self.branch()
        kind, parent = self._kind_and_parent()
        own_start = info.created_at if kind in _COPYING else None
        starts = [at for at in (info.created_at, self._earliest) if at is not None]
        ends = [at for at in (info.created_at, self._latest) if at is not None]
        names = {*info.ids, *origin.aliases, origin.session_id} - {self.session_id}
        # A session is free if the agent records its costs, and all calls failed.
        calls, gaps = self.collector.calls, self.collector.gaps
        is_answered = self._expected.has_tool_calls or USAGE_NOT_RECORDED in gaps
        is_asked = CALL_INTERRUPTED in gaps or self._has_failed_call()
        is_free = info.has_header and is_asked and not (calls or is_answered)
        return Facts(
            session_id=self.session_id,
            aliases=tuple(sorted(names)),
            namespace=origin.namespace,
            kind=kind,
            parent=parent,
            cwd=info.cwd,
            name=origin.name or info.name,
            first_prompt=self._title_prompt(branch),
            fallback_title=info.task,
            created_at=own_start or min(starts, default=None),
            updated_at=max(ends, default=None),
            archived=origin.archived,
            trace=self._trace(branch).build(),
            calls=tuple(calls),
            models=tuple(dict.fromkeys(filter(None, map(self._models.get, branch)))),
            copy_keys=self.collector.identity(is_copy=kind in _COPYING),
            compactions=sum(position in self._compactions for position in branch),
            gaps=tuple(gaps),
            native_nusd=0 if is_free else None,
            problems=tuple(self.problems),
            problem_count=self.problem_count,
            raw={**info.raw(), **origin.raw, **self._tree_in_raw(branch)},
        )

    def _has_failed_call(self) -> bool:
        """Return whether a request to a model left a notice instead of an answer."""
        notices = (at for at, kind in enumerate(self._kinds) if kind == LineKind.NOTICE)
        return any(position not in self._by_program for position in notices)

    def _title_prompt(self, branch: list[int]) -> str | None:
        title = TitlePrompt()
        for position in branch:
            kind = self._kinds[position]
            if kind == LineKind.PROMPT:
                title.prompt(self._prompts[position])
            elif kind in _ANSWERS and position not in self._by_program:
                title.answer()
        return title.text or None

    def _trace(self, branch: list[int]) -> TraceBuilder:
        """Trace the lines of the branch, then those of other branches, which are no messages."""
        trace = TraceBuilder()
        for position in branch:
            key, at_ms = self._keys[position], self._times[position]
            if position in self.wrapped:
                trace.add(key_of(f"{key} injected"), at_ms, LineKind.INJECTED)
            trace.add(key, at_ms, LineKind(self._kinds[position]))
        shown = set(branch)
        for position in range(len(self._tree)):
            if position not in shown:
                trace.add(self._keys[position], self._times[position], LineKind.LINE)
        return trace

    def _tree_in_raw(self, branch: list[int]) -> dict[str, Any]:
        """Return the tree if it has several branches; other branches include their records."""
        leaves = self._tree.leaves()
        if len(leaves) <= 1:
            return {}
        if len(self._tree) > _MOST_TREE_ENTRIES:
            return {"tree": {"entryCount": len(self._tree), "leafCount": len(leaves)}}
        parents = map(self._tree.parent, range(len(self._tree)))
        entries: list[dict[str, Any]] = []
        for position, parent in enumerate(parents):
            entry: dict[str, Any] = {
                "id": self._name_of(position),
                "parentId": self._name_of(parent),
            }
            if (number := self._numbers[position]) in self.records:
                entry["record"] = self.records[number]
            entries.append(entry)
        shown = {"leaf": self._name_of(branch[-1]), "leaves": list(map(self._name_of, leaves))}
        return {"tree": {**shown, "entries": entries}}

    def _name_of(self, position: int) -> str | None:
        if position == NOTHING:
            return None
        return self.message_id(position, self._names[position], self._numbers[position])


def referenced_session(reference: str) -> str | None:
    """Return the id of a session that is referred to by its file or by a database address."""
    if reference.startswith(_DATABASE):  # sqlite:<agent>:<session id>:<path>
        parts = reference.split(":")
        return parts[2] if len(parts) > 2 and parts[2] else None  # noqa: PLR2004 - see above
    stem = _SEPARATORS.split(reference)[-1].removesuffix(".jsonl")
    return session_id_in(stem) or stem or None


class SessionInfo:
    """Collects the metadata of a session line by line."""

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self.version: int | None = None
        self.cwd: str | None = None
        self.created_at: datetime | None = None
        self.has_header = False
        self.writer: Writer | None = None
        self.task: str | None = None
        self.parent: str | None = None  # the session that this one is a copy of
        self.imported_from: ForeignSession | None = None
        self._reference: str | None = None
        self._thinking_level: str | None = None
        self._title_slot: str | None = None
        self._name: str | None = None
        self._labels: dict[str, str] = {}
        self.unknown = Unknowns()
        self.unknown_lines: set[int] = set()  # line numbers of sample records of unknown types

    @property
    def name(self) -> str | None:
        """The name that a person or the agent gave: the title slot, else the newest name line."""
        return self._title_slot or self._name or None

    @property
    def has_newer_format(self) -> bool:
        """Whether the log has a newer format version than amux supports."""
        return self.version is not None and self.version > NEWEST_VERSION

    def take(self, entry: Entry) -> None:
        """Add the metadata of one line."""
        line = entry.line
        match entry.type:
            case "session":
                self._header(entry)
            case "title":
                self._title_slot = text(line.title)
            case "title_change":
                self._name = text(line.title)
            case "session_info":
                self._name = text(line.name)
            case "session_init":
                self.task = text(line.task)
            case "thinking_level_change":
                self._thinking_level = text(line.thinking_level)
            case "model_change":
                self._detect_writer(entry)
            case "custom" if line.custom_type == IMPORT:
                self.imported_from = self.imported_from or foreign_session(line.data)
            case "label":
                self._label(text(line.target_id), text(line.label))
            case _:
                self._sample(entry)

    def _sample(self, entry: Entry) -> None:
        """Choose the record as a sample if its type is unknown."""
        type = entry.type
        is_known = not type or type in KNOWN_TYPES or type in MESSAGE_TYPES
        if not is_known and self.unknown.count(type):
            self.unknown_lines.add(entry.number)

    def _detect_writer(self, entry: Entry) -> None:
        """Identify the agent: Pi has separate fields for provider and model, omp a single one.

        Logs of omp are always trees, so a line without an id is not omp's.
        """
        if text(entry.line.model_id):
            self.writer = "pi"
        elif text(entry.line.model) and entry.id is not None:
            self.writer = "omp"

    def _header(self, entry: Entry) -> None:
        line = entry.line
        if entry.id is not None:
            self.ids.setdefault(entry.id)
        if self.has_header:
            return
        self.has_header = True
        self.version = count(line.version)
        self.cwd = text(line.cwd)
        self.created_at = moment(line.timestamp)
        self._reference = text(line.parent_session) or text(line.branched_from)
        self.parent = None if self._reference is None else referenced_session(self._reference)
        self._name = self._name or text(line.title)

    def _label(self, target: str | None, label: str | None) -> None:
        if target is None:
            return
        if label is None:
            self._labels.pop(target, None)
        elif len(self._labels) < _MOST_LABELS:
            self._labels[target] = fold_title(label)

    def raw(self) -> dict[str, Any]:
        """Return the recorded values that have no field in the facts, by the agent's names."""
        found: dict[str, Any] = {
            "formatVersion": self.version,
            "parentSession": self._reference,
            "thinkingLevel": self._thinking_level,
            "labels": dict(self._labels),
            "importedFrom": None if self.imported_from is None else self.imported_from.raw(),
            **self.unknown.raw(),
        }
        return {name: value for name, value in found.items() if value}
