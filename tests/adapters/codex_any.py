"""Hypothesis strategies for rollouts of any records in any order, damaged or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from codex_lines import OWN, PARENT
from hypothesis import strategies as st

from amux.adapters._base import Reading, SourceRef, Want
from amux.adapters.codex import ADAPTER
from amux.model.facts import Facts
from amux.model.problems import Problem

CAPTURES = Path(__file__).parent.parent / "captures" / "codex"
DECOY = (
    '{"type":"event_msg","payload":{"type":"token_count","info":{}}} "type":"token_usage_record"'
)

Json = dict[str, Any]
Fields = st.SearchStrategy[Any]

ids = st.sampled_from([None, "a", "b", "item-1"])
texts = st.sampled_from(["", "Go", "More", "<environment_context><cwd>/e</cwd>", DECOY, "日本 🚀"])
figures = st.sampled_from([0, 1, 2, 30, None, 1.0, -1])
times = st.sampled_from(["2026-01-02T03:04:05.678Z", "2026-01-02T05:04:05+02:00", 1767323045, "x"])
threads = st.sampled_from([OWN, PARENT])
outputs = st.sampled_from(["ok", "aborted by user after 1s", DECOY, '{"agent_id":"child"}', None])


def record(kind: str, *types: str, **fields: Fields) -> st.SearchStrategy[tuple[str, Json]]:
    """Generate records of one kind whose payload has one of these types (none: it has no type)."""
    named = {"type": st.sampled_from(types), **fields} if types else fields
    return st.tuples(st.just(kind), st.fixed_dictionaries(named))


def parts(type: str) -> st.SearchStrategy[list[Json]]:
    return st.lists(st.fixed_dictionaries({"type": st.just(type), "text": texts}), max_size=2)


sources = st.sampled_from(
    ["cli", {"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}, {"subagent": "review"}]
)
usages = st.fixed_dictionaries(
    {"input_tokens": figures, "output_tokens": figures},
    optional={"cached_input_tokens": st.just(1), "reasoning_output_tokens": figures},
)
infos = st.fixed_dictionaries({"total_token_usage": usages, "last_token_usage": usages})
turn_items = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["UserMessage", "Reasoning", "AgentMessage", "CommandExecution"]),
        "id": ids,
        "content": parts("text"),
    },
    optional={"receiver_thread_ids": st.just(["child"]), "exit_code": st.just(1)},
)
bases = st.sampled_from([None, {"thread_id": PARENT, "end_ordinal_exclusive": 4}])
records = st.one_of(
    record(
        "session_meta",
        id=threads,
        timestamp=times,
        source=sources,
        cwd=st.sampled_from([None, "/w"]),
        forked_from_id=st.one_of(st.none(), threads),
        subagent_history_start_ordinal=st.one_of(st.none(), st.integers(0, 9)),
        history_base=bases,
    ),
    record("turn_context", model=ids, turn_id=ids),
    record("token_usage_record", response_id=ids, thread_id=threads, usage=usages),
    record("compacted", message=texts, latest_token_usage_record=usages),
    record("event_msg", "token_count", info=infos),
    record("event_msg", "token_count", info=st.none()),
    record("event_msg", "user_message", "agent_message", message=texts),
    record("event_msg", "agent_reasoning", text=texts),
    record("event_msg", "task_started", "task_complete", "turn_aborted", "brand_new"),
    record("event_msg", "item_completed", item=turn_items, turn_id=ids),
    record("response_item", "message", role=st.just("user"), content=parts("input_text"), id=ids),
    record(
        "response_item",
        "message",
        role=st.sampled_from(["assistant", "developer"]),
        content=parts("output_text"),
        id=ids,
    ),
    record("response_item", "reasoning", id=ids, encrypted_content=ids),
    record(
        "response_item",
        *("function_call", "custom_tool_call", "local_shell_call", "web_search_call"),
        name=st.just("spawn_agent"),
        call_id=ids,
    ),
    record(
        "response_item",
        *("function_call_output", "custom_tool_call_output"),
        call_id=ids,
        output=outputs,
    ),
    record("response_item", "agent_message", "novelty", content=parts("text")),
    record("world_state", state=st.just({"type": "token_count"})),
    record("inter_agent_communication_metadata", trigger=st.just("turn")),
    record("future", "token_count", info=infos),
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Generate one whole line, compact as Codex writes it or with spaces."""
    kind, payload = draw(records)
    line: Json = {"timestamp": draw(times)}
    if draw(st.booleans()):
        line["ordinal"] = draw(st.integers(0, 12))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps({**line, "type": kind, "payload": payload}, separators=separators)
    return text.encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Generate a line that is not JSON, or that only resembles a record."""
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


ODD = st.sampled_from(
    ["null", "true", "-1", "1e300", "1" + "0" * 30, '""', '"x"', "[]", "{}", "[null]", '{"a":1}']
)


def spoil(data: st.DataObject, value: list[Any]) -> None:
    """Replace a value somewhere inside a JSON value by an unexpected one."""
    holder = cast("dict[Any, Any]", value)
    places: list[Any] = list(range(len(value)))
    while True:
        place = data.draw(st.sampled_from(places))
        inner: Any = holder[place]
        is_leaf = not isinstance(inner, dict | list) or not inner
        if is_leaf or data.draw(st.booleans()):
            holder[place] = json.loads(data.draw(ODD))
            return
        holder = cast("dict[Any, Any]", inner)
        places = list(range(len(holder))) if isinstance(inner, list) else list(holder)


def spoiled(data: st.DataObject, line: bytes) -> bytes:
    """Generate a line with an unexpected value, or with a removed or replaced part."""
    if data.draw(st.booleans()):
        value = [json.loads(line)]
        spoil(data, value)
        return json.dumps(value[0], separators=(",", ":")).encode()
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(line))] * 2)))
    return data.draw(st.one_of(st.just(line[:first] + line[last:]), lines(), damaged()))


def apart_from_each_other(found: list[bytes]) -> bytes:
    """Put a zero byte, as left by a crash, after each line, so that each is read alone."""
    return b"\x00\n".join(found) + b"\x00\n"


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Generate a whole rollout of arbitrary lines."""
    found = draw(st.lists(st.one_of(lines(), lines(), lines(), damaged()), max_size=25))
    return b"\n".join(found) + draw(st.sampled_from([b"\n", b""]))


def source_of(path: Path) -> SourceRef:
    return SourceRef(agent="codex", path=path, root=path.parent)


def write(folder: Path, data: bytes) -> SourceRef:
    """Write a rollout with these bytes."""
    path = folder / f"rollout-2026-01-02T03-04-05-{OWN}.jsonl"
    path.write_bytes(data)
    return source_of(path)


def read_whole(source: SourceRef, want: Want = "facts") -> Reading:
    """Return the result of `read` in the form of a reading."""
    items = list(ADAPTER.read(source, want=want))
    facts = tuple(item for item in items if isinstance(item, Facts))
    problems = tuple(item for item in items if isinstance(item, Problem))
    return Reading(facts=facts, problems=() if facts else problems)
