"""Selects the entries that a fork of an entry log copies, and links them to each other.

Copies keep their ids, so that readers can tell that a call of the fork is the one of its parent.
Only `parent_id` changes: the first copy follows the branch entry, each other one the copy before
it. Lines whose links are right already are copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from amux.errors import ValidationError
from amux.rollout.entry_reader import LogLine, kept_from
from amux.rollout.ids import new_entry_id

_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def select_copies(
    lines: Iterable[LogLine], *, keep_last: int, keep_first: int | None, until: str | None
) -> list[LogLine]:
    """Return the messages and the compaction to copy, in order.

    `until` drops everything after the entry with that id. Of the rest, the last `keep_last`
    messages are kept, or the first `keep_first`. Copies do not begin with a tool result: messages
    before it are kept too, back to the one with its call. The last compaction is kept if the first
    message that it keeps is kept, so the conversation of the fork is the end of that of its parent.

    Raises:
        ValidationError: A number is negative, or `until` names no entry.
    """
    _check_numbers(keep_last, keep_first)
    entries = [line for line in lines if line.type == "compaction" or line.message is not None]
    if until is not None:
        entries = _up_to(entries, until)
    if keep_first is not None:
        entries = _first_messages(entries, keep_first)
    messages = [line for line in entries if line.type == "message"]
    wanted = len(messages) if keep_first is not None else keep_last
    first = _start(messages, max(0, len(messages) - wanted))
    compaction = _counting_compaction(entries)
    copied = messages[first:]
    if compaction is None:
        return copied
    before = [line for line in messages if line.number < compaction.number]
    kept = kept_from(compaction, before)
    if (len(before) if kept is None else kept) < first:
        return copied
    return sorted([*copied, compaction], key=lambda line: line.number)


def _check_numbers(keep_last: int, keep_first: int | None) -> None:
    for name, number in (("keep_last", keep_last), ("keep_first", keep_first)):
        if number is not None and number < 0:
            raise ValidationError(
                f"a fork cannot keep {number} messages",
                fields=(name,),
                hint="give the number of messages to copy, 0 for none",
            )


def _up_to(entries: Sequence[LogLine], id: str) -> list[LogLine]:
    for position, line in enumerate(entries):
        if line.id == id:
            return list(entries[: position + 1])
    raise ValidationError(
        f"the log has no entry `{id}` to fork at",
        fields=("until",),
        hint="give the id of a message or compaction of this log",
    )


def _first_messages(entries: Sequence[LogLine], count: int) -> list[LogLine]:
    """Return the entries up to the last of the first messages; all if there are no more."""
    ends = [at + 1 for at, line in enumerate(entries) if line.type == "message"]
    return list(entries) if count >= len(ends) else list(entries[: ends[count - 1] if count else 0])


def _start(messages: Sequence[LogLine], first: int) -> int:
    """Return where the copies begin: not with a tool result, and not after `first` if possible."""
    start = first
    while 0 < start < len(messages) and _is_result(messages[start]):
        start -= 1
    while start < len(messages) and _is_result(messages[start]):
        start += 1  # the log itself begins with results
    return start


def _is_result(line: LogLine) -> bool:
    return line.message is not None and line.message["role"] == "tool_result"


def _counting_compaction(entries: Sequence[LogLine]) -> LogLine | None:
    """Return the last compaction, the only one that counts for a conversation; None without one."""
    return next((line for line in reversed(entries) if line.type == "compaction"), None)


def link_copies(copies: Sequence[LogLine], branch_id: str) -> list[tuple[str, bytes]]:
    """Return the id and the line of each copy, linked to the one before it.

    An entry without an id, or with one that occurred before, gets a new id.
    """
    taken = {branch_id, *(line.id for line in copies)}
    used = {branch_id, ""}
    linked: list[tuple[str, bytes]] = []
    parent = branch_id
    for line in copies:
        id = line.id
        if id in used:
            id = new_entry_id(taken)
            taken.add(id)
        used.add(id)
        linked.append((id, _linked(line, id, parent)))
        parent = id
    return linked


def _linked(line: LogLine, id: str, parent: str) -> bytes:
    if line.fields.get("id") == id and line.fields.get("parent_id") == parent:
        return line.raw + b"\n"
    fields = _RAW_FIELDS.decode(line.raw)
    links = {"id": _raw(id), "parent_id": _raw(parent)}
    head = {"type": fields["type"], **links} if "type" in fields else links
    return msgspec.json.encode(head | {**fields, **links}) + b"\n"


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(text))
