"""The conversations of one file, the assignment of lines to them, and their facts.

Older versions wrote sub-agents into the file of the session that started them (sidechains). The
state of a transcript is plain data, so it can be serialized and resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from amux.adapters._base import SourceRef
from amux.adapters._kit.fold import MAX_PROBLEMS
from amux.adapters.claude.conversation import Conversation
from amux.adapters.claude.records import (
    AnyTextLine,
    Block,
    Entry,
    Line,
    TextBlock,
    content_blocks,
    text_of,
)
from amux.model.facts import Facts
from amux.model.problems import Problem

_BAD: Final = frozenset({"bad-line", "bad-record"})


class Transcript(msgspec.Struct):
    """The session of a file, and its sidechains in order of appearance."""

    main: Conversation
    sidechains: list[Conversation] = []
    sidechain_of: dict[str, int] = {}  # keyed by line id or agent id
    has_records: bool = False
    problems: list[Problem] = []
    problem_count: int = 0

    @property
    def is_foreign(self) -> bool:
        """Whether the file has lines, but none is a record of Claude Code."""
        return not self.has_records and any(problem.code in _BAD for problem in self.problems)

    def route(self, entry: Entry) -> int | None:
        """Return the number of the sidechain a line belongs to; None for the session itself."""
        self.has_records = True
        if entry.line.is_sidechain is True and self.main.call_state.purpose == "main":
            count, blocks = len(self.sidechains), content_blocks(entry.line)
            number = sidechain_number(self.sidechain_of, count, entry.line, blocks)
            if number == count:
                agent_id = text_of(entry.line.agent_id)
                self.sidechains.append(Conversation.begin("subagent", agent_id=agent_id))
            return number
        return None

    def conversation(self, number: int | None) -> Conversation:
        """Return the conversation with this number; None is the session itself."""
        return self.main if number is None else self.sidechains[number]

    def unclaimed_results(self) -> list[int]:
        """Return the lines of the tool results whose calls have not come."""
        every = (self.main, *self.sidechains)
        return sorted(line for one in every for line in one.call_state.tools.unclaimed.values())

    def note(self, problem: Problem) -> None:
        """Count a problem, and store it unless there are too many."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def settle(self) -> None:
        """Replace decoded values of unknown type, so that the state can be serialized."""
        for conversation in (self.main, *self.sidechains):
            conversation.settle()


def sidechain_number(
    number_of: dict[str, int],
    count: int,
    line: Line | AnyTextLine,
    blocks: Sequence[Block | TextBlock],
) -> int:
    """Return the number of a line's sidechain, and record it; `count` if the line begins one.

    `number_of` is keyed by agent id and line id, because sidechains may run in parallel.
    """
    agent_id = text_of(line.agent_id)
    number = number_of.get(agent_id or text_of(line.parent_uuid) or "")
    if number is None:
        begins_task = line.type == "user" and all(block.type != "tool_result" for block in blocks)
        # A step of the work of a sub-agent whose parent line could not be read
        is_continued = count > 0 and agent_id is None and not begins_task
        number = count - 1 if is_continued else count
    for key in (agent_id, text_of(line.uuid)):
        if key is not None:
            number_of[key] = number
    return number


AGENT_PREFIX: Final = "agent-"


def own_id(source: SourceRef) -> str:
    """Return the id of the session that the file belongs to."""
    return source.session_id or source.path.stem.removeprefix(AGENT_PREFIX)


class TranscriptFacts:
    """Builds the ids and the facts of the sessions in one file."""

    def __init__(self, source: SourceRef, session_id: str, transcript: Transcript) -> None:
        self._source = source
        self._id = session_id
        self._transcript = transcript

    def facts(self) -> Iterator[Facts]:
        """Yield the facts of the file's session, then those of its sidechains."""
        yield self.main()
        for number in range(len(self._transcript.sidechains)):
            yield self.sidechain(number)

    def main(self) -> Facts:
        """Return the facts of the file's session; without a conversation only its title notes."""
        if self._transcript.main.call_state.has_messages:
            return self._facts_of(self._transcript.main, self._id, inline=False)
        return Facts(
            session_id=self._id,
            addressable=False,
            attributed=False,
            notes=tuple(self._transcript.main.description.notes),
            problems=tuple(self._transcript.problems),
            problem_count=self._transcript.problem_count,
        )

    def sidechain(self, number: int) -> Facts:
        """Return the facts of a sidechain, counted from 0."""
        return self._facts_of(
            self._transcript.sidechains[number], self.sidechain_id(number), inline=True
        )

    def sidechain_id(self, number: int) -> str:
        """Return the agent id of a sidechain, or a generated id: most have none."""
        agent_id = self._transcript.sidechains[number].agent_id
        return agent_id or f"{self._id}/sidechain-{number + 1}"

    def _facts_of(self, one: Conversation, session_id: str, *, inline: bool) -> Facts:
        origin, call_state, description = one.origin, one.call_state, one.description
        is_agent = call_state.purpose == "subagent"
        copied_from = None if is_agent else origin.parent(session_id)
        is_fork = is_agent or copied_from is not None
        if not is_agent:
            parent = copied_from
        elif call_state.warm_up:
            parent = None
        else:
            parent = self._id if inline else self._source.parent or origin.first_session
        purpose = "warm-up" if call_state.warm_up else call_state.purpose
        has_id = not (inline and session_id.startswith(f"{self._id}/"))
        return Facts(
            session_id=session_id,
            aliases=(f"{AGENT_PREFIX}{session_id}",) if is_agent and has_id else (),
            kind="subagent" if is_agent else "fork" if copied_from else "session",
            copy_kind=origin.copy_kind(),
            parent=parent,
            cwd=origin.cwd,
            name=description.name,
            first_prompt=description.first_prompt,
            fallback_title=description.commands.title,
            created_at=origin.created_at,
            updated_at=description.updated,
            version=origin.version,
            addressable=has_id,
            attributed=not call_state.warm_up,
            trace=description.trace(),
            calls=call_state.book.settled(purpose) or origin.costs.as_calls(session_id),
            models=tuple(call_state.models),
            copy_keys=bytes(call_state.identity),
            unnamed_copies=not is_agent,
            compactions=call_state.compactions,
            gaps=call_state.gaps,
            native_nusd=origin.native_nusd(is_fork=is_fork),
            native_tokens=origin.native_tokens(is_fork=is_fork),
            notes=tuple(description.notes),
            problems=() if inline else tuple(self._transcript.problems),
            problem_count=0 if inline else self._transcript.problem_count,
            raw=description.raw(),
        )
