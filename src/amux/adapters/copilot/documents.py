"""Whole documents: sessions of the first releases, and sessions as the specification draws them.

    {sessionId, startTime, chatMessages, timeline}      0.0.340 and before
    {id, title, messages} or a list of messages         as specified

Messages are in OpenAI's form in both. A document is rewritten at each step, so one that is empty is
a session that never began, and one that is no JSON was caught in the middle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._kit.fold import Fold
from amux.adapters._kit.jsonl import clean_line, unreadable
from amux.adapters._kit.streams import open_stream
from amux.adapters._kit.values import (
    document,
    first,
    is_items,
    is_mapping,
    items,
    mapping,
    moment,
    text,
)
from amux.adapters.copilot.spoken import Spoken
from amux.model.incomplete import USAGE_NOT_RECORDED
from amux.model.problems import Problem

_LARGEST: Final = 256 << 20
_OLD_NAME: Final = re.compile(r"session_(?P<id>.+)_\d{9,16}")


def session_in(stem: str) -> str:
    """The session id in the name of a document."""
    found = _OLD_NAME.fullmatch(stem)
    return stem if found is None else found["id"]


def read_document(source: SourceRef, *, want: Want) -> Iterator[Item]:
    """The one session of a document."""
    found = _load(source.path)
    if isinstance(found, Problem):
        yield found
    elif found is not None:
        yield from _Document(source, found).items(want)


def _load(path: Path) -> Any:
    """The document, None for an empty file, or the problem it is."""
    try:
        with open_stream(path) as stream:
            data = b"".join(iter(lambda: stream.read(1 << 20), b""))[: _LARGEST + 1]
    except OSError as error:
        return unreadable(path, error)
    if not clean_line(data):
        return None
    found = document(data.removeprefix(b"\xef\xbb\xbf")) if len(data) <= _LARGEST else None
    if not is_mapping(found) and not is_items(found):
        message = "the document is not a session that amux can read"
        return Problem(code="unknown-format", message=message, path=str(path))
    return found


class _Document:
    """One decoded document."""

    def __init__(self, source: SourceRef, root: Any) -> None:
        self._source = source
        self._about = mapping(root)
        listed = root if is_items(root) else first(self._about, "chatMessages", "messages")
        self._messages = items(listed)
        self._timeline = [mapping(entry) for entry in items(self._about.get("timeline"))]
        has_messages = is_items(listed) and (not listed or any(map(is_mapping, listed)))
        self._is_session = has_messages or bool(self._timeline)

    def items(self, want: Want) -> Iterator[Item]:
        """Head, messages, calls, facts."""
        if not self._is_session:
            what = "a document without a list of messages"
            yield Problem(code="unknown-format", message=what, path=str(self._source.path))
            return
        session_id = self._source.session_id or session_in(self._source.path.stem)
        fold = Fold()
        yield Head(session_id=session_id)
        spoken = Spoken(session_id, str(self._source.path))
        for number, record in enumerate(self._records(), start=1):
            for message in spoken.take(record, number):
                fold.message(message)
                if has_bodies(want):
                    yield message
            for problem in spoken.drain():
                fold.problem(problem)
                yield problem
        for call in spoken.calls:
            fold.call(call)
            yield call
        self._times(fold)
        yield fold.facts(session_id, **self._known(session_id, spoken))

    def _records(self) -> list[Any]:
        """What was said; the timeline of the terminal where nothing else was kept."""
        return self._messages or [
            {"role": "assistant" if entry.get("type") == "copilot" else "user", **entry}
            for entry in self._timeline
            if text(entry.get("type")) in {"user", "copilot"}
        ]

    def _times(self, fold: Fold) -> None:
        fold.moment(moment(first(self._about, "startTime", "createdAt", "created_at")))
        fold.moment(moment(first(self._about, "updatedAt", "updated_at", "lastUpdated")))
        for entry in self._timeline:
            fold.moment(moment(entry.get("timestamp")))

    def _known(self, session_id: str, spoken: Spoken) -> dict[str, Any]:
        about = self._about
        written = text(first(about, "sessionId", "id"))
        model = text(first(about, "selectedModel", "model"))
        return {
            "aliases": () if written in {None, session_id} else (written,),
            "cwd": text(first(about, "cwd", "workingDirectory")),
            "name": text(first(about, "title", "name")),
            "models": (model,) if model and not (spoken.calls or spoken.names_models) else None,
            "gaps": (USAGE_NOT_RECORDED,) if spoken.replies > len(spoken.calls) else (),
        }
