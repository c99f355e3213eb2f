"""Returns the expected result of a text scan: the texts of all messages from a full read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol

from amux.adapters._base import (
    Adapter,
    ExtractedTexts,
    ExtractsTexts,
    Head,
    ReadsMessageAt,
    SourceRef,
)
from amux.model.message import SessionMessage
from amux.model.texts import TextDoc, text_doc
from amux.sessions.search.match import Passage, passages

Searched = tuple[str, datetime | None, bool, list[Passage]]


class Scanning(Adapter, ExtractsTexts, ReadsMessageAt, Protocol):
    """An adapter that knows the quick way."""


def messages_of(adapter: Adapter, ref: SourceRef) -> dict[str, list[SessionMessage]]:
    """The messages of every session of a source."""
    found: dict[str, list[SessionMessage]] = {}
    own: list[SessionMessage] = []
    for item in adapter.read(ref, want="texts"):
        if isinstance(item, Head):
            own = found.setdefault(item.session_id, [])
        elif isinstance(item, SessionMessage):
            own.append(item)
    return found


def searched(message: SessionMessage) -> Searched:
    """All of a message that a search looks at or shows."""
    return message.role, message.timestamp, message.synthetic, list(passages(message))


def said(found: Searched) -> Searched:
    """The same without tool text."""
    return *found[:3], [passage for passage in found[3] if passage.is_spoken]


def text_docs(messages: Iterable[SessionMessage], *, tools: bool) -> Iterator[TextDoc]:
    """The documents of a session's messages; those without a text have none."""
    for ordinal, message in enumerate(messages):
        doc = text_doc(ordinal, message, tools=tools)
        if doc.spoken or doc.tools:
            yield doc


def assert_scanned_as_read(adapter: Scanning, ref: SourceRef) -> int | None:
    """A scan gives the texts of the messages, and every one can be cut from where it lies.

    How many were cut; None when the scan left the file to be read.
    """
    read = messages_of(adapter, ref)
    sessions: list[tuple[str, list[TextDoc]]] = []
    for tools in (False, True):
        scanned = adapter.extract_texts(ref, tools=tools)
        if scanned is None:
            return None
        sessions = scanned.sessions
        plain = {
            name: [doc._replace(location=None) for doc in docs] for name, docs in sessions if docs
        }
        want = {name: list(text_docs(some, tools=tools)) for name, some in read.items()}
        assert plain == {name: docs for name, docs in want.items() if docs}
    data, cut = ref.path.read_bytes(), 0
    for name, docs in sessions:
        for doc in docs:
            if doc.location is not None:
                cut += 1
                piece = data[doc.location.offset : doc.location.offset + doc.location.length]
                message = adapter.read_message_at(piece, doc.location.kind, tools=True)
                spoken = adapter.read_message_at(piece, doc.location.kind, tools=False)
                assert message is not None
                assert spoken is not None
                want = searched(read[name][doc.ordinal])
                assert searched(message) == want
                assert said(searched(spoken)) == said(want)
    return cut


def assert_scanned_on(adapter: ExtractsTexts, ref: SourceRef, cut: int) -> bool:
    """A scan that goes on where one of the beginning stopped gives what is missing, and no less.

    Whether it could go on.
    """
    data = ref.path.read_bytes()
    whole = adapter.extract_texts(ref, tools=True)
    ref.path.write_bytes(data[:cut])
    first = adapter.extract_texts(ref, tools=True)
    ref.path.write_bytes(data)
    if first is None or first.checkpoint is None:
        return False
    second = adapter.extract_texts(ref, tools=True, checkpoint=first.checkpoint)
    if second is None:
        return False
    assert whole is not None
    assert len(first.sessions) == len(second.sessions) == len(whole.sessions) == 1
    before = {doc.ordinal: doc for doc in first.sessions[0][1]}
    behind = {doc.ordinal: doc for doc in second.sessions[0][1]}
    for ordinal in before.keys() & behind.keys():
        assert _is_within(before[ordinal], behind[ordinal])
    assert sorted({**before, **behind}.values()) == sorted(whole.sessions[0][1])
    assert _offset(second) == _offset(whole)
    return True


def _offset(scanned: ExtractedTexts) -> int | None:
    return None if scanned.checkpoint is None else scanned.checkpoint.offset


def _is_within(doc: TextDoc, grown: TextDoc) -> bool:
    """Whether every text of a document is in one that came later."""
    spoken, tools = "\n".join(grown.spoken), "\n".join(grown.tools)
    return all(text in spoken for text in doc.spoken) and all(text in tools for text in doc.tools)
