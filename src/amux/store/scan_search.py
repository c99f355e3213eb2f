"""Searches threads by reading them: the memory backend, and stores without an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from amux.model.message import SessionMessage
from amux.rollout.log import ContextMessage, MessageHit, SearchQuery
from amux.rollout.messages import message_of
from amux.rollout.records import Record
from amux.rollout.search_text import CONTEXT_LENGTH, match_text, parse_search, snippet_of
from amux.rollout.threads import ThreadSummary
from amux.rollout.view import searchable


def search_threads(
    query: SearchQuery, threads: Iterable[tuple[ThreadSummary, Sequence[Record]]]
) -> list[MessageHit]:
    """Return the hits of a query in some threads, the best or the newest first."""
    alternatives = parse_search(query.text)
    if not alternatives:
        return []
    found: list[tuple[int, MessageHit]] = []
    for thread, records in threads:
        if not admits_thread(query, thread):
            continue
        messages = searchable_messages(
            records, thread.payload_format, include_inactive=query.include_inactive
        )
        for index, (record, message) in enumerate(messages):
            if query.roles and message.role not in query.roles:
                continue
            text = searchable_text(message)
            terms = match_text(alternatives, text)
            if terms is not None:
                around = [each for _, each in messages[max(0, index - 1) : index + 2]]
                found.append(
                    (
                        sum(text.casefold().count(term.casefold()) for term in terms),
                        make_hit(thread, record, message, snippet_of(text, terms), around),
                    )
                )
    if query.sort == "rank":
        found.sort(key=lambda each: (-each[0], -each[1].at.timestamp(), each[1].record_id))
    else:
        found.sort(key=lambda each: (each[1].at, each[1].seq), reverse=query.sort == "newest")
    return [hit for _, hit in found[query.offset : query.offset + query.limit]]


def admits_thread(query: SearchQuery, thread: ThreadSummary) -> bool:
    """Return whether a query covers a thread."""
    return (
        (not query.sources or thread.source in query.sources)
        and thread.source not in query.exclude_sources
        and (query.namespace is None or thread.namespace == query.namespace)
        and (query.thread_id is None or thread.thread_id == query.thread_id)
    )


def searchable_messages(
    records: Sequence[Record], payload_format: str, *, include_inactive: bool
) -> list[tuple[Record, SessionMessage]]:
    """Return the messages that a search finds, oldest first."""
    found: list[tuple[Record, SessionMessage]] = []
    for record in searchable(reversed(records), include_inactive=include_inactive):
        message = message_of(record, payload_format)
        if message is not None:
            found.append((record, message))
    found.reverse()
    return found


def searchable_text(message: SessionMessage) -> str:
    """Return the text of a message that a search looks at: content, tool names and inputs."""
    result = message.tool_result
    return joined_text(
        message.content,
        [(call.tool_name, call.input) for call in message.tool_calls],
        None if result is None else result.tool_name,
    )


def joined_text(content: str, calls: Iterable[tuple[str, object]], tool_name: str | None) -> str:
    """Return the text that a search looks at, one part per line."""
    parts = [content]
    for name, given in calls:
        parts += [name, given if isinstance(given, str) else msgspec.json.encode(given).decode()]
    return "\n".join(filter(None, (*parts, tool_name)))


def make_hit(
    thread: ThreadSummary,
    record: Record,
    message: SessionMessage,
    snippet: str,
    around: Sequence[SessionMessage],
) -> MessageHit:
    """Return a hit with the data of its thread."""
    return MessageHit(
        thread_id=thread.thread_id,
        record_id=record.id,
        seq=record.seq,
        role=message.role,
        at=record.at,
        snippet=snippet,
        context=tuple(ContextMessage(each.role, each.content[:CONTEXT_LENGTH]) for each in around),
        title=thread.title,
        source=thread.source,
        model=thread.model,
        session_started=thread.created_at,
    )
