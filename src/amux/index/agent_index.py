"""One agent through the index: its sessions cluster by cluster, each assembled from what was kept.

The clusters together give the same sessions as all sources at once do, in bounded memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from amux.adapters._base import Fingerprinted, SourceRef
from amux.assembly.assemble import Assembly, assemble
from amux.assembly.lineage import needs_full_read
from amux.assembly.session import SourceSession, join_sources
from amux.index.codec import pack, unpack
from amux.index.database import IndexDatabase
from amux.index.errors import IndexUnavailableError
from amux.index.facts.clusters import Clusters
from amux.index.facts.sources import (
    LoadedSource,
    ReportProgress,
    SingleSourceResult,
    SourceIndex,
    SourceVersion,
)
from amux.index.facts.stored_source import Depth
from amux.index.rows.results import ClusterResult, ResultIndex
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.reading.facts import source_sessions
from amux.reading.fingerprint import state_of_roots, total_size
from amux.reading.snapshot import take_snapshot
from amux.reading.sources import SourceCatalog

if TYPE_CHECKING:
    from amux.index.freshness import Kind

_PORTION = 500
_MADE: Final = msgspec.msgpack.Decoder(ClusterResult)

BuildResult = Callable[[Assembly], ClusterResult]
"""What is to be kept of the sessions of one cluster."""


class AgentIndex:
    """The sources of one agent: found when made, read by `update`."""

    def __init__(
        self,
        catalog: SourceCatalog,
        database: IndexDatabase,
        agent: str,
        sources: Sequence[SourceRef] | None = None,
    ) -> None:
        self.agent = agent
        self._catalog = catalog
        self._database = database
        self._adapter = catalog.adapter(agent)
        self._sources = SourceIndex(database, agent, self._adapter)
        places, self.env = catalog.roots_and_env(agent)
        self.roots = tuple(map(str, places))
        # If the sources were listed earlier, it is too late to take the state they were in.
        before = b"" if sources is not None else state_of_roots(self._adapter, self.roots)
        found = catalog.sources(agent) if sources is None else sources
        self._by_path = {os.fsencode(source.location): source for source in found}
        knows_itself = isinstance(self._adapter, Fingerprinted)
        self.files = () if knows_itself else _outside(found, self.roots)
        beside = take_snapshot((), self.files) if before else b""
        self.snapshot = before + beside if beside else b""
        self._order = {path: place for place, path in enumerate(self._by_path)}
        self._clusters = Clusters()
        self._members: dict[int, list[int]] = {}
        self._marks: dict[int, SourceVersion] = {}
        self._depth = Depth.USAGE
        self._made: dict[bytes, SingleSourceResult] = {}  # of sources by themselves, just now

    @property
    def has_sources(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._by_path)

    def stale_bytes(self, depth: Depth) -> int:
        """How many bytes an update would have to read."""
        return self._sources.stale_bytes([*self._by_path.values()], depth)

    def update(
        self, depth: Depth, *, watch: ReportProgress | None = None, make: BuildResult | None = None
    ) -> None:
        """Read what is new or has changed; `make` what `bring_up` will ask for on the way."""
        self._depth = depth
        found = [*self._by_path.values()]
        alone = None if make is None else partial(_build_single_source_result, make)
        self._made = self._sources.update(found, depth, watch=watch, alone=alone)
        self._arrange(depth)

    def update_if_small(self, most: int) -> bool:
        """Read what is new or has changed if that is no more than so many bytes."""
        found = [*self._by_path.values()]
        stale = self._sources.stale(found, Depth.FACTS)
        if total_size(stale) > most:
            return False
        self._sources.update(found, Depth.FACTS, stale=stale)
        self._arrange(Depth.FACTS)
        return True

    def _arrange(self, depth: Depth) -> None:
        """Find out who bears on whom."""
        self._clusters = self._sources.clusters(depth)
        self._members = self._clusters.members()
        self._marks = self._sources.versions()
        if depth is Depth.USAGE and (entangled := self._clusters.with_shared_calls()):
            # Whose a shared call is may take more than usage to say.
            unclear = [cluster for cluster in entangled if self._needs_full_read(cluster)]
            wanted = [n for cluster in unclear for n in self._members[cluster]]
            self._sources.deepen([s for n in wanted if (s := self._source(n))])
            self._marks = self._sources.versions()

    def assembly_of(self, session_id: str) -> Assembly | None:
        """One session with all that bears on it; None when no source holds it."""
        cluster = self._clusters.holding(session_id)
        return None if cluster is None else self._assemble(cluster)

    def assemblies(self) -> Iterator[Assembly]:
        """All sessions, a cluster at a time."""
        for _, assembly in self._assemble_all(self._members.keys()):
            yield assembly

    def _assemble_all(self, clusters: Collection[int]) -> Iterator[tuple[int, Assembly]]:
        """Some clusters; those of one source, which most are, in one pass over the index."""
        alone = {self._members[c][0]: c for c in clusters if len(self._members[c]) == 1}
        done: set[int] = set()
        if len(alone) > _PORTION:
            try:
                for loaded in self._sources.load_all():
                    mark = loaded.version
                    cluster, source = alone.get(mark.number), self._by_path.get(mark.path)
                    if cluster is not None and source and self._is_current(loaded):
                        parts = source_sessions(source, loaded.facts)
                        done.add(cluster)
                        yield cluster, assemble(self.agent, parts, loaded.problems)
            except IndexUnavailableError:
                pass  # the others are read directly
        for cluster in clusters:
            if cluster not in done:
                yield cluster, self._assemble(cluster)

    def update_results(
        self, kind: Kind, basis: bytes, runs: Mapping[str, bytes], make: BuildResult
    ) -> dict[int, bytes]:
        """Rebuild the results that are out of date and return the version of every cluster.

        `runs` are fingerprints of the recorded costs by session id: each is a part of the version
        of the cluster that holds the session, since no session of another cluster has its id.
        """
        results = ResultIndex(self._database, self.agent, kind)
        made = results.versions(basis)
        marks = {cluster: self._cluster_version(cluster) for cluster in self._members}
        for session_id, fingerprint in runs.items():
            cluster = self._clusters.holding(session_id)
            if cluster is not None:
                marks[cluster] += fingerprint
        results.discard(results.all_versions() - marks.keys())
        portion: list[tuple[int, bytes, ClusterResult]] = []
        dirty = [cluster for cluster, mark in marks.items() if made.get(cluster) != mark]
        for cluster, result in self._build_results(dirty, make):
            portion.append((cluster, marks[cluster], result))
            if len(portion) >= _PORTION:
                results.write(portion, basis=basis)
                portion = []
        if portion:
            results.write(portion, basis=basis)
        return marks

    def _build_results(
        self, clusters: Collection[int], make: BuildResult
    ) -> Iterator[tuple[int, ClusterResult]]:
        """The results of some clusters; most were made where their only source was read."""
        waiting: list[int] = []
        for cluster in clusters:
            made = self._single_source_result(cluster)
            if made:
                yield cluster, unpack(made, _MADE)
            else:
                waiting.append(cluster)
        for cluster, assembly in self._assemble_all(waiting):
            yield cluster, make(assembly)

    def _single_source_result(self, cluster: int) -> bytes:
        """What came of a cluster's only source; b"": there are more, or it was read again since."""
        first, *others = self._members[cluster]
        mark = self._marks[first]
        made = None if others else self._made.get(mark.path)
        is_of_mark = made is not None and made[:2] == (mark.stamp, mark.digest)
        return made.result if made is not None and is_of_mark else b""

    def _assemble(self, cluster: int) -> Assembly:
        try:
            parts, problems = self._load(cluster)
        except IndexUnavailableError:  # or another process has read them again: so do we
            numbers = self._in_order(cluster)
            found = [source for number in numbers if (source := self._source(number))]
            return self._catalog.assemble_sources(self.agent, found)
        return assemble(self.agent, parts, problems)

    def _needs_full_read(self, cluster: int) -> bool:
        try:
            parts, _ = self._load(cluster)
        except IndexUnavailableError:
            return True
        return needs_full_read(join_sources(self.agent, parts))

    def _load(self, cluster: int) -> tuple[list[SourceSession], list[Problem]]:
        """What is kept of the sources of a cluster, as long as it is what the marks tell."""
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        for loaded in self._sources.load(self._in_order(cluster)):
            if loaded is None or not self._is_current(loaded):
                raise IndexUnavailableError("another process has read a source again")
            source = self._by_path.get(loaded.version.path)
            if source is not None:
                parts.extend(source_sessions(source, loaded.facts))
                problems.extend(loaded.problems)
        return parts, problems

    def _is_current(self, loaded: LoadedSource) -> bool:
        """Whether it is what results will be said to be made from, and says enough for them."""
        mark = loaded.version
        return mark == self._marks[mark.number] and mark.depth >= self._depth

    def _in_order(self, cluster: int) -> list[int]:
        return sorted(self._members[cluster], key=self._source_position)

    def _source_position(self, number: int) -> int:
        """Where a source stands among all: what is found first goes first, as without an index."""
        return self._order.get(self._marks[number].path, 0)

    def _source(self, number: int) -> SourceRef | None:
        return self._by_path.get(self._marks[number].path)

    def _cluster_version(self, cluster: int) -> bytes:
        return b"".join(self._marks[number].key for number in sorted(self._members[cluster]))


def _build_single_source_result(
    make: BuildResult, source: SourceRef, facts: tuple[Facts, ...], problems: tuple[Problem, ...]
) -> bytes:
    """What a cluster comes to that has no other source."""
    return pack(make(assemble(source.agent, source_sessions(source, facts), problems)))


def _outside(sources: Sequence[SourceRef], roots: tuple[str, ...]) -> tuple[str, ...]:
    """Files that matter and lie below none of the roots."""
    beside = (str(path) for source in sources for path in source.companions)
    inside = tuple(f"{root}{os.sep}" for root in roots)
    return tuple(dict.fromkeys(path for path in beside if not path.startswith(inside)))
