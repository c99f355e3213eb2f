"""The public types and their JSON: names, dates, what is left out, what is derived."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import (
    CAPTURES,
    LARGE,
    SMALL,
    ClaudeSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
)
from hypothesis import given
from hypothesis import strategies as st
from json_schema import violations

import amux
from amux.client import Client, create_client
from amux.errors import (
    EXIT_CODES,
    AmbiguousIdError,
    AmuxError,
    AuthError,
    CapabilityError,
    ErrorCode,
    ValidationError,
)
from amux.model.base import Model
from amux.model.cost import CostRecord, CostSummary
from amux.model.diff import SessionDiff
from amux.model.message import SessionToolCall
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.model.reports import CostExplanation, Overview
from amux.model.session import Session, SessionSummary
from amux.model.titles import TITLE_LENGTH, choose_title, fold_name, fold_title
from amux.model.trace import LineKind, Trace, TraceBuilder, count_messages, count_turns, key_of
from amux.model.usage import Tokens
from amux.testing import Capture
from amux.testing.reading import opened_files

EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)
ALL_CAPTURES = pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
DATES = {"createdAt", "updatedAt", "timestamp", "at", "oldest", "newest"}
FREE_FORM = {"raw", "input", "output", "rates"}  # values that come from outside as they are


def outputs(client: Client, agent: str) -> Iterator[Model]:
    """Everything the read operations give for one agent."""
    listed = client.list_report((agent,), EVERYTHING).sessions
    yield from listed
    for summary in listed:
        yield client.sessions.get(agent, summary.session_id)
        yield client.explain_cost(agent, summary.session_id)
    yield client.sessions.diff(listed[0].unified_id, listed[-1].unified_id)
    yield from client.sessions.search("a OR e")
    for group_by in (None, "model"):
        yield client.sessions.total_cost(group_by=group_by)
    yield client.overview()


@ALL_CAPTURES
def test_every_output_of_a_capture_fits_its_schema_and_has_no_empty_optional(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    schemas: dict[type, dict[str, Any]] = {}
    for output in outputs(client, capture.agent):
        kind = type(output)
        schema = schemas.setdefault(kind, msgspec.json.schema(kind))
        written = msgspec.json.decode(output.to_json())
        assert list(violations(written, schema, root=schema)) == []
        assert list(oddities(written)) == []
        assert msgspec.json.decode(output.to_json(), type=kind) == output, "there and back"
    assert {SessionSummary, Session, SessionDiff, CostSummary, CostExplanation, Overview} <= set(
        schemas
    )


def oddities(value: Any, at: str = "$") -> Iterator[str]:
    """Nulls, local times and keys that are not camelCase, outside of what was found like that."""
    if value is None:
        yield f"{at} is null"
    elif isinstance(value, list):
        for index, item in enumerate(msgspec.convert(value, list[Any])):
            yield from oddities(item, f"{at}[{index}]")
    elif isinstance(value, dict):
        for name, item in msgspec.convert(value, dict[str, Any]).items():
            if not at.endswith("breakdowns") and ("_" in name or name[:1].isupper()):
                yield f"{at}.{name} is not camelCase"
            if name in DATES and not str(item).endswith("Z"):
                yield f"{at}.{name} is no time in UTC"
            if name not in FREE_FORM:
                yield from oddities(item, f"{at}.{name}")


def test_a_summary_and_a_session_have_the_fields_of_the_specification() -> None:
    shared = {"agent", "sessionId", "unifiedId", "title", "createdAt", "updatedAt", "turnCount"}
    shared |= {"tags"}
    for kind, own in ((SessionSummary, {"messageCount"}), (Session, {"messages"})):
        schema: dict[str, Any] = msgspec.json.schema(kind)["$defs"][kind.__name__]
        assert set(schema["required"]) == shared | own
        assert {"model", "cost", "cwd", "forkedFrom"} <= set(schema["properties"])
    assert (
        "relevanceScore"
        in msgspec.json.schema(SessionSummary)["$defs"]["SessionSummary"]["properties"]
    )
    cost: dict[str, Any] = msgspec.json.schema(CostRecord)["$defs"]["CostRecord"]
    assert set(cost["required"]) == {"totalUsd", "inputTokens", "outputTokens"}


def test_dates_are_utc_and_survive_to_the_millisecond(home: Path) -> None:
    at = datetime(2026, 3, 1, 10, 0, 0, 123000, UTC)
    write_claude(home, 1, at=at)
    (found,) = open_client(home).sessions.list("claude")
    assert found.created_at == at
    assert found.created_at.tzinfo is UTC
    written = found.to_dict()["createdAt"]
    assert written == "2026-03-01T10:00:00.123000Z"
    assert datetime.fromisoformat(written) == at


@given(
    costs=st.lists(st.tuples(*[st.integers(0, 10**12)] * 5), max_size=4),
    thinking=st.none() | st.integers(0, 100),
)
def test_adding_tokens_adds_every_bucket_and_nothing_is_negative(
    costs: list[tuple[int, ...]], thinking: int | None
) -> None:
    buckets = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
    parts = [Tokens(**dict(zip(buckets, one, strict=True))) for one in costs]
    total = sum(parts, Tokens(thinking=thinking))
    for index, bucket in enumerate(buckets):
        assert getattr(total, bucket) == sum(one[index] for one in costs) >= 0
    assert total.thinking == thinking, "unknown stays unknown, known stays what it was"
    assert total.total == total.input + total.cache_read + total.cache_write + total.output


def test_adding_unknown_reasoning_preserves_the_known_count() -> None:
    assert (Tokens(thinking=3) + Tokens()).thinking == 3
    assert (Tokens() + Tokens(thinking=4)).thinking == 4
    assert (Tokens(thinking=3) + Tokens(thinking=4)).thinking == 7


def test_a_file_name_that_is_no_text_does_not_spoil_the_json() -> None:
    problem = Problem(code="unreadable", message="shut", path="/home/\udcff/x")
    assert problem.to_dict()["path"] == "/home/\ufffd/x"
    call = SessionToolCall(tool_call_id="1", tool_name="t", input={"\ud800": ["\udcff", 1, None]})
    assert msgspec.json.decode(call.to_json())["input"] == {"\ufffd": ["\ufffd", 1, None]}


# What is counted


def test_tool_traffic_makes_no_turn(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("one")
    for number in range(7):
        session.tool_call(f"t{number}", {}).tool_result(f"t{number}", "ok")
    session.reply("ready").prompt("two").reply("done").write()
    (found,) = open_client(home).sessions.list("claude")
    assert (found.turn_count, found.message_count) == (2, 2 + 14 + 2)


@given(marks=st.lists(st.sampled_from(list(LineKind)), max_size=12))
def test_turns_are_prompts_that_got_a_reply_before_the_next(marks: list[LineKind]) -> None:
    prompts = [index for index, mark in enumerate(marks) if mark is LineKind.PROMPT]
    ends = [*prompts[1:], len(marks)]
    answered = sum(
        LineKind.REPLY in marks[begin:end] for begin, end in zip(prompts, ends, strict=False)
    )
    assert count_turns(bytes(marks)) == answered
    assert count_messages(bytes(marks)) == sum(mark is not LineKind.LINE for mark in marks)


@given(
    lines=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 10**12), st.sampled_from(list(LineKind)))
    ),
    cut=st.integers(0, 50),
)
def test_a_trace_keeps_its_columns_together(
    lines: list[tuple[int, int, LineKind]], cut: int
) -> None:
    builder = TraceBuilder()
    for key, at, _ in lines:
        position = builder.add(key, at, LineKind.LINE)
        builder.remark(position, lines[position][2])
    trace = builder.build()
    assert rows(trace) == lines
    assert (len(trace), bool(trace)) == (len(lines), bool(lines))
    assert rows(trace.before(cut)) == [line for line in lines if line[0] < cut]
    assert rows(trace + trace) == lines + lines


def rows(trace: Trace) -> list[tuple[int, int, LineKind]]:
    columns = zip(trace.key_list(), trace.time_list(), trace.kinds, strict=True)
    return [(key, at, LineKind(mark)) for key, at, mark in columns]


@given(text=st.text(alphabet=st.characters(exclude_categories=())))
def test_a_key_is_stable_and_fits_a_signed_64_bit_integer(text: str) -> None:
    assert key_of(text) == key_of(text)
    assert 0 <= key_of(text) < 1 << 63


def test_the_primary_model_is_the_one_used_most(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1)).prompt("go")
    for model in (SMALL, LARGE, LARGE, LARGE):
        session.reply(model=model)
    session.write()
    (found,) = open_client(home).sessions.list("claude")
    assert (found.model, found.models) == (LARGE, (SMALL, LARGE))


# Titles


@pytest.mark.parametrize("character", ["a", "日", "🙂", "e\u0301"])
def test_a_long_prompt_is_cut_to_a_hundred_code_points(character: str, home: Path) -> None:
    write_claude(home, 1, prompt=character * 250)
    (found,) = open_client(home).sessions.list("claude")
    assert found.title == (character * 250)[:99] + "…"
    assert len(found.title) == TITLE_LENGTH


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("a" * 100, "a" * 100),
        ("a" * 101, "a" * 99 + "…"),
        (f"{'a' * 98} {'b' * 9}", f"{'a' * 98} …"),
        (f"{'a' * 100}\n\t ", "a" * 100),
        (f"a{' ' * 9000}", "a"),
        (f"a{' ' * 9000}b", "a…"),
    ],
)
def test_only_a_title_that_was_cut_ends_in_an_ellipsis(prompt: str, title: str) -> None:
    assert fold_title(prompt) == choose_title(prompt) == title
    assert fold_title(title) == title


def test_a_name_is_cut_to_a_thousand_code_points() -> None:
    assert fold_name("n" * 1000) == "n" * 1000
    assert fold_name("n" * 1001) == "n" * 999 + "…"


def test_a_list_a_search_the_index_and_a_diff_show_the_same_cut_title(
    home: Path, tmp_path: Path
) -> None:
    text = "needle " + "word " * 60
    write_claude(home, 1, prompt=text)
    write_claude(home, 2, prompt="another")
    title = " ".join(text.split())[:99] + "…"
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path / "c")}) as indexed:
        indexed.index.update()
        for client in (open_client(home), indexed):
            (found,) = client.sessions.search("needle")
            listed = {each.title for each in client.sessions.list("claude")}
            assert (found.title, listed) == (title, {title, "another"})
            assert client.sessions.get("claude", found.session_id).title == title
            assert client.find(title).native_session_id == found.session_id


@given(text=st.text())
def test_a_title_is_one_line_and_folding_it_again_changes_nothing(text: str) -> None:
    title = fold_title(text)
    assert len(title) <= TITLE_LENGTH
    assert title == " ".join(title.split()) == fold_title(title)
    folded = " ".join(text.split())
    assert title == (folded if len(folded) <= TITLE_LENGTH else folded[:99] + "…")


def test_the_first_title_that_says_something_is_chosen() -> None:
    assert choose_title(None, "", " \n ", " a  b ", "c") == "a b"
    assert choose_title(None, "  ") == ""


def test_injected_text_is_not_a_title_and_not_a_turn(home: Path) -> None:
    session = ClaudeSession(home, uuid_of(1))
    session.prompt("<system-reminder>be nice</system-reminder>", isMeta=True)
    session.prompt("the real question").reply().write()
    (found,) = open_client(home).sessions.list("claude")
    assert (found.title, found.turn_count) == ("the real question", 1)


# The client


OPERATIONS = {
    "list",
    "get",
    "search",
    "total_cost",
    "export",
    "diff",
    "resolve_unified_id",
    "resolve_native_id",
}


def test_the_session_manager_has_the_eight_operations_and_nothing_else(home: Path) -> None:
    names = {name for name in dir(create_client(home=home).sessions) if not name.startswith("_")}
    assert names == OPERATIONS
    assert not names & {
        "watch",
        "follow",
        "session_dir",
        "list_session_files",
        "parse_session_file",
    }


def test_a_client_is_built_without_any_io(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o000)
    try:
        with opened_files() as opened:
            create_client(home=locked)
            create_client(env={"HOME": str(locked)})
        assert opened == []
        assert create_client(home=locked).sessions.list("claude") == []
    finally:
        locked.chmod(0o700)
    assert list(locked.iterdir()) == []


def test_a_client_closes_with_its_block(home: Path) -> None:
    with create_client(home=home) as client:
        assert client.sessions.list("claude") == []


@pytest.mark.parametrize("moved", [False, True])
def test_home_environment_and_configuration_are_arguments(moved: bool, tmp_path: Path) -> None:
    write_claude(tmp_path, 1)
    config = tmp_path / ("config" if moved else ".agent-mux")
    config.mkdir()
    (config / "config.json").write_text('{"default_agent": "codex"}')
    given_places: dict[str, Any] = {"config_dir": config} if moved else {}
    for client in (
        create_client(home=tmp_path, **given_places),
        create_client(env={"HOME": str(tmp_path)}, **given_places),
    ):
        assert len(client.sessions.list("claude")) == 1
        assert client.default_agent == "codex"
    assert create_client(home=tmp_path, default_agent="claude").default_agent == "claude"


def test_a_variable_that_sets_a_root_is_used_only_if_it_is_in_the_environment(
    tmp_path: Path,
) -> None:
    write_claude(tmp_path / "moved", 1)
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "moved" / ".claude")}
    assert len(create_client(home=tmp_path, env=env).sessions.list("claude")) == 1
    assert create_client(home=tmp_path).sessions.list("claude") == []


def test_every_public_name_resolves_and_no_other_does() -> None:
    for name in amux.__all__:
        assert getattr(amux, name) is not None
    assert dir(amux) == sorted(amux.__all__)
    with pytest.raises(AttributeError, match="nothing_like_that"):
        _ = getattr(amux, "nothing_like_that")  # noqa: B009 - a name the checker must not see


# Errors


SPECIFIED = """
CAPABILITY_ERROR VALIDATION_ERROR AUTH_ERROR AGENT_NOT_FOUND AGENT_NOT_INSTALLED AGENT_CRASH
SPAWN_ERROR TIMEOUT INACTIVITY_TIMEOUT PARSE_ERROR CONFIG_ERROR CONFIG_LOCK_ERROR SESSION_NOT_FOUND
PROFILE_NOT_FOUND PLUGIN_ERROR RATE_LIMITED CONTEXT_EXCEEDED ABORTED RUN_NOT_ACTIVE
STDIN_NOT_AVAILABLE NO_PENDING_INTERACTION INVALID_STATE_TRANSITION PTY_NOT_AVAILABLE INTERNAL
"""
OURS = """
STORE_ERROR STORE_BUSY TITLE_IN_USE AMBIGUOUS_ID TURN_IN_PROGRESS RESUME_FAILED DECISION_REQUIRED
"""


def test_the_error_codes_are_those_of_the_contract() -> None:
    assert {code.value for code in ErrorCode} == {*SPECIFIED.split(), *OURS.split()}
    assert all(code.name == code.value for code in ErrorCode)
    assert set(EXIT_CODES) <= set(ErrorCode)


def test_an_error_carries_code_message_hint_and_whether_to_try_again() -> None:
    plain = AmuxError("it broke")
    assert (plain.message, plain.code, plain.recoverable, plain.hint, plain.exit_code) == (
        "it broke",
        "INTERNAL",
        False,
        None,
        1,
    )
    busy = AmuxError("busy", code=ErrorCode.STORE_BUSY, recoverable=True, hint="wait")
    assert (busy.code, busy.recoverable, busy.hint) == ("STORE_BUSY", True, "wait")
    assert str(busy) == busy.message == "busy"
    assert ValidationError("no").message == "no"


def test_special_errors_carry_what_they_are_about() -> None:
    wrong = ValidationError("no", fields=["a", "b"])
    assert (wrong.code, wrong.fields, wrong.exit_code) == ("VALIDATION_ERROR", ("a", "b"), 2)
    cannot = CapabilityError("no", agent="codex", capability="fork", model="m")
    assert (cannot.code, cannot.agent, cannot.capability, cannot.model) == (
        "CAPABILITY_ERROR",
        "codex",
        "fork",
        "m",
    )
    auth = AuthError("no", agent="codex", status="expired", guidance="codex login")
    assert (auth.code, auth.status, auth.guidance, auth.hint) == (
        "AUTH_ERROR",
        "expired",
        "codex login",
        "codex login",
    )
    assert AmbiguousIdError("which?", candidates=["a:1"]).candidates == ("a:1",)
