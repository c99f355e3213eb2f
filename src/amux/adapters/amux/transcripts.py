"""Reads threads that hold transcripts of Claude Code, with the rules of the Claude adapter.

A record holds one line of a transcript. The lines are given to the adapter as if they were a file,
so that the messages and the calls are those of the file. The session has the id of the thread; the
id that Claude Code gave it is an alias.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef
from amux.adapters.amux.threads import Request
from amux.adapters.claude.reader import TranscriptReader
from amux.adapters.claude.transcript import AGENT_PREFIX
from amux.model.facts import Facts
from amux.model.incomplete import CALLS_ELSEWHERE
from amux.model.problems import Problem
from amux.model.usage import Call
from amux.rollout import control
from amux.rollout.records import Record, SessionMeta
from amux.rollout.view import searchable

_KEY_PARTS: Final = 3


class TranscriptKey(msgspec.Struct, frozen=True):
    """The external key of a transcript: its project, its session, and where a sub-agent is."""

    project: str
    session_id: str
    subpath: str

    @property
    def agent_id(self) -> str:
        """The id of the sub-agent; empty for the transcript of the session itself."""
        return self.subpath.rpartition("/")[2].removeprefix(AGENT_PREFIX)


def transcript_key(meta: SessionMeta) -> TranscriptKey:
    """Return the key of a thread; a thread with another key is a session without a project."""
    if meta.key is not None and len(meta.key) == _KEY_PARTS:
        return TranscriptKey(*meta.key)
    return TranscriptKey("", meta.thread_id, "")


def read_transcript(
    meta: SessionMeta,
    records: Sequence[Record],
    problems: Sequence[Problem],
    path: str,
    request: Request,
) -> Iterator[Item]:
    """Yield the items of a thread with the lines of a transcript, and the problems of its file."""
    names = _Names(meta)
    lines = _lines(records)

    def open_lines(location: str) -> AbstractContextManager[BinaryIO]:
        del location
        return BytesIO(lines)

    source = SourceRef(
        agent="amux",
        path=path,
        root=Path(path),
        session_id=names.native_id,
        role="subagent" if names.key.subpath else "session",
        parent=names.key.session_id if names.key.subpath else None,
    )
    reader = TranscriptReader(
        source, want=request.want, only=names.native(request.only), open_lines=open_lines
    )
    title = _title(meta, records)
    yield from problems
    for item in reader.items():
        if isinstance(item, Head):
            yield Head(session_id=names.own(item.session_id))
        elif isinstance(item, Facts):
            changes = names.changes(item)
            changes["archived"] = request.archived
            if item.session_id == names.native_id:
                changes["name"] = title or item.name
                changes["problems"] = (*problems, *item.problems)
                changes["problem_count"] = len(problems) + item.problem_count
            if request.calls_elsewhere and item.calls:
                changes |= {"calls": (), "gaps": (*item.gaps, CALLS_ELSEWHERE)}
            yield msgspec.structs.replace(item, **changes)
        elif not (request.calls_elsewhere and isinstance(item, Call)):
            yield item


def _lines(records: Sequence[Record]) -> bytes:
    shown = [
        record.text.replace("\n", " ")
        for record in searchable(list(reversed(records)))
        if record.type == "response_item"
    ]
    return "".join(f"{line}\n" for line in reversed(shown)).encode("utf-8", "surrogatepass")


def _title(meta: SessionMeta, records: Sequence[Record]) -> str | None:
    """Return the title that the thread has in the store; None if it has none."""
    title = meta.title
    for record in records:
        found = control.event_of(record)
        if found is not None and found[0] == control.TITLE:
            given = found[1].get("title")
            title = given if isinstance(given, str) else None
    return title


class _Names:
    """Translates between the ids in the lines and those of the store."""

    def __init__(self, meta: SessionMeta) -> None:
        self._meta = meta
        self.key = transcript_key(meta)
        self.native_id = self.key.agent_id or self.key.session_id

    def own(self, native: str) -> str:
        """Return the id in the store of the session of a transcript, or of a sidechain in it."""
        if native == self.native_id:
            return self._meta.thread_id
        prefix = f"{self.native_id}/"
        if native.startswith(prefix):
            return f"{self._meta.thread_id}/{native.removeprefix(prefix)}"
        return native

    def native(self, own: str | None) -> str | None:
        """Return the id in the lines of a session of the store."""
        thread_id = self._meta.thread_id
        if own is None:
            return None
        if own == thread_id:
            return self.native_id
        return own.replace(f"{thread_id}/", f"{self.native_id}/", 1)

    def changes(self, facts: Facts) -> dict[str, Any]:
        """Return the fields of facts that differ in the store."""
        meta, parent = self._meta, facts.parent
        changes: dict[str, Any] = {"session_id": self.own(facts.session_id)}
        if facts.session_id == self.native_id:
            changes["aliases"] = facts.aliases if self.key.subpath else (self.native_id,)
            changes["parent"] = meta.parent or meta.forked_from or parent
            changes["cwd"] = facts.cwd or meta.cwd or None
            changes["raw"] = {
                **facts.raw,
                "source": meta.source,
                "payloadFormat": meta.payload_format,
            }
            if meta.kind in {"fork", "continuation"}:
                changes["kind"] = meta.kind
        elif parent == self.key.session_id:
            changes["parent"] = meta.thread_id
        return changes
