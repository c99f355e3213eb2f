"""Cursor: the published suite on a home written by hand; chats and transcripts of the agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cursor_store import (
    CHAT,
    SPEC_TABLES,
    START,
    Chat,
    Json,
    client_on,
    execute,
    field,
    line,
    query,
    said,
    write_transcript,
)
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters.cursor import ADAPTER
from amux.adapters.cursor.chats import fields, walk
from amux.adapters.cursor.transcripts import text_messages
from amux.host import Host
from amux.testing import AdapterSuite, find_captures
from amux.testing.reading import Reading, read_source, sources_of

CAPTURES = Path(__file__).parent.parent / "captures"


class TestCursor(AdapterSuite):
    adapter = ADAPTER
    captures = find_captures(CAPTURES, "cursor")
    relocation = {
        "XDG_CONFIG_HOME": "elsewhere",
        "CURSOR_CONFIG_DIR": "elsewhere",
        "CURSOR_DATA_DIR": "elsewhere",
    }


@pytest.mark.parametrize(
    ("platform", "places"),
    [
        ("linux", [".cursor", ".config/cursor", ".config/Cursor/User"]),
        ("darwin", [".cursor", "Library/Application Support/Cursor/User"]),
        ("win32", [".cursor", "AppData/Roaming/Cursor/User"]),
    ],
)
def test_agent_and_editor_keep_their_sessions_where_each_platform_has_settings(
    platform: str, places: list[str], tmp_path: Path
) -> None:
    roots = ADAPTER.roots(Host(tmp_path, platform=platform))
    assert list(roots) == [tmp_path / place for place in places]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    chat = Chat()
    chat.write(tmp_path / "elsewhere", chat.node(chat.leaf("user", query("Secret"))))
    folder = tmp_path / "home" / ".cursor" / "chats" / "abc"
    folder.mkdir(parents=True)
    (folder / CHAT).symlink_to(tmp_path / "elsewhere" / ".cursor" / "chats" / "abc" / CHAT)
    assert sources_of(ADAPTER, tmp_path / "home") == []


# the specification's database


@pytest.mark.parametrize(("key", "id"), [("INTEGER", 42), ("TEXT", "550e8400-e29b-41d4-a716")])
def test_a_session_is_addressed_by_its_key_as_text(key: str, id: int | str, tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "sessions" / "sessions.db"
    message = "INSERT INTO messages (session_id, role, content, model, input_tokens, output_tokens)"
    execute(
        path,
        SPEC_TABLES.format(key=key),
        [
            ("INSERT INTO sessions VALUES (?, 'Named', '/src/app', ?)", (id, START)),
            (f"{message} VALUES (?, 'user', 'Go', NULL, NULL, NULL)", (id,)),
            (f"{message} VALUES (?, 'assistant', 'Done', 'gpt-5', 11, 7)", (id,)),
        ],
    )
    session = client_on(tmp_path).sessions.get("cursor", str(id))
    assert (session.session_id, session.title, session.cwd) == (str(id), "Named", "/src/app")
    assert [(m.role, m.content) for m in session.messages] == [
        ("user", "Go"),
        ("assistant", "Done"),
    ]
    assert session.cost is not None
    assert (session.cost.input_tokens, session.cost.output_tokens) == (11, 7)
    assert (session.model, session.turn_count) == ("gpt-5", 1)


def test_without_a_title_the_first_message_is_it(tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "sessions" / "sessions.db"
    execute(
        path,
        SPEC_TABLES.format(key="INTEGER"),
        [
            ("INSERT INTO sessions VALUES (1, NULL, NULL, NULL)", ()),
            ("INSERT INTO messages (session_id, role, content) VALUES (1, 'user', 'Go on')", ()),
        ],
    )
    assert client_on(tmp_path).sessions.get("cursor", "1").title == "Go on"


# chats


def read_chat(path: Path) -> Reading:
    (source,) = [s for s in sources_of(ADAPTER, path.parents[4]) if s.path == path]
    return read_source(ADAPTER, source)


def test_only_what_the_latest_root_reaches_is_the_conversation(tmp_path: Path) -> None:
    chat = Chat()
    first = chat.leaf("user", query("Go"))
    chat.node(first, chat.leaf("assistant", said("Rewound")))
    later = chat.node(chat.leaf("assistant", said("Kept")))
    root = chat.node(first, subtrees=[later])
    reading = read_chat(chat.write(tmp_path, root, plain=True))
    assert [message.content for message in reading.messages] == ["Go", "Kept"]
    assert reading.problems == []


def test_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    chat = Chat()
    again = chat.leaf("user", query("continue"))
    reading = read_chat(chat.write(tmp_path, chat.node(again, again)))
    assert [message.content for message in reading.messages] == ["continue", "continue"]
    assert len({message.id for message in reading.messages}) == 2


def test_a_lost_blob_is_a_problem_and_a_title_of_its_length_is_not(tmp_path: Path) -> None:
    chat = Chat()
    title = field(1, b"A title that has 32 characters..")
    assert len(b"A title that has 32 characters..") == 32
    root = chat.blob(field(1, bytes(range(128, 160))) + field(2, chat.blob(title)))
    reading = read_chat(chat.write(tmp_path, root))
    assert [problem.code for problem in reading.problems] == ["bad-record"]


def test_a_wrapped_message_is_kept_even_if_the_rest_makes_no_sense(tmp_path: Path) -> None:
    chat = Chat()
    inner = b'{"role":"assistant","content":"Done"}'
    wrapped = chat.blob(field(5, b"metric") + field(4, inner) + b"\xd2\x01\xff\xff")
    reading = read_chat(chat.write(tmp_path, chat.node(wrapped)))
    assert [message.content for message in reading.messages] == ["Done"]


def test_a_tree_that_bites_its_tail_ends() -> None:
    name = bytes(range(128, 160))
    assert list(walk(name.hex(), lambda _: field(2, name) * 3)) == []


def test_a_command_that_failed_is_an_error_and_injected_context_names_the_place(
    tmp_path: Path,
) -> None:
    chat = Chat()
    info = "<user_info>\nShell: bash\nWorkspace Path: /src/app\n</user_info>"
    call: Json = {"type": "tool-call", "toolCallId": "c", "toolName": "Shell", "args": {}}
    result = {
        "type": "tool-result",
        "toolCallId": "c",
        "toolName": "Shell",
        "result": "Exit code: 3",
    }
    root = chat.node(
        chat.leaf("user", said(info)),
        chat.leaf("user", said("<attached_files>x</attached_files>" + query("Go")[0]["text"])),
        chat.leaf("assistant", [{"type": "reasoning", "text": "Hm"}, call]),
        chat.leaf("tool", [result]),
    )
    chat.write(tmp_path, root, name="New Agent", lastUsedModel="composer-1")
    session = client_on(tmp_path).sessions.get("cursor", CHAT)
    assert (session.cwd, session.title, session.model) == ("/src/app", "Go", "composer-1")
    assert [(m.role, m.content, m.synthetic) for m in session.messages[:3]] == [
        ("user", info, True),
        ("user", "Go", False),
        ("user", "<attached_files>x</attached_files>", True),
    ]
    assert session.messages[3].tool_calls[0].is_error is True
    assert session.messages[3].thinking == "Hm"
    assert session.cost is None


NOTIFICATION = (
    "<system_notification>A task has finished.</system_notification>\n"
    "<user_query>Briefly inform the user about the task result.</user_query>"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<div> is empty. Why?", [("<div> is empty. Why?", False)]),
        ("<rules_of_mine> apply", [("<rules_of_mine> apply", False)]),
        (
            "<timestamp>now</timestamp>\n<user_query>\nGo\n</user_query>",
            [("Go", False), ("<timestamp>now</timestamp>", True)],
        ),
        ("<user_query>\nIts end is torn", [("Its end is torn", False)]),
        (
            "<user_info>x</user_info>\n<rules>y</rules>",
            [("<user_info>x</user_info>\n<rules>y</rules>", True)],
        ),
        (
            "<user_info>x</user_info>\n<not_known_yet>y</not_known_yet>",
            [("<user_info>x</user_info>\n<not_known_yet>y</not_known_yet>", True)],
        ),
        (
            '<hooks_context description="d">\ntorn',
            [('<hooks_context description="d">\ntorn', True)],
        ),
        (
            '<hooks_context description="d">x</hooks_context>\nGo',
            [("Go", False), ('<hooks_context description="d">x</hooks_context>', True)],
        ),
        (NOTIFICATION, [(NOTIFICATION, True)]),
    ],
)
def test_only_the_blocks_that_cursor_writes_are_injected(
    text: str, shown: list[tuple[str, bool]], tmp_path: Path
) -> None:
    write_transcript(tmp_path, CHAT, [line("user", said(text)), line("assistant", said("Yes."))])
    session = client_on(tmp_path).sessions.get("cursor", CHAT)
    assert [(m.content, m.synthetic) for m in session.messages if m.role == "user"] == shown


def test_newer_builds_tell_times_models_and_places(tmp_path: Path) -> None:
    chat = Chat()
    model = {"providerOptions": {"cursor": {"modelName": "composer-2.5"}}}
    root = chat.node(
        chat.leaf("user", query("Go"), createdAt=START),
        chat.leaf("assistant", said("Done"), createdAt=START + 2000, **model),
    )
    path = chat.write(tmp_path, root, name="New Agent", workspacePath="/src/app")
    record = {"schemaVersion": 1, "title": "Named", "updatedAtMs": START + 9000}
    path.with_name("meta.json").write_text(json.dumps(record))
    session = client_on(tmp_path).sessions.get("cursor", CHAT)
    assert (session.title, session.cwd, session.models) == ("Named", "/src/app", ("composer-2.5",))
    times = [session.created_at, session.messages[1].timestamp, session.updated_at]
    assert [at and round(at.timestamp() * 1000) - START for at in times] == [0, 2000, 9000]


def test_a_chat_of_a_sub_agent_hangs_below_its_parent(tmp_path: Path) -> None:
    for id, info in (("top", None), ("low", {"parentAgentId": "top"})):
        chat = Chat()
        chat.write(tmp_path, chat.node(chat.leaf("user", query(id))), id=id, subagentInfo=info)
    client = client_on(tmp_path)
    assert [session.session_id for session in client.sessions.list("cursor")] == ["top"]
    low = client.sessions.get("cursor", "low")
    assert (low.kind, low.parent) == ("subagent", "top")


def test_an_empty_chat_does_not_hide_its_transcript(tmp_path: Path) -> None:
    chat = Chat()
    chat.write(tmp_path, chat.node())
    write_transcript(tmp_path, CHAT, [line("user", query("Go"))])
    assert [m.content for m in client_on(tmp_path).sessions.get("cursor", CHAT).messages] == ["Go"]


def test_a_database_without_a_chat_is_a_problem(tmp_path: Path) -> None:
    chat = Chat()
    path = chat.write(tmp_path, chat.node())
    execute(path, "UPDATE meta SET value = 'zz'")
    assert [problem.code for problem in read_chat(path).problems] == ["unknown-format"]


@given(st.lists(st.tuples(st.integers(1, 1000), st.binary(max_size=300))), st.binary(max_size=8))
def test_fields_come_back_as_they_were_encoded(
    encoded: list[tuple[int, bytes]], tail: bytes
) -> None:
    data = b"".join(field(number, value) for number, value in encoded)
    assert list(fields(data)) == encoded
    assert list(fields(data + tail))[: len(encoded)] == encoded


@given(st.binary(max_size=200))
def test_any_bytes_are_no_exception(data: bytes) -> None:
    list(walk("a", lambda name: data if name == "a" else None))


# transcripts


def test_a_transcript_is_shown_only_where_the_chat_is_gone(tmp_path: Path) -> None:
    lines = [
        line("user", query("Go")),
        line("assistant", said("One")),
        line("assistant", said("2")),
    ]
    write_transcript(tmp_path, CHAT, lines)
    write_transcript(tmp_path, "alone", lines, flat=True)
    chat = Chat()
    chat.write(tmp_path, chat.node(chat.leaf("user", query("Go"))))
    client = client_on(tmp_path)
    assert len(client.sessions.list("cursor")) == 2
    assert [m.content for m in client.sessions.get("cursor", CHAT).messages] == ["Go"]
    assert [m.content for m in client.sessions.get("cursor", "alone").messages] == [
        "Go",
        "One",
        "2",
    ]


def test_what_was_blacked_out_is_no_answer(tmp_path: Path) -> None:
    tool: Json = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    lines = [line("assistant", [*said("[REDACTED]"), tool]), line("assistant", said("[REDACTED]"))]
    lines.append({"type": "turn_ended", "status": "success"})
    write_transcript(tmp_path, "a", lines)
    (source,) = sources_of(ADAPTER, tmp_path)
    messages = read_source(ADAPTER, source).messages
    assert [(m.content, m.synthetic, len(m.tool_calls)) for m in messages] == [
        ("", False, 1),
        ("", True, 0),
    ]


def test_a_text_transcript_has_turns_thoughts_and_tools(tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "projects" / "p" / "agent-transcripts" / "old.txt"
    path.parent.mkdir(parents=True)
    path.write_text(
        "user:\n<user_query>\nShow\nA:\n</user_query>\n\nA:\n[Thinking] hm\n[Tool call] Shell\n"
        "  command: ls\n    -la\n[Tool result] Shell\n  x.txt\nA:\nOne file.\n"
    )
    session = client_on(tmp_path).sessions.get("cursor", "old")
    assert [(m.role, m.content) for m in session.messages] == [
        ("user", "Show\nA:"),
        ("assistant", ""),
        ("tool", "x.txt"),
        ("assistant", "One file."),
    ]
    (call,) = session.messages[1].tool_calls
    assert (call.tool_name, call.input, call.output) == ("Shell", {"command": "ls\n-la"}, "x.txt")
    assert session.messages[1].thinking == "hm"


@given(st.text())
def test_any_text_is_a_transcript_or_a_problem(text: str) -> None:
    for message in text_messages(text):
        assert message.role in ("user", "assistant", "tool")


# starting it


def test_commands_resume_but_never_fork() -> None:
    def argv(action: Any, **more: Any) -> tuple[str, ...] | None:
        command = ADAPTER.command(action, **more)
        return None if command is None else command.argv

    assert argv("new") == ("cursor-agent",)
    assert argv("new", prompt="-x") == ("cursor-agent", "-p", "--", "-x")
    assert argv("resume", session_id="s", prompt="Hi") == (
        "cursor-agent", "--resume", "s", "-p", "Hi",
    )  # fmt: skip
    assert argv("resume") is None
    assert argv("fork", session_id="s") is None
