"""The text index, brought up to date before it is asked.

It rests on the rows: whether an agent's texts are current is known from the same look at its files.
A text index that fails is done without for the rest of the process; a damaged one is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

from amux.index.errors import TextIndexDamagedError, TextIndexError
from amux.index.freshness import Freshness
from amux.index.rows.stored_session import agents_with_rows
from amux.index.text.update import TextDatabase
from amux.index.updater import IndexUpdater
from amux.reading.sources import SourceCatalog
from amux.sessions.search.candidates import NativeCandidates
from amux.sessions.search.indexed_hits import TextCandidates


class TextKeeper:
    """The texts of one home."""

    def __init__(self, library: SourceCatalog, keeper: IndexUpdater) -> None:
        self._library = library
        self._keeper = keeper
        self.trouble: str | None = None  # why it is done without

    def candidates(self, agents: Sequence[str]) -> TextCandidates | None:
        """Who knows which messages hold a word; None: look at all of them.

        To be asked after the rows of these agents were brought up to date.
        """
        store = self._keeper.store
        if self.trouble is not None or not store.exists():
            return None
        try:
            texts, read = self._updated(agents)
            others = NativeCandidates(self._library)
            return TextCandidates(texts, read, others, discard=store.remove_texts)
        except TextIndexError as error:
            self.trouble = str(error)
            if isinstance(error, TextIndexDamagedError):
                store.remove_texts()
            return None

    def _updated(self, agents: Sequence[str]) -> tuple[TextDatabase, list[str]]:
        """The texts, and whose these are. Loads no adapter of who has no sessions, nor changes."""
        store = self._keeper.store
        texts = store.texts()
        environment = self._keeper.environment
        answers = Freshness(store, "sessions", environment.fingerprint_for)
        present = agents_with_rows(store) | texts.agents()
        fingerprint = environment.fingerprint()  # without runs, which no text depends on
        snapshots = {agent: answers.snapshot(agent) for agent in agents if agent in present}
        states = {agent: found and fingerprint + found for agent, found in snapshots.items()}
        stale = {a: state for a, state in states.items() if not texts.is_current(a, state)}
        behind = {agent: state for agent, state in stale.items() if self._has_texts(agent)}
        if behind and texts.index.needs_rebuild:  # dead words can only be got rid of together
            store.remove_texts()
            texts = store.texts()
            behind = {agent: state for agent, state in states.items() if self._has_texts(agent)}
        if behind:
            found = [(self._library.adapter(a), self._library.sources(a)) for a in behind]
            texts.update(found, watch=self._keeper.progress)
            texts.record(behind)
        known = texts.agents().difference(stale.keys() - behind.keys())
        return texts, [agent for agent in states if agent in known]

    def _has_texts(self, agent: str) -> bool:
        """An agent with a full-text index that is sure of everything is asked itself."""
        return not self._library.has_complete_native_index(agent)
