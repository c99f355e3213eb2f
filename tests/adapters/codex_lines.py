"""Hand-written rollouts, read back with the checks that apply to every file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from amux.adapters._base import Head, SourceRef
from amux.adapters._kit.fold import line_kind
from amux.adapters.codex import ADAPTER
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.trace import LineKind
from amux.model.usage import Call

OWN = "11111111-1111-4111-8111-111111111111"
PARENT = "22222222-2222-4222-8222-222222222222"
ENVIRONMENT = "<environment_context>\n  <cwd>/home/dev/x</cwd>\n</environment_context>"
AGENTS_MD = "# AGENTS.md instructions for /home/dev/x\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"

Json = dict[str, Any]
Result = tuple[Facts, list[SessionMessage], list[Problem]]


class Writer:
    """Writes a rollout line by line, as Codex does."""

    def __init__(self, folder: Path, *, name: str = f"rollout-2026-01-02T03-04-05-{OWN}.jsonl"):
        self.path = folder / "sessions" / name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self.ordinal: int | None = None
        self._total = [0, 0]

    def line(self, type: str, payload: Any) -> Writer:
        second = len(self.lines)
        line: Json = {"timestamp": f"2026-01-02T03:{second // 60:02}:{second % 60:02}.000Z"}
        if self.ordinal is not None:
            line["ordinal"] = self.ordinal
            self.ordinal += 1
        self.lines.append(json.dumps({**line, "type": type, "payload": payload}))
        return self

    def bare(self, **fields: Any) -> Writer:
        self.lines.append(json.dumps(fields))
        return self

    def meta(self, id: str = OWN, **fields: Any) -> Writer:
        common = {"timestamp": "2026-01-02T03:00:00Z", "cwd": "/w", "cli_version": "0.80.0"}
        return self.line("session_meta", {"id": id, **common, **fields})

    def item(self, type: str, **fields: Any) -> Writer:
        return self.line("response_item", {"type": type, **fields})

    def event(self, type: str, **fields: Any) -> Writer:
        return self.line("event_msg", {"type": type, **fields})

    def user(self, *texts: str, **fields: Any) -> Writer:
        parts = [{"type": "input_text", "text": text} for text in texts]
        return self.item("message", role="user", content=parts, **fields)

    def prompt(self, text: str) -> Writer:
        return self.user(text).event("user_message", message=text)

    def model(self, name: str = "gpt-x") -> Writer:
        return self.line("turn_context", {"model": name, "cwd": "/w"})

    def answer(self, text: str) -> Writer:
        parts = [{"type": "output_text", "text": text}]
        return self.item("message", role="assistant", content=parts)

    def count(self, input: int, output: int, *, total: tuple[int, int] | None = None) -> Writer:
        """Write a token count; totals are continued unless they are given."""
        now = [self._total[0] + input, self._total[1] + output] if total is None else list(total)
        self._total = now
        info = {"total_token_usage": usage(*now), "last_token_usage": usage(input, output)}
        return self.event("token_count", info=info)

    def record(self, response_id: str, input: int, output: int, **fields: Any) -> Writer:
        body = {"response_id": response_id, "usage": usage(input, output), **fields}
        return self.line("token_usage_record", body)

    def call(self, call_id: str, name: str = "shell", output: Any = "ok") -> Writer:
        self.item("function_call", name=name, arguments='{"a": 1}', call_id=call_id)
        return self.item("function_call_output", call_id=call_id, output=output)

    def read(self, **options: Any) -> Result:
        self.path.write_text("".join(line + "\n" for line in self.lines))
        return read(self.path, **options)


def usage(input: int, output: int) -> Json:
    return {"input_tokens": input, "output_tokens": output, "total_tokens": input + output}


def read(path: Path, *, until: int | None = None) -> Result:
    """Read in both modes, and check what applies to every file."""
    source = SourceRef(agent="codex", path=path, root=path.parent.parent)
    items = list(ADAPTER.read(source, want="all", until=until))
    facts = [item for item in items if isinstance(item, Facts)]
    messages = [item for item in items if isinstance(item, SessionMessage)]
    light = [i for i in ADAPTER.read(source, want="facts", until=until) if isinstance(i, Facts)]
    assert light == facts
    if not facts:
        return Facts(session_id=""), messages, [i for i in items if isinstance(i, Problem)]
    heads = [item.session_id for item in items if isinstance(item, Head)]
    assert heads == [facts[0].session_id]
    assert [i for i in items if isinstance(i, Call)] == list(facts[0].calls)
    marks = [mark for mark in facts[0].trace.kinds if mark != LineKind.LINE]
    assert marks == [line_kind(message) for message in messages]
    return facts[0], messages, [item for item in items if isinstance(item, Problem)]


def prompts(messages: list[SessionMessage]) -> list[str]:
    return [m.content for m in messages if m.role == "user" and not m.synthetic]


def history(rollout: Writer) -> Writer:
    """Write two turns that copies share."""
    rollout.model().prompt("Go").call("c1").count(10, 1)
    return rollout.answer("One").count(20, 2).prompt("More").answer("Two").count(30, 3)
