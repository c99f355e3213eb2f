"""Sources that are there but cannot be read: what is said of a session that was asked for.

Whoever asks for a session must learn whether it is missing or damaged. A source whose name promises
the session is damaged if it tells of no session at all. Where no name promises it, it may still lie
in a database or a folder that could not be read, and these are named.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    "unreadable": "the operating system refused it; `amux doctor` shows what else it refuses",
}
_DAMAGED: Final = "the file is damaged or newer than this version of amux"
_SHOWN: Final = 3
_BLANK_BYTES: Final = 1 << 16


def find_read_error(catalog: SourceCatalog, agent: str, name: str) -> Problem | None:
    """Why there is no session in the source whose name promises it; None: it is not damaged."""
    adapter = catalog.adapter(agent)
    for source in catalog.sources(agent):
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
            message = "there is nothing to read"
            return Problem(code="unknown-format", message=message, path=source.location)
    return None


def damaged(agent: str, name: str, problem: Problem) -> ParseError:
    """The error to raise for a session whose source is damaged."""
    return ParseError(
        f"session `{name}` of {agent} cannot be read: {problem}",
        hint=_HINTS.get(problem.code, _DAMAGED),
    )


def unreadable_hint(problems: Iterable[Problem]) -> str:
    """What to add to the news that a session is missing: where it may lie all the same."""
    unread = _summary(problems)
    return f"; it may lie in what could not be read: {unread}" if unread else ""


def log_unread(agent: str, problems: Iterable[Problem]) -> None:
    """Tell whoever listens to the log, with one warning, which sources could not be read."""
    unread = _summary(problems)
    if unread:
        import logging

        logging.getLogger("amux").warning("not all of %s could be read: %s", agent, unread)


def _summary(problems: Iterable[Problem]) -> str:
    """Those of whole sources; the name of a file may be anything, and a line stays one."""
    failures = [str(problem) for problem in _source_failures(problems)]
    more = f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
    text = "; ".join(failures[:_SHOWN]) + more
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _source_failures(problems: Iterable[Problem]) -> list[Problem]:
    """Those for which a source tells of no session, each once."""
    return list(dict.fromkeys(each for each in problems if each.code in SOURCE_FAILURES))


def _may_hold(source: SourceRef, name: str) -> bool:
    """Whether a source, going by its name, holds a session whose id begins like this."""
    if source.role == "names":
        return False
    known_id = source.id_prefix or source.session_id or ""
    is_longer = source.id_prefix and name.startswith(known_id)
    return bool(is_longer) or known_id.startswith(name) or source.name.split(".")[0] == name


def _is_blank(path: Path) -> bool:
    """Whether a file holds no record: nothing, or nothing but blanks."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_BLANK_BYTES)
    except OSError:
        return False
    return len(data) < _BLANK_BYTES and not data.strip(b" \t\r\n\0")
