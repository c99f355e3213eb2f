"""`follow` on a simulated clock, which advances only while a test waits."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from builders import NOW, ClaudeSession, CodexSession, uuid_of, write_claude
from following import HermesStore, ScriptedClock, append, client_at, follow, kinds, texts
from notes_adapter import write_notes

from amux import SessionNotFoundError, ValidationError

ID = uuid_of(1)


@pytest.fixture
def session(home: Path) -> ClaudeSession:
    session = ClaudeSession(home, ID)
    session.prompt("first").reply("one").write()
    return session


def test_only_new_messages_are_reported_and_numbering_continues(
    home: Path, session: ClaudeSession
) -> None:
    def go_on() -> None:
        session.prompt("second").reply("two").write()

    changes = follow(home, "claude", ID, (1, go_on))
    assert [(c.kind, c.number, c.message.content) for c in changes] == [
        ("message", 3, "second"),
        ("message", 4, "two"),
    ]
    assert {(c.agent, c.session_id, c.unified_id, c.parent) for c in changes} == {
        ("claude", ID, f"claude:{ID}", None)
    }
    assert {c.at for c in changes} == {NOW}


def test_from_start_reports_all_messages(home: Path, session: ClaudeSession) -> None:
    changes = follow(home, "claude", ID, from_start=True)
    whole = client_at(home, ScriptedClock()).sessions.get("claude", ID)
    assert [change.message for change in changes] == list(whole.messages)


def test_a_line_written_byte_by_byte_is_reported_when_it_is_complete(
    home: Path, session: ClaudeSession
) -> None:
    before = session.path.read_bytes()
    session.prompt("süß \u2028 日本").write()
    line = session.path.read_bytes().removeprefix(before)
    session.path.write_bytes(before)
    deeds = [
        (1 + 0.3 * n, partial(append, session.path, bytes([byte]))) for n, byte in enumerate(line)
    ]
    changes = follow(home, "claude", ID, *deeds)
    assert texts(changes) == ["süß \u2028 日本"]
    assert kinds(changes) == ["message"]


def test_an_answer_in_several_lines_is_one_message(home: Path, session: ClaudeSession) -> None:
    session.prompt("go").write()

    def say(text: str) -> None:
        session.reply(text, message_id="msg-1").write()

    changes = follow(home, "claude", ID, (1, lambda: say("a")), (1.5, lambda: say("b")))
    assert [(c.kind, c.message.content) for c in changes] == [("message", "ab")]


def test_an_answer_that_grows_after_a_pause_is_updated(home: Path, session: ClaudeSession) -> None:
    session.prompt("go").write()

    def say(text: str) -> None:
        session.reply(text, message_id="msg-1").write()

    changes = follow(home, "claude", ID, (1, lambda: say("a")), (4, lambda: say("b")))
    assert [(c.kind, c.number, c.message.content) for c in changes] == [
        ("message", 4, "a"),
        ("updated-message", 4, "ab"),
    ]


def test_a_tool_call_is_reported_before_its_result_and_only_once(
    home: Path, session: ClaudeSession
) -> None:
    def call() -> None:
        session.tool_call("t1", {"command": "ls"}).write()

    def answer() -> None:
        session.tool_result("t1", "a.txt").write()

    changes = follow(home, "claude", ID, (1, call), (60, answer))
    assert kinds(changes) == ["message", "message"]
    assert [c.message.role for c in changes] == ["assistant", "tool"]
    assert changes[0].message.tool_calls[0].output is None
    assert changes[1].message.tool_result.output == "a.txt"


def test_the_last_message_is_reported_after_a_second_without_changes(
    home: Path, session: ClaudeSession
) -> None:
    clock = ScriptedClock([(1, lambda: session.prompt("go").reply("on").write())])
    seen: list[tuple[float, str]] = []
    with client_at(home, clock).follow("claude", ID) as changes:
        for change in changes:
            assert change.message is not None
            seen.append((clock.now - 100, change.message.content))
    assert seen == [(1.0, "go"), (2.0, "on")]


def test_a_rewritten_file_reports_the_first_replaced_message(
    home: Path, session: ClaudeSession
) -> None:
    def rewrite() -> None:
        other = ClaudeSession(home, ID)
        other.prompt("first").line("user", message={"role": "user", "content": "anew"}, uuid="x")
        other.write()

    changes = follow(home, "claude", ID, (3, rewrite), from_start=True)
    assert [(c.kind, c.number) for c in changes] == [
        ("message", 1),
        ("message", 2),
        ("replaced", 2),
        ("message", 2),
    ]
    assert texts(changes) == ["first", "one", "anew"]


def test_a_file_rewritten_with_equal_content_reports_nothing(
    home: Path, session: ClaudeSession
) -> None:
    whole = session.path.read_bytes()
    deeds = [
        (1, lambda: session.path.write_bytes(b"")),
        (1.4, lambda: session.path.write_bytes(whole[:100])),
        (1.8, lambda: session.path.write_bytes(whole)),
    ]
    assert follow(home, "claude", ID, *deeds) == []


def test_an_emptied_file_replaces_all_messages(home: Path, session: ClaudeSession) -> None:
    changes = follow(home, "claude", ID, (1, lambda: session.path.write_bytes(b"")))
    assert [(c.kind, c.number) for c in changes] == [("replaced", 1)]


def test_a_line_that_cannot_be_read_is_a_problem_once(home: Path, session: ClaudeSession) -> None:
    changes = follow(
        home,
        "claude",
        ID,
        (1, lambda: append(session.path, b"{oops\n")),
        (4, lambda: append(session.path, b"\n")),
    )
    assert kinds(changes) == ["problem"]
    assert changes[0].problem.code == "bad-line"
    assert changes[0].message is None


def test_a_torn_tail_is_not_reported_while_following(home: Path, session: ClaudeSession) -> None:
    assert follow(home, "claude", ID, (1, lambda: append(session.path, b'{"type": "us'))) == []


def test_a_deleted_session_ends(home: Path, session: ClaudeSession) -> None:
    clock = ScriptedClock([(1, session.path.unlink)], quiet=60)
    with client_at(home, clock).follow("claude", ID) as changes:
        assert kinds(changes) == ["ended"]
    assert clock.now < 110


def test_a_file_that_is_replaced_by_another_one_is_still_followed(
    home: Path, session: ClaudeSession
) -> None:
    def replace() -> None:
        session.prompt("after").write(home / "new")
        (home / "new").replace(session.path)

    assert texts(follow(home, "claude", ID, (1, replace))) == ["after"]


def test_a_new_sub_agent_is_followed_too(home: Path, session: ClaudeSession) -> None:
    folder = session.path.with_suffix("") / "subagents"

    def work(name: str) -> None:
        agent = ClaudeSession(home, ID)
        agent.prompt(f"task {name}", isSidechain=True, agentId=name, uuid=f"{name}-1")
        agent.write(folder / f"agent-{name}.jsonl")

    changes = follow(home, "claude", ID, (1, lambda: work("aa")), (30, lambda: work("bb")))
    assert [(c.session_id, c.parent, c.number) for c in changes] == [("aa", ID, 1), ("bb", ID, 1)]
    assert texts(changes) == ["task aa", "task bb"]


def test_a_sub_agent_in_a_file_of_its_own_is_found_by_what_it_says(home: Path) -> None:
    parent = CodexSession(home, ID)
    parent.prompt("first").reply("one").write()
    spawned = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": ID, "depth": 1}}}}

    def spawn() -> None:
        child = CodexSession(home, uuid_of(2), meta=spawned)
        stranger = CodexSession(home, uuid_of(3))
        child.prompt("task").reply("solved").write()
        stranger.prompt("none of ours").write()

    changes = follow(home, "codex", ID, (1, spawn))
    assert [(c.session_id, c.parent) for c in changes] == [(uuid_of(2), ID)] * 2
    assert texts(changes) == ["task", "solved"]


def test_following_continues_when_the_agent_archives_the_session(home: Path) -> None:
    session = CodexSession(home, ID)
    session.prompt("first").reply("one").write()
    archive = home / ".codex" / "archived_sessions" / session.path.name

    def move() -> None:
        archive.parent.mkdir()
        session.path.replace(archive)

    def go_on() -> None:
        session.prompt("second").write(archive)

    changes = follow(home, "codex", ID, (1, move), (20, go_on))
    assert [(c.kind, c.number, c.message.content) for c in changes] == [("message", 3, "second")]


def test_a_file_that_becomes_unreadable_replaces_nothing(
    home: Path, session: ClaudeSession
) -> None:
    def make_folder() -> None:
        session.path.unlink()
        session.path.mkdir()

    changes = follow(home, "claude", ID, (1, make_folder))
    assert "replaced" not in kinds(changes)


def test_a_database_is_checked_every_two_seconds(home: Path) -> None:
    store = HermesStore(home)
    store.session("s1")
    store.say("s1", "user", "hello")
    clock = ScriptedClock([(1, lambda: store.say("s1", "user", "more"))], quiet=20)
    with client_at(home, clock).follow("hermes", "s1") as changes:
        assert texts(changes) == ["more"]
    assert set(clock.waits) == {2.0, 1.0}  # once to see whether it has settled
    store.close()


def test_the_poll_interval_can_be_set(home: Path, session: ClaudeSession) -> None:
    clock = ScriptedClock(quiet=50)
    assert list(client_at(home, clock).follow("claude", ID, poll=5)) == []
    assert set(clock.waits) == {5}
    with pytest.raises(ValidationError):
        client_at(home, clock).follow("claude", ID, poll=0)


def test_following_ends_after_the_idle_timeout(home: Path, session: ClaudeSession) -> None:
    deeds = [(8, lambda: session.prompt("late").write())]
    clock = ScriptedClock(deeds, quiet=1000)
    with client_at(home, clock).follow("claude", ID, idle_timeout=10) as changes:
        assert texts(changes) == ["late"]
    assert clock.now == pytest.approx(100 + 9 + 10, abs=0.5)


@pytest.mark.parametrize("kind", ["event", "question"])
def test_following_ends_when_stop_is_set(home: Path, session: ClaudeSession, kind: str) -> None:
    event = Event()
    clock = ScriptedClock([(3, event.set)], quiet=1000)
    stop = event if kind == "event" else event.is_set
    assert list(client_at(home, clock).follow("claude", ID, stop=stop)) == []
    assert clock.now == 103


def test_an_unknown_session_is_refused_at_once(home: Path, session: ClaudeSession) -> None:
    with pytest.raises(SessionNotFoundError):
        client_at(home, ScriptedClock()).follow("claude", "nope")


def test_a_closed_iterator_yields_nothing(home: Path, session: ClaudeSession) -> None:
    changes = client_at(home, ScriptedClock()).follow("claude", ID, from_start=True)
    with changes:
        next(changes)
    assert list(changes) == []
    changes.close()


def test_a_sub_agent_can_be_followed_by_itself(home: Path, session: ClaudeSession) -> None:
    agent = ClaudeSession(home, ID)
    path = session.path.with_suffix("") / "subagents" / "agent-aa.jsonl"
    fields = {"isSidechain": True, "agentId": "aa"}
    agent.prompt("task", uuid="aa-1", **fields).write(path)

    def both() -> None:
        agent.prompt("more", uuid="aa-2", **fields).write(path)
        session.prompt("not this").write()

    changes = follow(home, "claude", "aa", (1, both))
    assert [(c.session_id, c.parent, c.message.content) for c in changes] == [("aa", ID, "more")]


def test_sessions_of_a_third_partys_adapter_are_followed(home: Path) -> None:
    adapter = write_notes(home / "notes")
    path = home / "notes" / "one.txt"
    clock = ScriptedClock([(1, lambda: append(path, b"And many inputs.\n"))])
    client = client_at(home, clock)
    client.adapters.register(adapter)
    with client.follow("notes", "one") as changes:
        [change] = changes
    assert (change.kind, change.number) == ("updated-message", 2)
    assert texts([change]) == ["A device with one output.\nAnd many inputs."]


def test_a_change_has_a_json_form_of_its_own(home: Path, session: ClaudeSession) -> None:
    first = follow(home, "claude", ID, from_start=True)[0]
    assert json.loads(first.to_json()) == {
        "kind": "message",
        "agent": "claude",
        "sessionId": ID,
        "unifiedId": f"claude:{ID}",
        "at": "2026-03-31T12:00:00Z",
        "number": 1,
        "message": first.message.to_dict(),
    }


def test_the_latest_session_is_the_one_whose_files_changed_last(home: Path) -> None:
    client = client_at(home, ScriptedClock())
    with pytest.raises(SessionNotFoundError):
        client.find_latest()
    for number in (1, 2, 3):
        path = write_claude(home, number).path
        os.utime(path, (number, number))
    codex = CodexSession(home, uuid_of(4))
    os.utime(codex.prompt("hi").write(), (2, 2))
    assert client.find_latest().native_session_id == uuid_of(3)
    assert client.find_latest(agent="codex").native_session_id == uuid_of(4)
    os.utime(codex.path, (9, 9))
    assert client.find_latest().agent == "codex"
