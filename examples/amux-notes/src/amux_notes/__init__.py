"""An amux adapter for the agent `notes`.

Files     $NOTES_HOME or ~/.notes, one <id>.jsonl per session
Counting  one call per answer, identified by the id of the answer
Title     the last given name, else the first prompt
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

import amux
from amux.adapters.kit import Fold, count, mapping, moment, read_records, text


class Line(msgspec.Struct):
    """A line. Every type is accepted: an unexpected value costs its field, not the line."""

    id: Any = None
    role: Any = None
    text: Any = None
    time: Any = None
    model: Any = None
    usage: Any = None
    cwd: Any = None
    name: Any = None
    version: Any = None


ABOUT = ("cwd", "name", "version")
LINES = msgspec.json.Decoder(Line)


class NotesAdapter:
    """Reads the sessions of `notes`. It has no state."""

    info = amux.AgentInfo(
        name="notes",
        label="Notes",
        cli_command="notes",
        tier="plugin",
        capabilities=amux.Capabilities(session_persistence="file", can_resume=True),
        evidence="made up: 1.0",
    )

    def roots(self, host: amux.Host) -> Sequence[Path]:
        """Return the directory of the sessions; `NOTES_HOME` relocates it."""
        return [host.path_from("NOTES_HOME") or host.home / ".notes"]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[amux.SourceRef]:
        """Yield every log."""
        del cwd  # the names of the logs do not contain it
        for path in sorted(root.glob("*.jsonl")):
            yield amux.SourceRef(agent="notes", path=path, root=root, session_id=path.stem)

    def read(
        self, source: amux.SourceRef, *, want: amux.Want,
        only: str | None = None, until: int | None = None,
    ) -> Iterator[amux.Item]:  # fmt: skip
        """Yield the head, messages, calls and facts of a log in one pass."""
        del only, until  # a file is one session and refers to no other
        session_id, fold, known, is_open = source.path.stem, Fold(), dict[str, str](), False
        for found in read_records(source.path, LINES, cut_texts=want != "all"):
            if isinstance(found, amux.Problem):
                fold.problem(found)
                yield found
                continue
            number, line, _ = found
            message = _message(line)
            known |= {key: value for key in ABOUT if (value := text(getattr(line, key)))}
            if not is_open and (message or known):
                is_open = True
                yield amux.Head(session_id=session_id)
            if message is not None:
                fold.message(message)
                if want != "facts":
                    yield message
                if message.role == "assistant":
                    call = _call(line, message, key=message.id or f"{session_id}:{number}")
                    fold.call(call)
                    yield call
        if is_open:
            yield fold.facts(session_id, **known)

    def command(
        self, action: Literal["new", "resume", "fork"], *, session_id: str | None = None,
        prompt: str | None = None, cwd: str | None = None, version: str | None = None,
    ) -> amux.Command | None:  # fmt: skip
        """Return the command that starts or resumes a session; None for a fork."""
        del version  # there is only one version
        if action == "fork" or (action == "resume" and not session_id):
            return None
        resume = ("--resume", session_id) if action == "resume" and session_id else ()
        return amux.Command(argv=("notes", *resume, *([prompt] if prompt else ())), cwd=cwd)


def _message(line: Line) -> amux.SessionMessage | None:
    if line.role not in ("user", "assistant"):
        return None  # a line about the session, or one written by a later version
    content, at = text(line.text) or "", moment(line.time)
    name, model = text(line.id), text(line.model)
    return amux.SessionMessage(role=line.role, content=content, timestamp=at, id=name, model=model)


def _call(line: Line, message: amux.SessionMessage, *, key: str) -> amux.Call:
    usage = mapping(line.usage)
    sent, written = count(usage.get("in")), count(usage.get("out"))
    tokens = amux.Tokens(input=sent or 0, output=written or 0)
    gaps = ("usage-not-recorded",) if sent is None or written is None else ()
    at, model, name = message.timestamp, message.model, message.id
    return amux.Call(key=key, tokens=tokens, gaps=gaps, at=at, model=model, message_id=name)


ADAPTER = NotesAdapter()
