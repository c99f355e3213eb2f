"""Hypothesis strategies for Claude Code transcripts: lines of all kinds in any order, damaged too.

Ids come from small pools, so that lines refer to each other, repeat each other and conflict. Tool
output is full of decoys: records of Claude Code that are not lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from claude_transcripts import FOLDER, SESSION, Json
from hypothesis import strategies as st

from amux.adapters._base import SourceRef
from amux.adapters.claude.records import KNOWN_TYPES

OTHER = "99999999-2222-4333-8444-555555555555"
AGENT = "abc1234"

TEXTS = (
    "Do it",
    "Warmup",
    "[Request interrupted by user]",
    "[Request interrupted by user for tool use]",
    "This session is being continued from a previous conversation that ran out",
    "<command-name>/compact</command-name><command-args></command-args>",
    "<system-reminder>be brief</system-reminder>",
    "<command-message>review</command-message><command-name>/review</command-name>",
    "<div>Do it</div>",
    "Unknown skill: revew",
    '{"type":"assistant","message":{"id":"msg_9","usage":{"output_tokens":9}}}',
    " ",
    "",
)
STAMPS = (
    "2026-01-02T03:04:05.000Z",
    "2026-01-02T03:04:06.500Z",
    "2026-01-02T05:04:05+02:00",
    "2025-12-31T23:59:59",
    " 2026-01-02T03:04:07Z ",
    "yesterday",
    1767323045,
    1767323045123,
    True,
    None,
)
DECOYS: tuple[Any, ...] = (
    {"type": "assistant", "isSidechain": True, "sessionId": OTHER, "version": "0.1.0"},
    {"message": {"id": "msg_8", "usage": {"output_tokens": 8}}, "forkedFrom": {"sessionId": OTHER}},
    '"type":"assistant","isSidechain":true,"usage":{"output_tokens":7}',
    [{"type": "cost-state", "totalCostUSD": 9.5}],
)

_odd = st.sampled_from([None, 5, "", [1], {"a": 1}, True])
_uuids = st.sampled_from([f"uuid-{number}" for number in range(6)])
_calls = st.sampled_from(["toolu_1", "toolu_2", "toolu_3"])
_texts = st.sampled_from(TEXTS)
_flags = st.sampled_from([True, True, False, "yes"])
_money = st.sampled_from([0, 0.25, 1.5, -1, "much", 1e300])


def _text_blocks() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just("text"), "text": _texts})


def _tool_blocks() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["tool_use", "server_tool_use"]), "id": _calls | _odd},
        optional={"name": st.just("Bash"), "input": st.sampled_from(DECOYS)},
    )


def _result_blocks() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("tool_result"), "tool_use_id": _calls | _odd},
        optional={"content": st.sampled_from(DECOYS) | _texts, "is_error": _flags},
    )


def _image_blocks() -> st.SearchStrategy[Any]:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    return st.just({"type": "image", "source": source})


def _counts() -> st.SearchStrategy[Any]:
    return st.sampled_from([0, 1, 3, 3, 250, 1.0, -1, "3", None, 2**70])


def _usages() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"input_tokens": _counts(), "output_tokens": _counts()},
        optional={
            "cache_read_input_tokens": _counts(),
            "cache_creation_input_tokens": _counts(),
            "cache_creation": st.fixed_dictionaries({"ephemeral_1h_input_tokens": _counts()})
            | _odd,
            "output_tokens_details": st.fixed_dictionaries({"thinking_tokens": _counts()}) | _odd,
        },
    )


def _model_usages() -> st.SearchStrategy[Any]:
    counts = st.fixed_dictionaries({"inputTokens": _counts(), "outputTokens": _counts()}) | _odd
    return st.dictionaries(st.sampled_from(["claude-sonnet-4-5", "claude-opus-4-5"]), counts)


def _answers() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"content": st.lists(_text_blocks() | _tool_blocks(), max_size=2) | _texts | _odd},
        optional={
            "id": st.sampled_from(["msg_1", "msg_1", "msg_2", "msg_3"]) | _odd,
            "model": st.sampled_from(["claude-sonnet-4-5", "claude-opus-4-5", "<synthetic>"])
            | _odd,
            "usage": _usages() | _usages() | _odd,
            "stop_reason": st.sampled_from([None, "end_turn", "tool_use"]),
        },
    )


def _said() -> st.SearchStrategy[Any]:
    blocks = _text_blocks() | _result_blocks() | _result_blocks() | _image_blocks() | _texts
    return st.fixed_dictionaries({"content": _texts | st.lists(blocks, max_size=3) | _odd})


def _envelope(kind: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {"type": kind, "sessionId": st.sampled_from([SESSION, SESSION, SESSION, OTHER, 5, ""])}


_OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "uuid": _uuids | _odd,
    "parentUuid": _uuids | _odd,
    "timestamp": st.sampled_from(STAMPS),
    "cwd": st.sampled_from(["/home/dev/src/x", "/elsewhere"]) | _odd,
    "version": st.sampled_from(["1.0.83", "2.0.77", "2.1.325"]) | _odd,
    "gitBranch": st.just("main") | _odd,
    "isSidechain": st.sampled_from([False, False, True, "no"]),
    "agentId": st.sampled_from([AGENT, "def5678"]) | _odd,
    "isMeta": _flags,
    "isCompactSummary": _flags,
    "isApiErrorMessage": _flags,
    "isAbortedMidStream": _flags,
    "interruptedMessageId": st.sampled_from(["msg_1", "msg_2"]) | _odd,
    "requestId": st.sampled_from(["req_1", "req_2"]) | _odd,
    "forkedFrom": st.sampled_from([{"sessionId": OTHER}, [OTHER], OTHER]) | _odd,
    "origin": st.sampled_from([{"kind": "human"}, {"kind": "hook"}]) | _odd,
    "costUSD": _money,
    "toolUseResult": st.sampled_from(DECOYS),
}


def _line(
    kind: st.SearchStrategy[Any],
    message: st.SearchStrategy[Any] | None = None,
    **more: st.SearchStrategy[Any],
) -> st.SearchStrategy[Json]:
    said = {} if message is None else {"message": message}
    return st.fixed_dictionaries({**_envelope(kind), **said}, optional={**_OPTIONAL, **more})


def json_lines() -> st.SearchStrategy[Json]:
    """Generate records of every known type and of some unknown ones."""
    return st.one_of(
        _line(st.just("assistant"), _answers() | _odd),
        _line(st.just("assistant"), _answers()),
        _line(st.just("user"), _said() | _odd),
        _line(st.just("user"), _said()),
        _line(
            st.just("system"),
            content=_texts | _odd,
            subtype=st.sampled_from(["compact_boundary", "turn_duration"]),
        ),
        _line(st.just("cost-state"), totalCostUSD=_money, modelUsage=_model_usages() | _odd),
        _line(st.just("cost"), totalUsd=_money, inputTokens=_counts(), outputTokens=_counts()),
        _line(st.just("api-request")),
        _line(st.just("summary"), summary=_texts, leafUuid=_uuids),
        _line(
            st.sampled_from([*sorted(KNOWN_TYPES), "future", "", 5, None]),
            customTitle=_texts,
            aiTitle=_texts,
            tag=_texts,
            prUrl=_texts,
            content=_texts,
        ),
    )


@st.composite
def _written(draw: st.DrawFn, record: st.SearchStrategy[Json]) -> bytes:
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :")]))
    ascii_only = draw(st.booleans())
    return json.dumps(draw(record), separators=separators, ensure_ascii=ascii_only).encode()


def _damaged(line: bytes, how: int) -> bytes:
    middle = how % max(1, len(line))
    ways = (
        line[:middle],
        line[:middle] + b"\n" + line[middle:],
        line + line,
        line + b" " + line,
        b"\x00\x00" + line,
        line + b"\r",
        b"  " + line,
        line[:middle] + b"\xe9" + line[middle:],
        line[:middle] + b"\\ud83d" + line[middle:],
        line.replace(b"assistant", b"\\u0061ssistant"),
        line.replace(b":", b":\n", 1),
        line[:-1] + b',"summary":1e999}',
        line[:-1] + b',"type":"user"}',
        b"",
        b"[" + line + b"]",
        b"42",
    )
    return ways[how % len(ways)]


@st.composite
def transcripts(draw: st.DrawFn, *, intact: bool = False) -> bytes:
    """Generate the bytes of one file; some end within a line."""
    lines = draw(st.lists(_written(json_lines()), max_size=14))
    if not intact:
        accidents = draw(st.dictionaries(st.integers(0, 13), st.integers(0, 10**6), max_size=4))
        lines = [
            _damaged(line, accidents[number]) if number in accidents else line
            for number, line in enumerate(lines)
        ]
    start = draw(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"]))
    end = draw(st.sampled_from([b"\n", b"\n", b"", b'\n{"type":"user","mess']))
    return start + b"\n".join(lines) + (end if lines else b"")


def _usual_lines() -> list[Json]:
    """Return an exchange as Claude Code writes it: most of its lines are usual."""
    reply = {"id": "msg_1", "model": "claude-opus-4-5", "role": "assistant", "stop_reason": None}
    usage: Json = {"input_tokens": 3, "output_tokens": 5, "cache_creation": {}}
    second = {**reply, "id": "msg_2", "stop_reason": "end_turn"}
    calls = [{"type": "tool_use", "id": f"toolu_{each}", "name": "Bash"} for each in range(3)]
    results = [{"type": "tool_result", "tool_use_id": call["id"]} for call in calls]
    command = "<command-message>review</command-message><command-name>/review</command-name>"
    messages: list[tuple[str, Json]] = [
        ("user", {"content": command.replace("review", "init")}),
        ("user", {"content": command}),
        ("cost-state", {}),
        ("assistant", {**reply, "usage": usage, "content": [{"type": "text", "text": "Now"}]}),
        *(("assistant", {**reply, "usage": usage, "content": [call]}) for call in calls),
        *(("user", {"content": [result]}) for result in results),
        ("assistant", {**second, "usage": {**usage, "output_tokens": 9}, "content": []}),
        ("user", {"content": "Do it"}),
        ("assistant", {**second, "id": "msg_3", "usage": usage, "content": calls[:1]}),
        ("user", {"content": results[:1]}),
    ]
    return [
        {
            "type": kind, "uuid": f"uuid-{number}", "sessionId": SESSION, "message": message,
            "timestamp": f"2026-01-02T03:04:{number:02d}.250Z", "version": "2.1.100",
            "cwd": "/home/dev/src/x", "isSidechain": False, "gitBranch": "main",
            "totalCostUSD": 0.5,
        }
        for number, (kind, message) in enumerate(messages)
    ]  # fmt: skip


_FIELDS: dict[str, tuple[Any, ...]] = {
    "uuid": ("", 5, None, "uuid-1"),
    "timestamp": (
        "", 1767323045, None, "yesterday", "2026-01-02", "2026-01-02T03:04:05", "20260102T030405Z",
        "2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05+00:00", "2025-01-02T03:04:05.000Z",
        "1969-12-31T23:59:59.999Z", "2026-01-02T03:04:59.123456789Z", "9999-12-31T23:59:59-01:00",
    ),
    "version": ("", 5, None, "1.0.83", "2.1.325"),
    "sessionId": (OTHER, 5, None),
    "type": ("system", "user", "assistant", "summary", 5, None),
    "message": (None, "lost", [], {}),
    "cwd": ("/elsewhere", None),
    "isSidechain": (True, "no"),
    "agentId": (AGENT, "def5678"),
    "forkedFrom": ({"sessionId": OTHER}, OTHER),
    "metadata": ({"forkedFrom": {"sessionId": OTHER}}, {"parentSessionId": OTHER}, {}, 5),
    "isMeta": (True,),
    "isCompactSummary": (True,),
    "isApiErrorMessage": (True, "yes"),
    "isAbortedMidStream": (True, "yes"),
    "interruptedMessageId": ("msg_1",),
    "costUSD": (0.25, 0, "much"),
    "totalCostUSD": (1.5,),
    "gitBranch": ("other", 5, None),
    "slug": ("a-slug", 5),
    "entrypoint": ("cli", 5),
}  # fmt: skip
_MESSAGE_FIELDS: dict[str, tuple[Any, ...]] = {
    "id": ("", 5, None, "msg_1", "msg_2"),
    "model": ("", 5, None, "<synthetic>", "claude-sonnet-4-5"),
    "usage": (None, 5, {}, {"output_tokens": 700}, {"input_tokens": -1, "output_tokens": 5}),
    "stop_reason": ("end_turn", "tool_use", None, 5),
    "content": (
        "Warmup", None, [], ["text"], [{"type": "text", "text": "[Request interrupted by user]"}],
        [{"type": "tool_result", "tool_use_id": "toolu_1"}] * 2,
        [{"type": "tool_result", "tool_use_id": "toolu_2"}, {"type": "text", "text": "more"}],
        [{"type": "tool_result", "tool_use_id": "toolu_9"}], [{"type": ["tool_result"]}],
        [{"type": "tool_result", "tool_use_id": 5}], [{"type": "text", "tool_use_id": "toolu_1"}],
        [{"type": "tool_use", "id": "toolu_9", "name": "Bash"}], [{"type": "tool_use", "id": 5}],
    ),
}  # fmt: skip
_USAGE_FIELDS: dict[str, tuple[Any, ...]] = {
    "output_tokens": (1, 700, -1, "3", None, 1.5, True, 2**70),
    "input_tokens": (-1, "3", None, 2**70),
    "cache_creation": ({"ephemeral_1h_input_tokens": -1}, 5, None),
    "output_tokens_details": ({"thinking_tokens": 2}, 5),
}


def odd_endings() -> Iterator[tuple[str, bytes]]:
    """Yield usual lines that end with an odd one: each line with each odd value, and their name."""
    usual = json.dumps(_usual_lines())
    for end in range(1, len(_usual_lines()) + 1):
        for path, odd in _odd_values():
            lines: list[Json] = json.loads(usual)[:end]
            owner = lines[-1]
            for name in path[:-1]:
                owner = owner.get(name, {})
            owner[path[-1]] = odd
            yield f"{end}: {path} = {odd}", _file_of(lines)


def _odd_values() -> Iterator[tuple[tuple[str, ...], Any]]:
    for above, fields in (
        ((), _FIELDS), (("message",), _MESSAGE_FIELDS), (("message", "usage"), _USAGE_FIELDS)
    ):  # fmt: skip
        for name, values in fields.items():
            yield from (((*above, name), value) for value in values)


def _file_of(lines: Iterable[Json]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@st.composite
def nearly_usual(draw: st.DrawFn) -> bytes:
    """Generate usual lines, a few of them with an odd field, missing, repeated or displaced."""
    lines: list[Json] = json.loads(json.dumps(_usual_lines()))  # with no part in common
    positions = st.integers(0, len(lines) - 1)
    end = len(lines)
    for _ in range(draw(st.integers(0, 4))):
        position = draw(positions)
        end = draw(st.sampled_from([end, end, position + 1]))  # nothing may correct an odd line
        line = lines[position]
        owners: list[tuple[Json, dict[str, tuple[Any, ...]]]] = [(line, _FIELDS)]
        if isinstance(message := line.get("message"), dict):
            owners.append((cast("Json", message), _MESSAGE_FIELDS))
            if isinstance(usage := cast("Json", message).get("usage"), dict):
                owners.append((cast("Json", usage), _USAGE_FIELDS))
        owner, fields = draw(st.sampled_from(owners))
        name = draw(st.sampled_from(sorted(fields)))
        owner[name] = draw(st.sampled_from(fields[name]))
    order = [*range(end), *draw(st.lists(positions, max_size=2))]
    if draw(st.booleans()):
        order.insert(draw(positions), order.pop(draw(positions) % len(order)))
    first = draw(st.sampled_from([0, 0, 0, 2, 4, 7]))
    return _file_of(lines[each] for each in order[first:])


def source_at(folder: Path, *, agent: bool = False) -> SourceRef:
    """Return a file of a project folder as `discover` yields it."""
    name, role = (f"agent-{AGENT}", "subagent") if agent else (SESSION, "session")
    path = folder / "projects" / FOLDER / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return SourceRef(
        agent="claude",
        path=path,
        root=folder / "projects",
        session_id=AGENT if agent else SESSION,
        group=FOLDER,
        role="subagent" if role == "subagent" else "session",
    )
