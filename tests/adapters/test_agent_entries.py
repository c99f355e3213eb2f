"""agent: the documented lines, compaction, forks, damage, the database, the commands."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agent_logs import (
    BESIDE,
    CONVERSATION,
    FIRST,
    FORK,
    IN_DATABASE,
    INSIDE,
    LONG,
    answer,
    branch,
    compaction,
    entry,
    header,
    text,
    write_database,
    write_home,
    write_log,
)
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._base import SourceRef
from amux.adapters.agent import ADAPTER
from amux.adapters.agent.database import go_time
from amux.client import create_client
from amux.errors import SessionNotFoundError
from amux.host import Host
from amux.model.facts import Facts
from amux.model.message import TokenUsage
from amux.testing.reading import Reading, read_source

DOCUMENTED = (
    (
        '{"type":"session","id":"a3f7c901-...","version":1,"timestamp":"2026-02-26T14:30:12Z",'
        '"cwd":"/home/user/project"}'
    ),
    (
        '{"type":"message","id":"d4e5f6a7","parent_id":"c3d4e5f6","timestamp":"2026-02-26T14:30:13Z",'
        '"role":"user","message":{"role":"user","content":[{"type":"text","text":"Hello!"}],'
        '"timestamp":1740579013000}}'
    ),
    (
        '{"type":"message","id":"e5f6a7b8","parent_id":"d4e5f6a7","timestamp":"2026-02-26T14:30:15Z",'
        '"role":"assistant","message":{"role":"assistant","content":[{"type":"text","text":'
        '"Hello! How can I help?"}],"model":"claude-sonnet-4-5","provider":"anthropic",'
        '"usage":{"input":12,"output":8,"total_tokens":20},"stop_reason":"stop","timestamp":1740579015000}}'
    ),
    (
        '{"type":"message","id":"f6a7b8c9","parent_id":"e5f6a7b8","timestamp":"2026-02-26T14:30:16Z",'
        '"role":"tool_result","message":{"role":"tool_result","tool_call_id":"call_abc","tool_name":'
        '"bash","content":[{"type":"text","text":"main.go\\npkg/\\n"}],"is_error":false,'
        '"timestamp":1740579016000}}'
    ),
    (
        '{"type":"compaction","id":"a1b2c3d4","parent_id":"f6a7b8c9","timestamp":"2026-02-26T15:00:00Z"'
        ',"summary":"## Goal\\nRefactor the auth module...","first_kept_entry_id":"f6a7b8c9",'
        '"tokens_before":45000}'
    ),
    (
        '{"type":"branch","id":"b2c3d4e5","timestamp":"2026-02-26T15:30:00Z","parent_session_path":'
        '"/home/user/.config/agent/sessions/20260226-143012-a3f7c901.jsonl","fork_entry_id":"f6a7b8c9",'
        '"branch_summary":"User was refactoring the auth module..."}'
    ),
)


def source_of(path: Path) -> SourceRef:
    return SourceRef(agent="agent", path=path, root=path.parent.parent)


def read(path: Path) -> tuple[Facts, Reading]:
    whole = read_source(ADAPTER, source_of(path))
    assert read_source(ADAPTER, source_of(path), "facts").facts == whole.facts
    (facts,) = whole.facts
    return facts, whole


def context(path: Path) -> tuple[list[str], list[str]]:
    messages, problems = ADAPTER.context(source_of(path))
    return [message.content for message in messages], [problem.code for problem in problems]


def test_a_line_of_another_kind_is_counted_and_one_that_is_no_object_is_a_problem(
    tmp_path: Path,
) -> None:
    path = write_log(tmp_path, FIRST, *(json.loads(line) for line in DOCUMENTED))
    known, _ = read(path)
    assert known.raw == {}, "every documented kind is known"
    path.write_bytes(path.read_bytes() + b'{"type":"poem"}\nno json\n[]\n')
    facts, reading = read(path)
    poem = {"type": "poem"}
    assert facts.raw == {"unknownTypes": {"poem": 1}, "unknownRecords": [poem]}
    codes = [problem.code for problem in reading.problems]
    assert codes == ["orphan-result", "bad-line", "bad-record"]
    assert facts.calls == known.calls


def test_the_documented_lines_make_a_session(tmp_path: Path) -> None:
    path = write_log(tmp_path, FIRST, *(json.loads(line) for line in DOCUMENTED))
    facts, reading = read(path)
    assert facts.session_id == "a3f7c901-..."
    assert [(m.role, m.content, m.synthetic) for m in reading.messages] == [
        ("user", "Hello!", False),
        ("assistant", "Hello! How can I help?", False),
        ("tool", "main.go\npkg/\n", False),
        ("user", "## Goal\nRefactor the auth module...", True),
        ("user", "User was refactoring the auth module...", True),
    ]
    assert [problem.code for problem in reading.problems] == ["orphan-result"]
    assert (facts.kind, facts.cwd) == ("fork", "/home/user/project")
    (call,) = facts.calls
    assert (call.key, call.tokens.input, call.tokens.output) == ("e5f6a7b8", 12, 8)


@pytest.mark.parametrize(
    ("usage", "buckets"),
    [
        (BESIDE, (12, 100, 20, 8)),
        (INSIDE, (20, 80, 0, 50)),
        ({"input": 100, "output": 50, "cache_read": 80, "cache_write": 20, "total_tokens": 150},
         (0, 80, 20, 50)),
        ({"input": 5, "output": 5, "cache_read": 9}, (5, 9, 0, 5)),
        ({"input": 5, "output": 5, "cache_read": 9, "total_tokens": 10}, (5, 9, 0, 5)),
    ],
)  # fmt: skip
def test_buckets_are_disjoint_whichever_way_the_provider_counts(
    usage: dict[str, int], buckets: tuple[int, ...], tmp_path: Path
) -> None:
    path = write_log(tmp_path, FIRST, header(), answer("1", "", text("x"), usage=usage))
    tokens = read(path)[0].calls[0].tokens
    assert (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output) == buckets


def test_a_recorded_cost_is_native_and_a_zero_is_none(tmp_path: Path) -> None:
    priced = answer("1", "", text("x"), usage={**INSIDE, "cost": {"total": 0.25}})
    unset = answer("2", "1", text("y"), usage={**INSIDE, "cost": {"total": 0}})
    facts, _ = read(write_log(tmp_path, FIRST, header(), priced, unset))
    assert [call.native_nusd for call in facts.calls] == [250_000_000, None]


def test_an_answer_shows_its_usage_and_its_recorded_cost(tmp_path: Path) -> None:
    priced = answer("1", "", text("x"), usage={**BESIDE, "cost": {"total": 0.25}})
    aborted = answer("2", "1", text("half"), usage=INSIDE, stop_reason="aborted")
    path = write_log(tmp_path, FIRST, header(), priced, aborted, entry("3", "2", "user", text("?")))
    shown, half, prompt = read(path)[1].messages
    assert shown.token_usage == TokenUsage(
        input_tokens=12, output_tokens=8, cached_tokens=100, cache_write_tokens=20
    )
    assert shown.cost is not None
    assert shown.cost.total_usd == 0.25
    assert half.token_usage is None, "a lower bound is not shown as the usage"
    assert (prompt.token_usage, prompt.cost) == (None, None)


def test_an_error_is_a_notice_and_an_aborted_call_a_lower_bound(tmp_path: Path) -> None:
    failed = answer("1", "", usage={}, stop_reason="error", error_message="overloaded")
    aborted = answer("2", "1", text("half"), usage=INSIDE, stop_reason="aborted")
    silent = answer("3", "2", text("free?"), usage={"input": 0, "output": 0})
    facts, reading = read(write_log(tmp_path, FIRST, header(), failed, aborted, silent))
    assert [(m.content, m.synthetic) for m in reading.messages] == [
        ("overloaded", True),
        ("half", False),
        ("free?", False),
    ]
    assert [call.gaps for call in facts.calls] == [("call-interrupted",)]
    assert facts.gaps == ("usage-not-recorded",)


def test_images_are_kept(tmp_path: Path) -> None:
    image = {"type": "image", "data": "AAAA", "mime_type": "image/webp"}
    path = write_log(tmp_path, FIRST, header(), entry("1", "", "user", text("see"), image))
    assert read(path)[1].messages[0].images == ("data:image/webp;base64,AAAA",)


def test_a_resumed_model_gets_the_summary_and_what_was_kept(tmp_path: Path) -> None:
    write_home(tmp_path)
    path = tmp_path / ".config/agent/sessions" / f"20260226-143012-{LONG[:8]}.jsonl"
    texts, problems = context(path)
    assert "<summary>\n## Goal\nCount.\n</summary>" in texts[0]
    assert texts[1:] == ["1", "two", "2"]
    assert problems == []


def test_without_a_compaction_a_resumed_model_gets_everything(tmp_path: Path) -> None:
    path = write_log(tmp_path, FIRST, header(), *CONVERSATION)
    assert context(path)[0] == ["List the files", "", "main.go\npkg/\n", "Two entries."]


def test_only_the_last_of_several_compactions_counts(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        FIRST,
        header(),
        entry("1", "", "user", text("one")),
        compaction("c1", "1", "first summary", "1"),
        entry("2", "c1", "user", text("two")),
        entry("3", "2", "user", text("three")),
        compaction("c2", "3", "second summary", "3"),
        entry("4", "c2", "user", text("four")),
    )
    texts, problems = context(path)
    assert "second summary" in texts[0]
    assert "first summary" not in texts[0]
    assert (texts[1:], problems) == (["three", "four"], [])
    facts, _ = read(path)
    assert facts.compactions == 2


def test_an_unknown_kept_entry_keeps_what_follows_and_warns(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        FIRST,
        header(),
        entry("1", "", "user", text("one")),
        compaction("c1", "1", "summary", "gone"),
        entry("2", "c1", "user", text("two")),
    )
    with path.open("a") as log:
        log.write("nonsense\n")
    texts, problems = context(path)
    assert texts[1:] == ["two"]
    assert problems == ["bad-record", "bad-line"]


def test_a_compaction_that_keeps_nothing_is_no_problem(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        FIRST,
        header(),
        entry("1", "", "user", text("one")),
        compaction("c1", "1", "summary", ""),
        entry("2", "c1", "user", text("two")),
    )
    texts, problems = context(path)
    assert (texts[1:], problems) == (["two"], [])


@pytest.mark.parametrize("folder", ["/home/user/.config/agent/sessions/", "C:\\agent\\", ""])
def test_a_fork_finds_its_parent_beside_it_wherever_it_was_made(
    folder: str, tmp_path: Path
) -> None:
    place = tmp_path / ".agent"
    parent = write_log(place, FIRST, header(), *CONVERSATION)
    fork = write_log(place, FORK, header(FORK), branch(folder + parent.name, "a7b8c9d0"))
    facts, _ = read(fork)
    assert (facts.kind, facts.parent) == ("fork", parent.stem)
    found = create_client(home=tmp_path).sessions.get("agent", FORK)
    assert (found.kind, found.forked_from) == ("fork", FIRST)


@pytest.mark.parametrize("recorded", ["/etc/passwd", "../../x", 7, None, "/x/gone.jsonl", ""])
def test_a_path_in_a_log_leads_nowhere_else(recorded: Any, tmp_path: Path) -> None:
    fork = write_log(tmp_path, FORK, header(FORK), branch(recorded, "x"))
    facts, reading = read(fork)
    assert facts.kind == "fork"
    assert facts.parent in (None, "gone")
    assert reading.problems == []


def test_a_log_without_a_header_is_called_by_its_file(tmp_path: Path) -> None:
    facts, reading = read(write_log(tmp_path, FIRST, *CONVERSATION))
    assert facts.session_id == f"20260226-143012-{FIRST[:8]}"
    assert len(reading.messages) == 4


def test_a_newer_format_is_a_problem_and_no_session(tmp_path: Path) -> None:
    path = write_log(tmp_path, FIRST, header(version=2), *CONVERSATION)
    reading = read_source(ADAPTER, source_of(path))
    assert (reading.facts, reading.messages) == ([], [])
    (problem,) = reading.problems
    assert (problem.code, problem.path) == ("unknown-format", str(path))


def test_parents_that_are_missing_repeated_or_circular_are_dropped(tmp_path: Path) -> None:
    path = write_log(
        tmp_path,
        FIRST,
        header(),
        entry("1", "1", "user", text("own parent")),
        entry("2", "3", "user", text("child of the next")),
        entry("3", "2", "user", text("child of the last")),
        entry("3", "2", "user", text("an id twice")),
    )
    messages = read(path)[1].messages
    assert [message.parent_id for message in messages] == [None, None, "2", "2"]
    assert len({message.id for message in messages}) == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
FIELDS = ("type", "id", "parent_id", "timestamp", "role", "message", "summary", "cwd", "version")
INNER = ("role", "content", "usage", "model", "stop_reason", "tool_call_id", "is_error")


@drawn(150)
@given(
    outer=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
    inner=st.dictionaries(st.sampled_from(INNER), JSON, max_size=4),
)
def test_any_field_may_hold_anything_and_no_neighbour_is_lost(
    outer: dict[str, Any], inner: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    odd = answer("odd", "", text("x"), usage=INSIDE)
    odd["message"].update(inner)
    path = write_log(
        tmp_path_factory.mktemp("odd"),
        FIRST,
        header(),
        {**odd, **outer},
        entry("kept", "odd", "user", text("neighbour")),
    )
    facts, reading = read(path)
    assert facts.session_id == FIRST
    assert reading.messages[-1].content == "neighbour"
    context(path)


@pytest.mark.parametrize(
    ("written", "iso"),
    [
        ("2026-03-21 10:11:12.123456789 +0000 UTC m=+0.01", "2026-03-21T10:11:12.123456+00:00"),
        ("2026-03-21 10:11:12 +0000 UTC", "2026-03-21T10:11:12+00:00"),
        ("2026-03-21T10:11:12.5Z", "2026-03-21T10:11:12.500000+00:00"),
        ("2026-03-21 10:11:12 +0100 CET", "2026-03-21T09:11:12+00:00"),
        ("yesterday", None),
        (7, None),
    ],
)
def test_times_are_read_as_the_database_driver_writes_them(
    written: object, iso: str | None
) -> None:
    found = go_time(written)
    assert (None if found is None else found.isoformat()) == iso


def test_odd_rows_of_a_database_cost_nothing_else(tmp_path: Path) -> None:
    path = write_database(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO entries VALUES (90, 'x', 'message', 'user', 'lost', '', '', 0)"
        )
        connection.execute(
            "INSERT INTO entries VALUES (91, ?, 'message', 'oracle', x'00', '', '[]', 0)",
            (IN_DATABASE,),
        )
        connection.execute(
            "INSERT INTO entries VALUES (92, ?, 'message', 'tool', 'late', '', '{', 0)",
            (IN_DATABASE,),
        )
    reading = read_source(ADAPTER, source_of(path))
    assert read_source(ADAPTER, source_of(path), "facts").facts == reading.facts
    assert {facts.session_id for facts in reading.facts} == {IN_DATABASE, "x"}
    assert [problem.code for problem in reading.problems] == ["bad-record", "orphan-result"]
    assert reading.by_session()["x"][0].content == "lost"


def test_a_database_of_something_else_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "sessions.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")
    reading = read_source(ADAPTER, source_of(path))
    assert [problem.code for problem in reading.problems] == ["unknown-format"]


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_folder_is_the_same_on_every_platform(platform: str, tmp_path: Path) -> None:
    roots = ADAPTER.roots(Host(tmp_path, platform=platform))
    assert roots == [tmp_path / ".config" / "agent", tmp_path / ".agent"]
    moved = Host(tmp_path, platform=platform, env={"XDG_CONFIG_HOME": str(tmp_path / "x")})
    assert ADAPTER.roots(moved)[0] == tmp_path / "x" / "agent"


def test_ids_are_found_by_their_beginning_and_never_by_the_date_of_the_file(home: Path) -> None:
    write_home(home)
    client = create_client(home=home)
    client.adapters.register(ADAPTER)
    assert client.sessions.get("agent", "a3f7c9").session_id == FIRST
    with pytest.raises(SessionNotFoundError):
        client.sessions.get("agent", "20260226")
    assert client.sessions.get("agent", "20260321").session_id == IN_DATABASE


def test_commands_follow_the_form_of_the_id() -> None:
    def argv(action: Any, **given: Any) -> tuple[str, ...] | None:
        command = ADAPTER.command(action, **given)
        return None if command is None else command.argv

    assert argv("new", prompt="hi") == ("agent", "-prompt=hi")
    assert argv("resume", session_id=FIRST) == ("agent", "-session=a3f7c901")
    resumed = ("agent", "-session=a3f7c901", "-prompt=--go")
    assert argv("resume", session_id=FIRST, prompt="--go") == resumed
    chat = ("agent", "chat", "--session", IN_DATABASE)
    assert argv("resume", session_id=IN_DATABASE) == chat
    run = ("agent", "resume", "--session", IN_DATABASE, "hi")
    assert argv("resume", session_id=IN_DATABASE, prompt="hi") == run
    assert argv("resume", session_id=IN_DATABASE, prompt="--approval") is None
    assert argv("fork", session_id=FIRST) is None
    assert argv("resume") is None


def test_no_link_leads_out_of_the_root_and_a_circle_of_links_is_passed_over(tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text("{}\n")
    path = write_log(tmp_path / "agent", FIRST, header(), *CONVERSATION)
    path.with_name("away.jsonl").symlink_to(outside)
    path.with_name("circle.jsonl").symlink_to(path.with_name("circle.jsonl"))
    path.with_name("within.jsonl").symlink_to(path)
    found = [source.name for source in ADAPTER.discover(path.parent.parent)]
    assert found == [path.name, "within.jsonl"]
