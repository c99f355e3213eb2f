"""What the index keeps of sessions, brought up to date before it is given.

Everything here may raise IndexUnavailableError; whoever asks reads the sources instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from amux.index.answers import Answers
from amux.index.census import Counted, take_census
from amux.index.reading import Depth, total_size
from amux.index.results import Made
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.sessions.assemble import Assembly
from amux.sessions.choosing import leaves_out
from amux.sessions.costing import Coster
from amux.sessions.indexed import IndexedAgent, Make
from amux.sessions.library import Library
from amux.sessions.listing import ListReport
from amux.sessions.looks import Looks
from amux.sessions.rows import decode_problems, make_rows, report_of, wanted_rows

if TYPE_CHECKING:
    from amux.adapters._base import SourceRef
    from amux.index.answers import Kind
    from amux.index.sources import Watch
    from amux.index.store import Store
    from amux.sessions.kept import KeptSession, Shelf

_LITTLE = 4 << 20
_MUCH = 128 << 20

Stale = Mapping[str, IndexedAgent | None]
"""Agents whose results have to be looked at; None: they still hold."""


class Keeper:
    """The index of one home. `watch` is told how far reading has come."""

    def __init__(
        self, library: Library, store: Store, basis: Callable[[], bytes], *, max_age: float = 0.0
    ) -> None:
        self.store = store
        self.basis = basis
        self.looks = Looks(max_age)
        self.watch: Watch | None = None
        self._library = library
        self._shelf: Shelf | None = None

    def sources(
        self, agent: str, sources: Sequence[SourceRef], *, usage_only: bool
    ) -> IndexedAgent:
        """The sources of one agent, read as far as needed."""
        indexed = IndexedAgent(self._library, self.store, agent, sources)
        if indexed.has_sources or self.store.exists():
            indexed.update(Depth.USAGE if usage_only else Depth.FACTS, watch=self.watch)
        return indexed

    def assembly_of(self, agent: str, session_id: str) -> Assembly | None:
        """One session with all that bears on it; None: it is read sooner without the index."""
        if not self.store.exists():
            return None
        indexed = IndexedAgent(self._library, self.store, agent)
        if indexed.waiting(Depth.FACTS) > _LITTLE:
            return None
        indexed.update(Depth.FACTS)
        return indexed.assembly_of(session_id)

    def payloads(self, agent: str, kind: Kind, encode: Callable[[Assembly], bytes]) -> list[bytes]:
        """What the sessions of an agent come to, still encoded."""
        indexed = self._stale(agent, kind)
        return self._bring_up(agent, kind, lambda some: Made(payload=encode(some)), indexed)

    def census(self, agent: str, coster: Coster) -> Counted:
        """How many sessions an agent has."""
        self.bring_up_rows((agent,), coster)
        return take_census(self.store, agent)

    def bring_up_rows(self, agents: Sequence[str], coster: Coster) -> list[bytes]:
        """Bring the rows of some agents up to date; the problems met, still encoded."""
        return self._bring_up_rows(self._stale_rows(agents), coster)

    def list_rows(
        self, agents: Sequence[str], options: SessionListOptions, coster: Coster
    ) -> ListReport | None:
        """A list of rows; None when so much would have to be indexed first that a choice is sooner.

        Such an index is made by whoever needs all of it: a report, a search, `index update`.
        """
        from amux.index.listing import find_summaries

        can_choose = leaves_out(options)
        if can_choose and not self.store.exists() and self._has_much(agents):
            return None
        stale = self._stale_rows(agents)
        if can_choose and self.store.exists() and _lacks_much(stale.values()):
            return None
        problems = self._bring_up_rows(stale, coster)
        if not self.store.exists():
            return ListReport(sessions=())
        rows, omitted = find_summaries(self.store, wanted_rows(agents, options))
        with self.store.guarded():
            return report_of(rows, omitted, problems, coster)

    def remember_everybody(self, agents: Sequence[str]) -> None:
        """Note that these are all agents there are."""
        if self.store.exists():
            Answers(self.store, "sessions", self.basis()).remember_everybody(agents)

    def sessions(
        self, agents: Sequence[str], coster: Coster
    ) -> tuple[Sequence[KeptSession], list[Problem]]:
        """The rows of some agents to be searched, and the problems met."""
        from amux.sessions.kept import Shelf

        payloads = self.bring_up_rows(agents, coster)
        self._shelf = self._shelf or Shelf()
        rows = self._shelf.sessions(self.store, agents, coster) if self.store.exists() else []
        with self.store.guarded():
            return rows, [*decode_problems(payloads)]

    def _stale_rows(self, agents: Sequence[str]) -> Stale:
        return {agent: self._stale(agent, "sessions") for agent in agents}

    def _stale(self, agent: str, kind: Kind) -> IndexedAgent | None:
        answers = Answers(self.store, kind, self.basis(), look=self.looks.state)
        if self.store.exists() and answers.still_hold((agent,), self._library.env):
            return None
        return IndexedAgent(self._library, self.store, agent)

    def _has_much(self, agents: Sequence[str]) -> bool:
        """Whether the sources of these agents are large; looks no further than it has to."""
        size = 0
        for agent in agents:
            for source in self._library.sources(agent):
                size += total_size((source,))
                if size > _MUCH:
                    return True
        return False

    def _bring_up_rows(self, stale: Stale, coster: Coster) -> list[bytes]:
        def make(assembly: Assembly) -> Made:
            return make_rows(assembly, coster)

        return [
            problem
            for agent, indexed in stale.items()
            for problem in self._bring_up(agent, "sessions", make, indexed)
        ]

    def _bring_up(
        self, agent: str, kind: Kind, make: Make, indexed: IndexedAgent | None
    ) -> list[bytes]:
        """Results of one kind, up to date: what is kept besides rows. None `indexed`: they hold.

        What they rest on is noted, for the quick way next time.
        """
        basis = self.basis()
        answers = Answers(self.store, kind, basis)
        if indexed is None:
            return answers.payloads((agent,))
        if not indexed.has_sources and not self.store.exists():
            return []  # nobody is here: leave no trace of having looked
        depth = Depth.FACTS if kind == "sessions" else Depth.USAGE
        indexed.update(depth, watch=self.watch, make=make)
        indexed.bring_up(kind, basis, make)
        self.looks.forget()
        answers.remember(
            agent, indexed.snapshot, roots=indexed.roots, files=indexed.files, env=indexed.env
        )
        return answers.payloads((agent,))


def _lacks_much(stale: Iterable[IndexedAgent | None]) -> bool:
    return sum(one.waiting(Depth.FACTS) for one in stale if one is not None) > _MUCH
