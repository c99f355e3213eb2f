"""One followed session: what its listener was told, and what has become of it since.

Messages are read anew when a file has changed, and compared with a mark of every message told. A
message is told when another one follows it or when its files have been quiet for a second: until
then an answer may grow, a prompt may turn out to be injected, a file may be half rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from amux.adapters._base import Adapter
from amux.assembly.assemble import Assembly, message_sources
from amux.assembly.session import AssembledSession
from amux.host import Host
from amux.model.base import encode_json
from amux.model.change import ChangeKind, SessionChange
from amux.model.ids import unified_id
from amux.model.message import SessionMessage, SessionToolCall
from amux.model.problems import Problem
from amux.reading.fingerprint import Fingerprints
from amux.reading.messages import read_messages

SETTLE_S: Final = 1.0
"""Files that have not changed for so long hold nothing half-written."""

REST: Final = 4
"""After reading, a session is left alone for so many times as long as that took."""

MessageDigest = tuple[str, bytes]
"""Which message it is, and what it says."""


@dataclass(slots=True, frozen=True)
class _ReadMessages:
    """The messages as they are now, and what could not be read."""

    messages: Sequence[SessionMessage]
    digests: Sequence[MessageDigest]
    problems: Sequence[Problem]

    @property
    def is_blind(self) -> bool:
        """Whether messages are missing because they could not be seen."""
        closed = any(problem.code == "unreadable" for problem in self.problems)
        return closed or (bool(self.problems) and not self.messages)


class FollowedSession:
    """A session that is followed, or one of its sub-agents."""

    def __init__(
        self, adapter: Adapter, host: Host, assembly: Assembly, session: AssembledSession
    ) -> None:
        self._adapter = adapter
        self._host = host
        self._assembly, self._session = assembly, session
        self._told: list[MessageDigest] = []
        self._told_problems: set[Problem] = set()
        self._states: list[bytes] | None = None
        self._is_there = True
        self._changed_at = 0.0
        self._is_unread = False
        self._rest_until = 0.0
        self._found: _ReadMessages | None = None  # not told to the end yet

    def update(self, assembly: Assembly, session: AssembledSession) -> None:
        """Go on with what is known of the session now: its sources may be others."""
        self._assembly, self._session = assembly, session

    def mark_all_reported(self, fingerprints: Fingerprints) -> None:
        """Take everything that is there for told."""
        self._notice_changes(fingerprints)
        found = self._read()
        self._told[:] = found.digests
        self._told_problems.update(found.problems)

    def poll(self, fingerprints: Fingerprints) -> list[SessionChange]:
        """What is to be told now."""
        self._notice_changes(fingerprints)
        now = self._host.clock.elapsed()
        if self._is_unread and self._is_there and now >= self._rest_until:
            self._found = self._read()
        if self._found is None:
            return []
        is_settled = now >= self._changed_at + SETTLE_S
        changes = self._compare(self._found, is_settled=is_settled)
        if is_settled:
            self._found = None
        return changes

    def next_due(self) -> float | None:
        """When there will be something to tell even if nothing changes any more."""
        if self._found is not None:
            return self._changed_at + SETTLE_S
        return self._rest_until if self._is_unread and self._is_there else None

    def ended(self) -> SessionChange:
        """The session is gone."""
        return self._change("ended")

    def _notice_changes(self, fingerprints: Fingerprints) -> None:
        parts = self._assembly.source_path(self._session)
        now = [fingerprints.of(part.source) for part, _ in parts]
        states = [each.state for each in now]
        if states != self._states:
            self._states, self._is_unread = states, True
            self._is_there = all(each.exists for each in now)  # else: moved, replaced or deleted
            self._changed_at = self._host.clock.elapsed()
        elif b"" in states:  # an adapter that cannot tell
            self._is_unread = True

    def _read(self) -> _ReadMessages:
        began = self._host.clock.elapsed()
        messages: list[SessionMessage] = []
        problems: list[Problem] = []
        conversation = message_sources(self._assembly, self._session)
        items = read_messages(self._adapter, conversation, want="all")
        for item in items:
            if isinstance(item, SessionMessage):
                messages.append(item)
            elif item.code != "torn-tail":  # it is still being written
                problems.append(item)
        messages = _without_repeated_outputs(messages)
        marks = [_digest(message, number) for number, message in enumerate(messages)]
        now = self._host.clock.elapsed()
        self._rest_until = now + REST * (now - began)
        self._is_unread = False
        return _ReadMessages(messages, marks, problems)

    def _compare(self, found: _ReadMessages, *, is_settled: bool) -> list[SessionChange]:
        if found.is_blind:
            return self._tell_problems(found.problems) if is_settled else []
        changes: list[SessionChange] = []
        kept = _common_length(self._told, found.digests)
        if kept < len(self._told):
            if not is_settled:
                return []  # the file may be in the middle of being rewritten
            del self._told[kept:]
            changes.append(self._change("replaced", number=kept + 1))
        sure = len(found.messages) if is_settled else len(found.messages) - 1
        for index in range(max(sure, 0)):
            changes += self._tell(index, found)
        if is_settled:
            changes += self._tell_problems(found.problems)
        return changes

    def _tell(self, index: int, found: _ReadMessages) -> list[SessionChange]:
        mark = found.digests[index]
        is_new = index == len(self._told)
        if not is_new and self._told[index] == mark:
            return []
        self._told[index : index + 1] = [mark]
        kind: ChangeKind = "message" if is_new else "updated-message"
        return [self._change(kind, number=index + 1, message=found.messages[index])]

    def _tell_problems(self, problems: Iterable[Problem]) -> list[SessionChange]:
        new = [each for each in dict.fromkeys(problems) if each not in self._told_problems]
        self._told_problems.update(new)
        return [self._change("problem", problem=problem) for problem in new]

    def _change(
        self,
        kind: ChangeKind,
        *,
        number: int | None = None,
        message: SessionMessage | None = None,
        problem: Problem | None = None,
    ) -> SessionChange:
        session = self._session
        return SessionChange(
            kind=kind,
            agent=session.agent,
            session_id=session.session_id,
            unified_id=unified_id(session.agent, session.session_id),
            at=self._host.now(),
            number=number,
            message=message,
            problem=problem,
            parent=session.parent if session.kind == "subagent" else None,
        )


def _common_length(told: Sequence[MessageDigest], found: Sequence[MessageDigest]) -> int:
    """How many messages from the beginning are still the same ones, whatever they say now."""
    length = 0
    for (one, _), (other, _) in zip(told, found, strict=False):
        if one != other:
            break
        length += 1
    return length


def _digest(message: SessionMessage, number: int) -> MessageDigest:
    name = message.id if message.id is not None else f"{number} {message.role}"
    return name, blake2b(encode_json(message), digest_size=16).digest()


def _without_repeated_outputs(messages: Sequence[SessionMessage]) -> list[SessionMessage]:
    """Leave a tool's output to its own message: else every result would change the call too."""
    answered = {each.tool_result.tool_call_id for each in messages if each.tool_result is not None}

    def bare(call: SessionToolCall) -> SessionToolCall:
        if call.tool_call_id not in answered:
            return call
        return msgspec.structs.replace(call, output=None, is_error=None)

    return [
        msgspec.structs.replace(message, tool_calls=tuple(map(bare, message.tool_calls)))
        if message.tool_calls
        else message
        for message in messages
    ]
