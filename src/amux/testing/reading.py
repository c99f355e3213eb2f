"""Helpers of tests that read the items of an adapter."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import msgspec

from amux.adapters._base import Adapter, Head, Item, SourceRef, Want
from amux.host import Host
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The items of one source."""

    items: list[Item]

    @property
    def messages(self) -> list[SessionMessage]:
        """Return the messages of all sessions of the source in order."""
        return [item for item in self.items if isinstance(item, SessionMessage)]

    @property
    def facts(self) -> list[Facts]:
        """Return the facts of each session."""
        return [item for item in self.items if isinstance(item, Facts)]

    @property
    def problems(self) -> list[Problem]:
        """Return all problems, including those that concern no session."""
        return [item for item in self.items if isinstance(item, Problem)]

    def by_session(self) -> dict[str, list[SessionMessage]]:
        """Return the messages of each session by session id."""
        sessions: dict[str, list[SessionMessage]] = {}
        current: list[SessionMessage] = []
        for item in self.items:
            if isinstance(item, Head):
                current = sessions.setdefault(item.session_id, [])
            elif isinstance(item, SessionMessage):
                current.append(item)
        return sessions


def read_source(adapter: Adapter, source: SourceRef, want: Want = "all") -> Reading:
    """Read one source completely."""
    return Reading(items=list(adapter.read(source, want=want)))


def sources_of(adapter: Adapter, home: Path) -> list[SourceRef]:
    """Return every source of an agent in a home, sorted by path."""
    host = Host(home)
    found = (s for root in adapter.roots(host) if root.is_dir() for s in adapter.discover(root))
    return sorted(found, key=lambda source: str(source.path))


def smallest_log(sources: Iterable[SourceRef]) -> SourceRef | None:
    """Return the smallest uncompressed line log, which is cheap to cut at every byte; or None."""
    logs = [s for s in sources if s.role == "session" and s.path.suffix == ".jsonl"]
    logs = [source for source in logs if source.path.stat().st_size > 0]
    return min(logs, key=lambda source: source.path.stat().st_size, default=None)


_recorders: list[list[str]] = []


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _recorders:
        for recorder in _recorders:
            recorder.append(str(arguments[0]))


_hooked: list[bool] = []


@contextmanager
def opened_files() -> Generator[list[str]]:
    """Record the paths that Python opens inside the block."""
    if not _hooked:  # an audit hook cannot be removed, so it is added only once
        sys.addaudithook(_audit)
        _hooked.append(True)
    record: list[str] = []
    _recorders.append(record)
    try:
        yield record
    finally:
        _recorders.remove(record)
