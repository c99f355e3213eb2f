"""Reads entry logs: their lines, and the messages that a resumed model gets.

Whatever the bytes are, reading raises no exception: a line that cannot be used is skipped and
becomes a `Problem`. Entries of unknown types are skipped as well and are no problem.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, cast

from amux.model.problems import Problem
from amux.model.when import to_utc
from amux.rollout.entries import (
    FORMAT_VERSION,
    ROLES,
    decode_object,
    entry_type,
    unix_millis,
)

_SUMMARY: Final = (
    "The conversation before this point was compacted into the following summary:"
    "\n\n<summary>\n{}\n</summary>"
)


class LogLine(NamedTuple):
    """One readable line of a log: its number from 1, its type, its object and its bytes."""

    number: int
    type: str
    fields: dict[str, Any]
    raw: bytes

    @property
    def id(self) -> str:
        """Return the id of the entry; "" if it has none."""
        return text_in(self.fields, "id")

    @property
    def message(self) -> dict[str, Any] | None:
        """Return the message of a message entry; None if it cannot be read."""
        body = self.fields.get("message")
        if self.type != "message" or not isinstance(body, dict) or not body:
            return None
        message = cast("dict[str, Any]", body)
        role = text_in(self.fields, "role") or text_in(message, "role")
        if role not in ROLES:
            return None
        return message if message.get("role") in ROLES else {**message, "role": role}


def text_in(fields: dict[str, Any], name: str) -> str:
    """Return a field if it is a text that is not blank, else ""."""
    value = fields.get(name)
    return value if isinstance(value, str) and value.strip() else ""


def blocks_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the content blocks of a message that are objects."""
    content = message.get("content")
    blocks = cast("Sequence[object]", content) if isinstance(content, list | tuple) else ()
    return [cast("dict[str, Any]", block) for block in blocks if isinstance(block, Mapping)]


def read_lines(data: bytes, *, path: str = "") -> Iterator[LogLine | Problem]:
    """Yield the lines of a log and the problems, in order."""
    *lines, tail = data.split(b"\n")
    for number, line in enumerate([*lines, tail], start=1):
        found = decode_object(line, path, number=number, ended=number <= len(lines))
        if isinstance(found, tuple):
            yield LogLine(number, entry_type(found[0]), *found)
        elif found is not None:
            yield found


def split_problems(
    found: Iterable[LogLine | Problem],
) -> tuple[list[LogLine], list[Problem]]:
    """Return the lines and the problems of a log apart."""
    lines: list[LogLine] = []
    problems: list[Problem] = []
    for each in found:
        if isinstance(each, Problem):
            problems.append(each)
        else:
            lines.append(each)
    return lines, problems


def header_of(lines: Iterable[LogLine]) -> dict[str, Any]:
    """Return the header, which is the first readable line; {} if that is another entry."""
    first = next(iter(lines), None)
    return first.fields if first is not None and first.type == "session" else {}


def newer_format(lines: Iterable[LogLine], *, path: str = "") -> Problem | None:
    """Return a problem if the log has a format version that is not supported; else None."""
    version = header_of(lines).get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version <= FORMAT_VERSION:
        return None
    message = f"the log has format version {version}; amux reads up to {FORMAT_VERSION}"
    return Problem(code="unknown-format", message=message, path=path or None, line=1)


def time_in(fields: dict[str, Any]) -> datetime | None:
    """Return the time of an entry in UTC; None if it is missing or no time."""
    try:
        return to_utc(datetime.fromisoformat(text_in(fields, "timestamp").strip()))
    except ValueError:
        return None


def kept_from(compaction: LogLine, messages: list[LogLine]) -> int | None:
    """Return the position of the first kept message among those before a compaction.

    An empty `first_kept_entry_id` keeps none of them. Returns None if it names an unknown entry.
    """
    first = compaction.fields.get("first_kept_entry_id")
    if first == "":
        return len(messages)
    known = (position for position, each in enumerate(messages) if each.id and each.id == first)
    return next(known, None)


def read_conversation(
    lines: Iterable[LogLine], *, path: str = ""
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Return the messages that a resumed model gets, and the problems.

    The last compaction counts: its summary replaces everything before the entry it keeps first. If
    that entry is unknown, everything before the compaction is replaced.
    """
    problems: list[Problem] = []
    messages: list[LogLine] = []
    summary: dict[str, Any] | None = None
    kept = 0

    def report(line: LogLine, what: str) -> None:
        problem = Problem(code="bad-record", message=what, path=path or None, line=line.number)
        problems.append(problem)

    for line in lines:
        if line.type == "compaction":
            position = kept_from(line, messages)
            kept = len(messages) if position is None else position
            summary = _summary_message(line)
            if position is None:
                report(line, "the compaction refers to an entry that is missing")
        elif line.message is not None:
            messages.append(line)
        elif line.type == "message":
            report(line, "the message cannot be read")
    found = [line.message for line in messages[kept:]]
    whole = [message for message in found if message is not None]
    return ([] if summary is None else [summary]) + whole, problems


def _summary_message(line: LogLine) -> dict[str, Any]:
    """Return the summary of a compaction as a message of the user, made at its time."""
    text = _SUMMARY.format(text_in(line.fields, "summary"))
    message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": text}]}
    at = time_in(line.fields)
    return message if at is None else {**message, "timestamp": unix_millis(at)}


def read_messages(data: bytes, *, path: str = "") -> tuple[list[dict[str, Any]], list[Problem]]:
    """Return the messages that a resumed model gets from the bytes of a log, and the problems."""
    lines, problems = split_problems(read_lines(data, path=path))
    newer = newer_format(lines, path=path)
    if newer is not None:
        return [], [newer]
    messages, further = read_conversation(lines, path=path)
    return messages, problems + further


def parse_messages(data: bytes, *, problems: list[Problem] | None = None) -> list[dict[str, Any]]:
    """Return the messages that a resumed model gets from the bytes of an entry log.

    Messages are returned as they were written. After a compaction, everything before the entry that
    it keeps first is replaced by one message of the user with the summary. Lines that cannot be
    read are skipped; they are added to `problems`, or logged as one warning if that is not given.
    """
    messages, found = read_messages(data)
    if problems is not None:
        problems += found
    else:
        warn_of("an entry log", found)
    return messages


def warn_of(what: str, problems: list[Problem]) -> None:
    """Log one warning that names the number of problems and the first of them."""
    if problems:
        logging.getLogger("amux").warning(
            "%d problems in %s; first: %s", len(problems), what, problems[0]
        )
