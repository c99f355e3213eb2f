"""The structural difference of two sessions: unchanged, modified, removed and added messages.

Messages are aligned by a longest common subsequence over (role, content); for a message without
content, its tool calls and tool result are compared. In the gaps between these anchors, messages
of one role are paired in order as modifications; the others are removals, then additions.

Invariants: every message of either side is in exactly one operation, operations are in order on
both sides, and diff(b, a) is diff(a, b) with the sides exchanged.

The subsequence is computed with one bit vector per message of one side and one bit per message of
the other (Hyyro's bit-parallel recurrence). This takes at most n x m / word size operations, also
for sessions that have nothing in common or that repeat themselves endlessly.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from math import isqrt
from typing import Any

from amux.model.diff import DiffOperation, DiffSide, DiffStats, OperationType, SessionDiff
from amux.model.message import SessionMessage
from amux.model.session import Session

Pair = tuple[int, int]
Key = tuple[str, str, str]


def diff_sessions(a: Session, b: Session) -> SessionDiff:
    """Compare two sessions of the same or of different agents."""
    operations = diff_messages(a.messages, b.messages)
    return SessionDiff(a=_side(a), b=_side(b), operations=operations, stats=_stats(operations))


def diff_messages(
    a: Sequence[SessionMessage], b: Sequence[SessionMessage]
) -> tuple[DiffOperation, ...]:
    """Return the operations that turn `a` into `b`, in order."""
    keys_a, keys_b = [_key(message) for message in a], [_key(message) for message in b]
    # There may be several longest subsequences. The sides are put in a fixed order, so that the
    # choice does not depend on which session was named first.
    if keys_b < keys_a:
        pairs = [(i, j) for j, i in _aligned(keys_b, keys_a)]
    else:
        pairs = _aligned(keys_a, keys_b)
    return tuple(_operations(a, b, pairs, {i for i, j in pairs if keys_a[i] == keys_b[j]}))


def _side(session: Session) -> DiffSide:
    return DiffSide(
        agent=session.agent, session_id=session.session_id, unified_id=session.unified_id
    )


def _stats(operations: Sequence[DiffOperation]) -> DiffStats:
    types = [operation.type for operation in operations]
    return DiffStats(
        removals=types.count("removal"),
        additions=types.count("addition"),
        modifications=types.count("modification"),
        unchanged=types.count("unchanged"),
    )


def _key(message: SessionMessage) -> Key:
    return (message.role, message.content, "" if message.content else _tool_signature(message))


def _tool_signature(message: SessionMessage) -> str:
    """Return the input and output of the tools, without ids, which differ in every session."""
    calls: list[Any] = [[call.tool_name, call.input] for call in message.tool_calls]
    result = message.tool_result
    if result is not None:
        calls.append([result.tool_name, result.output, bool(result.is_error)])
    return json.dumps(calls, sort_keys=True, default=str) if calls else ""


def _aligned(a: Sequence[Key], b: Sequence[Key]) -> list[Pair]:
    """Return the anchors and the pairs of one role between them, increasing on both sides."""
    pairs: list[Pair] = []
    start_a = start_b = 0
    for i, j in [*_common(a, b), (len(a), len(b))]:
        roles_a = [key[0] for key in a[start_a:i]]
        roles_b = [key[0] for key in b[start_b:j]]
        pairs += [(start_a + x, start_b + y) for x, y in _common(roles_a, roles_b)]
        if i < len(a):
            pairs.append((i, j))
        start_a, start_b = i + 1, j + 1
    return pairs


def _operations(
    a: Sequence[SessionMessage], b: Sequence[SessionMessage], pairs: list[Pair], equal: set[int]
) -> Iterator[DiffOperation]:
    start_a = start_b = 0
    for i, j in [*pairs, (len(a), len(b))]:
        for index in range(start_a, i):
            yield DiffOperation(type="removal", index_a=index, message_a=a[index])
        for index in range(start_b, j):
            yield DiffOperation(type="addition", index_b=index, message_b=b[index])
        if i < len(a):
            kind: OperationType = "unchanged" if i in equal else "modification"
            yield DiffOperation(type=kind, index_a=i, index_b=j, message_a=a[i], message_b=b[j])
        start_a, start_b = i + 1, j + 1


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Return a longest common subsequence as index pairs, with matches as early as possible."""
    prefix = _common_prefix(a, b)
    suffix = _common_prefix(a[prefix:][::-1], b[prefix:][::-1])
    end_a, end_b = len(a) - suffix, len(b) - suffix
    # The trace runs from the last vector to the first and finds the last match. Both sides are
    # reversed, so that this is the first match.
    backwards = _longest_common(a[prefix:end_a][::-1], b[prefix:end_b][::-1])
    return [
        *((k, k) for k in range(prefix)),
        *((end_a - 1 - i, end_b - 1 - j) for i, j in backwards),
        *((end_a + k, end_b + k) for k in range(suffix)),
    ]


def _common_prefix(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def _longest_common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Return the index pairs from the last to the first.

    Bit j of vector i is clear where the subsequence of a[:i] and b[:j + 1] is one longer than that
    of a[:i] and b[:j]. Only every √n-th vector is stored; the others are computed again on the way
    back.
    """
    if not a or not b:
        return []
    step = isqrt(len(a)) + 1
    table = _BitTable(b)
    stored = [table.start]
    for first in range(0, len(a) - step, step):
        stored.append(table.vectors(stored[-1], a[first : first + step])[-1])
    pairs: list[Pair] = []
    column = len(b)
    for block in reversed(range(len(stored))):
        first = block * step
        vectors = table.vectors(stored[block], a[first : first + step])
        for row in reversed(range(1, len(vectors))):
            # The largest column up to this one whose bit is clear.
            column = (~vectors[row] & ((1 << column) - 1)).bit_length()
            if column == 0:
                return pairs
            # Clear here and set in the vector before: a[row - 1] lengthened the subsequence.
            if vectors[row - 1] >> (column - 1) & 1:
                column -= 1
                pairs.append((first + row - 1, column))
    return pairs


class _BitTable:
    """Computes the bit vectors of one side from the positions of its elements."""

    def __init__(self, elements: Sequence[Hashable]) -> None:
        self.start = (1 << len(elements)) - 1
        self._positions: dict[Hashable, int] = {}
        for index, element in enumerate(elements):
            self._positions[element] = self._positions.get(element, 0) | 1 << index

    def vectors(self, vector: int, elements: Sequence[Hashable]) -> list[int]:
        """Return the given vector, followed by the vector after each of the elements."""
        vectors = [vector]
        for element in elements:
            matches = vector & self._positions.get(element, 0)
            vector = ((vector + matches) | (vector - matches)) & self.start
            vectors.append(vector)
        return vectors
