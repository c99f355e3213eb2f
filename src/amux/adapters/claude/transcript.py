"""The conversations of one file, and which of them a line belongs to.

Older versions wrote sub-agents into the file of the session that started them. A transcript is
plain data: written down, it can be taken up again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from amux.adapters._kit.fold import MAX_PROBLEMS
from amux.adapters.claude.conversation import Conversation
from amux.adapters.claude.records import Entry, content_blocks, text_of
from amux.model.problems import Problem

_BAD: Final = frozenset({"bad-line", "bad-record"})


class Transcript(msgspec.Struct):
    """The session of a file, and its sidechains in order of appearance."""

    main: Conversation
    sidechains: list[Conversation] = []
    sidechain_of: dict[str, int] = {}  # by line or agent id
    has_records: bool = False
    problems: list[Problem] = []
    problem_count: int = 0

    @property
    def is_foreign(self) -> bool:
        """Whether there are lines, and none is a record of Claude Code."""
        return not self.has_records and any(problem.code in _BAD for problem in self.problems)

    def place_of(self, entry: Entry) -> int | None:
        """The number of the sidechain that the next line belongs to; None: the session itself."""
        self.has_records = True
        if entry.line.is_sidechain is True and self.main.tally.purpose == "main":
            return self._route(entry)
        return None

    def conversation(self, place: int | None) -> Conversation:
        """The conversation at a place."""
        return self.main if place is None else self.sidechains[place]

    def note(self, problem: Problem) -> None:
        """Keep a problem, up to a bound."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def settle(self) -> None:
        """Leave nothing in it that is still as it was read."""
        for conversation in (self.main, *self.sidechains):
            conversation.settle()

    def _route(self, entry: Entry) -> int:
        """Sidechains may run side by side: an agent id or the parent line tells them apart."""
        agent_id = text_of(entry.line.agent_id)
        parent = text_of(entry.line.parent_uuid)
        found = self.sidechain_of.get(agent_id or parent or "")
        if found is None and self.sidechains and agent_id is None and not _begins_task(entry):
            found = len(self.sidechains) - 1  # the line it follows could not be read
        if found is None:
            found = self._open(agent_id)
        if (uuid := text_of(entry.line.uuid)) is not None:
            self.sidechain_of[uuid] = found
        return found

    def _open(self, agent_id: str | None) -> int:
        told = self.main.story is not None
        number = len(self.sidechains)
        self.sidechains.append(Conversation.begin("subagent", told=told, agent_id=agent_id))
        if agent_id is not None:
            self.sidechain_of[agent_id] = number
        return number


def _begins_task(entry: Entry) -> bool:
    """Whether a line is what a sub-agent was asked, rather than a step of its work."""
    blocks = content_blocks(entry.line)
    return entry.line.type == "user" and not any(block.type == "tool_result" for block in blocks)
