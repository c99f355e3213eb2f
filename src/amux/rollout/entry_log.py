"""`EntryLog`: a session of a simple agent in one append-only file.

    log = EntryLog.create(folder, cwd="/home/user/project")
    log.append_message({"role": "user", "content": "Hello!"})
    ...
    log = EntryLog.load(folder, "a3f7c9")      # the beginning of its id
    messages = log.messages()                  # what a resumed model gets

The file is named after its time of creation and the first eight digits of its id. Several processes
may append to one log; each entry then follows the one that is last in the file. `rollout.line_file`
says when an entry is safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from amux.errors import ParseError, StoreError, ValidationError
from amux.host import Host, os_error_message
from amux.rollout.entries import (
    encode_line,
    new_branch,
    new_compaction,
    new_header,
    new_message,
)
from amux.rollout.entry_fork import link_copies, select_copies
from amux.rollout.entry_log_folder import find_entry_log, log_name
from amux.rollout.entry_reader import (
    LogLine,
    blocks_of,
    header_of,
    newer_format,
    read_lines,
    read_messages,
    split_problems,
    text_in,
)
from amux.rollout.ids import new_entry_id, new_thread_id
from amux.rollout.line_file import Fsync, LineFile, LockedLines

KEEP_LAST: Final = 20
"""The number of messages that a fork copies unless told otherwise."""

_PROGRAM: Final = re.compile(r"[\w][\w.-]*")


def _now() -> datetime:
    return datetime.now(UTC)


class EntryLog:
    """One session in a file.

    `problems` are the lines that the last reading skipped. Objects are made by `create`, `load` and
    `fork`.
    """

    def __init__(
        self,
        file_path: Path,
        data: bytes,
        *,
        fsync: Fsync = "turn",
        now: Callable[[], datetime] = _now,
    ) -> None:
        lines, problems = split_problems(read_lines(data, path=str(file_path)))
        header = header_of(lines)
        self.file_path = file_path
        self.id = text_in(header, "id") or file_path.stem
        self.cwd = text_in(header, "cwd")
        self.problems = tuple(problems)
        self._file = LineFile(file_path, fsync=fsync)
        self._now = now
        self._ends = _LogEnd(lines, size=data.rfind(b"\n") + 1)

    @staticmethod
    def sessions_dir(program: str, host: Host) -> Path:
        """Return the directory in which a program keeps its logs: `<settings>/<program>/sessions`.

        The settings are in XDG_CONFIG_HOME or ~/.config, on every platform. Nothing is created.

        Raises:
            ValidationError: The name is not the name of one directory.
        """
        if not _PROGRAM.fullmatch(program):
            raise ValidationError(
                f"`{program}` cannot name a directory of entry logs",
                fields=("program",),
                hint="use letters, digits, `_`, `-` and `.`",
            )
        settings = host.path_from("XDG_CONFIG_HOME") or host.home / ".config"
        return settings / program / "sessions"

    @classmethod
    def create(
        cls,
        dir: Path,  # noqa: A002 - a name of the specification
        cwd: str,
        *,
        fsync: Fsync = "turn",
        now: Callable[[], datetime] = _now,
    ) -> EntryLog:
        """Create a log with its header, and its directory if that is missing.

        Raises:
            StoreError: The file cannot be created.
        """
        return _create(Path(dir), cwd, b"", fsync=fsync, now=now)

    @classmethod
    def load(
        cls,
        dir: Path,  # noqa: A002 - a name of the specification
        id_prefix: str,
        *,
        fsync: Fsync = "turn",
        now: Callable[[], datetime] = _now,
    ) -> EntryLog:
        """Return the log whose id begins with a text; neither dates nor file names are compared.

        Raises:
            SessionNotFoundError: No log in the directory has such an id.
            AmbiguousIdError: Several logs have; `candidates` are their ids.
            ParseError: The log has a format that is newer than this version of amux.
            StoreError: The directory or the log cannot be read.
        """
        path = find_entry_log(Path(dir), id_prefix.strip())
        data = _read(path)
        newer = newer_format(split_problems(read_lines(data))[0], path=str(path))
        if newer is not None:
            raise ParseError(str(newer), hint="a newer version of amux may read it")
        return cls(path, data, fsync=fsync, now=now)

    @property
    def leaf_id(self) -> str | None:
        """Return the id of the last entry; None if there is only the header.

        Entries that other writers have appended count from the next append on.
        """
        return self._ends.leaf

    def append_message(self, message: Mapping[str, Any]) -> str:
        """Append a message and return the id of its entry.

        `role` is `user`, `assistant` or `tool_result`; `content` is a text or a list of blocks. A
        missing `timestamp` is set to the present. The answer that ends a turn is synced to the
        disk unless the policy is `"never"`.

        Raises:
            ValidationError: The message is not one of the format.
            StoreError: The entry could not be written.
        """
        at = self._now()
        turn_end = message.get("role") == "assistant" and not _has_calls(message)
        return self._append(
            lambda id, parent: new_message(id, parent, message, at=at), turn_end=turn_end
        )

    def append_compaction(self, summary: str, first_kept_entry_id: str, tokens_before: int) -> str:
        """Append a summary of everything before an entry, and return the id of its entry.

        The summarised messages stay in the file. An empty id keeps none of them.

        Raises:
            ValidationError: The log has no message with that id.
            StoreError: The entry could not be written.
        """
        at = self._now()

        def build(id: str, parent: str) -> Mapping[str, Any]:
            if first_kept_entry_id and first_kept_entry_id not in self._ends.messages:
                raise ValidationError(
                    f"the log has no message `{first_kept_entry_id}` to keep",
                    fields=("first_kept_entry_id",),
                    hint="give the id that `append_message` returned, or an empty text",
                )
            return new_compaction(
                id,
                parent,
                summary,
                first_kept_entry_id=first_kept_entry_id,
                tokens_before=tokens_before,
                at=at,
            )

        return self._append(build, turn_end=True)

    def fork(
        self,
        dir: Path,  # noqa: A002 - a name of the specification
        keep_last: int = KEEP_LAST,
        branch_summary: str = "",
        *,
        keep_first: int | None = None,
        until: str | None = None,
    ) -> EntryLog:
        """Create a log that continues from the last messages of this one, which does not change.

        `until` forks at an earlier entry, `keep_first` copies the first messages instead. More
        messages are copied if the copies would begin with a tool result without its call.

        Raises:
            ValidationError: A number is negative, or `until` names no entry.
            StoreError: This log cannot be read, or the new one cannot be created.
        """
        lines, _ = split_problems(read_lines(_read(self.file_path)))
        copies = select_copies(lines, keep_last=keep_last, keep_first=keep_first, until=until)
        branch_id = new_entry_id({line.id for line in copies})
        linked = link_copies(copies, branch_id)
        branch = new_branch(
            branch_id,
            parent_session_path=str(self.file_path.absolute()),
            fork_entry_id=linked[-1][0] if linked else "",
            branch_summary=branch_summary,
            at=self._now(),
        )
        content = encode_line(branch) + b"".join(line for _, line in linked)
        return _create(Path(dir), self.cwd, content, fsync=self._file.fsync, now=self._now)

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages that a resumed model gets; see `parse_messages`.

        Lines that were skipped are in `problems` afterwards.

        Raises:
            StoreError: The file cannot be read.
        """
        messages, problems = read_messages(_read(self.file_path), path=str(self.file_path))
        self.problems = tuple(problems)
        return messages

    def sync(self) -> None:
        """Force all entries to the disk, whatever the policy is.

        Raises:
            StoreError: The file cannot be synced.
        """
        self._file.sync()

    def _append(self, build: Callable[[str, str], Mapping[str, Any]], *, turn_end: bool) -> str:
        """Append the entry that `build` returns for an id and the id of the entry before it."""
        with self._file.exclusive() as locked:
            self._ends.read_new(locked)
            id = new_entry_id(self._ends.ids)
            entry = build(id, self._ends.leaf or "")
            locked.write(encode_line(entry), turn_end=turn_end)
            self._ends.add(id, is_message=entry["type"] == "message", size=locked.size)
        return id


