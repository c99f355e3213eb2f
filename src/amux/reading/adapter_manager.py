"""`client.adapters`: lists, adds and removes agent adapters."""

from __future__ import annotations

from collections.abc import Callable

from amux.adapters._base import Adapter, AgentInfo, Capabilities
from amux.host import Host
from amux.model.reports import InstalledAgent
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog
from amux.reading.spec_adapter import SpecAdapter


class AdapterManager:
    """The adapters of one client."""

    def __init__(
        self,
        host: Host,
        registry: AdapterRegistry,
        catalog: SourceCatalog,
        *,
        detect: Callable[[Adapter, Host], InstalledAgent | None],
        capabilities: Callable[[AdapterRegistry, Host, str], Capabilities],
    ) -> None:
        """Create the manager; `detect` and `capabilities` are functions that run other programs."""
        self._host, self._registry, self._catalog = host, registry, catalog
        self._detect, self._capabilities = detect, capabilities

    def register(self, adapter: object) -> None:
        """Add an adapter: the full protocol, or the specification's three session methods."""
        self._registry.register(adapter)

    def unregister(self, agent: str) -> None:
        """Remove an adapter."""
        self._registry.unregister(agent)

    def get(self, agent: str) -> SpecAdapter | None:
        """Return the adapter with the specification's session methods; None if it is unknown."""
        adapter = self._registry.get(agent)
        return None if adapter is None else SpecAdapter(adapter, self._host, self._catalog)

    def list(self) -> list[AgentInfo]:
        """Return the known agents."""
        return self._registry.list()

    def detect(self, agent: str) -> InstalledAgent | None:
        """Return the path and version of the installed agent; None if it is not installed."""
        return self._detect(self._registry.require(agent), self._host)

    def capabilities(self, agent: str, *, version: str | None = None) -> Capabilities:
        """Return the capabilities of an agent in a version, by default the installed one.

        If the agent is not installed, these are the capabilities of the newest known version.
        """
        if version is None:
            return self._capabilities(self._registry, self._host, agent)
        return self._registry.capabilities(agent, version=version)
