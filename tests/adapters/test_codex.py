"""Codex: every capture at the level of one rollout, and how rollouts are found and started."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from amux.adapters._base import Adapter, Head, Item
from amux.adapters._kit.fold import line_kind
from amux.adapters.codex import ADAPTER
from amux.host import Host
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.problems import Problem
from amux.model.trace import LineKind, count_messages, count_turns
from amux.model.usage import Call, Tokens
from amux.testing import same_title

CAPTURES = Path(__file__).parent.parent / "captures" / "codex"
VERSIONS = sorted(path.parent.name for path in CAPTURES.glob("*/expected.json"))
THREAD = "01a1e0cd-05df-78a0-8079-786b14962ff7"
ROLLOUT = "01a1e0ca-1686-7063-b1f0-ca565c71cfed"
NAME = f"rollout-2026-11-15T20-01-35-{THREAD}"

Json = dict[str, Any]


class Read:
    """One rollout as the adapter returned it, by type of item."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = list(items)
        self.messages = [item for item in self.items if isinstance(item, SessionMessage)]
        self.calls = [item for item in self.items if isinstance(item, Call)]
        self.problems = [item for item in self.items if isinstance(item, Problem)]
        facts = [item for item in self.items if isinstance(item, Facts)]
        self.facts = facts[0] if facts else Facts(session_id="")


def prompts(messages: Iterable[SessionMessage]) -> list[str]:
    return [m.content for m in messages if m.role == "user" and not m.synthetic]


def said(messages: Iterable[SessionMessage]) -> list[str]:
    return [m.content for m in messages if m.role == "assistant" and not m.synthetic]


def thought(messages: Iterable[SessionMessage]) -> list[str]:
    return [m.thinking or "" for m in messages if m.role == "assistant" and not m.synthetic]


def tool_calls(messages: list[SessionMessage]) -> list[Json]:
    results = {m.tool_result.tool_call_id: m.tool_result for m in messages if m.tool_result}
    found: list[Json] = []
    for message in messages:
        for call in message.tool_calls:
            result = results[call.tool_call_id]
            assert result.tool_name == call.tool_name
            found.append({"name": call.tool_name, "ok": not result.is_error})
    return found


def tokens(calls: Iterable[Call]) -> Json:
    total = sum((call.tokens for call in calls), Tokens())
    return {
        "input": total.input,
        "cache_read": total.cache_read,
        "cache_write": total.cache_write,
        "output": total.output,
        "thinking": total.thinking or 0,
    }


class Home:
    """A copied capture, read as a whole, with the relations between its files."""

    def __init__(self, version: str, tmp_path: Path) -> None:
        shutil.copytree(CAPTURES / version / "home", tmp_path / "home")
        self.expected: Json = json.loads((CAPTURES / version / "expected.json").read_bytes())
        self.sources = list(ADAPTER.discover(tmp_path / "home" / ".codex"))
        self.rollouts = {
            read.facts.rollout or "": (source, read)
            for source in self.sources
            if source.role == "session"
            for read in [Read(ADAPTER.read(source, want="all"))]
        }

    def of(self, session_id: str) -> list[Read]:
        """Return the rollouts of a session, oldest first."""
        found = [read for _, read in self.rollouts.values() if read.facts.session_id == session_id]
        return sorted(found, key=lambda read: str(read.facts.created_at))

    def conversation(self, session_id: str) -> list[SessionMessage]:
        """Return the newest rollout with the history it refers to."""
        newest = self.of(session_id)[-1]
        messages, prefix = newest.messages, newest.facts.prefix
        while prefix is not None:
            source, read = self.rollouts[prefix.of]
            messages = [
                *Read(ADAPTER.read(source, want="all", until=prefix.until)).messages,
                *messages,
            ]
            prefix = read.facts.prefix
        return messages

    def own_calls(self, session_id: str) -> list[Call]:
        """Return the calls of a session that are not its parent's."""
        reads = self.of(session_id)
        parent = reads[0].facts.parent
        copied = {call.key for read in self.of(parent or "") for call in read.calls}
        return [call for read in reads for call in read.calls if call.key not in copied]


