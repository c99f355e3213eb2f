"""What the index keeps of sessions, brought up to date before it is given.

Everything here may raise IndexUnavailableError; whoever asks reads the sources instead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from amux.index.answers import Answers, Places
from amux.index.census import Counted, take_census
from amux.index.errors import IndexUnavailableError
from amux.index.fingerprint import state_of_roots
from amux.index.reading import Depth, total_size
from amux.index.results import Made, ResultIndex
from amux.index.snapshot import take_snapshot
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.model.reports import ListReport
from amux.sessions.assemble import Assembly
from amux.sessions.choosing import leaves_out
from amux.sessions.costing import Coster
from amux.sessions.environment import ResultEnvironment
from amux.sessions.indexed import IndexedAgent, Make
from amux.sessions.library import Library
from amux.sessions.looks import Looks
from amux.sessions.rows import decode_problems, make_rows, report_of, wanted_rows

if TYPE_CHECKING:
    from amux.adapters._base import SourceRef
    from amux.index.answers import Kind, Look
    from amux.index.sources import Watch
    from amux.index.store import Store
    from amux.sessions.kept import KeptSession, Shelf

_LITTLE = 4 << 20
_MUCH = 128 << 20
_TRIES = 5  # while other processes write
_CROWDED = "other processes keep changing it"


class _Look(NamedTuple):
    """Agents whose results have to be looked at; None: they still hold.

    `before` is what other processes had written into the index until then.
    """

    before: tuple[int, int] | None
    stale: Mapping[str, IndexedAgent | None]


class Keeper:
    """The index of one home. `watch` is told how far reading has come."""

    def __init__(
        self,
        library: Library,
        store: Store,
        environment: ResultEnvironment,
        *,
        max_age: float = 0.0,
    ) -> None:
        self.store = store
        self.environment = environment
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

    def assembly_of(
        self, agent: str, session_id: str, *, sources: Sequence[SourceRef]
    ) -> Assembly | None:
        """One session with all that bears on it; None: it is read sooner without the index."""
        if not self.store.exists():
            return None
        indexed = IndexedAgent(self._library, self.store, agent, sources)
        if not indexed.catch_up(_LITTLE):
            return None
        return indexed.assembly_of(session_id)

    def payloads(self, agent: str, kind: Kind, encode: Callable[[Assembly], bytes]) -> list[bytes]:
        """What the sessions of an agent come to, still encoded."""

        def make(assembly: Assembly) -> Made:
            return Made(payload=encode(assembly))

        return self._bring_up(agent, kind, make)

    def census(self, agent: str, coster: Coster) -> Counted:
        """How many sessions an agent has."""
        with self._rows_of((agent,), coster):
            return take_census(self.store, agent)

    def bring_up_rows(self, agents: Sequence[str], coster: Coster) -> None:
        """Bring the rows of some agents up to date."""
        self._bring_up_rows(self._look(agents), coster)

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
        look = self._look(agents)
        if can_choose and self.store.exists() and _lacks_much(look.stale.values()):
            return None
        with self._rows_of(agents, coster, look) as problems:
            if not self.store.exists():
                return ListReport(sessions=())
            rows, omitted = find_summaries(self.store, wanted_rows(agents, options))
            return report_of(rows, omitted, problems, coster)

    def store_environment(self, agents: Sequence[str], coster: Coster) -> None:
        """Store the environment and the names of all agents, for the fast list."""
        if self.store.exists():
            self.environment.save(self.store, agents, coster)

    def sessions(
        self, agents: Sequence[str], coster: Coster
    ) -> tuple[Sequence[KeptSession], list[Problem]]:
        """The rows of some agents to be searched, and the problems met."""
        from amux.sessions.kept import Shelf

        self._shelf = self._shelf or Shelf()
        with self._rows_of(agents, coster) as payloads:
            rows = self._shelf.sessions(self.store, agents, coster) if self.store.exists() else []
            return rows, [*decode_problems(payloads)]

    def _look(self, agents: Sequence[str]) -> _Look:
        """Which rows of some agents have to be looked at, and a state of the index before that."""
        before = self.store.foreign_changes() if self.store.exists() else None
        stale = {agent: self._stale(agent, "sessions") for agent in agents}
        if before is None and any(each is not None and each.has_sources for each in stale.values()):
            before = self.store.foreign_changes()
        return _Look(before, stale)

    def _stale(self, agent: str, kind: Kind) -> IndexedAgent | None:
        answers = self._answers(kind, look=self.looks.state)
        if self.store.exists() and answers.still_hold((agent,), self._library.env):
            return None
        return self._indexed(agent)

    def _state_of(self, agent: str, places: Places) -> bytes:
        """The state of an agent as its adapter tells it, to be compared with that of its rows."""
        below = state_of_roots(self._library.adapter(agent), places.roots)
        return below + take_snapshot((), places.files) if below else b""

    def _has_much(self, agents: Sequence[str]) -> bool:
        """Whether the sources of these agents are large; looks no further than it has to."""
        size = 0
        for agent in agents:
            for source in self._library.sources(agent):
                size += total_size((source,))
                if size > _MUCH:
                    return True
        return False

    @contextmanager
    def _rows_of(
        self, agents: Sequence[str], coster: Coster, look: _Look | None = None
    ) -> Generator[list[bytes]]:
        """A state of the index in which the rows of some agents are up to date; problems met.

        Other processes may write while these are brought up to date: then it is done again.
        """
        for _ in range(_TRIES):
            look = look or self._look(agents)
            self._bring_up_rows(look, coster)
            if not self.store.exists():
                yield []
                return
            with self.store.reading():
                if self.store.foreign_changes() == look.before:
                    yield self._answers("sessions").payloads(agents)
                    return
            look = None
        raise IndexUnavailableError(_CROWDED)

    def _bring_up_rows(self, look: _Look, coster: Coster) -> None:
        def make(assembly: Assembly) -> Made:
            return make_rows(assembly, coster)

        waiting = [(agent, indexed) for agent, indexed in look.stale.items() if indexed is not None]
        # Who has nothing is noted as well, unless nobody has anything.
        for agent, indexed in sorted(waiting, key=lambda pair: not pair[1].has_sources):
            self._bring_up(agent, "sessions", make, indexed)

    def _bring_up(
        self, agent: str, kind: Kind, make: Make, indexed: IndexedAgent | None = None
    ) -> list[bytes]:
        """Results of one kind, up to date: what is kept besides rows."""
        for _ in range(_TRIES):
            if indexed is None and self.store.exists():
                with self.store.reading():
                    indexed = self._stale(agent, kind)
                    if indexed is None:
                        return self._answers(kind).payloads((agent,))
            made = self._made_anew(kind, make, indexed or self._indexed(agent))
            if made is not None:
                return made
            indexed = None
        raise IndexUnavailableError(_CROWDED)

    def _made_anew(self, kind: Kind, make: Make, indexed: IndexedAgent) -> list[bytes] | None:
        """The same, brought up to date; None: another process has changed them meanwhile.

        What they rest on is noted, for the quick way next time.
        """
        if not indexed.has_sources and not self.store.exists():
            return []  # nobody is here: leave no trace of having looked
        agent, basis = indexed.agent, self.environment.fingerprint()
        depth = Depth.FACTS if kind == "sessions" else Depth.USAGE
        indexed.update(depth, watch=self.watch, make=make)
        members = indexed.bring_up(kind, basis, self.environment.runs_of(agent), make)
        self.looks.forget()
        answers = self._answers(kind)
        with self.store.writing():
            if not ResultIndex(self.store, agent, kind).are(members, basis):
                return None
            if basis != self.environment.fingerprint():  # another thread has changed a price
                return None
            answers.remember(
                agent, indexed.snapshot, roots=indexed.roots, files=indexed.files, env=indexed.env
            )
            return answers.payloads((agent,))

    def _answers(self, kind: Kind, *, look: Look | None = None) -> Answers:
        environment = self.environment.fingerprint_for
        return Answers(self.store, kind, environment, look=look, ask=self._state_of)

    def _indexed(self, agent: str) -> IndexedAgent:
        return IndexedAgent(self._library, self.store, agent)


def _lacks_much(stale: Iterable[IndexedAgent | None]) -> bool:
    return sum(one.waiting(Depth.FACTS) for one in stale if one is not None) > _MUCH
