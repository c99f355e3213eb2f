"""Merges two records of one conversation: the messages of a log and those of a snapshot.

Neither file has to be complete: a log may lack tool calls, a snapshot has no times and may lack
what preceded a compaction. Messages are paired in order. First those that both files have exactly
once, by their text or by the id of a tool call; among these, the longest sequence that has the same
order in both files. Then the neighbours of pairs, as far as they are alike. A pair becomes one
message with the fuller value of each field. All other messages stay between the pairs that surround
them; those of the log come first.

The effort does not grow with the square of the number of messages, even if all of them are equal.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from amux.adapters._kit.values import is_mapping, text
from amux.adapters.hermes.prompts import split_prompt
from amux.adapters.hermes.texts import call_id, decoded, flat_text, role_of, tool_entries
from amux.model.message import Role
from amux.model.trace import key_of

_REASONING: Final = ("think", "REASONING_SCRATCHPAD")  # a snapshot has other tags than a log
_SENDER: Final = re.compile(r"\[[^\]\n]{1,80}\] ")
_CUT_OFF: Final = 40  # a text of this length that begins another one is its beginning
_MOST_COMPARISONS: Final = 10_000


class Entry(NamedTuple):
    """One record of a file, an object or not, and the id of its message."""

    id: str
    record: Any


class _Outline(NamedTuple):
    """The parts of a message that are compared. Equal messages share a key."""

    role: Role | None
    keys: frozenset[int] = frozenset()
    said: str = ""


Pair = tuple[int, int]


def merge_entries(log: Sequence[Entry], snapshot: Sequence[Entry]) -> list[Entry]:
    """Return the messages of both files, each once."""
    merged: list[Entry] = []
    in_log = in_snapshot = 0
    for one, other in _pairs([*map(_outline, log)], [*map(_outline, snapshot)]):
        merged += log[in_log:one]
        merged += snapshot[in_snapshot:other]
        merged.append(Entry(log[one].id, _fuller(log[one].record, snapshot[other].record)))
        in_log, in_snapshot = one + 1, other + 1
    return [*merged, *log[in_log:], *snapshot[in_snapshot:]]


def _outline(entry: Entry) -> _Outline:
    record = entry.record
    role = role_of(record.get("role")) if is_mapping(record) else None
    if role is None:
        return _Outline(None)
    said = flat_text(decoded(record.get("content")))
    if role == "user":
        typed = split_prompt(said).typed or said
        sender = _SENDER.match(typed)
        said = typed if sender is None else typed[sender.end() :]
    elif role == "assistant":
        said = _without_reasoning(said)
    said = " ".join(said.split())
    ids = [call_id(call) for call in tool_entries(record.get("tool_calls")) or ()]
    ids.append(text(record.get("tool_call_id")) or "")
    keys = {key_of(f"{role} call {id}") for id in ids if id}
    if said:
        keys.add(key_of(f"{role} said {said}"))
    return _Outline(role, frozenset(keys), said)


def _without_reasoning(said: str) -> str:
    for tag in _REASONING:
        kept: list[str] = []
        before, opened, rest = said.partition(f"<{tag}>")
        while opened and (end := rest.find(f"</{tag}>")) >= 0:
            kept.append(before)
            before, opened, rest = rest[end + len(tag) + 3 :].partition(f"<{tag}>")
        said = "".join((*kept, before, opened, rest))
    return said


def _pairs(log: Sequence[_Outline], snapshot: Sequence[_Outline]) -> Iterator[Pair]:
    """Yield the positions of equal messages, ascending in both files."""
    start = (0, 0)
    for end in (*_longest_ascending(_unique_pairs(log, snapshot)), (len(log), len(snapshot))):
        yield from _neighbours(log, snapshot, start, end)
        if end[0] < len(log):
            yield end
        start = (end[0] + 1, end[1] + 1)


def _unique_pairs(log: Sequence[_Outline], snapshot: Sequence[_Outline]) -> list[Pair]:
    """Return the pairs with a key that each file has once, by their position in the log."""
    times_in_log = Counter(key for each in log for key in each.keys)
    times = Counter(key for each in snapshot for key in each.keys)
    places = {key: number for number, each in enumerate(snapshot) for key in each.keys}
    found = {
        (number, places[key])
        for number, each in enumerate(log)
        for key in each.keys
        if times_in_log[key] == times[key] == 1
    }
    return sorted(found, key=lambda pair: (pair[0], -pair[1]))


def _longest_ascending(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the longest selection of pairs whose positions ascend in both files."""
    ends: list[int] = []  # the smallest last position of a selection of each length
    last: list[int] = []  # the pair that it belongs to
    before: list[int | None] = []
    for number, (_, position) in enumerate(pairs):
        length = bisect_left(ends, position)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1] = [position]
        last[length : length + 1] = [number]
    chosen: list[Pair] = []
    current = last[-1] if last else None
    while current is not None:
        chosen.append(pairs[current])
        current = before[current]
    return chosen[::-1]


def _neighbours(
    log: Sequence[_Outline], snapshot: Sequence[_Outline], start: Pair, end: Pair
) -> Iterator[Pair]:
    """Yield the pairs between two pairs: alike from the start, from the end, and in between."""
    (one, other), (log_end, snapshot_end) = start, end
    while one < log_end and other < snapshot_end and _alike(log[one], snapshot[other]):
        yield one, other
        one, other = one + 1, other + 1
    tail: list[Pair] = []
    while one < log_end and other < snapshot_end:
        if not _alike(log[log_end - 1], snapshot[snapshot_end - 1]):
            break
        log_end, snapshot_end = log_end - 1, snapshot_end - 1
        tail.append((log_end, snapshot_end))
    if (log_end - one) * (snapshot_end - other) <= _MOST_COMPARISONS:
        for number in range(one, log_end):
            places = range(other, snapshot_end)
            place = next((at for at in places if _alike(log[number], snapshot[at])), None)
            if place is not None:
                yield number, place
                other = place + 1
    yield from reversed(tail)


def _alike(one: _Outline, other: _Outline) -> bool:
    if one.role is None or one.role != other.role:
        return False
    if one.keys & other.keys:
        return True
    shorter, longer = sorted((one.said, other.said), key=len)
    return len(shorter) >= _CUT_OFF and longer.startswith(shorter)


def _fuller(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the fuller value of each field."""
    names = dict.fromkeys((*one, *other))
    return {name: _fuller_value(name, one.get(name), other.get(name)) for name in names}


def _fuller_value(name: str, one: Any, other: Any) -> Any:
    if not one or not other:
        return one or other
    if name == "content":
        return max((one, other), key=lambda content: len(flat_text(decoded(content))))
    if name == "tool_calls":
        return _all_calls(one, other)
    is_longer_text = isinstance(one, str) and isinstance(other, str) and len(other) > len(one)
    return other if is_longer_text and name != "timestamp" else one


def _all_calls(one: Any, other: Any) -> Any:
    """Return the tool calls of both, each once; the unreadable value if neither can be read."""
    own, others = tool_entries(one), tool_entries(other)
    if own is None or others is None:
        return other if own is None else one
    ids = {call_id(call) for call in own}
    return [*own, *(call for call in others if call_id(call) not in ids)]
