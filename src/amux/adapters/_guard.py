"""The guard around third-party adapters: it turns their exceptions into problems of a source.

An exception ends the reading of at most one source, so a broken adapter hides nothing else. The
guard has an optional member of the protocol only if the adapter has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from amux.adapters._base import (
    Adapter,
    Checkpoint,
    Fingerprinted,
    Item,
    NativeSearch,
    Reading,
    Resumable,
    SourceRef,
    Want,
    has_bodies,
    warn_renamed,
)
from amux.errors import AmuxError, ErrorCode
from amux.host import Host
from amux.model.facts import Facts
from amux.model.problems import Problem


def reason_of(error: Exception) -> str:
    """Return an exception's type and message in one line."""
    return f"{type(error).__name__}: {error}"


def warn(message: str) -> None:
    """Log a warning about a failure of third-party code that concerns no particular source."""
    import logging

    logging.getLogger("amux").warning(message)


class GuardedAdapter:
    """A third-party adapter whose exceptions become problems and end at most one source."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner
        self.info = inner.info
        self.command = inner.command
        self.origin = f"{type(inner).__module__}.{type(inner).__qualname__}"
        if isinstance(inner, Fingerprinted):
            self.fingerprint = partial(_fingerprint, inner)
        if isinstance(inner, NativeSearch):
            self.native_search = _Search(inner, self.info.name)
        if isinstance(inner, Resumable):
            self.resume_read = _ResumedRead(inner.resume_read, self)
        elif callable(read_on := getattr(inner, "read_on", None)):
            warn_renamed("read_on", "resume_read")
            self.resume_read = _ResumedRead(partial(_read_on, read_on), self)

    def roots(self, host: Host) -> Sequence[Path]:
        """Return the adapter's roots; empty, with a warning, if it raises."""
        try:
            return [*self._inner.roots(host)]
        except Exception as error:  # noqa: BLE001 - foreign code
            warn(f"the adapter `{self.info.name}` cannot name its roots ({reason_of(error)})")
            return []

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Yield the adapter's sources; if it raises, the root itself, whose `read` reports why."""
        try:
            yield from self._inner.discover(root, cwd=cwd)
        except Exception:  # noqa: BLE001 - foreign code
            yield SourceRef(agent=self.info.name, path=root, root=root, role="names")

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """Yield the adapter's items; if it raises, a problem follows those it has yielded.

        The adapter is only ever asked for "facts" or "all", which include the other values of
        `want`, so that adapters written before these were introduced give the same answers.
        """
        want = "all" if has_bodies(want) else "facts"
        try:
            if source.path == source.root and source.role == "names":
                for _ in self._inner.discover(source.root):
                    pass
            else:
                yield from self._inner.read(source, want=want, only=only, until=until)
        except Exception as error:  # noqa: BLE001 - foreign code
            yield self.fault(source, error)

    def fault(self, source: SourceRef, error: Exception) -> Problem:
        """Return an exception of the adapter as a problem of the source."""
        return Problem(
            code="unknown-format",
            message=f"the adapter `{self.info.name}` failed ({reason_of(error)})",
            path=source.location,
        )


class _Search:
    """Guards `native_search`. A failed search must not look empty: that would hide sessions."""

    def __init__(self, inner: NativeSearch, name: str) -> None:
        self._inner = inner
        self._name = name

    def __call__(
        self, root: Path, terms: Sequence[str], *, limit: int
    ) -> Iterator[tuple[str, float]]:
        """Yield the adapter's hits; raise an AmuxError in place of any other exception."""
        try:
            yield from self._inner.native_search(root, terms, limit=limit)
        except Exception as error:
            reason = f"the adapter `{self._name}` cannot search ({reason_of(error)})"
            raise AmuxError(reason, code=ErrorCode.PLUGIN_ERROR) from error


def _fingerprint(inner: Fingerprinted, source: SourceRef | Path) -> bytes:
    """Return the adapter's fingerprint; b"", so that the source is read, if it returns no bytes."""
    try:
        found = cast("object", inner.fingerprint(source))
    except Exception:  # noqa: BLE001 - foreign code
        return b""
    return found if isinstance(found, bytes) else b""


def _read_on(
    read_on: Callable[..., Any],  # of an adapter written before 0.2
    source: SourceRef,
    *,
    checkpoint: Checkpoint | None,
) -> Reading:
    reading: Reading = read_on(source, want="facts", progress=checkpoint)
    return replace(reading, checkpoint=reading.checkpoint or reading.progress, progress=None)


class _ResumedRead:
    """Guards `resume_read`. If it fails, the source is read from its beginning."""

    def __init__(self, resume: Callable[..., Reading], guard: GuardedAdapter) -> None:
        self._resume = resume
        self._guard = guard

    def __call__(self, source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
        """Return the adapter's reading; if it raises, that of `read`, with a problem added."""
        try:
            return self._resume(source, checkpoint=checkpoint)
        except Exception as error:  # noqa: BLE001 - foreign code
            items = [self._guard.fault(source, error), *self._guard.read(source, want="facts")]
            facts = tuple(item for item in items if isinstance(item, Facts))
            in_sessions = {problem for one in facts for problem in one.problems}
            problems = (item for item in items if isinstance(item, Problem))
            others = tuple(problem for problem in problems if problem not in in_sessions)
            return Reading(facts=facts, problems=others)
