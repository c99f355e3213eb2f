"""The sources of a followed session, while new sources appear and others are deleted.

Sources are listed by name; a new one is opened once, to check whether it is another part of the
session or a sub-agent. Facts are read again only from changed sources; of a log that grew, only the
new lines are read if its adapter can resume reading.
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
class _ReadSource:
    """The facts of a source, with its fingerprint at the time of reading."""

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
        self._agent, self._name = session.agent, assembly.unique_name(session)
        self._sources = {source.location: source for source in _sources_of(assembly, session)}
        self._names = _names_of(session)
        self._read: dict[str, _ReadSource] = {}
        self._cwd = self._narrow_cwd(session)
        self._unrelated = {source.location for source in self._listed()} - self._sources.keys()

    @property
    def has_sources(self) -> bool:
        """Whether a source remains that may contain the session."""
        return bool(self._sources)

    def poll(self, fingerprints: Fingerprints) -> Assembly | None:
        """Return the current assembly of the session; None if no source has changed."""
        listed = {source.location: source for source in self._listed()}
        gone = self._sources.keys() - listed.keys()
        for path in gone:
            del self._sources[path]
            self._read.pop(path, None)
        has_changed = bool(gone)
        for path, source in listed.items():
            if path not in self._sources and path not in self._unrelated:
                has_changed |= self._add_if_related(source, fingerprints)
        for source in self._sources.values():
            has_changed |= self._update(source, fingerprints)
        if not has_changed:
            return None
        parts = (part for path in self._sources for part in self._read[path].parts)
        assembly = assemble(self._agent, parts)
        session = assembly.find(self._name)
        if session is not None:
            self._names |= _names_of(session)
        return assembly

    def _narrow_cwd(self, session: AssembledSession) -> str | None:
        """Return the working directory if listing its sources alone finds the session."""
        cwd = session.facts.cwd
        if cwd is None:
            return None
        near = {source.location for source in self._catalog.sources(self._agent, cwd=cwd)}
        return cwd if self._sources.keys() <= near else None

    def _listed(self) -> list[SourceRef]:
        return self._catalog.sources(self._agent, cwd=self._cwd)

    def _add_if_related(self, source: SourceRef, fingerprints: Fingerprints) -> bool:
        """Add a new source if it is related; check it again at the next poll if it is empty."""
        self._update(source, fingerprints)
        parts = self._read[source.location].parts
        if source.parent in self._names or any(self._is_related(part.facts) for part in parts):
            self._sources[source.location] = source
            return True
        if parts:
            self._unrelated.add(source.location)
            del self._read[source.location]
        return False

    def _is_related(self, facts: Facts) -> bool:
        is_child = facts.kind == "subagent" and facts.parent in self._names
        return is_child or facts.session_id in self._names

    def _update(self, source: SourceRef, fingerprints: Fingerprints) -> bool:
        """Read the facts of a source if it has changed; return whether it has."""
        now = fingerprints.of(source)
        old = self._read.get(source.location)
        if now.state and old is not None and old.fingerprint.state == now.state:
            return False
        self._read[source.location] = self._read_source(source, now, old)
        return True

    def _read_source(
        self, source: SourceRef, now: Fingerprint, old: _ReadSource | None
    ) -> _ReadSource:
        """Read the facts without the problems: reading the messages reports the same ones."""
        if isinstance(self._adapter, Resumable):
            checkpoint = old.checkpoint if old and _has_grown(old.fingerprint, now) else None
            reading = self._adapter.resume_read(source, checkpoint=checkpoint)
            return _ReadSource(now, source_sessions(source, reading.facts), reading.checkpoint)
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        read_facts(self._adapter, source, parts, problems)
        return _ReadSource(now, parts)


def _has_grown(before: Fingerprint, now: Fingerprint) -> bool:
    """Return whether a source is the same file as before and not shorter."""
    is_same = before.exists and now.exists and before.inode == now.inode
    return is_same and before.size <= now.size


def _sources_of(assembly: Assembly, session: AssembledSession) -> Iterable[SourceRef]:
    """Yield all sources of the session and its sub-agents."""
    for each in session.with_children():
        yield from (part.source for part in each.sources)
        yield from (part.source for part, _ in assembly.source_path(each))


def _names_of(session: AssembledSession) -> set[str]:
    """Return the ids by which a new source may refer to the session or to a sub-agent."""
    return {name for each in session.with_children() for name in each.names()}
