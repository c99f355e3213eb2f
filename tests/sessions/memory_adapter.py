"""An adapter without files: it serves facts and messages that a test provides.

It can express every lineage that a disk may record, including those that no agent would write.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from builders import START

from amux.adapters._base import AgentInfo, Capabilities, Command, Head, Item, SourceRef, Want
from amux.host import Host
from amux.model.facts import Facts
from amux.model.message import Role, SessionMessage
from amux.model.reports import Persistence
from amux.model.trace import LineKind, TraceBuilder, key_of
from amux.model.usage import Call, Tokens

MARKS: dict[Role, LineKind] = {
    "user": LineKind.PROMPT,
    "assistant": LineKind.REPLY,
    "tool": LineKind.TOOL,
}

Line = tuple[int, Role, str]  # trace key, role, text


def call(key: str, *, at: datetime | None = START, input: int = 1000, **fields: Any) -> Call:
    tokens = fields.pop("tokens", Tokens(input=input))
    return Call(key=key, at=at, model=fields.pop("model", "m-small"), tokens=tokens, **fields)


class MemoryAdapter:
    """The full adapter protocol over what is put on it; one source per entry."""

    def __init__(
        self,
        root: Path,
        *,
        name: str = "memory",
        persistence: Persistence = "file",
        **able: bool,
    ) -> None:
        self.root = root
        self.info = AgentInfo(
            name=name,
            label=name.title(),
            cli_command=name,
            capabilities=Capabilities(session_persistence=persistence, **able),
            tier="plugin",
        )
        self._entries: list[tuple[Facts, Sequence[Line], SourceRef]] = []

    def put(
        self,
        session_id: str,
        *calls: Call,
        lines: Sequence[Line] = (),
        at: datetime = START,
        source: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Facts:
        """Add a source with one session. Sessions that share a call's key are related."""
        trace = TraceBuilder()
        for key, role, _ in lines:
            trace.add(key, int(at.timestamp() * 1000) + key, MARKS[role])
        fields: dict[str, Any] = {
            "created_at": at,
            "updated_at": at,
            "trace": trace.build(),
            "calls": calls,
            "copy_keys": array("q", [key_of(one.key) for one in calls]).tobytes(),
            "first_prompt": next((text for _, role, text in lines if role == "user"), None),
            **facts,
        }
        said = Facts(session_id=session_id, **fields)
        path = self.root / f"{session_id}.{len(self._entries)}"
        place: dict[str, Any] = {"session_id": session_id, "group": "memory", **(source or {})}
        ref = SourceRef(agent=self.info.name, path=path, root=self.root, **place)
        self._entries.append((said, lines, ref))
        return said

    def roots(self, host: Host) -> Sequence[Path]:
        del host
        return [self.root]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        del root, cwd
        return (source for _, _, source in self._entries)

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        for facts, lines, ref in self._entries:
            if ref != source or only not in (None, facts.session_id):
                continue
            yield Head(session_id=facts.session_id)
            for key, role, text in lines if want == "all" else ():
                if until is None or key < until:
                    yield SessionMessage(role=role, content=text, id=str(key))
            yield from facts.calls
            yield facts

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        """Resumes from version 2 on, forks from 3 on."""
        del prompt
        since = {"new": 1, "resume": 2, "fork": 3}[action]
        able = version is None or int(version) >= since
        return Command(argv=(action, session_id or ""), cwd=cwd) if able else None