@pytest.fixture(params=VERSIONS)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return Home(request.param, tmp_path)


def right(found: object, expected: Json, field: str, *, joined: bool = False) -> bool:
    """Return whether a value is the expected one or an accepted one; null accepts anything."""
    answers = [expected[field], *expected["accept"].get(field, [])]
    if None in answers:
        return True
    return found in ["".join(answer) for answer in answers] if joined else found in answers


def test_the_captures_of_five_formats_are_there() -> None:
    assert {"0.1.2505291658", "0.20.0", "0.42.0", "0.120.0", "0.166.0"} <= set(VERSIONS)
    assert isinstance(ADAPTER, Adapter)


def test_every_session_of_a_capture_is_found_once_per_rollout(home: Home) -> None:
    for expected in home.expected["sessions"]:
        assert len(home.of(expected["session_id"])) == len(expected["files"])
    known = {expected["session_id"] for expected in home.expected["sessions"]}
    assert {read.facts.session_id for _, read in home.rollouts.values()} == known


def test_conversations_of_captures_are_right(home: Home) -> None:
    for expected in home.expected["sessions"]:
        messages = home.conversation(expected["session_id"])
        assert right(prompts(messages), expected, "user_prompts")
        assert right("".join(said(messages)), expected, "assistant_texts", joined=True)
        assert right("".join(thought(messages)), expected, "thinking_texts", joined=True)
        assert right(tool_calls(messages), expected, "tool_calls")


def test_tokens_and_models_of_captures_are_right(home: Home) -> None:
    for expected in home.expected["sessions"]:
        own = home.own_calls(expected["session_id"])
        assert right(tokens(own), expected, "own_tokens_recoverable")
        assert right(list(dict.fromkeys(call.model for call in own)), expected, "models")


def test_gaps_of_captures_are_marked_where_the_disk_shows_them(home: Home) -> None:
    for expected in home.expected["sessions"]:
        gaps = {gap for read in home.of(expected["session_id"]) for gap in read.facts.gaps}
        assert gaps <= set(expected["incomplete"])
        if expected["incomplete_detectable"]:
            assert gaps


def test_kind_parent_place_and_dates_of_captures_are_right(home: Home) -> None:
    for expected in home.expected["sessions"]:
        facts = home.of(expected["session_id"])[0].facts
        assert facts.kind == expected["kind"]
        assert facts.parent == expected["parent"]
        assert expected["cwd"] in {None, facts.cwd}
        assert facts.archived == expected["archived"]
        earliest, latest = expected["created_between"]
        assert facts.created_at is not None
        assert earliest <= facts.created_at.isoformat() <= latest
        compactions = sum(r.facts.compactions for r in home.of(expected["session_id"]))
        assert compactions == expected["compactions"]


def test_titles_of_captures_come_from_names_or_first_prompts(home: Home) -> None:
    notes = {
        note.session_id: note.text
        for source in home.sources
        if source.role == "names"
        for note in Read(ADAPTER.read(source, want="facts")).facts.notes
    }
    for expected in home.expected["sessions"]:
        facts = home.of(expected["session_id"])[0].facts
        title = facts.name or notes.get(facts.session_id) or facts.first_prompt
        assert right(title, expected, "title") or same_title(title, expected["title"])


def test_sub_agents_of_captures_are_named_by_their_parents(home: Home) -> None:
    for expected in home.expected["sessions"]:
        if expected["kind"] == "subagent":
            parent = home.of(expected["parent"])[0].facts
            assert parent.children == (expected["session_id"],)
            assert {call.purpose for call in home.own_calls(expected["session_id"])} == {"subagent"}


def test_one_call_per_compaction_is_a_compaction_call(home: Home) -> None:
    for _, read in home.rollouts.values():
        purposes = [call.purpose for call in read.calls]
        assert purposes.count("compaction") == read.facts.compactions


def test_facts_are_equal_in_both_modes(home: Home) -> None:
    for source, read in home.rollouts.values():
        light = Read(ADAPTER.read(source, want="facts"))
        assert light.facts == read.facts
        assert light.messages == []
        assert light.calls == read.calls == list(read.facts.calls)
        assert light.problems == read.problems == list(read.facts.problems)


