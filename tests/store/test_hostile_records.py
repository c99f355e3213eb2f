"""Records that no program of ours would write: they cost themselves and nothing else."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.client import create_client
from amux.rollout.records import NewRecord, PayloadText, RecordType
from amux.store.session_store import SessionStore

FIELDS = (
    "ids", "all", "from_seq", "upto_seq", "searchable", "hide", "target", "fields", "id", "name",
    "value", "title", "tags", "message", "turn_id", "session_id", "reason", "usage", "model",
    "cost_usd", "of", "summary", "first_kept_id", "first_kept_seq", "cwd", "sandbox_policy",
    "extra", "role", "content", "thinking", "tool_calls", "tool_call_id", "is_error", "images",
    "effort", "synthetic",
)  # fmt: skip
KINDS = (
    "hide", "unhide", "correction", "head", "register", "title", "tags", "input", "input_taken",
    "turn_started", "turn_ended", "turn_interrupted", "session_resumed", "session_ended", "touch",
    "usage", "projection", "vacuumed", "unheard-of",
)  # fmt: skip
TYPES: tuple[RecordType, ...] = ("response_item", "turn_context", "compacted", "event_msg")
VALUES = st.sampled_from(
    (
        "null", "true", "false", "0", "-1", "5", "1.5", "1e400", "-Infinity", "NaN", str(10**30),
        '""', '"x"', '"\\ud800"', '"\\u0000"', "[]", "[1]", '["x"]', "[[]]", "[{}]", "{}",
        '{"a":1}', '{"input_tokens":-1,"output_tokens":1e999}', '[{"name":5,"function":[]}]',
    )
)  # fmt: skip
PAYLOADS = st.one_of(
    VALUES,
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4).flatmap(
        lambda fields: st.sampled_from((None, *KINDS)).map(
            lambda kind: _object({**fields, **({} if kind is None else {"type": f'"{kind}"'})})
        )
    ),
    st.sampled_from(("user", "assistant", "tool")).flatmap(
        lambda role: st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4).map(
            lambda fields: _object({**fields, "role": f'"{role}"'})
        )
    ),
)


def _object(fields: dict[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


def read_everything(store: SessionStore, thread_id: str) -> None:
    """Ask everything that a program can ask about a thread."""
    view = store.open(thread_id)
    list(view.items(raw=True))
    list(view.items())
    view.conversation()
    assert view.environment.cwd is None or isinstance(view.environment.cwd, str)
    for each in view.pending():
        dict(each.message)
    assert view.register("nothing") is None
    assert view.cost.billing.cost_nusd >= 0
    view.path_to("x")
    assert view.summary.label
    store.list(limit=None)
    store.search("mark")
    store.lineage(thread_id)
    store.stats()
    store.vacuum(thread_id, dry_run=True)
    store.export(thread_id)


@pytest.mark.parametrize("backend", ["memory", "file"])
@drawn(120)
@given(
    payloads=st.lists(st.tuples(st.sampled_from(TYPES), PAYLOADS), min_size=1, max_size=6),
)
def test_a_record_with_any_payload_stops_no_reader(
    backend: str,
    payloads: list[tuple[RecordType, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = tmp_path_factory.mktemp("stores")
    with closing(SessionStore("memory:" if backend == "memory" else base / "s")) as store:
        thread = store.start(cwd="/w", model="m")
        thread.message("user", "mark one")
        thread.append_all(
            [NewRecord(type=type, payload=PayloadText(text)) for type, text in payloads]
        )
        read_everything(store, thread.thread_id)
        with thread.begin_turn() as turn:
            turn.message("user", "mark two")
        store.fork(thread.thread_id).compact("a summary", keep_turns=0)
        assert store.search("mark two" if backend == "memory" else '"mark two"')
        read_everything(store, thread.thread_id)
    if backend == "file":
        client = create_client(home=base, env={"AMUX_STORE": str(base / "s")})
        session = client.sessions.get("amux", thread.thread_id)
        assert session.messages[-1].content == "mark two"
        client.sessions.total_cost(agent="amux")


LINE = {"type": "response_item", "seq": 3, "id": "x", "timestamp": "2026-01-01T00:00:00Z"}
BEGIN = json.dumps({**LINE, "batch": [1, 1]})[:-1]


@pytest.mark.parametrize(
    "line",
    [
        {**LINE, "batch": [1, 1], "payload_text": "not json"},
        {**LINE, "batch": [1, 1], "payload_text": ""},
        {**LINE, "batch": [1, 1]},
        {**LINE, "batch": [0, 1], "payload": {}},
        {**LINE, "batch": [2, 1], "payload": {}},
        {**LINE, "batch": [1, 1], "payload": {}, "seq": -3},
        {**LINE, "batch": [1, 1], "payload": {}, "seq": 2**80},
        {**LINE, "batch": [1, 1], "payload": {}, "seq": "3"},
        {**LINE, "batch": [1, 1], "payload": {}, "timestamp": "2026-01-01T00:00:00"},
        {**LINE, "batch": [1, 1], "payload": {}, "timestamp": "0001-01-01T00:00:00+14:00"},
        {**LINE, "batch": [1, 1], "payload": {}, "timestamp": "9999-12-31T23:59:59-14:00"},
        {**LINE, "batch": [1, 1], "payload": {}, "timestamp": 5},
        {**LINE, "batch": [1, 1], "payload": {}, "id": 7},
        {**LINE, "batch": [1, 1], "payload": {}, "blobs": "x"},
        BEGIN + ',"payload":{"a":"\\u12"}}',
        BEGIN + ',"payload":{"role":"user","content":"\\ud800"}}',
        BEGIN + ',"payload":' + "[" * 5000 + "]" * 5000 + "}",
        BEGIN + ',"payload":01}',
    ],
)
def test_a_line_of_any_form_stops_no_reader(store_folder: Path, line: Any) -> None:
    with closing(SessionStore(store_folder)) as store:
        thread = store.start(cwd="/w")
        thread.message("user", "mark one")
    with thread.path.open("ab") as file:
        file.write((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
    with closing(SessionStore(store_folder)) as store:
        read_everything(store, thread.thread_id)
        store.doctor()
        again = store.resume(thread.thread_id)
        again.message("user", "mark two")
        read_everything(store, thread.thread_id)
        contents = [each.get("content") for each in again.conversation()]
        assert (contents[0], contents[-1]) == ("mark one", "mark two")
        assert len(store.search("mark")) >= 2
    client = create_client(home=store_folder, env={"AMUX_STORE": str(store_folder)})
    session = client.sessions.get("amux", thread.thread_id)
    assert session.messages[-1].content == "mark two"


def test_a_content_with_a_lone_surrogate_inside_an_object_is_a_message() -> None:
    with SessionStore("memory:") as store:
        thread = store.start(cwd="/")
        thread.message("user", {"a": "\ud800"})
        thread.message("user", "after")
        assert thread.summary.message_count == 2
        assert [hit.role for hit in store.search("after")] == ["user"]
