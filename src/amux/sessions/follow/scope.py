"""Which sources bear on a followed session while new ones appear and others go.

Sources are listed by name; a new one is opened once, to see whether it is another part of the
session or a sub-agent. Facts are read again only of sources that have changed, and of a log that
grew only the new lines where its adapter can go on reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from amux.adapters._base import Adapter, Checkpoint, Resumable, SourceRef
from amux.assembly.assemble import Assembly, assemble
from amux.assembly.session import AssembledSession, SourceSession
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.reading.facts import read_facts, source_sessions
from amux.reading.fingerprint import Fingerprint, Fingerprints
from amux.reading.sources import SourceCatalog


@dataclass(slots=True, frozen=True)
class _Read:
    """What a source said when it last changed."""

    fingerprint: Fingerprint
    parts: list[SourceSession]
    checkpoint: Checkpoint | None = None


class FollowScope:
    """The sources of one session and of its sub-agents."""

    def __init__(
        self,
        catalog: SourceCatalog,
        adapter: Adapter,
        assembly: Assembly,
        session: AssembledSession,
    ) -> None:
        self._catalog = catalog
        self._adapter = adapter
        self._agent, self._session_id = session.agent, session.session_id
        self._sources = {source.location: source for source in _sources_of(assembly, session)}
        self._names = _names_of(session)
        self._read: dict[str, _Read] = {}
        self._cwd = self._narrowest(session)
        self._strangers = {source.location for source in self._listed()} - self._sources.keys()

    @property
    def has_sources(self) -> bool:
        """Whether there is still a file the session could be in."""
        return bool(self._sources)

    def poll(self, fingerprints: Fingerprints) -> Assembly | None:
        """The session as its sources tell it now; None when they say what they said before."""
        listed = {source.location: source for source in self._listed()}
        is_other = self._discard_others(listed)
        for path, source in listed.items():
            if path not in self._sources and path not in self._strangers:
                is_other |= self._meet(source, fingerprints)
        for source in self._sources.values():
            is_other |= self._read_again(source, fingerprints)
        if not is_other:
            return None
        parts = (part for path in self._sources for part in self._read[path].parts)
        assembly = assemble(self._agent, parts)
        session = assembly.find(self._session_id)
        if session is not None:
            self._names |= _names_of(session)
        return assembly

    def _narrowest(self, session: AssembledSession) -> str | None:
        """A working directory that spares listing the rest, if the session is found by it."""
        cwd = session.facts.cwd
        if cwd is None:
            return None
        near = {source.location for source in self._catalog.sources(self._agent, cwd=cwd)}
        return cwd if self._sources.keys() <= near else None

    def _listed(self) -> list[SourceRef]:
        return self._catalog.sources(self._agent, cwd=self._cwd)

    def _discard_others(self, listed: Iterable[str]) -> bool:
        gone = self._sources.keys() - set(listed)
        for path in gone:
            del self._sources[path]
            self._read.pop(path, None)
        return bool(gone)

    def _meet(self, source: SourceRef, fingerprints: Fingerprints) -> bool:
        """Take in a new source if it belongs here; one that says nothing yet is met again."""
        self._read_again(source, fingerprints)
        parts = self._read[source.location].parts
        if source.parent in self._names or any(self._is_ours(part.facts) for part in parts):
            self._sources[source.location] = source
            return True
        if parts:
            self._strangers.add(source.location)
            del self._read[source.location]
        return False

    def _is_ours(self, facts: Facts) -> bool:
        is_child = facts.kind == "subagent" and facts.parent in self._names
        return is_child or facts.session_id in self._names

    def _read_again(self, source: SourceRef, fingerprints: Fingerprints) -> bool:
        """Read a source's facts unless it is as it was; whether that was needed."""
        now = fingerprints.of(source)
        known = self._read.get(source.location)
        if now.state and known is not None and known.fingerprint.state == now.state:
            return False
        self._read[source.location] = self._facts_of(source, now, known)
        return True

    def _facts_of(self, source: SourceRef, now: Fingerprint, known: _Read | None) -> _Read:
        """Problems are left out: the messages meet the same ones, and they are told."""
        if isinstance(self._adapter, Resumable):
            checkpoint = known.checkpoint if known and _has_grown(known.fingerprint, now) else None
            reading = self._adapter.resume_read(source, want="facts", checkpoint=checkpoint)
            return _Read(now, source_sessions(source, reading.facts), reading.checkpoint)
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        read_facts(self._adapter, source, parts, problems)
        return _Read(now, parts)


def _has_grown(before: Fingerprint, now: Fingerprint) -> bool:
    """Whether it is the same file, longer than it was."""
    is_same = before.exists and now.exists and before.inode == now.inode
    return is_same and before.size <= now.size


def _sources_of(assembly: Assembly, session: AssembledSession) -> Iterable[SourceRef]:
    """Everything the session and its sub-agents were put together from."""
    for each in session.with_children():
        yield from (part.source for part in each.sources)
        yield from (part.source for part, _ in assembly.source_path(each))


def _names_of(session: AssembledSession) -> set[str]:
    """Every id by which a new source may refer to the session or to one of its sub-agents."""
    names: set[str] = set()
    for each in session.with_children():
        names.add(each.session_id)
        names.update(alias for part in each.sources for alias in part.facts.aliases)
    return names
