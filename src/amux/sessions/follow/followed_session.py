"""State of one followed session: which messages were reported, and with which content.

After a change of the files, all messages are read again and compared with the digests of those
reported. A message is reported when another one follows it, or when its files have not changed for
a second: until then an answer may grow, a prompt may prove to be injected, a file may be half
rewritten.
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
"""Files that have not changed for this many seconds are complete."""

REST: Final = 4
"""After reading, a session is not read again for this many times the duration of the reading."""

MessageDigest = tuple[str, bytes]
"""The identity of a message and a hash of its content."""


@dataclass(slots=True, frozen=True)
class _ReadMessages:
    """The current messages, and the problems of reading them."""

    messages: Sequence[SessionMessage]
    digests: Sequence[MessageDigest]
    problems: Sequence[Problem]

    @property
    def is_incomplete(self) -> bool:
        """Whether messages are missing because a source could not be read."""
        is_unreadable = any(problem.code == "unreadable" for problem in self.problems)
        return is_unreadable or (bool(self.problems) and not self.messages)


class FollowedSession:
    """A followed session, or one of its sub-agents."""

    def __init__(
        self, adapter: Adapter, host: Host, assembly: Assembly, session: AssembledSession
    ) -> None:
        self._adapter = adapter
        self._host = host
        self._assembly, self._session = assembly, session
        self._reported: list[MessageDigest] = []
        self._reported_problems: set[Problem] = set()
        self._states: list[bytes] | None = None
        self._is_there = True
        self._changed_at = 0.0
        self._is_unread = False
        self._rest_until = 0.0
        self._found: _ReadMessages | None = None  # not completely reported yet

    def update(self, assembly: Assembly, session: AssembledSession) -> None:
        """Continue with a new assembly of the session, which may have other sources."""
        self._assembly, self._session = assembly, session

    def mark_all_reported(self, fingerprints: Fingerprints) -> None:
        """Treat all current messages and problems as reported."""
        self._notice_changes(fingerprints)
        found = self._read()
        self._reported[:] = found.digests
        self._reported_problems.update(found.problems)

    def poll(self, fingerprints: Fingerprints) -> list[SessionChange]:
        """Return the changes to report now."""
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
        """Return when to poll next even if no file changes; None if that is not needed."""
        if self._found is not None:
            return self._changed_at + SETTLE_S
        return self._rest_until if self._is_unread and self._is_there else None

    def ended(self) -> SessionChange:
        """Return the change that reports the end of the session."""
        return self._change("ended")

    def _notice_changes(self, fingerprints: Fingerprints) -> None:
        parts = self._assembly.source_path(self._session)
        now = [fingerprints.of(part.source) for part, _ in parts]
        states = [each.state for each in now]
        if states != self._states:
            self._states, self._is_unread = states, True
            self._is_there = all(each.exists for each in now)  # else: moved, replaced or deleted
            self._changed_at = self._host.clock.elapsed()
        elif b"" in states:  # the adapter cannot tell whether the source has changed
            self._is_unread = True

    def _read(self) -> _ReadMessages:
        began = self._host.clock.elapsed()
        messages: list[SessionMessage] = []
        problems: list[Problem] = []
        sources = message_sources(self._assembly, self._session)
        for item in read_messages(self._adapter, sources, want="all"):
            if isinstance(item, SessionMessage):
                messages.append(item)
            elif item.code != "torn-tail":  # it is still being written
                problems.append(item)
        messages = _without_repeated_outputs(messages)
        digests = [_digest(message, number) for number, message in enumerate(messages)]
        now = self._host.clock.elapsed()
        self._rest_until = now + REST * (now - began)
        self._is_unread = False
        return _ReadMessages(messages, digests, problems)

    def _compare(self, found: _ReadMessages, *, is_settled: bool) -> list[SessionChange]:
        if found.is_incomplete:
            return self._report_problems(found.problems) if is_settled else []
        changes: list[SessionChange] = []
        common = _common_length(self._reported, found.digests)
        if common < len(self._reported):
            if not is_settled:
                return []  # the file may be in the middle of being rewritten
            del self._reported[common:]
            changes.append(self._change("replaced", number=common + 1))
        complete = len(found.messages) if is_settled else len(found.messages) - 1
        for index in range(max(complete, 0)):
            digest, is_new = found.digests[index], index == len(self._reported)
            if is_new or self._reported[index] != digest:
                self._reported[index : index + 1] = [digest]
                kind: ChangeKind = "message" if is_new else "updated-message"
                changes.append(self._change(kind, number=index + 1, message=found.messages[index]))
        if is_settled:
            changes += self._report_problems(found.problems)
        return changes

    def _report_problems(self, problems: Iterable[Problem]) -> list[SessionChange]:
        new = [each for each in dict.fromkeys(problems) if each not in self._reported_problems]
        self._reported_problems.update(new)
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


def _common_length(reported: Sequence[MessageDigest], found: Sequence[MessageDigest]) -> int:
    """Return how many messages at the beginning are identical, even if their content changed."""
    pairs = enumerate(zip(reported, found, strict=False))
    changed = (index for index, ((one, _), (other, _)) in pairs if one != other)
    return next(changed, min(len(reported), len(found)))


def _digest(message: SessionMessage, number: int) -> MessageDigest:
    name = message.id if message.id is not None else f"{number} {message.role}"
    return name, blake2b(encode_json(message), digest_size=16).digest()


def _without_repeated_outputs(messages: Sequence[SessionMessage]) -> list[SessionMessage]:
    """Remove outputs that have their own message: else each result would change its call, too."""
    answered = {each.tool_result.tool_call_id for each in messages if each.tool_result is not None}

    def without_output(call: SessionToolCall) -> SessionToolCall:
        if call.tool_call_id not in answered:
            return call
        return msgspec.structs.replace(call, output=None, is_error=None)

    return [
        msgspec.structs.replace(message, tool_calls=tuple(map(without_output, message.tool_calls)))
        if message.tool_calls
        else message
        for message in messages
    ]
