"""Reads one transcript file: its session, and the sidechains older versions wrote into it.

Nothing is yielded for a file without a conversation but facts that hold its notes: such files exist
(killed in the first turn, or only titles of other sessions) and are no sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from amux.adapters._base import Head, Item, SourceRef, Want, has_bodies
from amux.adapters._claude.chain import Chain
from amux.adapters._claude.ledger import Ledger
from amux.adapters._claude.records import LINES, Entry, content_blocks, text_of
from amux.adapters._kit.fold import MAX_PROBLEMS
from amux.adapters._kit.jsonl import read_records
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.usage import Call

AGENT_PREFIX: Final = "agent-"
_BAD: Final = frozenset({"bad-line", "bad-record"})


class Sidechain:
    """A sub-agent's conversation inside the file of the session that started it."""

    def __init__(self, chain: Chain, agent_id: str | None) -> None:
        self.chain = chain
        self.ledger = Ledger()
        self.agent_id = agent_id
        self.messages: list[SessionMessage] = []


class TranscriptReader:
    """One pass over one file."""

    def __init__(self, source: SourceRef, *, want: Want, only: str | None) -> None:
        self._source = source
        self._is_agent = source.role == "subagent"
        self._id = source.session_id or source.path.stem.removeprefix(AGENT_PREFIX)
        self._own_id = None if self._is_agent else self._id  # sub-agents name their parent
        self._with_bodies = has_bodies(want)
        self._cut_texts = want != "all"
        self._only = only
        self._found: list[Problem] = []
        self._problems: list[Problem] = []
        self._problem_count = 0
        self._records = 0
        self._ledger = Ledger()
        self._main = self._chain(wanted=self._is_wanted(self._id))
        self._sidechains: list[Sidechain] = []
        self._sidechain_of: dict[str, Sidechain] = {}

    def items(self) -> Iterator[Item]:
        """The session of the file, then its sidechains."""
        began = False
        for item in self._main_items():
            if not began and not isinstance(item, Problem):
                yield Head(session_id=self._id)
                began = True
            yield item
        if self._is_wanted(self._id):
            yield from self._finish(began=began)
        for number, sidechain in enumerate(self._sidechains, start=1):
            yield from self._sidechain_items(sidechain, number)

    def _main_items(self) -> Iterator[SessionMessage | Problem]:
        for record in read_records(self._source.path, LINES, cut_texts=self._cut_texts):
            if isinstance(record, Problem):
                self._on_problem(record)
            else:
                yield from self._take(Entry(*record, session_id=self._own_id))
            if self._found:
                yield from self._drain()
        for sidechain in self._sidechains:
            sidechain.messages.extend(sidechain.chain.flush())
        yield from self._main.flush()
        if not self._records and any(problem.code in _BAD for problem in self._problems):
            message = "no line of the file is a record of Claude Code"
            self._on_problem(Problem(code="unknown-format", message=message))
        yield from self._drain()

    def _take(self, entry: Entry) -> Sequence[SessionMessage]:
        self._records += 1
        if entry.line.is_sidechain is True and not self._is_agent:
            sidechain = self._route(entry)
            sidechain.ledger.take(entry)
            sidechain.messages.extend(sidechain.chain.take(entry))
            return ()
        self._ledger.take(entry)
        return self._main.take(entry)

    def _route(self, entry: Entry) -> Sidechain:
        """Sidechains may run side by side: an agent id or the parent line tells them apart."""
        agent_id = text_of(entry.line.agent_id)
        parent = text_of(entry.line.parent_uuid)
        found = self._sidechain_of.get(agent_id or parent or "")
        if found is None and self._sidechains and agent_id is None and not _begins_task(entry):
            found = self._sidechains[-1]  # the line it follows could not be read
        if found is None:
            found = self._open_sidechain(agent_id)
        if entry.uuid is not None:
            self._sidechain_of[entry.uuid] = found
        return found

    def _open_sidechain(self, agent_id: str | None) -> Sidechain:
        name = self._sidechain_id(agent_id, len(self._sidechains) + 1)
        chain = self._chain(wanted=self._is_wanted(name), inline=True)
        sidechain = Sidechain(chain, agent_id)
        self._sidechains.append(sidechain)
        if agent_id is not None:
            self._sidechain_of[agent_id] = sidechain
        return sidechain

    def _sidechain_id(self, agent_id: str | None, number: int) -> str:
        return agent_id or f"{self._id}/sidechain-{number}"

    def _sidechain_items(self, sidechain: Sidechain, number: int) -> Iterator[Item]:
        name = self._sidechain_id(sidechain.agent_id, number)
        if not self._is_wanted(name):
            return
        facts = self._facts_of(sidechain.chain, sidechain.ledger, name)
        yield Head(session_id=name)
        yield from sidechain.messages
        yield from facts.calls
        yield facts

    def _finish(self, *, began: bool) -> Iterator[Head | Call | Facts]:
        if not self._main.has_messages:
            yield self._notes_only()
            return
        facts = self._facts_of(self._main, self._ledger, self._id)
        if not began:
            yield Head(session_id=self._id)
        yield from facts.calls
        yield facts

    def _chain(self, *, wanted: bool, inline: bool = False) -> Chain:
        return Chain(
            "subagent" if inline or self._is_agent else "main",
            with_bodies=self._with_bodies and wanted,
            on_problem=self._on_problem,
        )

    def _is_wanted(self, session_id: str) -> bool:
        return self._only in {None, session_id, f"{AGENT_PREFIX}{session_id}"}

    def _on_problem(self, problem: Problem) -> None:
        located = msgspec.structs.replace(problem, path=str(self._source.path))
        self._found.append(located)
        self._problem_count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(located)

    def _drain(self) -> Iterator[Problem]:
        yield from self._found
        self._found.clear()

    def _notes_only(self) -> Facts:
        return Facts(
            session_id=self._id,
            addressable=False,
            attributed=False,
            notes=tuple(self._ledger.notes),
            problems=tuple(self._problems),
            problem_count=self._problem_count,
        )

    def _facts_of(self, chain: Chain, ledger: Ledger, session_id: str) -> Facts:
        inline = chain is not self._main
        is_agent = inline or self._is_agent
        copied_from = None if is_agent else ledger.parent(session_id)
        parent = copied_from
        if is_agent and not chain.warm_up:
            parent = self._id if inline else self._source.parent or ledger.first_session
        calls = chain.settled_calls() or ledger.costs.as_calls(session_id)
        has_id = not (inline and session_id.startswith(f"{self._id}/"))
        return Facts(
            session_id=session_id,
            aliases=(f"{AGENT_PREFIX}{session_id}",) if is_agent and has_id else (),
            kind="subagent" if is_agent else "fork" if copied_from else "session",
            copy_kind=ledger.copy_kind(),
            parent=parent,
            cwd=ledger.cwd,
            name=ledger.name,
            first_prompt=chain.first_prompt,
            fallback_title=chain.first_command,
            created_at=ledger.created_at,
            updated_at=ledger.updated_at,
            version=ledger.version,
            addressable=has_id,
            attributed=not chain.warm_up,
            trace=chain.trace(),
            calls=calls,
            models=tuple(chain.models),
            identity=chain.identity(),
            unnamed_copies=not is_agent,
            compactions=chain.compactions,
            gaps=chain.gaps,
            native_nusd=ledger.native_nusd(is_fork=is_agent or copied_from is not None),
            notes=tuple(ledger.notes),
            problems=() if inline else tuple(self._problems),
            problem_count=0 if inline else self._problem_count,
            raw=ledger.raw(),
        )


def _begins_task(entry: Entry) -> bool:
    """Whether a line is what a sub-agent was asked, rather than a step of its work."""
    blocks = content_blocks(entry.line)
    return entry.type == "user" and not any(block.type == "tool_result" for block in blocks)
