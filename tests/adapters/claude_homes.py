"""Builds project folders as versions of Claude Code write them: resumes, forks, titles, sub-agents.

Every step takes a minute. Ids of lines, answers and sessions are numbered, so each is new unless a
version copies it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
Style = Literal["resume", "fork", "named", "branch"]
"""How history is copied: rewritten by a resume of 1.0.59; unchanged under a new id (2.1.325); with
the old id (2.1.50); with a reference to its origin."""

BEGAN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
VERSIONS = ("1.0.59", "2.0.14", "2.0.77", "2.1.325")
_CONTEXT = "This stands before the answer. " * 900


class Home:
    """One project folder, written to disk at the end."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, list[Json]]] = []
        self._files: dict[str, list[Json]] = {}
        self._titles: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._count = 0

    def _number(self) -> int:
        self._count += 1
        return self._count

    @property
    def now(self) -> str:
        at = BEGAN + timedelta(minutes=self._count)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def begin(self, version: str, *, cwd: str = "/src/app", wordy: bool = False) -> None:
        """Add a session with one answer; `wordy` puts much context before it."""
        id = f"00000000-0000-4000-8000-{self._number():012}"
        self.sessions.append((id, []))
        if version == "2.1.325":
            self._add(id, {"type": "queue-operation", "timestamp": self.now, "sessionId": id})
        self.say(len(self.sessions) - 1, version, cwd=cwd, wordy=wordy)

    def say(self, which: int, version: str, *, cwd: str = "/src/app", wordy: bool = False) -> None:
        """Add a prompt and its answer."""
        id, lines = self._at(which)
        said = {"role": "user", "content": f"Prompt {self._number()}"}
        self._add(id, self._line(id, version, cwd, "user", said))
        if wordy:
            self._add(id, {**self._line(id, version, cwd, "attachment"), "attachment": _CONTEXT})
        answer = self._line(id, version, cwd, "assistant", _answer(self._number()))
        if version != "1.0.3":
            answer["requestId"] = f"req_{self._count}"
        lines.append(answer)

    def copy(
        self, which: int, style: Style, *, skip: int, answers: int, fuller: bool = False
    ) -> None:
        """Add a copy of a session, followed by `answers` of its own.

        A fuller copy has the final figures of answers that the original lacks.
        """
        _, old = self._at(which)
        id = f"00000000-0000-4000-8000-{self._number():012}"
        version = {"resume": "1.0.59", "named": "2.1.50"}.get(style, "2.1.325")
        new: list[Json] = []
        if style == "fork":
            new.append({"type": "queue-operation", "timestamp": self.now, "sessionId": id})
        new += [self._copied(line, id, style) for line in old[min(skip, len(old) - 1) :]]
        if fuller:
            new = [_with_more_output(line) for line in new]
        self.sessions.append((id, new))
        for _ in range(answers):
            self.say(len(self.sessions) - 1, version)

    def _copied(self, line: Json, id: str, style: Style) -> Json:
        if style == "resume":
            changed = {"uuid": f"line-{self._number()}", "timestamp": self.now}
            return {**line, **changed, "version": "1.0.59", "sessionId": id, "requestId": None}
        if style == "named":
            return line
        origin = {"forkedFrom": {"sessionId": line.get("sessionId")}} if style == "branch" else {}
        return {**line, "sessionId": id, **origin}

    def move(self, which: int) -> None:
        """Move a session into the folder of another project, as if it had been created there."""
        id, lines = self._at(which)
        self._folders[id] = "-src-other"
        lines[:] = [{**line, "cwd": "/src/other"} if "cwd" in line else line for line in lines]

    def compact(self, which: int) -> None:
        """Continue a session from a summary of itself."""
        id, _ = self._at(which)
        boundary = self._line(id, "2.1.325", "/src/app", "system")
        self._add(id, {**boundary, "subtype": "compact_boundary", "content": "Compacted"})
        said = {"role": "user", "content": "This session is being continued from a previous one"}
        summary = self._line(id, "2.1.325", "/src/app", "user", said)
        self._add(id, {**summary, "isCompactSummary": True})

    def note(self, which: int, place: int) -> None:
        """Write a title for the last line of one session into the file of another."""
        _, titled = self._at(which)
        leaf = titled[-1].get("uuid")
        title = {"type": "summary", "summary": f"Title {self._number()}", "leafUuid": leaf}
        self._at(place)[1].append(title)

    def title(self, which: int) -> None:
        """Write a title into a file of its own."""
        id, _ = self._at(which)
        self._titles[id] = f"Name {self._number()}"

    def agent(self, which: int, *, beside: bool, prompt: str) -> None:
        """Add a sub-agent in a file of its own: beside its session or in its folder."""
        id, _ = self._at(which)
        name = f"agent-a{self._number():06}"
        said = {"role": "user", "content": prompt}
        kind = {"isSidechain": True, "agentId": name.removeprefix("agent-")}
        lines = [
            {**self._line(id, "2.0.77", "/src/app", "user", said), **kind},
            {**self._line(id, "2.0.77", "/src/app", "assistant", _answer(self._number())), **kind},
        ]
        self._files[f"{name}.jsonl" if beside else f"{id}/subagents/{name}.jsonl"] = lines

    def write(self, home: Path) -> None:
        """Write everything below a home directory."""
        folder = home / ".claude" / "projects" / "-src-app"
        files = self._files | {
            f"../{self._folders.get(id, folder.name)}/{id}.jsonl": lines
            for id, lines in self.sessions
        }
        for name, lines in files.items():
            path = folder / name
            folder.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
            path.write_text(text + "\n", encoding="utf-8")
        for id, title in self._titles.items():
            (folder / id).mkdir(exist_ok=True)
            (folder / id / "custom-title.json").write_text(json.dumps({"customTitle": title}))

    def _at(self, which: int) -> tuple[str, list[Json]]:
        return self.sessions[which % len(self.sessions)]

    def _add(self, id: str, line: Json) -> None:
        next(lines for name, lines in self.sessions if name == id).append(line)

    def _line(
        self, id: str, version: str, cwd: str, type: str, message: Json | None = None
    ) -> Json:
        line = {"parentUuid": None, "isSidechain": False, "cwd": cwd, "sessionId": id}
        said = {} if message is None else {"message": message}
        known = {"version": version, "uuid": f"line-{self._number()}", "timestamp": self.now}
        return {**line, "type": type, **said, **known}


def _with_more_output(line: Json) -> Json:
    if line["type"] != "assistant":
        return line
    usage = {**line["message"]["usage"], "output_tokens": 5000}
    return {**line, "message": {**line["message"], "usage": usage}}


def _answer(number: int) -> Json:
    return {
        "id": f"msg_01{number:022}",  # as long as those of the API
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": number, "output_tokens": number},
    }
