"""Lists the entry logs of a directory, and finds one by the beginning of its id."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from amux.errors import AmbiguousIdError, SessionNotFoundError, ValidationError
from amux.host import os_error_message
from amux.model.problems import Problem
from amux.model.titles import fold_title
from amux.rollout.entries import ENTRY_TYPES
from amux.rollout.entry_reader import (
    blocks_of,
    header_of,
    newer_format,
    read_lines,
    split_problems,
    text_in,
    time_in,
    warn_of,
)

_SUFFIX: Final = ".jsonl"
_SHORT_ID: Final = 8
_NAME_TIME: Final = "%Y%m%d-%H%M%S"
_NAME: Final = re.compile(r"(\d{8}-\d{6})-[0-9a-fA-F]{8}")
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


def log_name(id: str, at: datetime) -> str:
    """Return the name of the file of a log: its time of creation and the beginning of its id."""
    return f"{at.astimezone(UTC).strftime(_NAME_TIME)}-{id[:_SHORT_ID]}{_SUFFIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryLogInfo:
    """A log as `list_entry_logs` shows it. `problems` are lines that were skipped."""

    id: str
    file_path: Path
    cwd: str
    created: datetime | None
    message_count: int
    first_message: str  # of the user, folded to one line of at most 100 characters
    problems: tuple[Problem, ...] = ()


def list_entry_logs(
    dir: Path,  # noqa: A002 - a name of the specification
    *,
    problems: list[Problem] | None = None,
) -> list[EntryLogInfo]:
    """Return the logs in a directory, the newest first; [] if it does not exist.

    Files that hold no readable entry, that cannot be read or that have a newer format are left out.
    They are added to `problems`, or logged as one warning if that is not given.
    """
    found: list[tuple[datetime, int, EntryLogInfo]] = []
    skipped: list[Problem] = []
    for path in _log_files(Path(dir), skipped):
        try:
            changed, data = path.stat().st_mtime_ns, path.read_bytes()
        except OSError as error:
            skipped.append(_unreadable(path, error))
            continue
        info = _describe(path, data)
        if isinstance(info, Problem):
            skipped.append(info)
        else:
            found.append((info.created or _EARLIEST, changed, info))
    if problems is not None:
        problems += skipped
    else:
        warn_of(f"the logs in {dir}", skipped)
    found.sort(key=lambda each: (*each[:2], each[2].file_path.name), reverse=True)
    return [info for *_, info in found]


def _describe(path: Path, data: bytes) -> EntryLogInfo | Problem:
    lines, problems = split_problems(read_lines(data, path=str(path)))
    newer = newer_format(lines, path=str(path))
    if newer is not None:
        return newer
    if not any(line.type in ENTRY_TYPES for line in lines):
        what = "no line of the file belongs to a session"
        return Problem(code="unknown-format", message=what, path=str(path))
    header = header_of(lines)
    messages = [each for line in lines if (each := line.message) is not None]
    prompts = (_text_of(each) for each in messages if each["role"] == "user")
    return EntryLogInfo(
        id=text_in(header, "id") or path.stem,
        file_path=path,
        cwd=text_in(header, "cwd"),
        created=time_in(header) or _time_in_name(path),
        message_count=len(messages),
        first_message=fold_title(next(filter(None, prompts), "")),
        problems=tuple(problems),
    )


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    return next(filter(None, (text_in(block, "text") for block in blocks_of(message))), "")


def _time_in_name(path: Path) -> datetime | None:
    name = _NAME.fullmatch(path.stem)
    try:
        return name and datetime.strptime(name[1], _NAME_TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def _log_files(folder: Path, problems: list[Problem]) -> Iterator[Path]:
    """Yield the files that may be logs; a missing directory has none."""
    try:
        with os.scandir(folder) as entries:
            files = [each for each in entries if each.name.endswith(_SUFFIX) and each.is_file()]
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(_unreadable(folder, error))
        return
    for name in sorted(each.name for each in files):
        yield folder / name


def _unreadable(path: Path, error: OSError) -> Problem:
    message, location = os_error_message(path, error)
    return Problem(code="unreadable", message=message, path=str(location))


def find_entry_log(folder: Path, prefix: str) -> Path:
    """Return the file of the only log whose id begins with a prefix, in upper or lower case.

    Raises:
        ValidationError: The prefix is empty.
        SessionNotFoundError: No log has such an id.
        AmbiguousIdError: Several logs have.
    """
    if not prefix:
        raise ValidationError(
            "the beginning of a session id is missing",
            fields=("id_prefix",),
            hint="`list_entry_logs` shows the ids",
        )
    problems: list[Problem] = []
    ids = {path: _id_of(path, problems) for path in _log_files(folder, problems)}
    found = {path: id for path, id in ids.items() if id.lower().startswith(prefix.lower())}
    if len(found) == 1:
        return next(iter(found))
    if found:
        raise _ambiguous(folder, prefix, found)
    unread = f"; not all files could be read: {problems[0]}" if problems else ""
    raise SessionNotFoundError(
        f"no session in `{folder}` has an id that begins with `{prefix}`",
        hint=f"`list_entry_logs` shows the ids{unread}",
    )


def _id_of(path: Path, problems: list[Problem]) -> str:
    """Return the id of a log; without a header, the part of the file name that stands for it."""
    try:
        with path.open("rb") as stream:
            head = stream.readline()
    except OSError as error:
        problems.append(_unreadable(path, error))
        return ""
    lines, _ = split_problems(read_lines(head))
    short = path.stem[-_SHORT_ID:] if _NAME.fullmatch(path.stem) else path.stem
    return text_in(header_of(lines), "id") or short


def _ambiguous(folder: Path, prefix: str, found: dict[Path, str]) -> AmbiguousIdError:
    ids = sorted(set(found.values()))
    if len(ids) > 1:
        hint = f"give more characters: {', '.join(ids)}"
    else:
        hint = f"remove all but one of {', '.join(sorted(path.name for path in found))}"
    return AmbiguousIdError(
        f"`{prefix}` is the beginning of the session ids of {len(found)} files in `{folder}`",
        candidates=ids,
        hint=hint,
    )
