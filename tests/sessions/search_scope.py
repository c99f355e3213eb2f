"""Builds the scope of a search over a home, and runs searches in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders import NOW, open_client

from amux.assembly.cost import CostCalculator
from amux.host import Host
from amux.model.options import SessionQuery
from amux.model.reports import SearchReport
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog
from amux.sessions.search.search import Search, SearchScope
from amux.sessions.search.searchable import searchable_sessions


def scope_of(home: Path, **more: Any) -> SearchScope:
    registry, client = AdapterRegistry(), open_client(home)
    library = SourceCatalog(Host(home, env={}), registry)
    assemblies = [library.assembly(name) for name in registry.names()]
    coster = CostCalculator(client.models, client.run_index)
    return SearchScope(library, list(searchable_sessions(assemblies, coster)), **more)


def search(scope: SearchScope, text: str, **more: Any) -> SearchReport:
    return Search(SessionQuery(text=text, **more), now=NOW).run(scope)
