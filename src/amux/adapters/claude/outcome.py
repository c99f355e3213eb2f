"""What a transcript says of its sessions, once it has been read: their facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from amux.adapters._base import SourceRef
from amux.adapters.claude.conversation import Conversation
from amux.adapters.claude.story import Story
from amux.adapters.claude.transcript import Transcript
from amux.model.facts import Facts

AGENT_PREFIX: Final = "agent-"
_UNTOLD: Final = Story()


def own_id(source: SourceRef) -> str:
    """The id of the session whose file it is."""
    return source.session_id or source.path.stem.removeprefix(AGENT_PREFIX)


class Outcome:
    """The sessions of one file: their names, and the facts of each."""

    def __init__(self, source: SourceRef, session_id: str, transcript: Transcript) -> None:
        self._source = source
        self._id = session_id
        self._transcript = transcript

    def facts(self) -> Iterator[Facts]:
        """Those of the file's session, then those of its sidechains."""
        yield self.main()
        for number in range(len(self._transcript.sidechains)):
            yield self.sidechain(number)

    def main(self) -> Facts:
        """The file's own session; without a conversation, only what it says about others."""
        if self._transcript.main.tally.has_messages:
            return self._facts_of(self._transcript.main, self._id, inline=False)
        return Facts(
            session_id=self._id,
            addressable=False,
            attributed=False,
            notes=tuple((self._transcript.main.story or _UNTOLD).notes),
            problems=tuple(self._transcript.problems),
            problem_count=self._transcript.problem_count,
        )

    def sidechain(self, number: int) -> Facts:
        """One of its sidechains, counted from 0."""
        return self._facts_of(
            self._transcript.sidechains[number], self.sidechain_id(number), inline=True
        )

    def sidechain_id(self, number: int) -> str:
        """The id of a sidechain; most have none of their own."""
        agent_id = self._transcript.sidechains[number].agent_id
        return agent_id or f"{self._id}/sidechain-{number + 1}"

    def _facts_of(self, one: Conversation, session_id: str, *, inline: bool) -> Facts:
        ledger, tally, story = one.ledger, one.tally, one.story or _UNTOLD
        is_agent = tally.purpose == "subagent"
        copied_from = None if is_agent else ledger.parent(session_id)
        has_id = not (inline and session_id.startswith(f"{self._id}/"))
        return Facts(
            session_id=session_id,
            aliases=(f"{AGENT_PREFIX}{session_id}",) if is_agent and has_id else (),
            kind="subagent" if is_agent else "fork" if copied_from else "session",
            copy_kind=ledger.copy_kind(),
            parent=self._parent_of(one, inline=inline) if is_agent else copied_from,
            cwd=ledger.cwd,
            name=story.name,
            first_prompt=story.first_prompt,
            fallback_title=story.first_command,
            created_at=ledger.created_at,
            updated_at=story.updated,
            version=ledger.version,
            addressable=has_id,
            attributed=not tally.warm_up,
            trace=story.trace(),
            calls=tally.settled_calls() or ledger.costs.as_calls(session_id),
            models=tuple(tally.models),
            identity=bytes(tally.identity),
            unnamed_copies=not is_agent,
            compactions=tally.compactions,
            gaps=tally.gaps,
            native_nusd=ledger.native_nusd(is_fork=is_agent or copied_from is not None),
            notes=tuple(story.notes),
            problems=() if inline else tuple(self._transcript.problems),
            problem_count=0 if inline else self._transcript.problem_count,
            raw=story.raw(),
        )

    def _parent_of(self, agent: Conversation, *, inline: bool) -> str | None:
        """Who started a sub-agent; a warm-up was started by nobody."""
        if agent.tally.warm_up:
            return None
        return self._id if inline else self._source.parent or agent.ledger.first_session
