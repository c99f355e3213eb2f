"""Adapters written by others: the specification's three methods, wrapped into the full protocol.

A third party may write just `session_dir(cwd)`, `list_session_files(cwd)` and
`parse_session_file(path)`; everything else is derived here, only slower. What such code raises is
reported as a problem of that one file, so that a broken plugin hides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol, cast

from amux.adapters._base import (
    Adapter,
    AgentInfo,
    Capabilities,
    Command,
    Head,
    Item,
    Persistence,
    SourceRef,
    Want,
)
from amux.adapters._kit.fold import Fold
from amux.errors import ValidationError
from amux.host import Host
from amux.model.cost import CostRecord
from amux.model.message import SessionMessage, TokenUsage
from amux.model.problems import Problem
from amux.model.session import Session
from amux.model.usage import NANO, Call, Tokens

_METHODS = ("session_dir", "list_session_files", "parse_session_file")
_FULL = ("info", "roots", "discover", "read")


class ThreeMethodAdapter(Protocol):
    """What a third party writes at least."""

    agent: str

    def session_dir(self, cwd: str | None = None) -> str | Path:
        """The directory of the sessions."""
        ...

    def list_session_files(self, cwd: str | None = None) -> Iterable[str | Path]:
        """Paths of all session files; nothing when the directory is missing."""
        ...

    def parse_session_file(self, file: str | Path) -> Session:
        """One whole session."""
        ...


def as_adapter(candidate: object) -> Adapter:
    """Check what somebody wants to register and give it the full protocol."""
    if all(hasattr(candidate, name) for name in _FULL):
        adapter = cast("Adapter", candidate)
        _check_name(adapter.info.name)
        return adapter
    missing = [name for name in _METHODS if not callable(getattr(candidate, name, None))]
    if missing:
        raise ValidationError(
            f"an adapter needs callable {', '.join(f'`{name}`' for name in missing)}",
            fields=missing,
            hint="docs/guides/write-an-adapter.md shows the three methods and the full protocol",
        )
    _check_name(getattr(candidate, "agent", None))
    return WrappedAdapter(cast("ThreeMethodAdapter", candidate))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or ":" in name:
        raise ValidationError(
            f"`{name}` cannot be an agent's name",
            fields=("agent",),
            hint="use a word without a colon; it becomes the first part of unified ids",
        )


class WrappedAdapter:
    """A three-method adapter as a full one."""

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

    def roots(self, host: Host) -> Sequence[Path]:  # noqa: ARG002 - the plugin knows its own place
        """The plugin's one directory."""
        return [Path(self._inner.session_dir())]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """What the plugin lists."""
        for file in self._inner.list_session_files(cwd):
            path = Path(file)
            yield SourceRef(agent=self.info.name, path=path, root=root, session_id=path.stem)

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Parse the file and stream what came out."""
        del until
        try:
            session = self._inner.parse_session_file(source.path)
        except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises is about one file
            yield Problem(
                code="unknown-format",
                message=f"the adapter `{self.info.name}` failed ({type(error).__name__}: {error})",
                path=str(source.path),
            )
            return
        if only is None or only == session.session_id:
            yield from _items(session, want)

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """A plugin of three methods starts nothing."""
        del action, session_id, prompt, cwd, version
        return None


def _capabilities(given: object) -> Capabilities:
    if isinstance(given, Capabilities):
        return given
    persistence = getattr(given, "session_persistence", "file")
    return Capabilities(
        session_persistence=cast("Persistence", persistence),
        can_resume=bool(getattr(given, "can_resume", False)),
        can_fork=bool(getattr(given, "can_fork", False)),
    )


def _items(session: Session, want: Want) -> Iterator[Item]:
    fold = Fold()
    yield Head(session_id=session.session_id)
    for message in session.messages:
        fold.message(message)
        if want == "all":
            yield message
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
        created_at=session.created_at,
        updated_at=session.updated_at,
        archived=session.archived,
        raw=session.raw,
    )


def _calls(session: Session) -> Iterator[Call]:
    """The session's own calls; else one per message with usage; else one for its total."""
    if session.calls:
        yield from session.calls
        return
    found = False
    for index, message in enumerate(session.messages):
        if message.token_usage is not None:
            found = True
            yield _call_of_message(session, index, message, message.token_usage)
    if not found and session.cost is not None:
        cost = session.cost
        yield Call(
            key=f"{session.session_id}#total",
            model=session.model,
            at=session.updated_at,
            tokens=Tokens(
                input=cost.input_tokens,
                cache_read=cost.cached_tokens or 0,
                cache_write=cost.cache_write_tokens or 0,
                output=cost.output_tokens,
                thinking=cost.thinking_tokens,
            ),
            native_nusd=_nusd(cost),
        )


def _nusd(cost: CostRecord) -> int | None:
    """The recorded amount; the specification writes 0 for an unknown one."""
    return round(cost.total_usd * NANO) or None


def _call_of_message(
    session: Session, index: int, message: SessionMessage, usage: TokenUsage
) -> Call:
    return Call(
        key=f"{session.session_id}#{index}",
        model=message.model or session.model,
        at=message.timestamp,
        tokens=Tokens(
            input=usage.input_tokens,
            cache_read=usage.cached_tokens or 0,
            cache_write=usage.cache_write_tokens or 0,
            output=usage.output_tokens,
            thinking=usage.thinking_tokens,
        ),
        native_nusd=None if message.cost is None else _nusd(message.cost),
        message_id=message.id,
    )
