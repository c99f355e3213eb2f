"""Finds and reads the sources of all agents.

Nothing is cached between calls: every result comes from the files as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from amux.adapters._base import (
    Adapter,
    Fingerprinted,
    NativeSearch,
    PartlyIndexed,
    SourceRef,
    Want,
    is_path,
)
from amux.adapters._kit.folders import is_folder
from amux.adapters._kit.long_lines import read_long_texts
from amux.assembly.assemble import Assembly, assemble, message_sources
from amux.assembly.session import AssembledSession, MessageSources, SourceSession
from amux.config import AgentSettings
from amux.errors import AmuxError
from amux.host import Host
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.reading.facts import read_facts
from amux.reading.messages import read_messages, with_tool_results
from amux.reading.registry import AdapterRegistry
from amux.reading.related import read_by_names, read_related

_EVERY_HIT = 1_000_000
_WITHOUT_FILES = ("none", "in-memory")
_INNER_FOLDERS = {"projects", "sessions"}


class SourceCatalog:
    """All sources of all agents on one host."""

    def __init__(
        self,
        host: Host,
        registry: AdapterRegistry,
        settings: Mapping[str, AgentSettings] | None = None,
    ) -> None:
        self._host = host
        self._registry = registry
        self._settings = settings or {}

    @property
    def env(self) -> Mapping[str, str]:
        """Return the environment that roots are resolved with."""
        return self._host.env

    def adapter(self, agent: str) -> Adapter:
        """Return the adapter that reads the agent's sessions."""
        return self._registry.require(agent)

    def configured_roots(self, agent: str) -> list[Path]:
        """Return every root of the agent, existing or not: its own, then those of the settings."""
        adapter = self._registry.require(agent)
        has_files = adapter.info.capabilities.session_persistence not in _WITHOUT_FILES
        if not has_files and not isinstance(adapter, Fingerprinted):
            return []
        own = [*adapter.roots(self._host)]
        added = self._settings.get(agent, AgentSettings()).roots
        return list(dict.fromkeys([*own, *(_session_root(root, own) for root in added)]))

    def roots_and_env(self, agent: str) -> tuple[list[Path], dict[str, str | None]]:
        """Return the configured roots and the environment variables they were resolved with."""
        env = RecordingEnvironment(self._host.env)
        host = Host(self._host.home, env=env, platform=self._host.platform, now=self._host.now)
        roots = SourceCatalog(host, self._registry, self._settings).configured_roots(agent)
        return roots, env.answers

    def roots(self, agent: str) -> list[Path]:
        """Return the roots that exist, or all of them if only the adapter can determine that."""
        if isinstance(self._registry.require(agent), Fingerprinted):
            return self.configured_roots(agent)
        configured = self.configured_roots(agent)
        return [root for root in configured if not is_path(str(root)) or is_folder(root)]

    def sources(self, agent: str, *, cwd: str | None = None) -> list[SourceRef]:
        """Return every source of the agent once, judged by names alone."""
        adapter = self._registry.require(agent)
        found: dict[str, SourceRef] = {}
        for root in self.roots(agent):
            for source in adapter.discover(root, cwd=cwd):
                found.setdefault(source.location, source)
        return list(found.values())

    def assembly(self, agent: str, *, cwd: str | None = None) -> Assembly:
        """Read and assemble all sessions of an agent."""
        return self.assemble_sources(agent, self.sources(agent, cwd=cwd))

    def queried_assembly(
        self, agent: str, session_id: str, *, sources: Sequence[SourceRef]
    ) -> Assembly | None:
        """Read a session and its related sessions; None if no source is a database."""
        if all(source.session_id or source.role != "session" for source in sources):
            return None
        return read_related(self._registry.require(agent), sources, session_id)

    def assembly_for(
        self, agent: str, session_id: str, *, sources: Sequence[SourceRef]
    ) -> Assembly:
        """Read a session and its related sessions from as few sources as possible."""
        adapter = self._registry.require(agent)
        found = read_related(adapter, sources, session_id)
        return found or read_by_names(adapter, sources, session_id)

    def assemble_sources(self, agent: str, sources: Sequence[SourceRef]) -> Assembly:
        """Read and assemble the sessions of some sources."""
        adapter = self._registry.require(agent)
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        for source in sources:
            read_facts(adapter, source, parts, problems)
        return assemble(agent, parts, problems)

    def messages(self, assembly: Assembly, session: AssembledSession) -> Iterator[SessionMessage]:
        """Yield the session's messages in order, beginning with history kept by reference."""
        sources = message_sources(assembly, session)
        return with_tool_results(self._messages(assembly.agent, sources, "all"))

    def native_search(self, agent: str, terms: Sequence[str]) -> set[str] | None:
        """Return the ids of sessions that may contain all terms, using the agent's own index.

        Terms are ASCII words. The result includes every session that contains them; it is None if
        the agent has no index.
        """
        adapter = self._registry.require(agent)
        if not isinstance(adapter, NativeSearch):
            return None
        hits = (
            hit
            for root in self.roots(agent)
            for hit in adapter.native_search(root, terms, limit=_EVERY_HIT)
        )
        try:
            return {session_id for session_id, _ in hits}.union(self._not_in_native_index(agent))
        except AmuxError:  # an adapter failed: a partial result would hide sessions
            return None

    def has_complete_native_index(self, agent: str) -> bool:
        """Return whether the agent has a full-text index that covers all its sessions."""
        has_index = isinstance(self._registry.require(agent), NativeSearch)
        return has_index and next(self._not_in_native_index(agent), None) is None

    def _not_in_native_index(self, agent: str) -> Iterator[str]:
        """Yield the ids of sessions that the agent's own index may not cover."""
        adapter = self._registry.require(agent)
        if isinstance(adapter, PartlyIndexed):
            for root in self.roots(agent):
                yield from adapter.not_in_native_index(root)

    def searchable(self, agent: str, sources: MessageSources) -> Iterator[SessionMessage]:
        """Yield the messages for a search; very long texts are cut (see `long_texts`)."""
        return self._messages(agent, sources, "texts")

    def long_texts(self, sources: MessageSources) -> Iterator[Iterator[str]]:
        """Yield each text that is too long for memory as an iterator over its pieces."""
        for path in (each.source.path for each in sources.slices if each.source.has_path):
            for _, windows in groupby(read_long_texts(path), key=itemgetter(0)):
                yield (window for _, window in windows)

    def _messages(
        self, agent: str, sources: MessageSources, want: Want
    ) -> Iterator[SessionMessage]:
        items = read_messages(self._registry.require(agent), sources, want=want)
        return (item for item in items if isinstance(item, SessionMessage))


def _session_root(root: Path, own: Sequence[Path]) -> Path:
    """Return the root within a configured directory, which may be a copy of the agent's home.

    Agents whose own roots all end in `projects` or `sessions` keep their sessions in that folder.
    """
    names = {each.name for each in own}
    if len(names) == 1 and names < _INNER_FOLDERS and is_folder(inner := root / names.pop()):
        return inner
    return root


class RecordingEnvironment(Mapping[str, str]):
    """An environment that records the variables that are read, with their values."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.answers: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        self.answers[name] = self._env.get(name)
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)
