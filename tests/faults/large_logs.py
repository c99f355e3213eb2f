"""Writes large logs with known totals in one pass, without holding them in memory.

A turn is a prompt, an answer that calls a tool, the tool's output and a closing answer: four
messages, two billed calls. One text may be a giant of any size, in any script.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from io import BufferedWriter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from builders import SMALL, uuid_of

Json = dict[str, Any]

MB = 1 << 20
OUTPUT = 32 * 1024
"""Bytes of a tool's output in an ordinary turn."""

NEEDLE = "haystackneedle"
STAMP = "2026-03-01T10:00:00.000Z"

Agent = Literal["claude", "codex"]
Place = Literal["prompt", "output"]
Script = Literal["latin", "chinese", "emoji", "one emoji"]

AGENTS: tuple[Agent, ...] = ("claude", "codex")
PLACES: tuple[Place, ...] = ("prompt", "output")
_PATTERNS: dict[Script, str] = {
    "latin": "plain words of a log\\n",
    "chinese": "\u65e5\u5fd7\u6587\u4ef6",  # 3 bytes in the file, 2 in a Python text
    "emoji": "\U0001f642",  # 4 bytes in both
    "one emoji": "plain words of a log\\n",  # 1 byte in the file, 4 in a Python text
}
SCRIPTS = tuple(_PATTERNS)


class Log(NamedTuple):
    """A written session and the truth about it."""

    agent: Agent
    session_id: str
    path: Path
    turns: int

    @property
    def messages(self) -> int:
        return 4 * self.turns

    @property
    def input_tokens(self) -> int:
        return 2 * 10 * self.turns

    @property
    def output_tokens(self) -> int:
        return 2 * 3 * self.turns

    @property
    def last_prompt(self) -> str:
        return _prompt(self.turns - 1)


class Giant(NamedTuple):
    """One text of about `size` bytes; it ends with the needle."""

    place: Place
    size: int
    script: Script = "latin"

    def pieces(self) -> Iterator[bytes]:
        """The text as it stands inside a JSON string, piece by piece."""
        pattern = _PATTERNS[self.script].encode()
        piece = pattern * (MB // len(pattern))
        for _ in range(self.size // MB):
            yield piece
        if self.script == "one emoji":
            yield "\U0001f642".encode()
        yield f" {NEEDLE}".encode()


def write_log(home: Path, agent: Agent, *, size: int = 0, giant: Giant | None = None) -> Log:
    """Write a session of at least `size` bytes; its second turn may hold a giant."""
    session_id = uuid_of(1)
    path = home / _PLACES[agent].format(session_id)
    path.parent.mkdir(parents=True)
    turn = 0
    with path.open("wb") as file:
        _write(file, _HEADS[agent](session_id))
        while turn < 3 or file.tell() < size:
            texts: dict[Place, bytes | Giant] = {"prompt": _prompt(turn).encode(), "output": _WORDS}
            if giant is not None and turn == 1:
                texts[giant.place] = giant
            _write(file, _TURNS[agent](turn, session_id), texts)
            turn += 1
    return Log(agent, session_id, path, turn)


_PLACES: dict[Agent, str] = {
    "claude": ".claude/projects/-src-app/{}.jsonl",
    "codex": ".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-{}.jsonl",
}
_MARK = "<{}>"  # stands for a text that is written later
_PROMPT, _OUTPUT = _MARK.format("prompt"), _MARK.format("output")
_WORDS = b"plain words of a log\\n" * (OUTPUT // 22)


def _prompt(turn: int) -> str:
    return f"goon{turn}"


def _write(
    file: BufferedWriter, lines: list[Json], texts: Mapping[Place, bytes | Giant] | None = None
) -> None:
    """Write lines with the texts in the places kept for them."""
    for line in lines:
        encoded = json.dumps(line).encode() + b"\n"
        for place, text in (texts or {}).items():
            before, found, after = encoded.partition(_MARK.format(place).encode())
            if found:
                file.write(before)
                file.writelines(text.pieces() if isinstance(text, Giant) else [text])
                encoded = after
        file.write(encoded)


def _claude_turn(turn: int, session_id: str) -> list[Json]:
    call, result = f"call-{turn}", {"type": "tool_result", "content": _OUTPUT}
    use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "cat log"}}
    messages: list[Json] = [
        {"role": "user", "content": _PROMPT},
        _claude_answer(f"msg-{turn}-a", use),
        {"role": "user", "content": [{**result, "tool_use_id": call}]},
        _claude_answer(f"msg-{turn}-b", {"type": "text", "text": "done"}),
    ]
    return [
        {
            "type": message["role"],
            "uuid": f"{turn}-{number}",
            "parentUuid": f"{turn}-{number - 1}" if number else None,
            "sessionId": session_id,
            "timestamp": STAMP,
            "cwd": "/src/app",
            "version": "2.1.100",
            "isSidechain": False,
            "message": message,
        }
        for number, message in enumerate(messages)
    ]


def _claude_answer(message_id: str, block: Json) -> Json:
    return {
        "id": message_id,
        "role": "assistant",
        "model": SMALL,
        "content": [block],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 3},
    }


def _codex_head(session_id: str) -> list[Json]:
    meta = {"id": session_id, "timestamp": STAMP, "cwd": "/src/app", "cli_version": "0.42.0"}
    return [
        _codex_line("session_meta", meta),
        _codex_line("turn_context", {"cwd": "/src/app", "model": SMALL}),
    ]


def _codex_turn(turn: int, _: str) -> list[Json]:
    call = f"call-{turn}"
    prompt = {"type": "message", "role": "user", "content": [_part("input_text", _PROMPT)]}
    use = {"type": "function_call", "name": "shell", "call_id": call, "arguments": "{}"}
    answer = {"type": "message", "role": "assistant", "content": [_part("output_text", "done")]}
    return [
        _codex_line("response_item", prompt),
        _codex_line("event_msg", {"type": "user_message", "message": _PROMPT, "kind": "plain"}),
        _codex_line("response_item", use),
        _codex_usage(2 * turn + 1),
        _codex_line(
            "response_item", {"type": "function_call_output", "call_id": call, "output": _OUTPUT}
        ),
        _codex_line("event_msg", {"type": "agent_message", "message": "done"}),
        _codex_line("response_item", answer),
        _codex_usage(2 * turn + 2),
    ]


def _part(kind: str, text: str) -> dict[str, str]:
    return {"type": kind, "text": text}


def _codex_usage(calls: int) -> Json:
    """Usage is cumulative, as Codex writes it."""
    last, total = (
        {"input_tokens": 10 * n, "output_tokens": 3 * n, "total_tokens": 13 * n} for n in (1, calls)
    )
    info = {"total_token_usage": total, "last_token_usage": last}
    return _codex_line("event_msg", {"type": "token_count", "info": info})


def _codex_line(kind: str, payload: Json) -> Json:
    return {"timestamp": STAMP, "type": kind, "payload": payload}


def _claude_head(_: str) -> list[Json]:
    return []


_HEADS: dict[Agent, Callable[[str], list[Json]]] = {"claude": _claude_head, "codex": _codex_head}
_TURNS: dict[Agent, Callable[[int, str], list[Json]]] = {
    "claude": _claude_turn,
    "codex": _codex_turn,
}
