"""The prompt of the agent: a loop over lines, with commands for the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

import amux
from entry_log_agent import model

RECENT = 20
KEPT = 2


class Repl:
    """One session at a time; `/fork` goes on in another."""

    def __init__(self, log: amux.EntryLog, folder: Path, out: TextIO) -> None:
        self.log = log
        self._folder = folder
        self._out = out
        self._commands: dict[str, Callable[[str], None]] = {
            "/session": self._show_session,
            "/sessions": self._list_sessions,
            "/export": self._export,
            "/fork": self._fork,
            "/compact": self._compact,
        }

    def run(self, lines: Iterable[str]) -> None:
        """Answer prompts and run commands until the lines end or one of them is `/quit`."""
        for line in lines:
            words = line.strip()
            if words == "/quit":
                return
            if not words:
                continue
            try:
                self._take(words)
            except amux.AmuxError as error:
                self.say(f"error: {error.message}")
                self.say(f"hint: {error.hint or 'see the documentation'}")

    def _take(self, words: str) -> None:
        name, _, argument = words.partition(" ")
        command = self._commands.get(name)
        if command is not None:
            command(argument.strip())
        elif name.startswith("/"):
            self.say(f"unknown command {name}; there are {', '.join(self._commands)} and /quit")
        else:
            self.prompt(words)

    def prompt(self, text: str) -> None:
        """Append a prompt, then answers and tool results until the turn ends."""
        self.log.append_message({"role": "user", "content": text})
        while True:
            reply = model.answer(self.log.messages())
            self.log.append_message(reply)
            calls = [block for block in reply["content"] if block["type"] == "tool_call"]
            for call in calls:
                self.say(f"[{call['name']}]")
                self.log.append_message(model.run_tool(call, self.log.cwd))
            if not calls:
                self.say(model.text_of(reply))
                return

    def say(self, text: str) -> None:
        """Print a text."""
        say(text, self._out)

    def _show_session(self, _: str) -> None:
        self.say(f"{self.log.id} {self.log.file_path}")

    def _list_sessions(self, _: str) -> None:
        list_sessions(self._folder, self._out)

    def _export(self, argument: str) -> None:
        target = Path(argument or f"session-{self.log.id[:8]}.html")
        page = amux.export_html(self.log.file_path.read_bytes())
        try:
            target.write_text(page, encoding="utf-8")
        except OSError as error:
            self.say(f"error: cannot write {target} ({error.strerror})")
            return
        self.say(f"exported to {target.absolute()}")

    def _fork(self, argument: str) -> None:
        count = self._number(argument, default=20)
        if count is not None:
            self.log = self.log.fork(self._folder, count)
            self.say(f"forked: {self.log.id}, {len(self.log.messages())} messages")

    def _compact(self, argument: str) -> None:
        keep = self._number(argument, default=KEPT)
        if keep is None:
            return
        entries = [amux.parse_line(line) for line in self.log.file_path.read_bytes().splitlines()]
        ids = [str(entry["id"]) for kind, entry in entries if kind == "message"]
        messages = self.log.messages()
        first = ids[-keep] if 0 < keep <= len(ids) else ""
        self.log.append_compaction(model.summarize(messages), first, model.count_tokens(messages))
        self.say(f"compacted: {len(self.log.messages())} messages")

    def _number(self, text: str, *, default: int) -> int | None:
        if text and not text.isdecimal():
            self.say(f"error: {text} is not a number of messages")
            return None
        return int(text) if text else default


def say(text: str, out: TextIO) -> None:
    """Print a text; a session may hold characters that would control the terminal."""
    plain = "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
    out.write(f"{plain}\n")
    out.flush()


def list_sessions(folder: Path, out: TextIO) -> None:
    """Print the recent sessions, the newest first."""
    for info in amux.list_entry_logs(folder)[:RECENT]:
        created = "?" if info.created is None else f"{info.created:%Y-%m-%d %H:%M}"
        say(f"{info.id[:8]}  {created}  {info.message_count:4}  {info.first_message}", out)
