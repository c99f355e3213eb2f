"""A made-up home of about a given size: sessions of two agents, of the lengths real ones have.

The same size gives the same bytes. Texts are words drawn from a small vocabulary, so that a search
has hits of every rarity.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = dict[str, Any]

START = datetime(2026, 1, 1, tzinfo=UTC)
MODELS = {"claude": "claude-sonnet-4-5-20250929", "codex": "gpt-5.1-codex"}
_SYLLABLES = ("ba", "do", "fi", "ga", "ke", "lu", "mo", "na", "pe", "ri", "so", "tu", "ve", "zo")


def write_corpus(home: Path, size: int) -> int:
    """Write sessions until they have at least `size` bytes; how many bytes that were."""
    chance = random.Random(1)
    vocabulary = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(3000)]
    written = number = 0
    while written < size:
        session = _Session(chance, vocabulary, number)
        path, lines = session.claude() if number % 2 else session.codex()
        target = home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        written += target.stat().st_size
        number += 1
    return written


class _Session:
    def __init__(self, chance: random.Random, vocabulary: list[str], number: int) -> None:
        self._chance, self._vocabulary = chance, vocabulary
        self._id = f"{number:08x}-0000-4000-8000-{number:012x}"
        self._at = START + timedelta(hours=number)
        self._turns = chance.randint(2, 40)

    def claude(self) -> tuple[str, Iterator[Json]]:
        return f".claude/projects/-home-me-app/{self._id}.jsonl", self._claude_lines()

    def codex(self) -> tuple[str, Iterator[Json]]:
        day, stamp = self._at.strftime("%Y/%m/%d"), self._at.strftime("%Y-%m-%dT%H-%M-%S")
        return f".codex/sessions/{day}/rollout-{stamp}-{self._id}.jsonl", self._codex_lines()

    def _words(self, most: int) -> str:
        count = min(most, int(self._chance.paretovariate(1.1) * most / 20) + 3)
        return " ".join(self._chance.choices(self._vocabulary, k=count))

    def _stamp(self) -> str:
        self._at += timedelta(seconds=5)
        return self._at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _claude_lines(self) -> Iterator[Json]:
        for turn in range(self._turns):
            call = f"toolu_{turn}"
            use = {"type": "tool_use", "id": call, "name": "Bash"}
            result = {"type": "tool_result", "tool_use_id": call, "content": self._words(3000)}
            yield self._claude_line(turn, 0, {"role": "user", "content": self._words(60)})
            yield self._answer(turn, 1, {**use, "input": {"command": self._words(20)}})
            yield self._claude_line(turn, 2, {"role": "user", "content": [result]})
            yield self._answer(turn, 3, {"type": "text", "text": self._words(300)})

    def _answer(self, turn: int, place: int, block: Json) -> Json:
        usage = {
            "input_tokens": 4,
            "cache_read_input_tokens": 20_000 + turn,
            "cache_creation_input_tokens": 300,
            "output_tokens": self._chance.randint(20, 900),
        }
        message = {"id": f"msg_{self._id}_{turn}_{place}", "model": MODELS["claude"]}
        more = {"role": "assistant", "content": [block], "stop_reason": "end_turn", "usage": usage}
        return self._claude_line(turn, place, {**message, **more})

    def _claude_line(self, turn: int, place: int, message: Json) -> Json:
        line = 4 * turn + place
        return {
            "parentUuid": f"{self._id}-{line - 1}" if line else None,
            "isSidechain": False,
            "cwd": "/home/me/app",
            "sessionId": self._id,
            "version": "2.1.50",
            "type": message["role"],
            "message": message,
            "uuid": f"{self._id}-{line}",
            "timestamp": self._stamp(),
        }

    def _codex_lines(self) -> Iterator[Json]:
        meta = {"id": self._id, "cwd": "/home/me/app", "cli_version": "0.120.0"}
        yield self._codex_line("session_meta", {**meta, "timestamp": self._stamp()})
        yield self._codex_line("turn_context", {"cwd": "/home/me/app", "model": MODELS["codex"]})
        for turn in range(self._turns):
            call, prompt, text = f"call_{turn}", self._words(60), self._words(300)
            arguments = json.dumps({"command": ["bash", "-lc", self._words(20)]})
            use = {"type": "function_call", "name": "shell", "arguments": arguments}
            output = {"type": "function_call_output", "output": self._words(3000)}
            yield self._item({"type": "message", "role": "user", "content": _parts(prompt)})
            yield self._codex_line("event_msg", {"type": "user_message", "message": prompt})
            yield self._item({**use, "call_id": call})
            yield self._item({**output, "call_id": call})
            yield self._codex_line("event_msg", {"type": "agent_message", "message": text})
            yield self._item({"type": "message", "role": "assistant", "content": _parts(text)})
            yield self._codex_line("event_msg", {"type": "token_count", "info": _usage(turn + 1)})

    def _item(self, payload: Json) -> Json:
        return self._codex_line("response_item", payload)

    def _codex_line(self, kind: str, payload: Json) -> Json:
        return {"timestamp": self._stamp(), "type": kind, "payload": payload}


def _parts(text: str) -> list[Json]:
    return [{"type": "input_text", "text": text}]


def _usage(calls: int) -> Json:
    last, total = (
        {"input_tokens": 9000 * n, "cached_input_tokens": 8000 * n, "output_tokens": 200 * n}
        for n in (1, calls)
    )
    return {"last_token_usage": last, "total_token_usage": total}
