"""Rollouts of any records in any order, damaged or not: the worst that a reader may find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from codex_lines import OWN, PARENT, usage
from hypothesis import strategies as st

from amux.adapters._base import USAGE_LEAVES_OUT, Reading, SourceRef, Want
from amux.adapters.codex import ADAPTER
from amux.model.facts import Facts
from amux.model.problems import Problem

CAPTURES = Path(__file__).parent.parent / "captures" / "codex"
DECOY = (
    '{"type":"event_msg","payload":{"type":"token_count","info":{}}} "type":"token_usage_record"'
)

Json = dict[str, Any]

ids = st.sampled_from([None, "a", "b", "item-1"])
texts = st.sampled_from(["", "Go", "More", "<environment_context><cwd>/e</cwd>", DECOY, "日本 🚀"])
figures = st.sampled_from([0, 1, 2, 30, None, 1.0, -1])
times = st.sampled_from(["2026-01-02T03:04:05.678Z", "2026-01-02T05:04:05+02:00", 1767323045, "x"])


def _parts(text: str) -> list[Json]:
    return [{"type": "input_text", "text": text}]


def _usage(input: Any, output: Any) -> Json:
    return {"input_tokens": input, "output_tokens": output, "cached_input_tokens": 1}


def _item(type: str, **fields: Any) -> tuple[str, Json]:
    return "response_item", {"type": type, **fields}


def _event(type: str, **fields: Any) -> tuple[str, Json]:
    return "event_msg", {"type": type, **fields}


def _turn_item(type: str, id: str | None, text: str) -> tuple[str, Json]:
    content = [{"type": "text", "text": text}]
    item = {"type": type, "id": id, "content": content, "summary_text": [text]}
    return _event("item_completed", turn_id="rollout-1", item=item)


def _count(total: Any, last: Any) -> tuple[str, Json]:
    info = {"total_token_usage": _usage(total, total), "last_token_usage": _usage(last, 2)}
    return _event("token_count", info=info)


def _record(id: str | None, figure: Any, thread: str) -> tuple[str, Json]:
    return "token_usage_record", {
        "response_id": id,
        "thread_id": thread,
        "usage": _usage(figure, 3),
    }


threads = st.sampled_from([OWN, PARENT])
sources = st.sampled_from(
    ["cli", {"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}, {"subagent": "review"}]
)
metas = st.fixed_dictionaries(
    {"id": threads, "timestamp": times},
    optional={
        "cwd": st.just("/w"),
        "source": sources,
        "forked_from_id": threads,
        "subagent_history_start_ordinal": st.integers(0, 9),
        "history_base": st.just({"thread_id": PARENT, "end_ordinal_exclusive": 4}),
    },
)
outputs = st.sampled_from(["ok", "aborted by user after 1s", DECOY, '{"agent_id":"child"}', None])
call_types = st.sampled_from(
    ["function_call", "custom_tool_call", "local_shell_call", "web_search_call"]
)
output_types = st.sampled_from(["function_call_output", "custom_tool_call_output"])
roles = st.sampled_from(["user", "assistant", "developer"])
turn_items = st.sampled_from(["UserMessage", "Reasoning", "AgentMessage", "CommandExecution"])
turn_events = st.sampled_from(
    ["task_started", "task_complete", "turn_aborted", "thread_rolled_back", "brand_new"]
)
records = st.one_of(
    st.builds(lambda meta: ("session_meta", meta), metas),
    st.builds(lambda m: ("turn_context", {"model": m, "turn_id": "t"}), ids),
    st.builds(_count, figures, figures),
    st.just(_event("token_count", info=None)),
    st.builds(_record, ids, figures, threads),
    st.builds(lambda role, t, id: _item("message", role=role, content=_parts(t), id=id),
              roles, texts, ids),
    st.builds(lambda id: _item("reasoning", id=id, encrypted_content=id, summary=[]), ids),
    st.builds(lambda t, c: _item(t, name="spawn_agent", call_id=c), call_types, ids),
    st.builds(lambda t, c, o: _item(t, call_id=c, output=o), output_types, ids, outputs),
    st.builds(lambda t: _event("user_message", message=t), texts),
    st.builds(lambda t: _event("agent_reasoning", text=t), texts),
    st.builds(lambda t: _event("agent_message", message=t), texts),
    st.builds(lambda t: _event(t, turn_id="t"), turn_events),
    st.builds(_turn_item, turn_items, ids, texts),
    st.just(("compacted", {"message": "sum", "latest_token_usage_record": usage(1, 1)})),
    st.just(("world_state", {"state": {"type": "token_count"}})),
    st.just(("future", {"type": "token_count", "info": {}})),
)  # fmt: skip


@st.composite
def lines(draw: st.DrawFn, *, numbered: bool | None = None) -> bytes:
    """One whole line, compact as Codex writes it or with spaces."""
    kind, payload = draw(records)
    line: Json = {"timestamp": draw(times)}
    if draw(st.booleans()) if numbered is None else numbered:
        line["ordinal"] = draw(st.integers(0, 12))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps({**line, "type": kind, "payload": payload}, separators=separators)
    return text.encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A line that is none, or that only looks like one."""
    line = draw(lines())
    place = draw(st.integers(0, len(line)))
    rest = draw(st.sampled_from([b"", b"\n", b'"', b"\x00", b"\xff", b"\\"]))
    return draw(
        st.sampled_from(
            [
                line[:place],
                line[:place] + rest + line[place:],
                line[:place] + rest + line[place + 1 :],
                line + line,
                line.replace(b'"payload":', b'"payload":\n'),
                b"",
                b"\x00\x00" + line,
                b"\xef\xbb\xbf" + line,
                b'{"role":"user","content":"bare"}',
                b'{"record_type":"state"}',
            ]
        )
    )


logs = st.builds(
    lambda found, end: b"\n".join(found) + end,
    st.lists(st.one_of(lines(), lines(), lines(), damaged()), max_size=25),
    st.sampled_from([b"\n", b""]),
)
"""A whole rollout of anything."""


def source_of(path: Path) -> SourceRef:
    return SourceRef(agent="codex", path=path, root=path.parent)


def write(folder: Path, data: bytes) -> SourceRef:
    """A rollout with these bytes."""
    path = folder / f"rollout-2026-01-02T03-04-05-{OWN}.jsonl"
    path.write_bytes(data)
    return source_of(path)


def read_whole(source: SourceRef, want: Want) -> Reading:
    """What `read` gives, in the form of a reading."""
    items = list(ADAPTER.read(source, want=want))
    facts = tuple(item for item in items if isinstance(item, Facts))
    problems = tuple(item for item in items if isinstance(item, Problem))
    return Reading(facts=facts, problems=() if facts else problems)


def bears_on_cost(reading: Reading) -> list[Json]:
    """All fields that a reading of usage may not leave out."""
    return [
        {
            name: value
            for name, value in msgspec.structs.asdict(facts).items()
            if name not in USAGE_LEAVES_OUT
        }
        for facts in reading.facts
    ]