def test_the_trace_counts_what_the_messages_say(home: Home) -> None:
    for _, read in home.rollouts.values():
        marks = read.facts.trace.kinds
        assert [m for m in marks if m != LineKind.LINE] == [line_kind(m) for m in read.messages]
        assert count_messages(marks) == len(read.messages)
        assert isinstance(read.items[0], Head | Problem)
        assert isinstance(read.items[-1], Facts)


def test_turns_of_captures_are_prompts_with_an_answer(home: Home) -> None:
    for expected in home.expected["sessions"]:
        marks = bytes(line_kind(m) for m in home.conversation(expected["session_id"]))
        assert right(count_turns(marks), expected, "turns")


def test_every_message_with_usage_shows_one_call(home: Home) -> None:
    for _, read in home.rollouts.values():
        shown = [m.token_usage for m in read.messages if m.token_usage is not None]
        silent = sum(call.purpose == "compaction" for call in read.calls)
        assert len(read.calls) - silent <= len(shown) <= len(read.calls)
        outputs = {call.tokens.output for call in read.calls}
        assert {usage.output_tokens for usage in shown} <= outputs


def test_a_rewind_is_a_second_rollout_of_the_same_session(tmp_path: Path) -> None:
    home = Home("0.166.0", tmp_path)
    first, second = home.of("01a1e0c9-3b2a-7ed3-af0a-81ce6e42297c")
    assert second.facts.rollout == ROLLOUT
    assert ROLLOUT in second.facts.aliases
    assert second.facts.prefix is not None
    assert (second.facts.prefix.of, second.facts.prefix.until) == (first.facts.session_id, 60)
    assert second.facts.kind == "session"


def test_a_compressed_rollout_reads_like_the_plain_one(tmp_path: Path) -> None:
    plain = Home("0.166.0", tmp_path / "plain")
    packed = Home("0.166.0-zst", tmp_path / "packed")
    assert [s for s in packed.sources if s.path.suffix == ".zst"]
    for rollout, (_, read) in plain.rollouts.items():
        assert packed.rollouts[rollout][1].facts == read.facts


# Discovery


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def found(root: Path) -> list[tuple[str, str | None, bool]]:
    return [
        (source.path.relative_to(root).as_posix(), source.session_id, source.archived)
        for source in ADAPTER.discover(root)
    ]


def test_rollouts_are_found_in_date_folders_flat_and_archived(tmp_path: Path) -> None:
    touch(
        tmp_path,
        f"sessions/2026/11/15/{NAME}.jsonl",
        f"sessions/2026/11/15/{NAME}_{ROLLOUT}.jsonl",
        f"sessions/{NAME}.jsonl.zst",
        "sessions/my-id.jsonl",
        f"sessions/rollout-2025-05-29-{THREAD}.json",
        f"archived_sessions/{NAME}.jsonl",
        "sessions/2026/notes.jsonl",
        "sessions/readme.md",
        "history.jsonl",
        "config.toml",
    )
    assert sorted(found(tmp_path)) == sorted(
        [
            (f"sessions/2026/11/15/{NAME}.jsonl", THREAD, False),
            (f"sessions/2026/11/15/{NAME}_{ROLLOUT}.jsonl", THREAD, False),
            (f"sessions/{NAME}.jsonl.zst", THREAD, False),
            ("sessions/my-id.jsonl", "my-id", False),
            (f"sessions/rollout-2025-05-29-{THREAD}.json", THREAD, False),
            (f"archived_sessions/{NAME}.jsonl", THREAD, True),
        ]
    )


def test_a_log_is_read_instead_of_its_compressed_copy(tmp_path: Path) -> None:
    touch(tmp_path, f"sessions/{NAME}.jsonl", f"sessions/{NAME}.jsonl.zst")
    assert found(tmp_path) == [(f"sessions/{NAME}.jsonl", THREAD, False)]


