"""`list` and the disk: which files are read, and what damaged ones affect."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import (
    CAPTURES,
    ClaudeSession,
    CodexSession,
    open_client,
    uuid_of,
    write_claude,
    write_codex,
    write_runs,
)

from amux.adapters import BUILTIN
from amux.client import Client, create_client
from amux.config import AgentSettings, Config
from amux.model.options import SessionListOptions
from amux.model.session import SessionSummary
from amux.model.usage import Tokens
from amux.testing.reading import opened_files

ALL_CAPTURES = pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


def ids(sessions: list[SessionSummary]) -> list[str]:
    return [session.session_id for session in sessions]


def numbers(sessions: list[SessionSummary]) -> list[int]:
    return [int(session.session_id[:8], 16) for session in sessions]


@pytest.mark.parametrize("agent", BUILTIN)
def test_an_agent_that_was_never_used_lists_nothing(agent: str, home: Path) -> None:
    client = open_client(home)
    assert client.sessions.list(agent) == []
    assert client.list_report((agent,), EVERYTHING).problems == ()


@pytest.mark.parametrize("what", ["file", "link to nowhere", "link to itself"])
def test_a_root_that_is_not_a_directory_has_no_sessions(what: str, home: Path) -> None:
    for place in (home / ".claude" / "projects", home / ".codex"):
        place.parent.mkdir(exist_ok=True)
        if what == "file":
            place.write_text("not a folder")
        else:
            place.symlink_to(place if what == "link to itself" else home / "nowhere")
    client = open_client(home)
    assert [client.sessions.list(agent) for agent in ("claude", "codex")] == [[], []]
    assert client.sessions.search("x") == []


def test_a_directory_filter_opens_only_that_projects_folder(home: Path) -> None:
    for number in range(6):
        write_claude(home, number, cwd=("/src/app", "/src/lib", "/home/x")[number % 3])
    sessions = open_client(home).sessions
    sessions.list("claude")  # imports and prices are loaded by now
    with opened_files() as opened:
        found = sessions.list("claude", cwd="/src/lib")
    assert sorted(numbers(found)) == [1, 4]
    folders = {Path(path).parent.name for path in opened if str(home) in path}
    assert folders == {"-src-lib"}


def test_directories_with_equal_folder_names_are_distinguished(home: Path) -> None:
    write_claude(home, 1, cwd="/a/b-c")
    write_claude(home, 2, cwd="/a/b/c")
    sessions = open_client(home).sessions
    assert numbers(sessions.list("claude", cwd="/a/b-c")) == [1]
    assert numbers(sessions.list("claude", cwd="/a/b/c/")) == [2]


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("wanted", ["C:\\src\\app", "C:/src/app", "C:\\src\\app\\", "C:/src\\app"])
def test_a_windows_directory_has_forward_slashes_and_is_found_by_either_kind(
    agent: str, wanted: str, home: Path
) -> None:
    write = write_claude if agent == "claude" else write_codex
    write(home, 1, cwd="C:\\src\\app")
    write(home, 2, cwd="C:\\src\\other")
    (found,) = open_client(home).sessions.list(agent, cwd=wanted)
    assert found.cwd == "C:/src/app"


def test_a_backslash_in_a_posix_path_is_an_ordinary_character(home: Path) -> None:
    write_claude(home, 1, cwd="/srv/odd\\name")
    (found,) = open_client(home).sessions.list("claude", cwd="/srv/odd\\name")
    assert found.cwd == "/srv/odd\\name"


@pytest.mark.parametrize("junk", [b"\x00\xff\xfe junk", b"[1, 2, 3]", b'{"a": '])
def test_one_corrupt_file_among_ten_costs_one_session_and_is_named(junk: bytes, home: Path) -> None:
    for number in range(10):
        write_claude(home, number)
    broken = ClaudeSession(home, uuid_of(4)).path
    broken.write_bytes(junk)
    client = open_client(home)
    assert sorted(numbers(client.sessions.list("claude"))) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    problems = client.list_report(("claude",), SessionListOptions()).problems
    assert {problem.path for problem in problems} == {str(broken)}


def test_hidden_sessions_are_counted(copy_capture: Callable[[str], Path]) -> None:
    client = open_client(copy_capture("codex-0.166.0"))
    plain = client.list_report(None, SessionListOptions(limit=3))
    everything = client.list_report(None, EVERYTHING)
    assert len(plain.sessions) == 3
    assert plain.hidden_children == 1
    assert plain.hidden_archived == 1
    assert len(everything.sessions) == 3 + plain.truncated + 2
    assert (everything.hidden_children, everything.hidden_archived, everything.truncated) == (
        0,
        0,
        0,
    )


def test_archived_sessions_are_listed_on_request_and_always_opened(
    copy_capture: Callable[[str], Path],
) -> None:
    sessions = open_client(copy_capture("codex-0.166.0")).sessions
    usual = {s.session_id for s in sessions.list("codex")}
    extra = [s for s in sessions.list("codex", include_archived=True) if s.session_id not in usual]
    assert [s.archived for s in extra] == [True]
    assert sessions.get("codex", extra[0].session_id).archived


def test_sub_agents_are_listed_on_request(copy_capture: Callable[[str], Path]) -> None:
    sessions = open_client(copy_capture("codex-0.166.0")).sessions
    (child,) = [s for s in sessions.list("codex", include_children=True) if s.kind == "subagent"]
    assert child.parent in {s.session_id for s in sessions.list("codex")}


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_that_leaves_the_store_is_not_followed(what: str, tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    write_claude(home, 1)
    write_codex(home, 1)
    for session in (ClaudeSession(outside, uuid_of(2)), CodexSession(outside, uuid_of(2))):
        real = session.prompt("secret").reply().write()
        inside = home / real.relative_to(outside)
        if what == "folder":
            inside = inside.parent.with_name("linked")
            inside.symlink_to(real.parent)
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.symlink_to(real)
    client = open_client(home)
    assert [numbers(client.sessions.list(agent)) for agent in ("claude", "codex")] == [[1], [1]]
    assert client.sessions.search("secret") == []


def test_listing_one_agent_opens_nothing_of_another(home: Path) -> None:
    write_claude(home, 1)
    write_codex(home, 2)
    write_runs(home, {"sessionId": uuid_of(1)})
    with opened_files() as opened:
        create_client(home=home).sessions.list("claude")
    inside = {Path(p).relative_to(home).parts[0] for p in opened if p.startswith(str(home))}
    assert inside == {".claude", ".agent-mux"}


def test_a_session_in_two_places_is_listed_once_with_the_fuller_copy(home: Path) -> None:
    short = write_claude(home, 1, tokens=Tokens(input=1000))
    short.prompt("more").reply(tokens=Tokens(input=500))
    short.write(short.path.parent.with_name("-src-elsewhere") / short.path.name)
    (found,) = open_client(home).sessions.list("claude")
    assert (found.turn_count, found.message_count) == (2, 4)
    assert found.cost is not None
    assert found.cost.input_tokens == 1500


@pytest.mark.parametrize("place", ["backup/.claude", "backup/.claude/projects"])
def test_configured_roots_are_read(place: str, home: Path, tmp_path: Path) -> None:
    write_claude(home, 1)
    write_claude(tmp_path / "backup", 2)
    (home / ".agent-mux").mkdir()
    (home / ".agent-mux" / "config.json").write_text(
        f'{{"agents": {{"claude": {{"roots": ["{tmp_path}/{place}"]}}}}}}'
    )
    client = create_client(home=home)
    assert sorted(numbers(client.sessions.list("claude"))) == [1, 2]
    assert client.agents("claude")[0].roots == (
        f"{home}/.claude/projects",
        f"{tmp_path}/backup/.claude/projects",
    )


def test_a_configured_root_is_read_when_sessions_appear_in_it(home: Path, tmp_path: Path) -> None:
    (home / ".agent-mux").mkdir()
    (home / ".agent-mux" / "config.json").write_text(
        f'{{"agents": {{"claude": {{"roots": ["{tmp_path}/backup/.claude"]}}}}}}'
    )
    env = {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "backup" / ".claude").mkdir(parents=True)
    assert create_client(home=home, env=env).sessions.list("claude") == []
    write_claude(tmp_path / "backup", 2)
    assert numbers(create_client(home=home, env=env).sessions.list("claude")) == [2]
    shutil.rmtree(tmp_path / "backup" / ".claude" / "projects")
    assert create_client(home=home, env=env).sessions.list("claude") == []


@pytest.mark.parametrize("agent", ["codex", "copilot", "droid", "pi", "gemini", "qwen", "hermes"])
def test_a_configured_root_may_be_a_copy_of_the_agents_directory(
    agent: str, home: Path, copy_capture: Callable[[str], Path]
) -> None:
    capture = next(each for each in CAPTURES if each.agent == agent)
    there = copy_capture(capture.name)
    (own,) = create_client(home=there).agents(agent)
    assert own.session_count
    place = Path(own.roots[0])
    place = place.parent if place.name == "sessions" else place
    config = Config(agents={agent: AgentSettings(roots=(place,))})
    (found,) = create_client(home=home, config=config).agents(agent)
    assert found.session_count == own.session_count


def test_a_root_that_vanishes_has_no_sessions(home: Path) -> None:
    write_claude(home, 1)
    client: Client = open_client(home)
    assert len(client.sessions.list("claude")) == 1
    shutil.rmtree(home / ".claude")
    assert client.sessions.list("claude") == []
