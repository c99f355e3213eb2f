"""An adapter bound to a host: the specification's three session methods, derived.

They stand beside the session manager, for callers who know the specification's adapter interface;
the manager itself works from the adapter's own protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amux.adapters._base import Adapter, AgentInfo, Capabilities, SourceRef, is_path
from amux.adapters._kit.folders import is_folder
from amux.assembly.summary import full_session
from amux.errors import AmuxError, ErrorCode, ParseError
from amux.host import Host
from amux.model.session import Session
from amux.reading.sources import SourceCatalog


class SpecAdapter:
    """What the specification calls an agent adapter."""

    def __init__(self, adapter: Adapter, host: Host, catalog: SourceCatalog) -> None:
        self._adapter = adapter
        self._host = host
        self._catalog = catalog

    @property
    def info(self) -> AgentInfo:
        """Who the agent is."""
        return self._adapter.info

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.info.name

    @property
    def display_name(self) -> str:
        """The agent's name for people."""
        return self.info.label

    @property
    def cli_command(self) -> str:
        """The program that starts the agent."""
        return self.info.cli_command

    @property
    def capabilities(self) -> Capabilities:
        """What the agent can do."""
        return self.info.capabilities

    def session_dir(self, cwd: str | None = None) -> Path:
        """Where the agent keeps its sessions: the first place that exists, else the usual one."""
        roots = self._adapter.roots(self._host)
        for source in self._catalog.sources(self.agent, cwd=cwd) if cwd is not None else ():
            if source.has_path:
                return source.path.parent
        if not roots:
            raise AmuxError(
                f"{self.display_name} has no place for sessions", code=ErrorCode.PLUGIN_ERROR
            )
        existing = (root for root in roots if is_path(str(root)) and is_folder(root))
        return next(existing, roots[0])

    def list_session_files(self, cwd: str | None = None) -> Iterator[Path]:
        """The files of all sessions; nothing when the place is missing or forbidden."""
        for source in self._catalog.sources(self.agent, cwd=cwd):
            if source.role == "session" and source.has_path:
                yield source.path

    def parse_session_file(self, file: str | Path) -> Session:
        """One file as a session, on its own: copies of other sessions are not told apart here."""
        path = Path(file)
        found = (source for source in self._catalog.sources(self.agent) if source.path == path)
        source = next(found, None) or SourceRef(
            agent=self.agent, path=path, root=path.parent, session_id=path.stem
        )
        assembly = self._catalog.assemble_sources(self.agent, [source])
        for session in assembly.sessions:
            if session.listed:
                messages = self._catalog.messages(assembly, session)
                return full_session(session, messages, cost=None)
        reason = f": {assembly.problems[0]}" if assembly.problems else ""
        raise ParseError(f"`{file}` holds no session of {self.display_name}{reason}")
