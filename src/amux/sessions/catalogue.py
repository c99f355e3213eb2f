"""Many sessions at once: through the index where there is one, else directly. Answers are equal.

Only built-in agents are indexed: what another package's adapter makes of a file may change without
notice. An index that fails on the way is left alone for the rest of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from amux.adapters._base import NativeSearch, SourceRef
from amux.index.faults import IndexUnavailableError
from amux.index.reading import total_size
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.sessions.assemble import Assembly
from amux.sessions.choosing import NOTHING_UNREAD, choose_sessions, last_shown, leaves_out
from amux.sessions.costing import Coster
from amux.sessions.library import Library
from amux.sessions.listing import ListReport, list_sessions
from amux.sessions.registry import AdapterRegistry

if TYPE_CHECKING:
    from amux.index.answers import Kind
    from amux.index.census import Counted
    from amux.index.sources import Watch
    from amux.index.store import Store
    from amux.index.texts_sync import TextStore
    from amux.sessions.cells import Cell
    from amux.sessions.cost import CostReport
    from amux.sessions.indexed import IndexedAgent, Make
    from amux.sessions.kept import KeptSession, Shelf
    from amux.sessions.search import Holdings
    from amux.sessions.subjects import Subject
    from amux.sessions.text_candidates import TextCandidates

T = TypeVar("T")

_LITTLE = 4 << 20
_MUCH = 128 << 20


class Catalogue:
    """All sessions of all agents."""

    def __init__(
        self,
        registry: AdapterRegistry,
        library: Library,
        *,
        store: Store | None = None,
        basis: Callable[[], bytes] = bytes,
    ) -> None:
        self._registry = registry
        self._library = library
        self._store = store
        self._basis = basis
        self.watch: Watch | None = None
        self._no_texts = False
        self._shelf: Shelf | None = None
        self._looks: dict[tuple[str, ...], bytes] | None = None

    @contextmanager
    def one_look(self) -> Generator[None]:
        """Within it files are looked at once, however many questions are asked."""
        self._looks = {}
        try:
            yield
        finally:
            self._looks = None

    def _look(self, roots: Sequence[str], files: Sequence[str]) -> bytes:
        from amux.index.answers import look_at

        if self._looks is None:
            return look_at(roots, files)
        key = (*roots, "", *files)
        if key not in self._looks:
            self._looks[key] = look_at(roots, files)
        return self._looks[key]

    def assemblies(
        self,
        agent: str,
        *,
        usage_only: bool = False,
        sources: Sequence[SourceRef] | None = None,
    ) -> Iterator[Assembly]:
        """All sessions of an agent, in portions that do not bear on each other.

        `sources`, if they have been looked for already.
        """
        found = self._library.sources(agent) if sources is None else sources
        indexed = self._indexed(agent, found, usage_only=usage_only)
        if indexed is None:
            yield self._library.assemble_sources(agent, found)
        else:
            yield from indexed.assemblies()

    def assembly_for(self, agent: str, session_id: str) -> Assembly:
        """One session with all that bears on it; the index helps if it is almost up to date."""
        if self._store is not None and self._is_indexed(agent) and self._store.exists():
            try:
                found = self._kept_assembly(self._store, agent, session_id)
            except IndexUnavailableError:
                self._store = None
            else:
                if found is not None:
                    return found
        return self._library.assembly_for(agent, session_id)

    def _kept_assembly(self, store: Store, agent: str, session_id: str) -> Assembly | None:
        from amux.index.reading import Depth
        from amux.sessions.indexed import IndexedAgent

        indexed = IndexedAgent(self._library, store, agent)
        if indexed.waiting(Depth.FACTS) > _LITTLE:
            return None  # one session is read sooner than all that have changed
        indexed.update(Depth.FACTS)
        return indexed.assembly_of(session_id)

    def list_report(
        self, agents: Sequence[str], options: SessionListOptions, coster: Coster
    ) -> ListReport:
        """The summaries that fit, sorted, and counts of those left out."""
        # Tags and stars are a person's and not in the rows.
        by_rows = not options.tags and not options.starred
        if self._store is not None and by_rows and all(map(self._is_indexed, agents)):
            try:
                rows = self._list_rows(self._store, agents, options, coster)
            except IndexUnavailableError:
                self._store = rows = None
            return self._list_directly(agents, options, coster) if rows is None else rows
        if self._store is None:
            return self._list_directly(agents, options, coster)
        each = (self.assemblies(agent) for agent in agents)
        return list_sessions(chain.from_iterable(each), options, coster)

    def holdings(self, agents: Sequence[str], coster: Coster, *, by_words: bool) -> Holdings:
        """All sessions of some agents to be searched, and who knows which of them hold a word."""
        from amux.sessions.search import Holdings
        from amux.sessions.subjects import assembled_subjects

        problems: list[Problem] = []
        kept, rows = self._kept(agents, coster, problems)
        others = [name for name in agents if name not in kept]
        assemblies = [each for name in others for each in self.assemblies(name)]
        subjects: list[Subject] = [*rows, *assembled_subjects(assemblies, coster)]
        problems += (each for assembly in assemblies for each in assembly.problems)
        texts = self.text_candidates(kept) if by_words else None
        return Holdings(
            self._library,
            subjects,
            lambda: (*problems, *coster.problems),
            texts,
            None if texts is None else texts.words,
        )

    def _kept(
        self, agents: Sequence[str], coster: Coster, problems: list[Problem]
    ) -> tuple[Sequence[str], Sequence[KeptSession]]:
        """The agents whose sessions have rows, and these, brought up to date."""
        if self._store is None:
            return (), ()
        from amux.sessions.kept import Shelf
        from amux.sessions.rows import decode_problems

        store, indexed = self._store, [name for name in agents if self._is_indexed(name)]
        try:
            stale = {name: self._stale(store, name, "sessions") for name in indexed}
            payloads = self._bring_up_rows(store, stale, coster)
            self._shelf = self._shelf or Shelf()
            rows = self._shelf.sessions(store, indexed, coster) if store.exists() else []
            with store.guarded():
                problems += decode_problems(payloads)
        except IndexUnavailableError:
            self._store = None
            return (), ()
        return indexed, rows

    def give_up_index(self) -> bool:
        """Do without the index from now on, since it has failed; whether there was one."""
        had_one, self._store = self._store is not None, None
        return had_one

    def text_candidates(self, agents: Sequence[str]) -> TextCandidates | None:
        """Who knows which messages hold a word, brought up to date; None: look at all of them.

        To be asked after the rows of these agents were brought up to date.
        """
        if self._store is None or self._no_texts or not self._store.exists():
            return None
        from amux.index.texts_errors import IndexDamagedError, IndexUnusableError
        from amux.sessions.candidates import NativeCandidates
        from amux.sessions.text_candidates import TextCandidates

        try:
            store, read = self._updated_texts(self._store, agents)
            others = NativeCandidates(self._library)
            return TextCandidates(store, read, others, discard=self._store.remove_texts)
        except IndexUnusableError as error:
            self._no_texts = True
            if isinstance(error, IndexDamagedError):
                self._store.remove_texts()
        except IndexUnavailableError:
            self._store = None
        return None

    def _has_texts(self, agent: str) -> bool:
        """An agent with a full-text index of its own is asked itself."""
        adapter = self._library.adapter(agent)
        return self._is_indexed(agent) and not isinstance(adapter, NativeSearch)

    def _updated_texts(self, store: Store, agents: Sequence[str]) -> tuple[TextStore, list[str]]:
        """The texts, and whose these are. Loads no adapter of who has no sessions, nor changes."""
        from amux.index.answers import Answers
        from amux.index.findable import agents_with_rows

        texts = store.texts()
        answers = Answers(store, "sessions", self._basis())
        present = agents_with_rows(store) | texts.agents()
        states = {agent: answers.state(agent) for agent in agents if agent in present}
        behind = {
            agent: state
            for agent, state in states.items()
            if not texts.is_current(agent, state) and self._has_texts(agent)
        }
        if behind and texts.index.needs_rebuild:  # dead words can only be got rid of together
            store.remove_texts()
            texts = store.texts()
            behind = {agent: state for agent, state in states.items() if self._has_texts(agent)}
        if behind:
            found = [(self._library.adapter(a), self._library.sources(a)) for a in behind]
            texts.update(found, watch=self.watch)
            texts.remember(behind)
        return texts, [agent for agent in states if agent in texts.agents()]

    def _list_directly(
        self, agents: Sequence[str], options: SessionListOptions, coster: Coster
    ) -> ListReport:
        """Without an index only that is read which can be in the answer."""
        assemblies: list[Assembly] = []
        unread = NOTHING_UNREAD
        for agent in agents:
            sources = self._library.sources(agent, cwd=options.cwd)
            bound = last_shown(assemblies, options)
            chosen = choose_sessions(self._library.adapter(agent), sources, options, bound=bound)
            if chosen is None:
                chosen = self._library.assemble_sources(agent, sources), NOTHING_UNREAD
            assemblies.append(chosen[0])
            unread = unread.plus(chosen[1])
        return list_sessions(assemblies, options, coster, unread=unread)

    def spend(self, agents: Sequence[str], report: CostReport) -> None:
        """Add all that was spent to a report."""
        for agent in agents:
            cells = self._kept_cells(agent, report) if report.takes_cells else None
            if cells is None:
                for assembly in self.assemblies(agent, usage_only=not report.names_models):
                    report.add_assembly(assembly)
            else:
                for cell in cells:
                    report.add_cell(cell)

    def _kept_cells(self, agent: str, report: CostReport) -> list[Cell] | None:
        """What the index says was spent; None when it cannot be asked."""
        from amux.sessions.cells import decode_cells, encode_cells

        return self.kept(
            agent, "spending", lambda some: encode_cells(report.cells_of(some)), decode_cells
        )

    def kept(
        self,
        agent: str,
        kind: Kind,
        encode: Callable[[Assembly], bytes],
        decode: Callable[[bytes], Iterable[T]],
    ) -> list[T] | None:
        """What the sessions of an agent come to, from the index; None when it cannot be asked."""
        from amux.index.results import Made

        if self._store is None or not self._is_indexed(agent):
            return None
        try:
            stale = self._stale(self._store, agent, kind)
            payloads = self._bring_up(
                self._store, agent, kind, lambda some: Made(payload=encode(some)), indexed=stale
            )
            with self._store.guarded():
                return [value for payload in payloads for value in decode(payload)]
        except IndexUnavailableError:
            self._store = None
            return None

    def census(self, agent: str, coster: Coster) -> Counted | None:
        """How many sessions an agent has, from the index; None when it cannot be asked."""
        if self._store is None or not self._is_indexed(agent):
            return None
        from amux.index.census import take_census

        try:
            stale = self._stale(self._store, agent, "sessions")
            self._bring_up_rows(self._store, {agent: stale}, coster)
            return take_census(self._store, agent)
        except IndexUnavailableError:
            self._store = None
            return None

    def _list_rows(
        self, store: Store, agents: Sequence[str], options: SessionListOptions, coster: Coster
    ) -> ListReport | None:
        """A list of rows; None when so much would have to be indexed first that a choice is sooner.

        Such an index is made by whoever needs all of it: a report, a search, `index update`.
        """
        from amux.index.answers import Answers
        from amux.index.listing import find_summaries
        from amux.sessions.rows import report_of, wanted_rows

        can_choose = leaves_out(options)
        if can_choose and not store.exists() and self._has_much(agents):
            return None
        stale = {agent: self._stale(store, agent, "sessions") for agent in agents}
        if can_choose and store.exists() and self._lacks_much(stale.values()):
            return None
        problems = self._bring_up_rows(store, stale, coster)
        if tuple(agents) == self._registry.names() and store.exists():
            Answers(store, "sessions", self._basis()).remember_everybody(agents)
        if not store.exists():
            return ListReport(sessions=())
        rows, omitted = find_summaries(store, wanted_rows(agents, options))
        with store.guarded():
            return report_of(rows, omitted, problems, coster)

    def _bring_up_rows(
        self, store: Store, stale: Mapping[str, IndexedAgent | None], coster: Coster
    ) -> list[bytes]:
        """The rows of some agents, up to date; the problems met, still encoded."""
        from amux.sessions.rows import make_rows

        return [
            problem
            for agent, indexed in stale.items()
            for problem in self._bring_up(
                store, agent, "sessions", lambda some: make_rows(some, coster), indexed=indexed
            )
        ]

    def _stale(self, store: Store, agent: str, kind: Kind) -> IndexedAgent | None:
        """An agent whose results have to be looked at; None: they still hold."""
        from amux.index.answers import Answers
        from amux.sessions.indexed import IndexedAgent

        answers = Answers(store, kind, self._basis(), look=self._look)
        if store.exists() and answers.still_hold((agent,), self._library.env):
            return None
        return IndexedAgent(self._library, store, agent)

    def _has_much(self, agents: Sequence[str]) -> bool:
        """Whether the sources of these agents are large; looks no further than it has to."""
        size = 0
        for agent in agents:
            for source in self._library.sources(agent):
                size += total_size((source,))
                if size > _MUCH:
                    return True
        return False

    def _lacks_much(self, stale: Iterable[IndexedAgent | None]) -> bool:
        from amux.index.reading import Depth

        return sum(one.waiting(Depth.FACTS) for one in stale if one is not None) > _MUCH

    def _bring_up(
        self, store: Store, agent: str, kind: Kind, make: Make, *, indexed: IndexedAgent | None
    ) -> list[bytes]:
        """Results of one kind, up to date: what is kept besides rows. None `indexed`: they hold.

        What they rest on is noted, for the quick way next time.
        """
        from amux.index.answers import Answers
        from amux.index.reading import Depth

        basis = self._basis()
        answers = Answers(store, kind, basis)
        if indexed is None:
            return answers.payloads((agent,))
        if not indexed.has_sources and not store.exists():
            return []  # nobody is here: leave no trace of having looked
        depth = Depth.FACTS if kind == "sessions" else Depth.USAGE
        indexed.update(depth, watch=self.watch, make=make)
        indexed.bring_up(kind, basis, make)
        answers.remember(
            agent, indexed.snapshot, roots=indexed.roots, files=indexed.files, env=indexed.env
        )
        return answers.payloads((agent,))

    def _indexed(
        self, agent: str, sources: Sequence[SourceRef], *, usage_only: bool
    ) -> IndexedAgent | None:
        if self._store is None or not self._is_indexed(agent):
            return None
        from amux.index.reading import Depth
        from amux.sessions.indexed import IndexedAgent

        try:
            indexed = IndexedAgent(self._library, self._store, agent, sources)
            if indexed.has_sources or self._store.exists():
                depth = Depth.USAGE if usage_only else Depth.FACTS
                indexed.update(depth, watch=self.watch)
        except IndexUnavailableError:
            self._store = None
            return None
        return indexed

    def _is_indexed(self, agent: str) -> bool:
        return self._registry.is_built_in(agent)
