"""Lines of Claude Code transcripts in the exact layout of some versions: order, spacing, envelope.

Most tests build lines in any order; code that recognises lines by their bytes needs real layouts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from hypothesis import strategies as st

Json = dict[str, Any]
Layout = Literal["1.0.83", "2.0.77", "2.1.325"]
LAYOUTS: tuple[Layout, ...] = ("1.0.83", "2.0.77", "2.1.325")

SESSION = "3ab8f31d-04b6-4d2b-932d-991f2634d382"
OTHER = "c923122a-7df0-4442-b7fb-df375e9e119b"


class Writer:
    """Writes the lines of one session consecutively."""

    def __init__(self, layout: Layout, *, agent: bool = False) -> None:
        self.layout: Layout = layout
        self.agent = agent
        self.lines: list[bytes] = []
        self.cwd = "/home/dev/src/webapp"
        self.version: str = layout
        self._number = 0
        self._before: str | None = None

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)

    def raw(self, line: bytes) -> None:
        self.lines.append(line + b"\n")

    def record(self, kind: str, **fields: Any) -> None:
        """Write a line of bookkeeping."""
        self._put({"type": kind, "sessionId": SESSION, **fields})

    def user(self, content: Any, **flags: Any) -> None:
        self._message({"type": "user", "message": {"role": "user", "content": content}}, flags)

    def result(self, *tools: str, text: str = "done", behind: tuple[Json, ...] = ()) -> None:
        blocks = [{"tool_use_id": id, "type": "tool_result", "content": text} for id in tools]
        self.user([*blocks, *behind], toolUseResult={"stdout": text, "stderr": ""})

    def answer(self, id: str, *blocks: Json, usage: Json | None, **flags: Any) -> None:
        stop = flags.pop("stop", None)
        model = flags.pop("model", "claude-opus-4-1")
        message: Json = {
            "model": model, "id": id, "type": "message", "role": "assistant",
            "content": list(blocks), "stop_reason": stop, "stop_sequence": None,
        }  # fmt: skip
        if usage is not None:
            message["usage"] = usage
        self._message({"message": message, "requestId": "req_1", "type": "assistant"}, flags)

    def system(self, subtype: str, **fields: Any) -> None:
        self._message({"type": "system", "subtype": subtype, **fields}, {})

    def _message(self, body: Json, flags: Json) -> None:
        self._number += 1
        id = f"{self._number:08x}-0000-4000-8000-000000000000"
        session = flags.pop("sessionId", SESSION)
        side = flags.pop("isSidechain", self.agent)
        at = flags.pop(
            "timestamp", f"2026-03-01T10:{self._number // 60:02}:{self._number % 60:02}.000Z"
        )
        envelope = {
            "userType": "external", "cwd": self.cwd, "sessionId": session,
            "version": self.version, "gitBranch": "main",
        }  # fmt: skip
        begin: Json = {"parentUuid": self._before, "isSidechain": side}
        end: Json = {"uuid": id, "timestamp": at, **flags}
        if self.layout == "2.1.325":
            forked = {"forkedFrom": end.pop("forkedFrom")} if "forkedFrom" in end else {}
            self._put({**begin, **body, **end, **envelope, **forked})
        else:
            self._put({**begin, **envelope, **body, **end})
        self._before = id

    def _put(self, line: Json) -> None:
        self.raw(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode())


def tool(id: str) -> Json:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}}


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def counts(output: int, *, cached: int = 100) -> Json:
    written = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7}
    return {
        "input_tokens": 3, "cache_creation_input_tokens": 7, "cache_read_input_tokens": cached,
        "cache_creation": written, "output_tokens": output, "service_tier": "standard",
    }  # fmt: skip


_IDS = st.sampled_from(["msg_1", "msg_2", "msg_3"])
_TOOLS = st.sampled_from(["toolu_1", "toolu_2", "toolu_3"])
_INTERRUPTED = said("[Request interrupted by user]")

Step = Callable[[Writer], None]


def _answers() -> st.SearchStrategy[Step]:
    def step(id: str, tools: list[str], output: int, flags: Json) -> Step:
        usage = flags.pop("usage", counts(output))
        return lambda writer: writer.answer(id, *map(tool, tools), usage=usage, **flags)

    odd: list[Json] = [
        {"usage": None},
        {"usage": {"output_tokens": "many"}},
        {"usage": {**counts(4), "output_tokens_details": {"thinking_tokens": 2}}},
        {"model": "<synthetic>"},
        {"isApiErrorMessage": True},
        {"isApiErrorMessage": False},
        {"isAbortedMidStream": True},
        {"costUSD": 0.25},
        {"sessionId": OTHER},
        {"isSidechain": True},
        {"forkedFrom": {"sessionId": OTHER, "messageUuid": "x"}},
        {"timestamp": "2026-02-01T10:00:00.000Z"},
        {"timestamp": "no time"},
        {"timestamp": "2026-03-01T10:00:00+02:00"},
        {"stop": "end_turn"},
    ]
    flags = st.one_of(st.just(Json()), st.just(Json()), st.sampled_from(odd)).map(dict)
    return st.builds(step, _IDS, st.lists(_TOOLS, max_size=2), st.integers(1, 3), flags)


def _results() -> st.SearchStrategy[Step]:
    behind = st.sampled_from([(), (), (), (_INTERRUPTED,), (said("and then?"),)])
    tools = st.lists(_TOOLS, min_size=1, max_size=2)

    def step(ids: list[str], more: tuple[Json, ...]) -> Step:
        return lambda writer: writer.result(*ids, behind=more)

    return st.builds(step, tools, behind)


def _others() -> st.SearchStrategy[Step]:
    def moves(writer: Writer) -> None:
        writer.cwd += "/deeper"

    def upgrades(writer: Writer) -> None:
        writer.version = "1.0.5" if writer.version != "1.0.5" else "2.1.0"

    return st.sampled_from(
        [
            lambda writer: writer.user("please"),
            lambda writer: writer.user([_INTERRUPTED]),
            lambda writer: writer.user([_INTERRUPTED], interruptedMessageId="msg_1"),
            lambda writer: writer.user([said("go on")], isMeta=True),
            lambda writer: writer.user("This session is being continued", isCompactSummary=True),
            lambda writer: writer.user([tool("x")], sessionId=OTHER),
            lambda writer: writer.record("api-request"),
            lambda writer: writer.record("cost-state", totalCostUSD=0.5),
            lambda writer: writer.record("queue-operation", operation="enqueue"),
            lambda writer: writer.record("summary", summary="a title", leafUuid="x"),
            lambda writer: writer.system("compact_boundary", content="compacted"),
            lambda writer: writer.system("turn_duration", durationMs=5),
            lambda writer: writer.raw(b""),
            lambda writer: writer.raw(b'{"parentUuid":"torn'),
            lambda writer: writer.raw(b'{"parentUuid":"\xff\xfe"}'),
            moves,
            upgrades,
        ]
    )


def sequences(*, agent: bool = False) -> st.SearchStrategy[Writer]:
    """Generate sessions in any of the layouts, mostly answers and results."""

    def write(layout: Layout, steps: list[Step]) -> Writer:
        writer = Writer(layout, agent=agent)
        for step in steps:
            step(writer)
        return writer

    steps = st.lists(
        st.one_of(_answers(), _results(), _answers(), _results(), _others()), max_size=30
    )
    return st.builds(write, st.sampled_from(LAYOUTS), steps)
