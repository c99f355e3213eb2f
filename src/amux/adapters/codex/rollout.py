"""The state of one rollout while it is read, its lineage, and its facts.

All state is in plain fields, so that a reading can be serialized and resumed. The rules that update
it are in `reading`. The first `session_meta` of a file is its own; further ones are copied from a
parent. The file name contains an id, which is used if the first line is lost.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from amux.adapters._kit.fold import MAX_PROBLEMS, Unknowns
from amux.adapters._kit.usage import RecordedUsage
from amux.adapters._kit.values import parse_time
from amux.adapters.codex.content import Tools
from amux.adapters.codex.conversation import Conversation
from amux.adapters.codex.cursor import Cursor
from amux.adapters.codex.records import IGNORED, NOTHING, Meta, ResponseItem, is_object
from amux.adapters.codex.usage import CallCounter
from amux.model.facts import Facts, Kind, Prefix
from amux.model.incomplete import USAGE_UNUSABLE
from amux.model.problems import Problem, ProblemCode
from amux.model.trace import key_of
from amux.model.usage import Call

_UUID: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_NAME: Final = re.compile(rf"rollout-.*?({_UUID})(?:_({_UUID}))?")
_SUFFIXES: Final = (".jsonl.zst", ".jsonl", ".json")
_MIGRATED_BEGIN: Final = ("rollout-", "item-")
_MIGRATED: Final = re.compile(r"rollout-\d+|item-\d+")


class FileName(msgspec.Struct, frozen=True):
    """The ids in the name of a rollout: the thread id, and the id of this log of the thread."""

    stem: str
    thread_id: str
    rollout_id: str
    promised: bool  # the name contains a UUID


def file_name(name: str) -> FileName:
    """Parse a file name; a name without a UUID is the id itself."""
    suffix = next((end for end in _SUFFIXES if name.endswith(end)), "")
    stem = name.removesuffix(suffix)
    found = _NAME.fullmatch(stem)
    if found is None:
        return FileName(stem, stem, stem, promised=False)
    return FileName(stem, found[1], found[2] or found[1], promised=True)


@dataclass(slots=True, kw_only=True)
class Lineage:
    """Collects the `session_meta` lines."""

    name: FileName
    session_id: str
    meta: Meta = field(default_factory=Meta)
    created_at: datetime | None = None
    named_parent: str | None = None  # id in the second session_meta
    known: bool = False

    def take(self, meta: Meta, *, first_line: bool, begun: bool) -> None:
        """Process a session_meta: the session's own, or one copied from its parent.

        Once the session has `begun` under the id in the file name, it keeps that id.
        """
        trusted = first_line or not self.name.promised or meta.id in {None, self.name.thread_id}
        if trusted and not self.known:
            self.known = True
            self.meta = meta
            self.session_id = self.session_id if begun else (meta.id or self.session_id)
            self.created_at = parse_time(meta.timestamp)
        elif meta.id and meta.id != self.session_id and self.named_parent is None:
            self.named_parent = meta.id

    @property
    def replays(self) -> bool:
        """Whether the file repeats lines of its parent."""
        return self.named_parent is not None

    @property
    def own_from(self) -> int:
        """The key before which a sub-agent's file repeats the context of its parent."""
        return self.meta.subagent_history_start_ordinal or 0

    @property
    def kind(self) -> Kind:
        """The kind of session that the file records."""
        if self._spawned_by() is not None:
            return "subagent"
        return "session" if self.parent is None else "fork"

    @property
    def parent(self) -> str | None:
        """The recorded parent of a sub-agent or fork."""
        return self._spawned_by() or self.meta.forked_from_id or self.named_parent

    @property
    def prefix(self) -> Prefix | None:
        """The history that the file continues without repeating it."""
        base = self.meta.history_base
        if base is None or base.thread_id is None or base.end_ordinal_exclusive is None:
            return None
        return Prefix(of=base.thread_id, until=base.end_ordinal_exclusive)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other ids of the session: that of the file, and of the rollout after a rewind."""
        names = (self.name.stem, self.name.rollout_id)
        return tuple(dict.fromkeys(name for name in names if name != self.session_id))

    @property
    def rollout(self) -> str:
        """The id of this log of the thread."""
        name = self.name
        return self.session_id if name.rollout_id == name.thread_id else name.rollout_id

    @property
    def nickname(self) -> str | None:
        """The name that the parent gave to a sub-agent."""
        return self.meta.agent_path or self.meta.agent_nickname

    def raw(self) -> dict[str, Any]:
        """Return small native fields that have no field in `Facts`."""
        fields = {
            "originator": self.meta.originator,
            "source": self.meta.source,
            "git": self.meta.git,
            "model_provider": self.meta.model_provider,
            "agent_nickname": self.meta.agent_nickname,
        }
        return {name: value for name, value in fields.items() if value}

    def _spawned_by(self) -> str | None:
        source: Any = self.meta.source
        for name in ("subagent", "thread_spawn", "parent_thread_id"):
            source = source.get(name) if is_object(source) else None
        return source if isinstance(source, str) and source else self.meta.parent_thread_id


REVIEWS: Final = "reviews"
"""The key in `raw` of the number of reviews: their sub-agents are not named."""

MAX_IDENTITY_KEYS: Final = 32
_HISTORY_OF: Final = "history of "
_EDGE: Final = 128  # bytes used of each end of an encrypted value


@dataclass(slots=True, kw_only=True)
class Rollout:
    """The state of one file while it is read."""

    path: str
    lineage: Lineage
    conversation: Conversation
    tools: Tools = field(default_factory=Tools)
    begun: bool = False
    is_unreadable: bool = False  # an OS error or a missing decoder prevents reading
    intact: bool = True  # no unreadable line so far
    own_from: int = 0  # lines with a smaller key belong to the parent
    after_compaction: bool = False
    name: str | None = None
    goal: str | None = None
    reviews: int = 0
    effort: str | None = None
    models: dict[str, None] = field(default_factory=dict[str, None])
    identity: dict[int, None] = field(default_factory=dict[int, None])
    migrated: bool = False
    unknown: Unknowns = field(default_factory=Unknowns)
    unknown_lines: list[int] = field(default_factory=list[int])  # line numbers of records to sample
    problems: list[Problem] = field(default_factory=list[Problem])
    problem_count: int = 0
    new_problems: list[Problem] = field(default_factory=list[Problem])  # not yet reported

    @property
    def counter(self) -> CallCounter:
        """The billed calls."""
        return self.conversation.counter

    @property
    def cursor(self) -> Cursor:
        """The current position."""
        return self.conversation.cursor

    @property
    def is_copied(self) -> bool:
        """Whether the line belongs to the context that a sub-agent got from its parent."""
        return self.cursor.key < self.own_from

    def note(self, problem: Problem) -> None:
        """Record a problem."""
        self.intact = False
        self.is_unreadable |= problem.code in {"unreadable", "decoder-missing"}
        self.problem_count += 1
        self.new_problems.append(problem)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def report(self, code: ProblemCode, message: str) -> None:
        """Record a problem of the current line."""
        self.note(Problem(code=code, message=message, path=self.path, line=self.cursor.line))

    def skip(self, kind: str) -> None:
        """Skip a record without content; unknown kinds are counted."""
        if kind not in IGNORED and self.unknown.count(kind):
            self.unknown_lines.append(self.cursor.line)

    def sample_unknown(self, raw: Callable[[int], object]) -> None:
        """Store samples of the unknown records that were just skipped, by line number."""
        for line in self.unknown_lines:
            self.unknown.keep(raw(line))
        self.unknown_lines.clear()

    def mark_migrated(self, id: str | None) -> None:
        """Record whether an id was generated when old files were rewritten."""
        if (
            id is not None
            and id.startswith(_MIGRATED_BEGIN)  # rejects most ids faster than the pattern
            and _MIGRATED.fullmatch(id) is not None
            and self.cursor.ordinal is not None
        ):
            self.migrated = True

    def identify(self, item: ResponseItem) -> None:
        """Collect keys that only copies of this file share."""
        call_id = item.call_id
        if call_id and call_id != "null" and call_id not in self.tools.open:  # else added before
            self.identity[key_of(call_id)] = None
        if item.encrypted_content is not NOTHING:
            edges = _edges(item.encrypted_content)
            if edges != "null":
                self.identity[key_of(edges)] = None

    def identify_history(self, meta: Meta) -> None:
        """Add keys that this file shares with the session it is or repeats, and with its copies."""
        if self.lineage.own_from:
            return  # the file repeats only context, which has no calls
        for name in (self.lineage.session_id, meta.id):
            if name:
                self.identity[key_of(f"{_HISTORY_OF}{name}")] = None

    def bill(self, call: Call | None) -> None:
        """Record a billed call, if there is one."""
        if call is None:
            return
        if len(self.identity) < MAX_IDENTITY_KEYS and not call.key.startswith("tc:"):
            self.identity[key_of(call.key)] = None
        self.conversation.billed(call)

    def name_model(self, model: str) -> None:
        """Set the model of the following calls."""
        self.counter.model = model
        self.models[model] = None

    def bill_stated(self, stated: RecordedUsage) -> None:
        """Record the usage that the current message contains itself."""
        counter = self.counter
        call = Call(
            key=f"{counter.session_id}:{self.cursor.key}",
            model=counter.model,
            at=self.cursor.at,
            tokens=stated.tokens,
            native_nusd=stated.nusd,
            purpose=counter.purpose,
            gaps=stated.gaps,
        )
        counter.calls.append(call)
        self.bill(call)

    def facts(self, *, archived: bool) -> Facts:
        """Return the facts of the file."""
        lineage, conversation, counter = self.lineage, self.conversation, self.counter
        cursor = self.cursor
        billed = {call.model for call in counter.calls}
        effort = {"effort": self.effort} if self.effort else {}
        reviews = {REVIEWS: self.reviews} if self.reviews else {}
        return Facts(
            session_id=lineage.session_id,
            aliases=lineage.aliases,
            kind=lineage.kind,
            parent=lineage.parent,
            cwd=lineage.meta.cwd or conversation.cwd,
            name=self.name,
            first_prompt=conversation.first_prompt,
            fallback_title=lineage.nickname or conversation.first_command,
            created_at=lineage.created_at or cursor.first_at,
            updated_at=cursor.last_at or lineage.created_at or cursor.first_at,
            version=lineage.meta.cli_version,
            archived=archived,
            trace=cursor.build(),
            calls=tuple(counter.calls),
            models=tuple(model for model in self.models if model not in billed),
            copy_keys=array("q", self.identity).tobytes(),
            unnamed_copies=self.migrated,
            prefix=lineage.prefix,
            rollout=lineage.rollout,
            children=tuple(self.tools.children),
            compactions=conversation.compactions,
            gaps=(*conversation.gaps.finish(), *((USAGE_UNUSABLE,) if counter.damaged else ())),
            problems=tuple(self.problems),
            problem_count=self.problem_count,
            raw=lineage.raw() | effort | reviews | self.unknown.raw(),
        )


def _edges(encrypted: msgspec.Raw) -> str:
    """Return both ends of a long value and its size: hashing all of it would be too slow."""
    view = memoryview(encrypted)
    size = view.nbytes
    if size <= 2 * _EDGE:
        return str(view, "utf-8", "replace")
    return str(b"%b%b%d" % (bytes(view[:_EDGE]), bytes(view[-_EDGE:]), size), "utf-8", "replace")


def new_rollout(path: Path, *, bodies: bool, traced: bool = True) -> Rollout:
    """Return the state of a file before its first line."""
    name = file_name(path.name)
    counter, cursor = CallCounter(session_id=name.thread_id), Cursor(traced=traced)
    return Rollout(
        path=str(path),
        lineage=Lineage(name=name, session_id=name.thread_id),
        conversation=Conversation(cursor=cursor, counter=counter, bodies=bodies),
    )
