"""From a source to the documents of its sessions, in the quickest way its adapter knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from amux.adapters._base import Adapter, Checkpoint, ExtractsTexts, Head, SourceRef
from amux.adapters._kit.long_lines import read_long_texts
from amux.index.text.engine import LAST_ORDINAL, UNPLACED_TEXT
from amux.model.message import SessionMessage
from amux.model.texts import TextDoc, text_doc

Batch = tuple[str, list[TextDoc]]
"""A session, and some of its documents; more may follow."""

_BATCH: Final = 4 << 20
"""Characters after which documents are handed on: a session may be larger than memory."""


class SourceTexts(NamedTuple):
    """The documents of a source, and from where on to look when it has grown, if that is known."""

    batches: Iterable[Batch]
    checkpoint: Checkpoint | None = None


def source_texts(adapter: Adapter, source: SourceRef, *, tools: bool) -> SourceTexts:
    """The documents of all sessions of a source; without `tools`, only what was spoken."""
    if isinstance(adapter, ExtractsTexts):
        scanned = adapter.extract_texts(source, tools=tools)
        if scanned is not None:
            return SourceTexts(*scanned)
    return SourceTexts(_all_texts(adapter, source, tools=tools))


def texts_behind(adapter: Adapter, source: SourceRef, checkpoint: Checkpoint) -> SourceTexts | None:
    """The documents that stand behind a place, or might have grown; None: look at all of it."""
    if not isinstance(adapter, ExtractsTexts):
        return None
    scanned = adapter.extract_texts(source, tools=True, checkpoint=checkpoint)
    return None if scanned is None else SourceTexts(*scanned)


def _all_texts(adapter: Adapter, source: SourceRef, *, tools: bool) -> Iterator[Batch]:
    first: str | None = None
    for batch in _read_texts(adapter, source, tools=tools):
        first = batch[0] if first is None else first
        yield batch
    if tools and first is not None:
        yield from _long_texts(source, first)


def _read_texts(adapter: Adapter, source: SourceRef, *, tools: bool) -> Iterator[Batch]:
    session_id, ordinal, size = "", 0, 0
    docs: list[TextDoc] = []
    for item in adapter.read(source, want="texts"):
        if isinstance(item, SessionMessage):
            doc = text_doc(ordinal, item, tools=tools)
            ordinal += 1
            docs.append(doc)
            size += len(doc.tools) + sum(map(len, doc.spoken))
        if docs and (size > _BATCH or isinstance(item, Head)):
            yield session_id, docs
            docs, size = [], 0
        if isinstance(item, Head):
            session_id, ordinal = item.session_id, 0
    if docs:
        yield session_id, docs


def _long_texts(source: SourceRef, session_id: str) -> Iterator[Batch]:
    """Texts too long to be held in a message, window by window."""
    if not source.has_path:
        return
    for number, (_, window) in enumerate(read_long_texts(source.path)):
        yield session_id, [TextDoc(min(UNPLACED_TEXT + number, LAST_ORDINAL), (), window)]
