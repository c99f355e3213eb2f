"""The specification's three session methods, derived from an adapter and a host.

They serve callers that use the adapter interface of the specification; the session manager uses the
adapter's own protocol.
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
    """An agent adapter as defined by the specification."""

    def __init__(self, adapter: Adapter, host: Host, catalog: SourceCatalog) -> None:
        self._adapter = adapter
        self._host = host
        self._catalog = catalog

    @property
    def info(self) -> AgentInfo:
        """Return the description of the agent."""
        return self._adapter.info

    @property
    def agent(self) -> str:
        """Return the agent's name."""
        return self.info.name

    @property
    def display_name(self) -> str:
        """Return the agent's display name."""
        return self.info.label

    @property
    def cli_command(self) -> str:
        """Return the command that starts the agent."""
        return self.info.cli_command

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of the agent."""
        return self.info.capabilities

    def session_dir(self, cwd: str | None = None) -> Path:
        """Return the directory of the agent's sessions: the first that exists, else the default."""
        roots = self._adapter.roots(self._host)
        for source in self._catalog.sources(self.agent, cwd=cwd) if cwd is not None else ():
            if source.has_path:
                return source.path.parent
        if not roots:
            raise AmuxError(
                f"{self.display_name} has no directory for sessions", code=ErrorCode.PLUGIN_ERROR
            )
        existing = (root for root in roots if is_path(str(root)) and is_folder(root))
        return next(existing, roots[0])

    def list_session_files(self, cwd: str | None = None) -> Iterator[Path]:
        """Yield the files of all sessions; nothing if the directory is missing or unreadable."""
        for source in self._catalog.sources(self.agent, cwd=cwd):
            if source.role == "session" and source.has_path:
                yield source.path

    def parse_session_file(self, file: str | Path) -> Session:
        """Parse one file as a session; calls copied from other sessions are not recognized."""
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