class _LogEnd:
    """The ids in a log and its last entry, as far as the file was read."""

    def __init__(self, lines: list[LogLine], *, size: int) -> None:
        """Take the lines of a file; `size` is the number of bytes in those with a line break."""
        self.ids: set[str] = set()
        self.messages: set[str] = set()
        self.leaf: str | None = None
        self._size = size
        self._take(lines)

    def read_new(self, locked: LockedLines) -> None:
        """Take the entries that other writers have appended."""
        if locked.size == self._size:
            return
        start = self._size
        if locked.size < start:  # another program has replaced the content
            start, self.leaf = 0, None
        data = locked.read(start)
        self._take(split_problems(read_lines(data))[0])
        self._size = start + data.rfind(b"\n") + 1

    def add(self, id: str, *, is_message: bool, size: int) -> None:
        """Add an entry that was written by this process."""
        self.ids.add(id)
        if is_message:
            self.messages.add(id)
        self.leaf = id
        self._size = size

    def _take(self, lines: list[LogLine]) -> None:
        for line in lines:
            if line.type == "session" or not line.id:
                continue
            self.ids.add(line.id)
            if line.message is not None:
                self.messages.add(line.id)
            if line.type in ("message", "compaction", "branch"):
                self.leaf = line.id


def _create(
    folder: Path, cwd: str, content: bytes, *, fsync: Fsync, now: Callable[[], datetime]
) -> EntryLog:
    """Create a log with a header and further lines, under a new id."""
    while True:
        id, at = new_thread_id(), now()
        path = folder / log_name(id, at)
        data = encode_line(new_header(id, cwd, at=at)) + content
        if LineFile(path, fsync=fsync).create(data):
            return EntryLog(path, data, fsync=fsync, now=now)


def _has_calls(message: Mapping[str, Any]) -> bool:
    return any(block.get("type") == "tool_call" for block in blocks_of(message))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message, location = os_error_message(path, error)
        raise StoreError(
            f"`{location}` {message}", hint="check that the file exists and that you may read it"
        ) from error
