"""Third-party adapters: wraps the specification's three methods into the full protocol.

A third party may implement just `session_dir(cwd)`, `list_session_files(cwd)` and
`parse_session_file(path)`. This module derives the rest of the protocol from them, which is slower
than a full adapter. An adapter that cannot be imported becomes an agent without sessions; the
guard handles exceptions that an adapter raises later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, cast

from msgspec.structs import replace

from amux.adapters import load_external
from amux.adapters._base import (
    Adapter,
    AgentInfo,
    Capabilities,
    Command,
    Head,
    Item,
    SourceRef,
    Want,
    has_bodies,
)
from amux.adapters._guard import GuardedAdapter, reason_of, warn
from amux.adapters._kit.fold import Fold, add_messages
from amux.errors import ValidationError
from amux.host import Host
from amux.model.cost import CostRecord
from amux.model.message import TokenUsage
from amux.model.reports import Persistence
from amux.model.session import Session
from amux.model.usage import NANO, Call, Tokens

_METHODS = ("session_dir", "list_session_files", "parse_session_file")
_FULL = ("info", "roots", "discover", "read")


class ThreeMethodAdapter(Protocol):
    """The smallest interface that amux accepts as an adapter."""

    agent: str

    def session_dir(self, cwd: str | None = None) -> str | Path:
        """Return the directory that holds the sessions."""
        ...

    def list_session_files(self, cwd: str | None = None) -> Iterable[str | Path]:
        """Return the paths of all session files; empty if the directory is missing."""
        ...

    def parse_session_file(self, file: str | Path) -> Session:
        """Read a file and return its session with all messages."""
        ...


def as_adapter(candidate: object) -> Adapter:
    """Return a guarded adapter with the full protocol; raise ValidationError if it is none."""
    if all(hasattr(candidate, name) for name in _FULL):
        adapter = cast("Adapter", candidate)
        _check_name(adapter.info.name)
        return GuardedAdapter(adapter)
    missing = [name for name in _METHODS if not callable(getattr(candidate, name, None))]
    if missing:
        raise ValidationError(
            f"an adapter needs the methods {', '.join(f'`{name}`' for name in missing)}",
            fields=missing,
            hint="docs/guides/write-an-adapter.md shows the three methods and the full protocol",
        )
    _check_name(getattr(candidate, "agent", None))
    return GuardedAdapter(WrappedAdapter(cast("ThreeMethodAdapter", candidate)))


def load_plugin(name: str) -> Adapter | None:
    """Return an installed package's adapter, or its substitute if it cannot be loaded.

    Return None if no package has an adapter of that name.
    """
    try:
        candidate = load_external(name)
        return None if candidate is None else as_adapter(candidate)
    except Exception as error:  # noqa: BLE001 - foreign code: importing it may raise anything
        reason = reason_of(error)
        warn(f"the adapter `{name}` cannot be loaded ({reason})")
        return UnloadableAdapter(name, reason)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or ":" in name:
        raise ValidationError(
            f"`{name}` cannot be an agent's name",
            fields=("agent",),
            hint="use a word without a colon; it becomes the first part of unified ids",
        )


class _StartsNothing:
    """Implements `command` for an adapter that cannot start its agent."""

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Return None."""
        del action, session_id, prompt, cwd, version
        return None


class UnloadableAdapter(_StartsNothing):
    """Substitute for an adapter that cannot be loaded: no sessions, and the reason as evidence."""

    def __init__(self, name: str, reason: str) -> None:
        self.info = AgentInfo(
            name=name,
            label=name,
            cli_command=name,
            capabilities=Capabilities(session_persistence="none", records_usage=False),
            tier="plugin",
            evidence=f"cannot be loaded ({reason})",
        )

    def roots(self, host: Host) -> Sequence[Path]:
        """Return no roots."""
        del host
        return []

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield no sources."""
        del root, cwd
        return iter(())

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield no items."""
        del source, want, only, until
        return iter(())


