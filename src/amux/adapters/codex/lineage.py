"""Who a rollout is and where it comes from.

The first `session_meta` of a file is its own; further ones are copies of a parent's. The place of a
file promises an id by its name, which is taken when the first line is lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from amux.adapters._kit.times import parse_time
from amux.adapters.codex.records import Meta, is_object
from amux.model.facts import Kind, Prefix

_UUID: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_NAME: Final = re.compile(rf"rollout-.*?({_UUID})(?:_({_UUID}))?")
_SUFFIXES: Final = (".jsonl.zst", ".jsonl", ".json")
_MIGRATED_BEGIN: Final = ("rollout-", "item-")
_MIGRATED: Final = re.compile(r"rollout-\d+|item-\d+")


class FileName(msgspec.Struct, frozen=True):
    """What the name of a rollout says: thread id, and the id of this log of the thread."""

    stem: str
    thread_id: str
    rollout_id: str
    promised: bool  # the name holds a UUID


def file_name(name: str) -> FileName:
    """Read a file's name; a name without a UUID is the id itself."""
    suffix = next((end for end in _SUFFIXES if name.endswith(end)), "")
    stem = name.removesuffix(suffix)
    found = _NAME.fullmatch(stem)
    if found is None:
        return FileName(stem, stem, stem, promised=False)
    return FileName(stem, found[1], found[2] or found[1], promised=True)


def is_migrated_id(text: str | None) -> bool:
    """Whether a turn or item id was made up by `codex migrate-rollouts`."""
    return (
        text is not None
        and text.startswith(_MIGRATED_BEGIN)  # most ids end here: a pattern costs more
        and _MIGRATED.fullmatch(text) is not None
    )


@dataclass(slots=True, kw_only=True)
class Lineage:
    """Collects what the `session_meta` lines say."""

    name: FileName
    session_id: str
    meta: Meta = field(default_factory=Meta)
    created_at: datetime | None = None
    named_parent: str | None = None  # of the second session_meta
    known: bool = False

    def take(self, meta: Meta, *, first_line: bool, begun: bool) -> None:
        """Read a session_meta: the session's own, or one copied from its parent.

        Once the session has `begun` under the id that the name promises, it keeps that id.
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
        """The key before which a sub-agent's file repeats its parent's context."""
        return self.meta.subagent_history_start_ordinal or 0

    @property
    def kind(self) -> Kind:
        """What the file says it is."""
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
        """Other names of the session: the file's, and the rollout's after a rewind."""
        names = (self.name.stem, self.name.rollout_id)
        return tuple(dict.fromkeys(name for name in names if name != self.session_id))

    @property
    def rollout(self) -> str:
        """The id of this log of the thread."""
        name = self.name
        return self.session_id if name.rollout_id == name.thread_id else name.rollout_id

    @property
    def nickname(self) -> str | None:
        """What the parent calls a sub-agent."""
        return self.meta.agent_path or self.meta.agent_nickname

    def raw(self) -> dict[str, Any]:
        """The small fields that normalising drops."""
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
