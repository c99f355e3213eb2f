"""Turns the lines of one log into facts: messages, the current branch, usage and metadata.

One pass over all lines decides everything, without bodies. Usage counts on every branch; messages,
title and message counts are those of the current branch.
"""

from __future__ import annotations

import re
from array import array
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from amux.adapters._kit.fold import MAX_PROBLEMS, Unknowns
from amux.adapters._kit.tree import NOTHING, EntryTree
from amux.adapters._kit.values import count, mapping, moment, starts_with_any, text, to_millis
from amux.adapters.pi.adapter import Writer, session_id_in
from amux.adapters.pi.calls import CallCollector, ExpectedAnswers, tokens_of, usage_of
from amux.adapters.pi.records import (
    FAILED_STOPS,
    KNOWN_TYPES,
    MESSAGE_TYPES,
    REPLY_ROLES,
    SUMMARY_TYPES,
    TOOL_ROLES,
    Entry,
    line_in_file,
)
from amux.model.facts import Facts, Kind
from amux.model.incomplete import CALL_INTERRUPTED, OUTPUT_OVERSTATED, USAGE_NOT_RECORDED
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.model.trace import LineKind, TraceBuilder, key_of

_MOST_TREE_ENTRIES: Final = 20_000
_NO_ENTRIES: Final = frozenset({"session", "title"})
_COPYING: Final = frozenset({"fork", "continuation"})
_HELPER_TYPES: Final = frozenset({"usage", "model_usage"})
_CONTENT_BLOCKS: Final = frozenset({"text", "thinking", "toolCall", "image"})


NEWEST_VERSION: Final = 4
"""The newest supported format version: Pi writes 3, OpenClaw 4."""

_SEPARATORS: Final = re.compile(r"[/\\]")
_DATABASE: Final = "sqlite:"
_MOST_LABELS: Final = 100


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
    injected: tuple[str, ...] = ()  # openings of texts that the agent writes in the user's name
    doubles_reasoning: bool = False  # older OpenClaw adds reasoning to an output that includes it
    raw: dict[str, Any] = {}


class SessionLog:
    """Collects the lines of one log."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.info = SessionInfo()
        self.collector = CallCollector("subagent" if origin.kind == "subagent" else "main")
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
        kind = _classify(entry, self.origin.injected)
        position = self._append(entry, key, kind, is_repeat=known is not None)
        copied = False
        if (at := entry.at) is not None:
            self._earliest = at if self._earliest is None else min(self._earliest, at)
            self._latest = at if self._latest is None else max(self._latest, at)
            born = self.info.created_at
            copied = born is not None and at < born and self._kind_and_parent()[0] in _COPYING
        self._count(entry, position, kind, copied=copied)
        if entry.role:
            self._has_messages = True
            self._expected.take(entry, kind, copied=copied)
        elif text(entry.line.custom_type) == "session_exit":
            self._expected.stop_waiting()
        if kind is LineKind.PROMPT:
            texts = (text(block.text) or "" for block in entry.blocks)
            self._prompts[position] = fold_title("\n".join(texts))

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
        before = len(self.collector.calls)
        message_id = self.message_id(position, entry.id, entry.number)
        self.collector.reply(entry, message_id, spoke=spoke, copied=copied)
        billed = len(self.collector.calls) > before
        model = text(entry.message.model)
        if spoke and model is not None and not billed:
            self._models[position] = model
        if billed and self.origin.doubles_reasoning:
            thought = any(block.type == "thinking" for block in entry.blocks)
            if thought and tokens_of(usage_of(entry.message)).thinking is None:
                call = self.collector.calls[-1]
                gaps = (*call.gaps, OUTPUT_OVERSTATED)
                self.collector.calls[-1] = msgspec.structs.replace(call, gaps=gaps)

    # results

    def message_id(self, position: int, entry_id: str | None, number: int) -> str:
        """Return the id of a message: that of its entry, unless it is missing or already used."""
        return f"line-{number}" if entry_id is None or position in self._renamed else entry_id

    def finish(self) -> None:
        """Record the gaps and problems that are certain only after the last line."""
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
        # A session is free if the agent records its costs and recorded no call.
        calls, gaps = self.collector.calls, self.collector.gaps
        is_asked = self._expected.has_tool_calls or USAGE_NOT_RECORDED in gaps
        is_free = info.has_header and not (calls or is_asked)
        return Facts(
            session_id=self.session_id,
            aliases=tuple(sorted(names)),
            namespace=origin.namespace,
            kind=kind,
            parent=parent,
            cwd=info.cwd,
            name=origin.name or info.name,
            first_prompt=next(filter(None, map(self._prompts.get, branch)), None),
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

    def _trace(self, branch: list[int]) -> TraceBuilder:
        """Trace the lines of the branch, then those of other branches, which are no messages."""
        trace = TraceBuilder()
        for position in branch:
            trace.add(self._keys[position], self._times[position], LineKind(self._kinds[position]))
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


def _classify(entry: Entry, injected: tuple[str, ...]) -> LineKind:
    """Return the kind of a line."""
    if entry.type in SUMMARY_TYPES or entry.type == "custom_message":
        return LineKind.INJECTED
    role = entry.role
    if not role:
        return LineKind.LINE
    if role in REPLY_ROLES:
        return LineKind.REPLY if _has_content(entry) else LineKind.NOTICE
    if role in TOOL_ROLES:
        return LineKind.TOOL
    return LineKind.PROMPT if role == "user" and _is_typed(entry, injected) else LineKind.INJECTED


def _has_content(entry: Entry) -> bool:
    """Return whether a model answered; a failed call leaves a message without content."""
    if text(entry.message.stop_reason) not in FAILED_STOPS:
        return True
    return any(
        text(block.type) in _CONTENT_BLOCKS and (block.type != "text" or bool(text(block.text)))
        for block in entry.blocks
    )


def _is_typed(entry: Entry, injected: tuple[str, ...]) -> bool:
    """Return whether a person, not the agent, wrote a message with the role `user`."""
    message = entry.message
    if message.attribution == "agent" or message.synthetic is True:
        return False
    if text(mapping(message.provenance).get("kind")) not in {None, "external_user"}:
        return False
    opening = next((found for block in entry.blocks if (found := text(block.text))), "")
    return not starts_with_any(opening, injected)


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
            case "label":
                self._label(text(line.target_id), text(line.label))
            case other:
                is_known = not other or other in KNOWN_TYPES or other in MESSAGE_TYPES
                if not is_known and self.unknown.count(other):
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
            **self.unknown.raw(),
        }
        return {name: value for name, value in found.items() if value}
