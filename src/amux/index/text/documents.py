"""Extracts the documents of the sessions of a source, in the fastest way its adapter supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from amux.adapters._base import Adapter, Checkpoint, ExtractsTexts, Head, SourceRef
from amux.adapters._kit.long_lines import read_long_texts
from amux.index.text.engine import LAST_ORDINAL, UNPLACED_TEXT
from amux.model.message import SessionMessage
from amux.model.texts import TextDoc, text_doc

Batch = tuple[str, list[TextDoc]]
"""A session and some of its documents; more may follow."""

_BATCH: Final = 4 << 20
"""Characters after which documents are yielded: a session may be larger than memory."""


class SourceTexts(NamedTuple):
    """The documents of a source, and the checkpoint from which to continue, if there is one."""

    batches: Iterable[Batch]
    checkpoint: Checkpoint | None = None


def source_texts(adapter: Adapter, source: SourceRef, *, tools: bool) -> SourceTexts:
    """Return the documents of all sessions of a source; without `tools`, only of messages."""
    if isinstance(adapter, ExtractsTexts):
        scanned = adapter.extract_texts(source, tools=tools)
        if scanned is not None:
            return SourceTexts(*scanned)
    return SourceTexts(_all_texts(adapter, source, tools=tools))


def _all_texts(adapter: Adapter, source: SourceRef, *, tools: bool) -> Iterator[Batch]:
    first: str | None = None
    session_id, ordinal, size = "", 0, 0
    docs: list[TextDoc] = []
    for item in chain(adapter.read(source, want="texts"), (None,)):
        if isinstance(item, SessionMessage):
            doc = text_doc(ordinal, item, tools=tools)
            ordinal += 1
            docs.append(doc)
            size += sum(map(len, chain(doc.spoken, doc.tools)))
        if docs and (size > _BATCH or item is None or isinstance(item, Head)):
            first = session_id if first is None else first
            yield session_id, docs
            docs, size = [], 0
        if isinstance(item, Head):
            session_id, ordinal = item.session_id, 0
    if tools and first is not None and source.has_path:
        for number, (_, window) in enumerate(read_long_texts(source.path)):
            yield first, [TextDoc(min(UNPLACED_TEXT + number, LAST_ORDINAL), (), (window,))]
