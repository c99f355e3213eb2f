"""A session that is read with its related sources equals the same session from a full read."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from claude_homes import VERSIONS, Home
from claude_projects import homes
from database_stores import conversation as conversations
from database_stores import stores, write_conversations, write_store
from drawn import drawn
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from list_both_ways import EVERYTHING
from newest_captures import newest_of_each
from opencode_store import START, Database, answer, data_dir, message_id, tokens, user

from amux import AmbiguousIdError, SessionNotFoundError, create_client
from amux.adapters import load_builtin
from amux.client import Client
from amux.testing import Capture, find_captures
from amux.testing.reading import opened_files

CAPTURES = find_captures(Path(__file__).parent.parent / "captures")


@contextmanager
def opened_below(home: Path) -> Generator[Callable[[], set[str]]]:
    """Names of the files that the body opens, each once."""
    with opened_files() as found:
        yield lambda: {
            path.name
            for path in map(Path, found)
            if path.is_relative_to(home) and not path.is_dir()
        }


def reading_everything(home: Path, agent: str) -> Client:
    """Somebody else's adapter is never asked what bears on a session."""
    client = create_client(home=home)
    client.adapters.register(load_builtin(agent))
    return client


def check_all(home: Path, agent: str, *clients: Client) -> None:
    """Every session is the same, whoever reads it."""
    reference = reading_everything(home, agent)
    for row in reference.list_report((agent,), EVERYTHING).sessions:
        names = names_of(reference, agent, row.session_id)
        wholes = [msgspec.json.encode(reference.sessions.get(agent, name)) for name in names]
        for client in (create_client(home=home), *clients):
            assert names_of(client, agent, row.session_id) == names
            for name, whole in zip(names, wholes, strict=True):
                assert msgspec.json.encode(client.sessions.get(agent, name)) == whole


def names_of(client: Client, agent: str, id: str) -> list[str]:
    """The id, or the names of all sessions that have it."""
    try:
        client.find(id, agent=agent)
    except AmbiguousIdError as error:
        return [name.removeprefix(f"{agent}:") for name in error.candidates]
    return [id]


def indexed(home: Path, cache: Path) -> Client:
    client = create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)})
    client.list_report(None, EVERYTHING)
    return client


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_every_session_of_a_capture_is_what_reading_everything_makes_of_it(
    capture: Capture, tmp_path: Path
) -> None:
    home = capture.copy_to(tmp_path / "home")
    with indexed(home, tmp_path / "cache") as client:
        check_all(home, capture.agent, client)


@given(homes())
@drawn(30, suppress_health_check=[HealthCheck.too_slow])
def test_every_session_of_any_project_is_what_reading_everything_makes_of_it(made: Home) -> None:
    with TemporaryDirectory(prefix="amux-get-") as folder:
        made.write(Path(folder))
        check_all(Path(folder), "claude")


@given(st.lists(stores(), min_size=1, max_size=2))
@drawn(30, suppress_health_check=[HealthCheck.too_slow])
def test_every_session_of_any_hermes_database_is_what_reading_everything_makes_of_it(
    made: list[dict[str, Any]],
) -> None:
    with TemporaryDirectory(prefix="amux-get-") as folder:
        home = Path(folder)
        write_store(home, made[0])
        for store in made[1:]:
            write_store(home / "other", store)
            profile = home / ".hermes" / "profiles" / "work"
            profile.mkdir(parents=True)
            (home / "other" / ".hermes" / "state.db").rename(profile / "state.db")
        check_all(home, "hermes")


@given(st.lists(conversations(), min_size=3, max_size=8))
@drawn(30, suppress_health_check=[HealthCheck.too_slow])
def test_every_session_of_any_opencode_database_is_what_reading_everything_makes_of_it(
    made: list[dict[str, Any]],
) -> None:
    with TemporaryDirectory(prefix="amux-get-") as folder:
        write_conversations(Path(folder), made)
        check_all(Path(folder), "opencode")


# OpenCode's files


def write_tree(home: Path, id: str, *entries: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    """A session as versions before 1.2 kept it; its messages have ids of the time it began."""
    storage = data_dir(home) / "storage"
    first = entries[-1][0]["time"]["created"]
    files: dict[Path, object] = {
        storage / "session" / "p" / f"{id}.json": {"id": id, "time": {"created": first}}
    }
    for number, (record, parts) in enumerate(entries):
        message = message_id(first, int(id[-2:]) * 16 + number)
        files[storage / "message" / id / f"{message}.json"] = {"id": message, **record}
        for place, part in enumerate(parts):
            name = f"prt_{message[4:]}{place}"
            files[storage / "part" / message / f"{name}.json"] = {"id": name, **part}
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(content))


def spoken(number: int) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    at = START + number * 60_000
    return [user("Go on", at), answer("Yes.", at + 5, tokens(number, 5))]


def test_a_fork_in_files_is_read_with_its_original_and_nothing_else(tmp_path: Path) -> None:
    for number in range(1, 9):
        write_tree(tmp_path, f"ses_{number:02}", *spoken(number))
    write_tree(tmp_path, "ses_10", *spoken(3), *spoken(10))
    check_all(tmp_path, "opencode")
    with opened_below(data_dir(tmp_path)) as opened:
        session = create_client(home=tmp_path).sessions.get("opencode", "ses_10")
        parts = sum(name.startswith("prt_") for name in opened())
    assert session.cost is not None
    assert session.cost.input_tokens == 10  # the rest is the original's
    assert parts == 2 * (1 + 3) + (1 + 3)  # of the fork and of whom it copies