def test_a_link_is_followed_only_inside_the_root(tmp_path: Path) -> None:
    root, outside = tmp_path / "codex", tmp_path / "outside"
    touch(root, f"sessions/2026/{NAME}.jsonl")
    touch(outside, "secret.jsonl", "rollout-x.jsonl")
    (root / "sessions" / "secret.jsonl").symlink_to(outside / "secret.jsonl")
    (root / "sessions" / "away").symlink_to(outside, target_is_directory=True)
    (root / "sessions" / "inside.jsonl").symlink_to(root / "sessions" / "2026" / f"{NAME}.jsonl")
    (root / "session_index.jsonl").symlink_to(outside / "secret.jsonl")
    (root / "archived_sessions").symlink_to(outside, target_is_directory=True)
    assert [name for name, _, _ in found(root)] == [
        "sessions/inside.jsonl",
        f"sessions/2026/{NAME}.jsonl",
    ]


def test_the_root_is_codex_home_else_dot_codex(tmp_path: Path) -> None:
    assert ADAPTER.roots(Host(tmp_path)) == [tmp_path / ".codex"]
    moved = Host(tmp_path, env={"CODEX_HOME": str(tmp_path / "elsewhere")})
    assert ADAPTER.roots(moved) == [tmp_path / "elsewhere"]


def test_the_last_name_of_a_session_wins(tmp_path: Path) -> None:
    (tmp_path / "session_index.jsonl").write_text(
        '{"id":"a","thread_name":"old"}\n{"id":"b","thread_name":"other"}\n'
        'nonsense\n{"id":"a","thread_name":"new"}\n{"id":"c","thread_name":null}\n'
    )
    (source,) = ADAPTER.discover(tmp_path)
    assert source.role == "names"
    read = Read(ADAPTER.read(source, want="all"))
    assert {note.session_id: note.text for note in read.facts.notes} == {"a": "new", "b": "other"}
    assert [problem.code for problem in read.problems] == ["bad-line"]
    assert not read.facts.attributed


def test_damaged_compression_is_a_problem_and_what_came_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / f"{NAME}.jsonl.zst"
    path.parent.mkdir()
    line = json.dumps({"type": "message", "role": "user", "content": "x" * 4000}) + "\n"
    path.write_bytes(zstandard.ZstdCompressor().compress(line.encode() * 300) + b"no frame")
    (source,) = ADAPTER.discover(tmp_path)
    read = Read(ADAPTER.read(source, want="all"))
    assert [problem.code for problem in read.problems] == ["unreadable"]
    assert len(read.messages) > 200
    path.write_bytes(b"nothing of a frame")
    read = Read(ADAPTER.read(source, want="all"))
    assert [problem.code for problem in read.problems] == ["unreadable"]
    assert read.items == read.problems


# Commands


@pytest.mark.parametrize(
    ("action", "prompt", "version", "argv"),
    [
        ("new", None, None, ("codex",)),
        ("new", "hello", "0.20.0", ("codex", "exec", "hello")),
        ("new", "-x", None, ("codex", "exec", "--", "-x")),
        ("resume", None, "0.38.0", None),
        ("resume", None, "0.39.0", ("codex", "resume", THREAD)),
        ("resume", "go on", "0.166.0", ("codex", "exec", "resume", THREAD, "go on")),
        ("resume", "--help", None, ("codex", "exec", "resume", "--", THREAD, "--help")),
        ("fork", None, "0.119.0", None),
        ("fork", None, "0.120.0", ("codex", "fork", THREAD)),
        ("fork", "p", "0.165.9", None),
        ("fork", "p", "0.166.0", ("codex", "exec", "fork", THREAD, "p")),
        ("fork", "p", None, ("codex", "exec", "fork", THREAD, "p")),
        ("resume", "p", "0.1.2505291658", None),
    ],
)
def test_commands_depend_on_the_version(
    action: Any, prompt: str | None, version: str | None, argv: tuple[str, ...] | None
) -> None:
    command = ADAPTER.command(action, session_id=THREAD, prompt=prompt, cwd="/w", version=version)
    assert (None if command is None else command.argv) == argv
    assert command is None or command.cwd == "/w"


def test_nothing_is_resumed_without_an_id() -> None:
    assert ADAPTER.command("resume", prompt="hello") is None
