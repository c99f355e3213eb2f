"""The sessions of a home as a search gets them, with whatever else it may be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders import NOW, open_client

from amux.host import Host
from amux.model.options import SessionQuery
from amux.model.reports import SearchReport
from amux.sessions.costing import Coster
from amux.sessions.library import Library
from amux.sessions.registry import AdapterRegistry
from amux.sessions.search import Holdings, Search
from amux.sessions.subjects import assembled_subjects


def hold(home: Path, **more: Any) -> Holdings:
    registry, client = AdapterRegistry(), open_client(home)
    library = Library(Host(home, env={}), registry)
    assemblies = [library.assembly(name) for name in registry.names()]
    coster = Coster(client.models, client.run_index)
    return Holdings(library, list(assembled_subjects(assemblies, coster)), **more)


def search(holdings: Holdings, text: str, **more: Any) -> SearchReport:
    return Search(SessionQuery(text=text, **more), now=NOW).run(holdings)