def test_of_sessions_in_files_an_index_leaves_the_others_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for number in range(1, 9):
        write_tree(home, f"ses_{number:02}", *spoken(number))
    for path in home.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    with (
        indexed(home, tmp_path / "cache") as client,
        opened_below(data_dir(home)) as opened,
    ):
        client.sessions.get("opencode", "ses_04")
        assert {name for name in opened() if name.startswith("ses_")} == {"ses_04.json"}
        assert len(opened()) == 1 + 2 + (1 + 3)  # the record, two messages, their parts


# Effort


def many(count: int) -> Home:
    home = Home()
    for number in range(count):
        home.begin(VERSIONS[number % len(VERSIONS)], wordy=number % 2 == 0)
    return home


def test_with_an_index_only_the_session_is_opened(tmp_path: Path) -> None:
    made = many(40)
    made.write(tmp_path / "home")
    for path in (tmp_path / "home").rglob("*.jsonl"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    with (
        indexed(tmp_path / "home", tmp_path / "cache") as client,
        opened_below(tmp_path / "home" / ".claude") as opened,
    ):
        client.sessions.get("claude", made.sessions[7][0])
        assert opened() == {f"{made.sessions[7][0]}.jsonl"}


def test_without_an_index_other_projects_are_not_opened(tmp_path: Path) -> None:
    many(20).write(tmp_path)
    projects = tmp_path / ".claude" / "projects"
    (here,) = projects.iterdir()
    there = projects / "-src-elsewhere"
    there.mkdir()
    moved = sorted(here.glob("*.jsonl"))[10:]
    for path in moved:
        path.rename(there / path.name)
    with opened_below(tmp_path / ".claude") as opened:
        create_client(home=tmp_path).sessions.get("claude", moved[3].stem)
        assert opened() == {path.name for path in moved}


def test_sub_agents_of_other_sessions_are_not_opened(tmp_path: Path) -> None:
    made = many(3)
    for which in range(3):
        made.agent(which, beside=False, prompt="Look")
    made.write(tmp_path)
    (own,) = (tmp_path / ".claude").rglob(f"{made.sessions[1][0]}/subagents/*.jsonl")
    with opened_below(tmp_path / ".claude") as opened:
        session = create_client(home=tmp_path).sessions.get("claude", made.sessions[1][0])
        agents = {name for name in opened() if name.startswith("agent-")}
    assert (len(session.children), agents) == (1, {own.name})
    with opened_below(tmp_path / ".claude") as opened:
        child = create_client(home=tmp_path).sessions.get("claude", own.stem)
        assert child.session_id == session.children[0].session_id
        assert {name for name in opened() if name.startswith("agent-")} == {own.name}


@pytest.mark.parametrize("has_index", [False, True], ids=["directly", "with an index"])
def test_a_database_is_asked_for_one_session(
    has_index: bool, tmp_path: Path, statements: list[str]
) -> None:
    database = Database(tmp_path)
    for number in range(20):
        database.session(f"ses_{number:02}", at=START + number * 1000)
        at = START + number * 1000
        database.message(f"ses_{number:02}", answer("Yes.", at, tokens(1, 1)))
    client = create_client(home=tmp_path)
    if has_index:
        client = indexed(tmp_path, tmp_path / "cache")
    statements.clear()
    assert client.sessions.get("opencode", "ses_07").session_id == "ses_07"
    parts = [one for one in statements if "JOIN part" in one]
    assert parts
    assert all("ses_07" in one for one in parts)


def test_no_statement_reads_the_events_of_all_of_openclaws_sessions(
    tmp_path: Path, statements: list[str]
) -> None:
    (capture,) = [one for one in CAPTURES if one.name == "openclaw-2026.9.6"]
    client = create_client(home=capture.copy_to(tmp_path))
    row = client.list_report(("openclaw",), EVERYTHING).sessions[-1]
    statements.clear()
    client.sessions.get("openclaw", row.session_id)
    events = [one for one in statements if 'FROM "transcript_events"' in one and "seq" in one]
    assert any(row.session_id in one for one in events)
    assert all("WHERE session_id = " in one or "min(seq)" in one for one in events)


def test_a_sub_agent_is_found_by_its_id_and_by_what_it_begins_with(tmp_path: Path) -> None:
    made = many(2)
    for which in range(2):
        made.agent(which, beside=True, prompt="Look")
    made.write(tmp_path)
    first, _ = sorted(path.stem for path in (tmp_path / ".claude").rglob("agent-*.jsonl"))
    client = create_client(home=tmp_path)
    for name in (first, first.removeprefix("agent-")):
        assert client.sessions.get("claude", name).session_id == first.removeprefix("agent-")
    with pytest.raises(AmbiguousIdError):
        client.sessions.get("claude", "agent-")
    with pytest.raises(SessionNotFoundError):
        client.sessions.get("claude", f"{first}-and-more")


def test_ids_in_databases_and_in_files_next_to_them_are_distinguished(tmp_path: Path) -> None:
    Database(tmp_path).session("ses_11").session("ses_12").session("ses_2")
    write_tree(tmp_path, "ses_21", *spoken(1))
    client = create_client(home=tmp_path)
    assert client.sessions.get("opencode", "ses_21").session_id == "ses_21"
    assert client.sessions.get("opencode", "ses_2").session_id == "ses_2"
    with pytest.raises(AmbiguousIdError) as several:
        client.sessions.get("opencode", "ses_")
    assert len(several.value.candidates) == 4
    for unknown in ("ses_3", "es_2", "ses_211"):
        with pytest.raises(SessionNotFoundError):
            client.sessions.get("opencode", unknown)
