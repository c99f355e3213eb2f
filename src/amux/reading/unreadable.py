"""Explains why a requested session cannot be read: errors and hints about unreadable sources.

A source with the id of the session in its name is damaged if it contains no session at all. If no
name has the id, the session may still be in a database or folder that could not be read, and the
error names these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from amux.adapters._base import SourceRef
from amux.assembly.assemble import SOURCE_FAILURES
from amux.assembly.session import SourceSession
from amux.errors import ParseError
from amux.model.problems import Problem
from amux.reading.facts import read_facts
from amux.reading.sources import SourceCatalog

_HINTS: Final = {
    "decoder-missing": "`pip install zstandard` installs the decoder",
    "unreadable": "the operating system denied access; `amux doctor` lists all unreadable sources",
}
_DAMAGED: Final = "the file is damaged or newer than this version of amux"
_SHOWN: Final = 3
_BLANK_BYTES: Final = 1 << 16


def find_read_error(
    catalog: SourceCatalog, agent: str, name: str, *, sources: Sequence[SourceRef]
) -> Problem | None:
    """Return the problem of the source with that session in its name; None if it is readable."""
    adapter = catalog.adapter(agent)
    for source in sources:
        if not _may_hold(source, name):
            continue
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        read_facts(adapter, source, parts, problems)
        if any(part.facts.attributed for part in parts):
            continue
        problems += (problem for part in parts for problem in part.facts.problems)
        if problems:
            return (*_source_failures(problems), *problems)[0]
        if source.has_path and _is_blank(source.path):
            message = "no records"
            return Problem(code="unknown-format", message=message, path=source.location)
    return None


def damaged(agent: str, name: str, problem: Problem) -> ParseError:
    """Return the error for a session whose source is damaged."""
    return ParseError(
        f"session `{name}` of {agent} cannot be read: {problem}",
        hint=_HINTS.get(problem.code, _DAMAGED),
    )


def unreadable_hint(problems: Iterable[Problem]) -> str:
    """Return a suffix for 'not found' errors: the unreadable sources it may be in; else empty."""
    unread = _summary(problems)
    return f"; it may be in a source that could not be read: {unread}" if unread else ""


def has_source_failure(problems: Iterable[Problem]) -> bool:
    """Return whether a whole source could not be read."""
    return bool(_source_failures(problems))


def log_unread(agent: str, problems: Iterable[Problem]) -> None:
    """Log one warning that names the sources that could not be read, if there are any."""
    unread = _summary(problems)
    if unread:
        import logging

        logging.getLogger("amux").warning("some sources of %s could not be read: %s", agent, unread)


def _summary(problems: Iterable[Problem]) -> str:
    """Return the problems of whole sources in one line; file names may contain any character."""
    failures = [str(problem) for problem in _source_failures(problems)]
    more = f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
    text = "; ".join(failures[:_SHOWN]) + more
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _source_failures(problems: Iterable[Problem]) -> list[Problem]:
    """Return the distinct problems that make a whole source unreadable."""
    return list(dict.fromkeys(each for each in problems if each.code in SOURCE_FAILURES))


def _may_hold(source: SourceRef, name: str) -> bool:
    """Return whether the name of a source shows a session whose id begins with `name`."""
    if source.role == "names":
        return False
    known_id = source.id_prefix or source.session_id or ""
    is_longer = source.id_prefix and name.startswith(known_id)
    return bool(is_longer) or known_id.startswith(name) or source.name.split(".")[0] == name


def _is_blank(path: Path) -> bool:
    """Return whether a file is empty or contains only whitespace and zero bytes."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_BLANK_BYTES)
    except OSError:
        return False
    return len(data) < _BLANK_BYTES and not data.strip(b" \t\r\n\0")
