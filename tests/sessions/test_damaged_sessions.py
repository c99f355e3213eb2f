"""Sessions that exist but cannot be read are distinguished from those that do not exist."""

from __future__ import annotations

import logging
import sqlite3
import sys
from pathlib import Path

import pytest
import zstandard
from builders import open_client, uuid_of, write_claude, write_codex

from amux.errors import ParseError, SessionNotFoundError
from amux.model.options import SessionListOptions

GARBAGE = b"garbage\nmore\n"
DAMAGES = {
    "no JSON": GARBAGE,
    "a list": b"[1,2]\n",
    "a text": b'"x"\n',
    "empty": b"",
    "blank": b"\n \n",
}

NAMED = {  # the name of the file promises the session
    "claude": (".claude/projects/-w/abc.jsonl", "abc"),
    "codex": (".codex/sessions/abc.jsonl", "abc"),
    "gemini": (".gemini/sessions/abc.jsonl", "abc"),
    "gemini chat": (".gemini/tmp/w/chats/session-2026-01-01T00-00-abcdef12.json", "abcdef12-0000"),
    "gemini log": (".gemini/tmp/w/chats/session-2026-01-01T00-00-abcdef12.jsonl", "abcdef"),
    "copilot": (".copilot/session-state/abc/events.jsonl", "abc"),
    "copilot document": (".config/github-copilot/sessions/abc.json", "abc"),
    "cursor transcript": (".cursor/projects/w/agent-transcripts/abc.jsonl", "abc"),
    "opencode files": (".local/share/opencode/storage/session/p/ses_abc.json", "ses_abc"),
    "pi": (".pi/agent/sessions/abc/1.jsonl", "abc"),
    "omp": (".omp/agent/sessions/abc/1.jsonl", "abc"),
    "openclaw": (".openclaw/agents/main/sessions/abc.jsonl", "abc"),
    "openclaw document": (".openclaw/sessions/slack/abc.json", "abc"),
    "hermes log": (".hermes/sessions/abc.jsonl", "abc"),
    "hermes snapshot": (".hermes/sessions/session_abc.json", "abc"),
    "droid": (".factory/sessions/-w/abc.jsonl", "abc"),
    "qwen": (".qwen/projects/-w/chats/abc.jsonl", "abc"),
    "agent": (".config/agent/sessions/20260101-000000-abcdef12.jsonl", "abcdef12-3456"),
}

UNNAMED = {  # the file may hold any session
    "gemini prompts": ".gemini/tmp/w/logs.json",
    "cursor": ".cursor/sessions/sessions.db",
    "opencode": ".local/share/opencode/opencode.db",
    "openclaw": ".openclaw/agents/main/agent/openclaw-agent.sqlite",
    "hermes": ".hermes/state.db",
    "agent": ".agent/sessions/sessions.db",
}

EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


def place(home: Path, name: str, data: bytes) -> Path:
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", NAMED)
def test_a_file_with_the_name_of_a_session_that_cannot_be_read_is_a_parse_error(
    kind: str, damage: str, home: Path
) -> None:
    agent = kind.split(maxsplit=1)[0]
    name, session_id = NAMED[kind]
    path = place(home, name, DAMAGES[damage])
    client = open_client(home)
    with pytest.raises(ParseError) as caught:
        client.sessions.get(agent, session_id)
    assert (caught.value.code, caught.value.exit_code) == ("PARSE_ERROR", 1)
    assert str(path) in str(caught.value)
    assert caught.value.hint
    with pytest.raises(SessionNotFoundError):
        client.sessions.get(agent, "another")


@pytest.mark.parametrize("kind", NAMED)
def test_a_file_of_garbage_is_not_listed_and_is_logged_once(
    kind: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = kind.split(maxsplit=1)[0]
    path = place(home, NAMED[kind][0], GARBAGE)
    client = open_client(home)
    report = client.list_report((agent,), EVERYTHING)
    assert report.sessions == ()
    assert "unknown-format" in {problem.code for problem in report.problems}
    with caplog.at_level(logging.WARNING, logger="amux"):
        assert client.sessions.list(agent) == []
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "amux")
    assert str(path) in record.getMessage()


@pytest.mark.parametrize("kind", UNNAMED)
@pytest.mark.parametrize("is_sqlite", [False, True])
def test_a_missing_session_may_lie_in_a_store_that_cannot_be_read(
    kind: str, is_sqlite: bool, home: Path
) -> None:
    path = place(home, UNNAMED[kind], GARBAGE * 100)
    if is_sqlite:
        path.unlink()
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE other (a)")
        database.close()
    with pytest.raises(SessionNotFoundError) as caught:
        open_client(home).sessions.get(kind.split(maxsplit=1)[0], "20260101_000000_abcdef")
    assert caught.value.code == "SESSION_NOT_FOUND"
    assert str(path) in (caught.value.hint or "")


def test_a_damaged_session_is_distinguished_from_a_missing_one_for_every_agent(home: Path) -> None:
    write_claude(home, 1)
    path = place(home, NAMED["hermes snapshot"][0], GARBAGE)
    client = open_client(home)
    found = client.find("abc")  # by its name, without a look at it
    with pytest.raises(ParseError, match="hermes") as caught:
        client.sessions.get(found.agent, found.native_session_id)
    assert str(path) in str(caught.value)
    assert client.find(uuid_of(1)).agent == "claude"


def test_the_hint_for_a_missing_session_names_no_source_if_all_are_readable(home: Path) -> None:
    write_claude(home, 1)
    with pytest.raises(SessionNotFoundError) as caught:
        open_client(home).sessions.get("claude", "nothing")
    assert caught.value.hint == "`amux list claude` shows what there is"


@pytest.mark.parametrize(
    ("agent", "path", "session_id"),
    [
        ("pi", f".pi/agent/sessions/--w--/2026-01-01T00-00-00-000Z_{uuid_of(1)}.jsonl", uuid_of(1)),
        ("agent", ".config/agent/sessions/20260101-000000-00000001.jsonl", uuid_of(1)),
    ],
)
def test_a_format_newer_than_known_is_not_guessed_at(
    agent: str, path: str, session_id: str, home: Path
) -> None:
    head = f'{{"type":"session","version":99,"id":"{session_id}","timestamp":"2026-01-01T00:00Z"}}'
    said = '{"type":"message","id":"a","role":"user","message":{"role":"user","content":"hi"}}'
    place(home, path, f"{head}\n{said}\n".encode())
    client = open_client(home)
    with pytest.raises(ParseError, match="format version 99") as caught:
        client.sessions.get(agent, session_id)
    assert "newer" in (caught.value.hint or "")
    report = client.list_report((agent,), EVERYTHING)
    assert report.sessions == ()
    assert [problem.code for problem in report.problems] == ["unknown-format"]


def test_a_compressed_session_without_its_decoder_says_which_package_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = write_codex(home, 1).path
    packed = plain.with_name(f"{plain.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    plain.unlink()
    client = open_client(home)
    assert client.sessions.get("codex", uuid_of(1)).messages
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ParseError) as caught:
        client.sessions.get("codex", uuid_of(1))
    assert packed.name in str(caught.value)
    assert "pip install zstandard" in (caught.value.hint or "")


def test_a_name_with_strange_signs_stays_within_its_line_of_the_log(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place(home, ".claude/projects/-w/a\n\x1b[31mb.jsonl", GARBAGE)
    open_client(home).sessions.list("claude")
    (record,) = caplog.records
    assert record.getMessage().isprintable()
