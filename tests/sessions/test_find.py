"""`find`: resolves what a person types to one session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import (
    CAPTURES,
    ClaudeSession,
    SharedHome,
    capture_named,
    open_client,
    uuid_of,
    write_claude,
    write_codex,
)

from amux import create_client
from amux.client import Client
from amux.errors import AgentNotFoundError, AmbiguousIdError, AmuxError, SessionNotFoundError
from amux.model.ids import NativeRef
from amux.model.options import SessionListOptions
from amux.testing import Capture


def ref(agent: str, number: int) -> NativeRef:
    return NativeRef(agent=agent, native_session_id=uuid_of(number))


@pytest.fixture
def client(home: Path) -> Client:
    write_claude(home, 0x1111, prompt="Fix the build")
    write_claude(home, 0x1112, prompt="Write the docs")
    write_codex(home, 0x2222, prompt="Fix the build")
    write_codex(home, 0x3333, prompt="Rename things")
    return open_client(home)


@pytest.mark.parametrize(
    ("text", "agent", "number"),
    [
        (f"claude:{uuid_of(0x1111)}", "claude", 0x1111),
        (uuid_of(0x2222), "codex", 0x2222),
        ("00001111", "claude", 0x1111),
        ("claude:00001112", "claude", 0x1112),
        ("codex:00003", "codex", 0x3333),
        ("rename THINGS", "codex", 0x3333),
        ("claude:fix the build", "claude", 0x1111),
    ],
)
def test_ids_prefixes_and_titles_lead_to_the_session(
    text: str, agent: str, number: int, client: Client
) -> None:
    assert client.find(text) == ref(agent, number)


def test_a_named_agent_narrows_the_search(client: Client) -> None:
    assert client.find("00002", agent="codex") == ref("codex", 0x2222)
    assert client.find(f"codex:{uuid_of(0x2222)}", agent="codex") == ref("codex", 0x2222)
    with pytest.raises(SessionNotFoundError):
        client.find(f"codex:{uuid_of(0x2222)}", agent="claude")
    with pytest.raises(AgentNotFoundError):
        client.find("0000", agent="nope")


@pytest.mark.parametrize("text", ["0000", "claude:0000111", "Fix the build"])
def test_an_ambiguous_reference_names_all_matching_sessions(text: str, client: Client) -> None:
    with pytest.raises(AmbiguousIdError) as caught:
        client.find(text)
    error = caught.value
    assert (error.code, error.exit_code) == ("AMBIGUOUS_ID", 8)
    assert isinstance(error, SessionNotFoundError)
    assert len(error.candidates) >= 2
    assert all(candidate in str(error) for candidate in error.candidates)
    assert list(error.candidates) == sorted(set(error.candidates))


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_get_accepts_a_prefix_and_reports_candidates(agent: str, home: Path) -> None:
    write = write_claude if agent == "claude" else write_codex
    write(home, 0x10)
    write(home, 0x11)
    sessions = open_client(home).sessions
    assert sessions.get(agent, "00000010").session_id == uuid_of(0x10)
    with pytest.raises(AmbiguousIdError) as caught:
        sessions.get(agent, "0000001")
    assert caught.value.candidates == tuple(f"{agent}:{uuid_of(n)}" for n in (0x10, 0x11))


def test_many_candidates_are_counted_not_all_printed(home: Path) -> None:
    for number in range(25):
        write_claude(home, number)
    with pytest.raises(AmbiguousIdError, match="and 15 more") as caught:
        open_client(home).find("000000")
    assert len(caught.value.candidates) == 25


def test_a_whole_id_wins_over_longer_ids_that_begin_with_it(home: Path) -> None:
    for name in ("abc", "abcd", "abcde"):
        ClaudeSession(home, name).prompt("hi").reply().write()
    client = open_client(home)
    assert client.find("abc").native_session_id == "abc"
    assert client.find("abcde").native_session_id == "abcde"


@pytest.mark.parametrize("text", ["", "claude:", ":", "zzz", "no:such"])
def test_an_unknown_reference_raises_session_not_found(text: str, client: Client) -> None:
    with pytest.raises(SessionNotFoundError) as caught:
        client.find(text)
    assert caught.value.code == "SESSION_NOT_FOUND"


def test_an_empty_text_is_no_prefix_even_of_a_single_session(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).line("system", content="no title").write()
    for text in ("", "  "):
        with pytest.raises(SessionNotFoundError):
            open_client(home).find(text)


def test_an_id_with_a_colon_of_no_known_agent_is_taken_whole(home: Path) -> None:
    ClaudeSession(home, "branch:main").prompt("hi").reply().write()
    assert open_client(home).find("branch:main").native_session_id == "branch:main"


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_every_session_of_a_capture_is_found_by_all_its_names(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    for expected in capture.sessions:
        if expected.get("addressable") is False or expected["kind"] == "subagent":
            continue
        aliases: list[str] = expected.get("aliases") or []
        for name in (expected["session_id"], *aliases):
            found = client.find(f"{capture.agent}:{name}")
            assert found.native_session_id == expected["session_id"]


def outcome(client: Client, text: str, agent: str | None = None) -> object:
    """The session that a text names, or everything an error says."""
    try:
        return client.find(text, agent=agent)
    except AmuxError as error:
        candidates = error.candidates if isinstance(error, AmbiguousIdError) else ()
        return type(error), str(error), error.hint, candidates


def texts_for(client: Client) -> Iterator[str]:
    """Ids, beginnings of ids, titles of a few sessions, and texts that name nothing."""
    everything = SessionListOptions(limit=None, include_children=True, include_archived=True)
    by_kind = {each.kind: each for each in client.list_report(None, everything).sessions}
    for session in by_kind.values():
        yield from (session.session_id, session.session_id[:8], f"{session.session_id}0")
        yield from (session.title, session.title[:-1])
    yield from ("ffffffff-0000", "rollout", "session", "%", "\ud800", "")


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_an_index_changes_no_outcome(
    capture: Capture, shared_home: SharedHome, tmp_path: Path
) -> None:
    home = shared_home(capture)
    plain = open_client(home)
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path)}) as client:
        client.index.update()
        for text in dict.fromkeys(texts_for(plain)):
            assert outcome(client, text) == outcome(plain, text), text


def test_an_index_changes_no_outcome_whatever_it_lacks(home: Path, tmp_path: Path) -> None:
    texts = (uuid_of(1), uuid_of(2), uuid_of(3), "00000001", "one", "two", "four", "claude:one")
    write_claude(home, 1, prompt="one")
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")}) as client:
        client.index.update()
    changes: tuple[Callable[[], object], ...] = (
        lambda: None,
        lambda: write_codex(home, 2, prompt="two"),
        lambda: write_codex(home, 1, prompt="three"),  # the id of another agent's session
        lambda: write_claude(home, 3, prompt="one", cwd="/src/other"),  # its title
        lambda: write_claude(home, 1, prompt="four", cwd="/src/other"),  # its id in another folder
        lambda: next((home / ".codex").rglob(f"*{uuid_of(2)}*")).unlink(),
        lambda: next((home / ".claude").rglob(f"{uuid_of(3)}*")).write_bytes(b"\xff\n"),
        lambda: next((home / ".claude").rglob(f"{uuid_of(1)}*")).write_bytes(b""),
    )
    for change in changes:
        change()
        plain = open_client(home)
        with create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")}) as client:
            for text in texts:
                assert outcome(client, text) == outcome(plain, text), text


def test_an_unreadable_source_is_named_with_an_index_too(home: Path, tmp_path: Path) -> None:
    write_claude(home, 1)
    write_codex(home, 2).path.with_suffix(".jsonl.zst").write_bytes(b"no archive")
    broken = home / ".hermes" / "state.db"
    broken.parent.mkdir()
    broken.write_bytes(b"SQLite format 3\0" + b"broken" * 100)
    plain = outcome(open_client(home), "no such session")
    assert "could not be read" in str(plain)
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")}) as client:
        client.index.update()
        assert outcome(client, "no such session") == plain


def test_a_rollouts_file_name_is_a_name_of_its_session(
    copy_capture: Callable[[str], Path],
) -> None:
    client = open_client(copy_capture("codex-0.166.0"))
    for expected in capture_named("codex-0.166.0").sessions:
        for file in expected.get("files") or [expected["file"]]:
            stem = Path(file).name.removesuffix(".jsonl")
            assert client.find(stem).native_session_id == expected["session_id"]