class WrappedAdapter(_StartsNothing):
    """Derives the full protocol from a three-method adapter."""

    def __init__(self, inner: ThreeMethodAdapter) -> None:
        self._inner = inner
        self.info = AgentInfo(
            name=inner.agent,
            label=str(getattr(inner, "display_name", inner.agent)),
            cli_command=str(getattr(inner, "cli_command", inner.agent)),
            capabilities=_capabilities(getattr(inner, "capabilities", None)),
            tier="plugin",
            evidence="third party",
        )

    def roots(self, host: Host) -> Sequence[Path]:  # noqa: ARG002 - the plugin determines it
        """Return the session directory of the plugin."""
        return [Path(self._inner.session_dir())]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield one source for each session file of the plugin."""
        for file in self._inner.list_session_files(cwd):
            path = Path(file)
            yield SourceRef(agent=self.info.name, path=path, root=root, session_id=path.stem)

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Parse the file and yield the items of its session and of the sub-agents in it."""
        del until
        parsed = cast("object", self._inner.parse_session_file(source.path))
        if not isinstance(parsed, Session):
            found = type(parsed).__name__
            raise TypeError(f"`parse_session_file` returned a {found}, not a Session")
        for member in _with_children(parsed):
            if only is None or only == member.session_id:
                yield from _items(member, want)


def _capabilities(given: object) -> Capabilities:
    if isinstance(given, Capabilities):
        return given
    persistence = getattr(given, "session_persistence", "file")
    return Capabilities(
        session_persistence=cast("Persistence", persistence),
        can_resume=bool(getattr(given, "can_resume", False)),
        can_fork=bool(getattr(given, "can_fork", False)),
    )


def _with_children(session: Session) -> Iterator[Session]:
    yield session
    for child in session.children:
        yield from _with_children(replace(child, kind="subagent", parent=session.session_id))


def _utc(moment: datetime | None) -> datetime | None:
    """Take a time without a zone for UTC: the two kinds cannot be compared."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _items(session: Session, want: Want) -> Iterator[Item]:
    fold = Fold()
    yield Head(session_id=session.session_id)
    messages = (replace(given, timestamp=_utc(given.timestamp)) for given in session.messages)
    yield from add_messages(fold, messages, bodies=has_bodies(want))
    for call in _calls(session):
        fold.call(call)
        yield call
    for problem in session.problems:
        fold.problem(problem)
    yield fold.facts(
        session.session_id,
        kind=session.kind,
        parent=session.parent or session.forked_from,
        cwd=session.cwd,
        name=session.title or None,
        created_at=_utc(session.created_at),
        updated_at=_utc(session.updated_at),
        archived=session.archived,
        raw=session.raw,
    )


def _calls(session: Session) -> Iterator[Call]:
    """Yield the session's calls; else one per message with usage; else one for its total cost."""
    if session.calls:
        yield from (replace(call, at=_utc(call.at)) for call in session.calls)
        return
    found = False
    for index, message in enumerate(session.messages):
        if message.token_usage is not None:
            found = True
            yield Call(
                key=f"{session.session_id}#{index}",
                model=message.model or session.model,
                at=_utc(message.timestamp),
                tokens=_tokens(message.token_usage),
                native_nusd=_nusd(message.cost),
                message_id=message.id,
            )
    if not found and session.cost is not None:
        yield Call(
            key=f"{session.session_id}#total",
            model=session.model,
            at=_utc(session.updated_at),
            tokens=_tokens(session.cost),
            native_nusd=_nusd(session.cost),
        )


def _nusd(cost: CostRecord | None) -> int | None:
    """Return the recorded cost; None for 0, which the specification uses for an unknown cost."""
    return None if cost is None else round(cost.total_usd * NANO) or None


def _tokens(usage: TokenUsage | CostRecord) -> Tokens:
    return Tokens(
        input=usage.input_tokens,
        cache_read=usage.cached_tokens or 0,
        cache_write=usage.cache_write_tokens or 0,
        output=usage.output_tokens,
        thinking=usage.thinking_tokens,
    )
