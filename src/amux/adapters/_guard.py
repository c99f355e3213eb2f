"""The guard around adapters written by others: what they raise becomes a problem of a source.

A fault ends at most one source; a broken adapter hides nothing else. What is optional in the
protocol is offered only if the adapter offers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from amux.adapters._base import (
    Adapter,
    Item,
    NativeSearch,
    Progress,
    Reading,
    Resumable,
    SourceRef,
    Want,
    has_bodies,
)
from amux.errors import AmuxError, ErrorCode
from amux.host import Host
from amux.model.facts import Facts
from amux.model.problems import Problem


def reason_of(error: Exception) -> str:
    """What was raised, in one line."""
    return f"{type(error).__name__}: {error}"


def warn(message: str) -> None:
    """Tell whoever listens to the log; foreign code failed where no source can be blamed."""
    import logging

    logging.getLogger("amux").warning(message)


class GuardedAdapter:
    """Somebody else's adapter. What it raises becomes a problem and ends at most one source."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner
        self.info = inner.info
        self.command = inner.command
        if isinstance(inner, NativeSearch):
            self.native_search = _Search(inner, self.info.name)
        if isinstance(inner, Resumable):
            self.read_on = _ReadingOn(inner, self)

    def roots(self, host: Host) -> Sequence[Path]:
        """The adapter's places; none when it cannot say."""
        try:
            return [*self._inner.roots(host)]
        except Exception as error:  # noqa: BLE001 - foreign code
            warn(f"the adapter `{self.info.name}` does not know its place ({reason_of(error)})")
            return []

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        """Its sources; after a fault the root itself follows, so that reading tells the fault."""
        try:
            yield from self._inner.discover(root, cwd=cwd)
        except Exception:  # noqa: BLE001 - foreign code
            yield SourceRef(agent=self.info.name, path=root, root=root, role="names")

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        """What it reads, up to a fault.

        It is asked for "facts" or for "all", which every adapter knows. What else can be wanted is
        part of these, so that one written before it existed gives the same answer.
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
        """What it raised, as a problem of the source it was about."""
        return Problem(
            code="unknown-format",
            message=f"the adapter `{self.info.name}` failed ({reason_of(error)})",
            path=str(source.path),
        )


class _Search:
    """Its own index. A failed search proposes nothing: that would hide sessions."""

    def __init__(self, inner: NativeSearch, name: str) -> None:
        self._inner = inner
        self._name = name

    def __call__(
        self, root: Path, terms: Sequence[str], *, limit: int
    ) -> Iterator[tuple[str, float]]:
        """What it finds; raises an AmuxError for whatever it raises."""
        try:
            yield from self._inner.native_search(root, terms, limit=limit)
        except Exception as error:
            reason = f"the adapter `{self._name}` cannot search ({reason_of(error)})"
            raise AmuxError(reason, code=ErrorCode.PLUGIN_ERROR) from error


class _ReadingOn:
    """Its way to go on reading; where that fails, the source is read from its beginning."""

    def __init__(self, inner: Resumable, guard: GuardedAdapter) -> None:
        self._inner = inner
        self._guard = guard

    def __call__(
        self, source: SourceRef, *, want: Literal["usage", "facts"], progress: Progress | None
    ) -> Reading:
        """What it reads, or what a direct reading tells and the fault."""
        try:
            return self._inner.read_on(source, want=want, progress=progress)
        except Exception as error:  # noqa: BLE001 - foreign code
            items = [self._guard.fault(source, error), *self._guard.read(source, want=want)]
            facts = tuple(item for item in items if isinstance(item, Facts))
            told = {problem for one in facts for problem in one.problems}
            problems = (item for item in items if isinstance(item, Problem))
            loose = tuple(problem for problem in problems if problem not in told)
            return Reading(facts=facts, problems=loose)
