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
from amux.assembly.session import SourceSession
from amux.errors import ParseError
from amux.model.problems import Problem
from amux.reading.facts import read_facts
from amux.reading.sources import SourceCatalog

_OF_WHOLE_SOURCES: Final = frozenset({"unreadable", "unknown-format", "decoder-missing"})
_HINTS: Final = {
    "decoder-missing": "`pip install zstandard` installs the decoder",
    "unreadable": "the operating system refused it; `amux doctor` shows what else it refuses",
}
_DAMAGED: Final = "the file is damaged or newer than this version of amux"
_SHOWN: Final = 3
_BLANK_BYTES: Final = 1 << 16


def find_read_error(library: SourceCatalog, agent: str, name: str) -> Problem | None:
    """Why there is no session in the source whose name promises it; None: it is not damaged."""
    adapter = library.adapter(agent)
    for source in library.sources(agent):
        if not _promises(source, name):
            continue
        parts: list[SourceSession] = []
        problems: list[Problem] = []
        read_facts(adapter, source, parts, problems)
        if any(part.facts.attributed for part in parts):
            continue
        problems += (problem for part in parts for problem in part.facts.problems)
        if problems:
            return (*_of_whole_sources(problems), *problems)[0]
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
    unread = _in_a_line(problems)
    return f"; it may lie in what could not be read: {unread}" if unread else ""


def log_unread(agent: str, problems: Iterable[Problem]) -> None:
    """Tell whoever listens to the log, with one warning, which sources could not be read."""
    unread = _in_a_line(problems)
    if unread:
        import logging

        logging.getLogger("amux").warning("not all of %s could be read: %s", agent, unread)


def _in_a_line(problems: Iterable[Problem]) -> str:
    """Those of whole sources; the name of a file may be anything, and a line stays one."""
    lines = [str(each) for each in _of_whole_sources(problems)]
    more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    text = "; ".join(lines[:_SHOWN]) + more
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _of_whole_sources(problems: Iterable[Problem]) -> list[Problem]:
    """Those for which a source tells of no session, each once."""
    return list(dict.fromkeys(each for each in problems if each.code in _OF_WHOLE_SOURCES))


def _promises(source: SourceRef, name: str) -> bool:
    """Whether a source, going by its name, holds a session whose id begins like this."""
    if source.role == "names":
        return False
    begins = source.id_prefix or source.session_id or ""
    is_cut = source.id_prefix and name.startswith(begins)
    return bool(is_cut) or begins.startswith(name) or source.name.split(".")[0] == name


def _is_blank(path: Path) -> bool:
    """Whether a file holds no record: nothing, or nothing but blanks."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_BLANK_BYTES)
    except OSError:
        return False
    return len(data) < _BLANK_BYTES and not data.strip(b" \t\r\n\0")
