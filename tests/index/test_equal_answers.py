"""The index changes no answer, whether it is absent, new, up to date, damaged, locked or old."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from builders import CAPTURES, SharedHome, capture_named
from newest_captures import newest_of_each

from amux import create_client
from amux.client import Client
from amux.model.options import SessionListOptions
from amux.testing import Capture

EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


def indexed(home: Path, cache: Path) -> Client:
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)})


def listed(client: Client) -> bytes:
    return msgspec.json.encode(client.list_report(None, EVERYTHING))


def everything(client: Client) -> bytes:
    """A list, the costs by day, and every session whole."""
    report = client.list_report(None, EVERYTHING)
    said = [report, client.sessions.total_cost(), client.sessions.total_cost(group_by="day")]
    said += [client.sessions.get(each.agent, each.session_id) for each in report.sessions]
    return msgspec.json.encode(said)


def index_file(cache: Path) -> Path:
    (found,) = cache.glob("index-*.db")
    return found


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_every_capture_gives_the_same_answers_with_an_index(
    capture: Capture, tmp_path: Path
) -> None:
    direct = everything(create_client(home=capture.home))
    for _ in range(2):  # while it is filled, and from what is kept
        with indexed(capture.home, tmp_path / "cache") as client:
            assert everything(client) == direct


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_overview_agents_and_blocks_of_every_capture_are_equal_with_an_index(
    capture: Capture, tmp_path: Path
) -> None:
    def glance(client: Client) -> bytes:
        return msgspec.json.encode([client.overview(), client.agents(), client.cost_blocks()])

    sessions = create_client(home=capture.home).list_report(None, EVERYTHING).sessions
    now = max(session.updated_at for session in sessions)
    direct = glance(create_client(home=capture.home, now=now))
    env = {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):
        with create_client(home=capture.home, now=now, env=env) as client:
            assert glance(client) == direct


# Claude's were taken with a server that numbered its answers anew for each: they look like copies.
UPGRADED = [
    pytest.param([each for each in CAPTURES if each.folder == folder], id=folder)
    for folder in dict.fromkeys(capture.folder for capture in CAPTURES)
    if folder != "claude" and sum(each.folder == folder for each in CAPTURES) > 1
]


@pytest.mark.slow
@pytest.mark.parametrize("versions", UPGRADED)
def test_a_home_that_saw_every_version_gives_the_same_answers_with_an_index(
    versions: list[Capture], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for version in versions:
        shutil.copytree(version.home, home, dirs_exist_ok=True, symlinks=True)
    direct = everything(create_client(home=home))
    for _ in range(2):
        with indexed(home, tmp_path / "cache") as client:
            assert everything(client) == direct


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return capture_named("claude-2.1.325").copy_to(tmp_path / "home")


def test_the_index_is_readable_by_its_owner_only(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        listed(client)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert stat.S_IMODE(index_file(tmp_path / "cache").stat().st_mode) == 0o600


def test_no_index_is_kept_in_another_home(home: Path) -> None:
    with create_client(home=home) as client:
        listed(client)
    assert not (home / ".cache").exists()


def test_the_index_can_be_disabled(home: Path, tmp_path: Path) -> None:
    env = {"AMUX_CACHE_DIR": str(tmp_path / "cache"), "AMUX_INDEX": "off"}
    with create_client(home=home, env=env) as client:
        listed(client)
    assert not (tmp_path / "cache").exists()


def test_a_home_without_sessions_leaves_no_index(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with indexed(tmp_path / "home", tmp_path / "cache") as client:
        assert client.sessions.list("claude") == []
        assert client.list_report(None, EVERYTHING).sessions == ()
    assert not (tmp_path / "cache").exists()


def overwrite(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(5000, len(data), 97):
        data[place] ^= 0xFF
    path.write_bytes(data)


def drop_a_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE session")
    database.close()


def of_another_make(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 12345")
    database.close()


class Filled(NamedTuple):
    home: Path
    cache: Path
    direct: bytes


@pytest.fixture(scope="module")
def filled(shared_home: SharedHome, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A home, an index that holds all of it, and what is said without one."""
    home = shared_home(capture_named("claude-2.1.325"))
    cache = tmp_path_factory.mktemp("filled") / "cache"
    direct = everything(create_client(home=home))
    with indexed(home, cache) as client:
        assert everything(client) == direct
    for leftover in cache.glob("*-wal"):
        leftover.unlink()
    return Filled(home, cache, direct)


@pytest.mark.no_cover
@pytest.mark.parametrize("harm", [overwrite, cut, flip, drop_a_table, of_another_make, Path.unlink])
def test_damage_to_the_index_changes_no_answer(
    harm: Callable[[Path], None], filled: Filled, tmp_path: Path
) -> None:
    home, kept, direct = filled
    cache = tmp_path / "cache"
    shutil.copytree(kept, cache)
    harm(index_file(cache))
    for _ in range(2):
        with indexed(home, cache) as client:
            assert everything(client) == direct


def test_a_locked_index_changes_no_answer(home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with indexed(home, cache) as client:
        before = listed(client)
    other = sqlite3.connect(index_file(cache), isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    try:
        (home / ".claude" / "projects" / "x").mkdir()
        with indexed(home, cache) as client:
            assert listed(client) == before
    finally:
        other.close()


def test_an_unwritable_cache_directory_changes_no_answer(home: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with indexed(home, tmp_path / "cache") as client:
        assert everything(client) == everything(create_client(home=home))
