"""Returns a list that reads only selected sources, and the same list from reading everything."""

from __future__ import annotations

from pathlib import Path

import msgspec

from amux import create_client
from amux.adapters import load_builtin
from amux.model.options import SessionListOptions
from amux.model.reports import ListReport

EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


def listed(home: Path, agent: str, options: SessionListOptions) -> ListReport:
    report = create_client(home=home).list_report((agent,), options)
    return msgspec.structs.replace(report, problems=())  # nobody looks at what is not shown


def listed_from_everything(home: Path, agent: str, options: SessionListOptions) -> ListReport:
    """Somebody else's adapter is never asked to choose: all sessions are read."""
    client = create_client(home=home)
    client.adapters.register(load_builtin(agent))
    report = client.list_report((agent,), options)
    return msgspec.structs.replace(report, problems=())
