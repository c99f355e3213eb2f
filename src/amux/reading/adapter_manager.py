"""`client.adapters`: which agents there are, and adding one."""

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
        """`detect` and `capabilities` look for the installed program; they run other programs."""
        self._host, self._registry, self._catalog = host, registry, catalog
        self._detect, self._capabilities = detect, capabilities

    def register(self, adapter: object) -> None:
        """Add an adapter: the full protocol, or the specification's three session methods."""
        self._registry.register(adapter)

    def unregister(self, agent: str) -> None:
        """Forget an adapter."""
        self._registry.unregister(agent)

    def get(self, agent: str) -> SpecAdapter | None:
        """The adapter with the specification's session methods, or None."""
        adapter = self._registry.get(agent)
        return None if adapter is None else SpecAdapter(adapter, self._host, self._catalog)

    def list(self) -> list[AgentInfo]:
        """Who the known agents are."""
        return self._registry.list()

    def detect(self, agent: str) -> InstalledAgent | None:
        """Whether the agent itself is installed, where, and which version; None: it is not."""
        return self._detect(self._registry.require(agent), self._host)

    def capabilities(self, agent: str, *, version: str | None = None) -> Capabilities:
        """What an agent can do: in that version, else in the one that is installed here.

        Where it is not installed, what the newest known version can do.
        """
        if version is None:
            return self._capabilities(self._registry, self._host, agent)
        return self._registry.capabilities(agent, version=version)
