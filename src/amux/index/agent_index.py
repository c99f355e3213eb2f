"""The index of one agent: sessions are assembled cluster by cluster from stored facts.

All clusters together give the same sessions as all sources at once, in bounded memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from amux.adapters._base import Fingerprinted, SourceRef
from amux.assembly.assemble import Assembly, assemble
from amux.assembly.session import SourceSession
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
from amux.index.rows.results import ClusterResult, ResultIndex
from amux.model.facts import Facts
from amux.model.problems import Problem
from amux.reading.facts import source_sessions
from amux.reading.fingerprint import state_of_roots, total_size
from amux.reading.snapshot import take_snapshot
from amux.reading.sources import SourceCatalog

_PORTION = 500
_RESULT: Final = msgspec.msgpack.Decoder(ClusterResult)

BuildResult = Callable[[Assembly], ClusterResult]
"""Returns what is to be stored of the sessions of one cluster."""


class AgentIndex:
    """The sources of one agent: listed when it is created, read by `update`."""

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
        roots, self.env = catalog.roots_and_env(agent)
        self.roots = tuple(map(str, roots))
        # A snapshot taken after the sources were listed would miss changes in between.
        before = b"" if sources is not None else state_of_roots(self._adapter, self.roots)
        found = catalog.sources(agent) if sources is None else sources
        self._by_path = {os.fsencode(source.location): source for source in found}
        self._refs = [*self._by_path.values()]
        is_fingerprinted = isinstance(self._adapter, Fingerprinted)
        self.files = () if is_fingerprinted else _outside(found, self.roots)
        outside = take_snapshot((), self.files) if before else b""
        self.snapshot = before + outside if outside else b""
        self._order = {path: position for position, path in enumerate(self._by_path)}
        self._clusters = Clusters()
        self._members: dict[int, list[int]] = {}
        self._versions: dict[int, SourceVersion] = {}
        self._results: dict[bytes, SingleSourceResult] = {}  # of the last update, by path

    @property
    def has_sources(self) -> bool:
        """Whether the agent has any source."""
        return bool(self._by_path)

    def stale_bytes(self) -> int:
        """Return how many bytes an update would read."""
        return total_size(self._sources.stale(self._refs))

    def update(self, build: BuildResult, *, progress: ReportProgress | None = None) -> None:
        """Read new and changed sources, and build the results of each for `update_results`."""
        self._results = self._sources.update(
            self._refs, progress=progress, build_result=partial(_encoded_result, build)
        )
        self._find_clusters()

    def update_if_small(self, limit: int) -> bool:
        """Read new and changed sources, unless they exceed `limit` bytes; return whether it did."""
        stale = self._sources.stale(self._refs)
        if total_size(stale) > limit:
            return False
        self._sources.update(self._refs, stale=stale)
        self._find_clusters()
        return True

    def _find_clusters(self) -> None:
        self._clusters = self._sources.clusters()
        self._members = self._clusters.members()
        self._versions = self._sources.versions()

    def assembly_of(self, session_id: str) -> Assembly | None:
        """Return one session with everything that affects it; None if no source holds it."""
        cluster = self._clusters.holding(session_id)
        return None if cluster is None else self._assemble(cluster)

    def assemblies(self) -> Iterator[Assembly]:
        """Yield all sessions, one cluster at a time."""
        for _, assembly in self._assemble_all(self._members.keys()):
            yield assembly

    def _assemble_all(self, clusters: Collection[int]) -> Iterator[tuple[int, Assembly]]:
        """Yield some clusters; those of one source, the most common, in one pass over the index."""
        single = {self._members[c][0]: c for c in clusters if len(self._members[c]) == 1}
        done: set[int] = set()
        if len(single) > _PORTION:
            try:
                for loaded in self._sources.load_all():
                    cluster = single.get(loaded.version.number)
                    source = self._by_path.get(loaded.version.path)
                    if cluster is not None and source and self._is_current(loaded):
                        parts = source_sessions(source, loaded.facts)
                        done.add(cluster)
                        yield cluster, assemble(self.agent, parts, loaded.problems)
            except IndexUnavailableError:
                pass  # the other clusters are assembled from their sources
        for cluster in clusters:
            if cluster not in done:
                yield cluster, self._assemble(cluster)

    def update_results(
        self, environment: bytes, runs: Mapping[str, bytes], build: BuildResult
    ) -> dict[int, bytes]:
        """Rebuild the results that are out of date and return the version of every cluster.

        `runs` are fingerprints of the recorded costs by session id: each is a part of the version
        of the cluster that holds the session, since no session of another cluster has its id.
        """
        results = ResultIndex(self._database, self.agent)
        stored = results.versions()
        versions = {
            cluster: b"".join(self._versions[number].key for number in sorted(members))
            for cluster, members in self._members.items()
        }
        for session_id, fingerprint in runs.items():
            cluster = self._clusters.holding(session_id)
            if cluster is not None:
                versions[cluster] += fingerprint
        results.discard(stored.keys() - versions.keys())
        portion: list[tuple[int, bytes, ClusterResult]] = []
        stale = [c for c, own in versions.items() if stored.get(c) != (own, environment)]
        for cluster, result in self._build_results(stale, build):
            portion.append((cluster, versions[cluster], result))
            if len(portion) >= _PORTION:
                results.write(portion, environment=environment)
                portion = []
        if portion:
            results.write(portion, environment=environment)
        return versions

    def _build_results(
        self, clusters: Collection[int], build: BuildResult
    ) -> Iterator[tuple[int, ClusterResult]]:
        """Yield the results of some clusters; most were built while reading their only source."""
        waiting: list[int] = []
        for cluster in clusters:
            result = self._single_source_result(cluster)
            if result:
                yield cluster, unpack(result, _RESULT)
            else:
                waiting.append(cluster)
        for cluster, assembly in self._assemble_all(waiting):
            yield cluster, build(assembly)

    def _single_source_result(self, cluster: int) -> bytes:
        """Return the result a worker built while reading the cluster's only source.

        b"" if the cluster has several sources or the source was read again since.
        """
        first, *others = self._members[cluster]
        version = self._versions[first]
        built = None if others else self._results.get(version.path)
        if built is None or built[:2] != (version.fingerprint, version.digest):
            return b""
        return built.result

    def _assemble(self, cluster: int) -> Assembly:
        try:
            parts, problems = self._load(cluster)
        except IndexUnavailableError:  # or another process has read a source again
            found = [source for n in self._in_order(cluster) if (source := self._source(n))]
            return self._catalog.assemble_sources(self.agent, found)
        return assemble(self.agent, parts, problems)

    def _load(self, cluster: int) -> tuple[list[SourceSession], list[Problem]]:
        """Return the stored facts of a cluster; raise if they are of other versions."""
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
        """Return whether a stored source is the version that results refer to."""
        return loaded.version == self._versions[loaded.version.number]

    def _in_order(self, cluster: int) -> list[int]:
        """Return the sources of a cluster in the order of discovery, as without an index."""

        def position(number: int) -> int:
            return self._order.get(self._versions[number].path, 0)

        return sorted(self._members[cluster], key=position)

    def _source(self, number: int) -> SourceRef | None:
        return self._by_path.get(self._versions[number].path)


def _encoded_result(
    build: BuildResult, source: SourceRef, facts: tuple[Facts, ...], problems: tuple[Problem, ...]
) -> bytes:
    return pack(build(assemble(source.agent, source_sessions(source, facts), problems)))


def _outside(sources: Sequence[SourceRef], roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the companion files below none of the roots."""
    companions = (str(path) for source in sources for path in source.companions)
    inside = tuple(f"{root}{os.sep}" for root in roots)
    return tuple(dict.fromkeys(path for path in companions if not path.startswith(inside)))
