"""Many sessions at once: through the index where there is one, else directly. Answers are equal.

Only built-in agents are indexed: what another package's adapter makes of a file may change without
notice. An index that fails on the way is left alone for the rest of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from amux.adapters._base import NativeSearch, SourceRef
from amux.index.faults import IndexUnavailableError
from amux.index.reading import maker_of
from amux.model.options import SessionListOptions
from amux.sessions.assemble import Assembly
from amux.sessions.choosing import NOTHING_UNREAD, choose_sessions
from amux.sessions.costing import Coster
from amux.sessions.library import Library
from amux.sessions.listing import ListReport, list_sessions
from amux.sessions.registry import AdapterRegistry

if TYPE_CHECKING:
    from amux.index.answers import Kind
    from amux.index.results import Made
    from amux.index.sources import Watch
    from amux.index.store import Store
    from amux.index.texts_sync import TextStore
    from amux.sessions.cells import Cell
    from amux.sessions.cost import CostReport
    from amux.sessions.indexed import IndexedAgent, Make
    from amux.sessions.text_candidates import TextCandidates

_LITTLE = 4 << 20


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
                return self._list_rows(self._store, agents, options, coster)
            except IndexUnavailableError:
                self._store = None
        if self._store is None:
            return self._list_directly(agents, options, coster)
        each = (self.assemblies(agent) for agent in agents)
        return list_sessions(chain.from_iterable(each), options, coster)

    def text_candidates(self, agents: Sequence[str]) -> TextCandidates | None:
        """Who knows which messages hold a word, brought up to date; None: look at all of them."""
        if self._store is None or self._no_texts:
            return None
        from amux.index.texts_errors import IndexDamagedError, IndexUnusableError
        from amux.sessions.candidates import NativeCandidates
        from amux.sessions.text_candidates import TextCandidates

        read = [agent for agent in agents if self._has_texts(agent)]
        try:
            store = self._updated_texts(self._store, read)
        except IndexUnusableError as error:
            self._no_texts = True
            if isinstance(error, IndexDamagedError):
                self._store.remove_texts()
            return None
        return TextCandidates(store, read, NativeCandidates(self._library))

    def _has_texts(self, agent: str) -> bool:
        """An agent with a full-text index of its own is asked itself."""
        adapter = self._library.adapter(agent)
        return self._is_indexed(agent) and not isinstance(adapter, NativeSearch)

    def _updated_texts(self, store: Store, agents: Sequence[str]) -> TextStore:
        texts = store.texts()
        if texts.index.needs_rebuild:  # dead words can only be got rid of together
            store.remove_texts()
            texts = store.texts()
        for agent in agents:
            adapter, sources = self._library.adapter(agent), self._library.sources(agent)
            maker = maker_of(adapter)
            texts.update(adapter, sources, maker=maker, watch=self.watch)
        return texts

    def _list_directly(
        self, agents: Sequence[str], options: SessionListOptions, coster: Coster
    ) -> ListReport:
        """Without an index a database is asked for what can be in the answer, and only that."""
        assemblies: list[Assembly] = []
        unread = NOTHING_UNREAD
        for agent in agents:
            sources = self._library.sources(agent, cwd=options.cwd)
            chosen = choose_sessions(self._library.adapter(agent), sources, options)
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
        from amux.index.results import Made
        from amux.sessions.cells import decode_cells, encode_cells

        if self._store is None or not self._is_indexed(agent):
            return None

        def make(assembly: Assembly) -> Made:
            return Made(payload=encode_cells(report.cells_of(assembly)))

        try:
            payloads = self._bring_up(self._store, agent, "spending", make)
            with self._store.guarded():
                return [cell for payload in payloads for cell in decode_cells(payload)]
        except IndexUnavailableError:
            self._store = None
            return None

    def _list_rows(
        self, store: Store, agents: Sequence[str], options: SessionListOptions, coster: Coster
    ) -> ListReport:
        from amux.index.answers import Answers
        from amux.index.listing import find_summaries
        from amux.sessions.rows import make_rows, report_of, wanted_rows

        problems: list[bytes] = []
        for agent in agents:
            problems += self._bring_up(
                store, agent, "sessions", lambda some: make_rows(some, coster)
            )
        if tuple(agents) == self._registry.names() and store.exists():
            Answers(store, "sessions", self._basis()).remember_everybody(agents)
        if not store.exists():
            return ListReport(sessions=())
        rows, omitted = find_summaries(store, wanted_rows(agents, options))
        with store.guarded():
            return report_of(rows, omitted, problems, coster)

    def _bring_up(self, store: Store, agent: str, kind: Kind, make: Make) -> list[bytes]:
        """Results of one kind, up to date: what is kept besides rows.

        What they rest on is noted, for the quick way next time.
        """
        from amux.index.answers import Answers
        from amux.index.reading import Depth
        from amux.sessions.indexed import IndexedAgent

        basis = self._basis()
        answers = Answers(store, kind, basis)
        if store.exists() and answers.still_hold((agent,), self._library.env):
            return answers.payloads((agent,))
        indexed = IndexedAgent(self._library, store, agent)
        if not indexed.has_sources and not store.exists():
            return []  # nobody is here: leave no trace of having looked
        indexed.update(Depth.FACTS if kind == "sessions" else Depth.USAGE, watch=self.watch)
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
