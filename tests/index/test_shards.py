"""Texts that several processes read into files of their own are found as without an index."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from builders import ClaudeSession, uuid_of, write_codex
from child_processes import child_env
from test_pool import another_thread
from test_search_equal import NOW, hits, indexed
from test_work import age, settle

from amux import create_client
from amux.model.options import SessionListOptions

SESSIONS = 24
QUERIES = (
    "common", "needle7", "needle2", "eedle", "need*", '"common needle7"', '"phrase of tools"',
    '"tools ended"', "common OR needle3", "common -needle3", "needle3 role:user", "/needle[23]/",
    "検索", "common needle1*", '"done done"',
)  # fmt: skip
_processes: Counter[str] = Counter()


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in {"os.fork", "subprocess.Popen"}:
        _processes[event] += 1


sys.addaudithook(_watch)


def write_session(home: Path, number: int, text: str = "common") -> ClaudeSession:
    session = ClaudeSession(home, uuid_of(number)).prompt(f"{text} needle{number}")
    session.tool_call("t1", {"command": "the phrase of tools"}).tool_result("t1", "ended 検索")
    session.reply("done").write()
    return session


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("original") / "home"
    for number in range(SESSIONS):
        write_session(home, number)
        if number % 6 == 0:
            write_codex(home, 1000 + number)
    settle(home)
    return home


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _three(process: int) -> set[int]:
    del process
    return {0, 1, 2}


@contextmanager
def three_cores() -> Generator[None]:
    """Three cores, and a home so large that three processes read it."""
    with ExitStack() as patched:
        patched.enter_context(patch.object(os, "sched_getaffinity", _three))
        for limit in ("pool._FORK_BYTES", "pool.SPAWN_BYTES", "text.update._SHARED_BYTES"):
            patched.enter_context(patch(f"amux.index.{limit}", -1))
        patched.enter_context(patch("amux.index.text.update._BULK", 3000))
        _processes.clear()
        yield


@pytest.fixture(params=["forked", "spawned"])
def workers(request: pytest.FixtureRequest) -> Generator[str]:
    with three_cores(), another_thread() if request.param == "spawned" else ExitStack():
        yield request.param


def assert_equal(home: Path, cache: Path, queries: tuple[str, ...] = QUERIES) -> None:
    direct = create_client(home=home, now=NOW)
    with indexed(home, cache) as client:
        for query in queries:
            assert hits(client, query) == hits(direct, query), query


def indexed_texts(home: Path, cache: Path) -> int:
    with indexed(home, cache) as client:
        return sum(each.texts or 0 for each in client.index.status().agents)


def shards(cache: Path) -> list[Path]:
    return sorted(cache.glob("texts-*.db"))


def sources_in(shard: Path) -> set[str]:
    with closing(sqlite3.connect(shard)) as connection:
        return {
            os.fsdecode(path) for (path,) in connection.execute("SELECT path FROM text_sources")
        }


def build(home: Path, cache: Path) -> None:
    with indexed(home, cache) as client:
        client.index.update()
        client.index.update(texts=True)


def build_spread(home: Path, cache: Path) -> list[Path]:
    """Build until every worker was quick enough to read a session; the first shard is first."""
    with three_cores():
        while True:
            build(home, cache)
            *others, first = shards(cache)
            if len(others) == 2 and all(map(transcripts_in, (first, *others))):
                return [first, *others]
            shutil.rmtree(cache)


def transcripts_in(shard: Path) -> list[Path]:
    return [Path(each) for each in sorted(sources_in(shard)) if "projects" in each]


def test_texts_are_spread_over_shards_and_found_as_without_an_index(
    home: Path, cache: Path, workers: str
) -> None:
    build(home, cache)
    started = {"forked": "os.fork", "spawned": "subprocess.Popen"}[workers]
    assert _processes[started] == _processes.total()
    assert _processes[started] == 9, "three for the facts of each agent, three for all texts"
    spread = [sources_in(each) for each in shards(cache)]
    assert len(spread) == 3
    assert sum(map(len, spread)) == len(set[str]().union(*spread)) == SESSIONS + 4, "each is in one"
    assert indexed_texts(home, cache) == SESSIONS + 4
    assert_equal(home, cache)
    assert _processes.total() == 9, "nothing is read again"


def test_facts_read_by_spawned_workers_equal_those_read_here(home: Path, cache: Path) -> None:
    options = SessionListOptions(limit=None)
    wanted = create_client(home=home, now=NOW).list_report(None, options)
    with three_cores(), another_thread(), indexed(home, cache) as client:
        assert client.list_report(None, options) == wanted
        assert client.index.check(sample=None).mismatches == ()
        assert _processes == {"subprocess.Popen": 6}


def test_a_home_with_little_text_has_one_file_and_starts_no_process(
    home: Path, cache: Path
) -> None:
    _processes.clear()
    build(home, cache)
    assert len(shards(cache)) == 1
    assert not _processes


def test_small_updates_go_to_the_first_shard_and_replace_what_another_has(
    home: Path, cache: Path
) -> None:
    first, second, third = build_spread(home, cache)
    changed = transcripts_in(second)[0]
    text = changed.read_text(encoding="utf-8").replace("common", "changed")
    changed.write_text(text, encoding="utf-8")
    age(changed, write_session(home, 500).path)
    transcripts_in(third)[0].unlink()
    _processes.clear()
    with indexed(home, cache) as client:
        assert len(hits(client, "changed")) == 1
    assert not _processes
    assert str(changed) in sources_in(first) - sources_in(second)
    assert indexed_texts(home, cache) == SESSIONS + 4
    assert_equal(home, cache, (*QUERIES, "changed", "needle500"))


def test_new_messages_are_added_to_the_shard_of_their_session(home: Path, cache: Path) -> None:
    age(*home.rglob("*.jsonl"))  # still in use
    files = build_spread(home, cache)
    spread = [sources_in(each) for each in files]
    for each in files:
        path = transcripts_in(each)[0]
        grown = ClaudeSession(home, path.stem).prompt("grown").reply("grown more")
        with path.open("ab") as log:
            log.write(b"".join(msgspec.json.encode(line) + b"\n" for line in grown.lines))
        age(path)
    with indexed(home, cache) as client:
        assert len(hits(client, "grown")) == 3
    assert [sources_in(each) for each in files] == spread
    assert_equal(home, cache, (*QUERIES, "grown"))


def _remove(path: Path) -> None:
    path.unlink()


def _garble(path: Path) -> None:
    path.write_bytes(b"no database" * 3000)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 3 * 8192])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _outdate(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE text_state SET value = 5 WHERE key = 'schema'")


def _forget(path: Path) -> None:
    """As after a power failure: the last transactions are lost."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM text_sources")
        connection.execute("DELETE FROM text_members")
        connection.execute("UPDATE text_units SET dead = 1")
        connection.execute("UPDATE text_state SET value = 1 WHERE key = 'token'")


def _interrupt(path: Path) -> None:
    """As if the load had been killed before its words were stored."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT OR REPLACE INTO text_state VALUES ('stale', 1)")


_DAMAGES = (_remove, _garble, _truncate, _empty, _outdate, _interrupt)


@pytest.mark.parametrize(
    ("damage", "which"),
    # The first shard, which is the last by name, has the states of the files in one transaction.
    [*((each, which) for each in _DAMAGES for which in (0, 1, 2)), (_forget, 0), (_forget, 1)],
)
def test_a_damaged_or_missing_shard_changes_no_answer(
    home: Path, cache: Path, damage: Callable[[Path], None], which: int
) -> None:
    with three_cores():
        build(home, cache)
        for leftover in cache.glob("texts-*-*"):
            leftover.unlink()
        damage(shards(cache)[which])
        for _ in range(2):
            assert_equal(home, cache, QUERIES[:7])
        build(home, cache)
        assert indexed_texts(home, cache) == SESSIONS + 4


@pytest.mark.parametrize("copied", [False, True])
def test_a_shard_in_the_place_of_another_changes_no_answer(
    home: Path, cache: Path, copied: bool
) -> None:
    one, two, _ = build_spread(home, cache)
    content = one.read_bytes()
    if not copied:
        one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    for _ in range(2):
        assert_equal(home, cache)
    assert indexed_texts(home, cache) == SESSIONS + 4


def test_a_copy_that_a_killed_process_left_in_a_second_shard_is_discarded(
    home: Path, cache: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    while True:  # until the workers have shared the sources differently
        one, _, _ = build_spread(home, cache)
        _, _, foreign = build_spread(home, other)
        if sources_in(one) & sources_in(foreign):
            break
        shutil.rmtree(cache)
        shutil.rmtree(other)
    shutil.copy(foreign, cache / foreign.name)
    for path in home.rglob("*.jsonl"):
        age(path)
    write_session(home, 600)
    with three_cores():
        for _ in range(2):
            assert_equal(home, cache)
    spread = [sources_in(each) for each in shards(cache)]
    assert sum(map(len, spread)) == len(set[str]().union(*spread)) == SESSIONS + 5


def test_all_files_are_private_counted_and_deleted(home: Path, cache: Path) -> None:
    with three_cores(), indexed(home, cache) as client:
        client.index.update(texts=True)
        files = [path for path in cache.iterdir() if path.name.startswith("texts-")]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        status = client.index.status()
        own = (path for path in files if path.suffix in {".db", ".db-wal"})
        assert status.text_bytes == sum(path.stat().st_size for path in own)
        client.index.rebuild()
        assert shards(cache) == []
        assert client.index.status().text_bytes == 0


def test_what_workers_have_read_before_an_interrupt_is_not_read_again(
    home: Path, cache: Path, workers: str
) -> None:
    def stop(done: int, total: int, what: str) -> None:
        if done > total * 0.5:
            raise KeyboardInterrupt

    with indexed(home, cache) as client:
        client.index.update()
        client.watch(stop)
        with pytest.raises(KeyboardInterrupt):
            client.index.update(texts=True)
    assert SESSIONS // 3 < indexed_texts(home, cache) <= SESSIONS + 4
    assert_equal(home, cache)
    assert indexed_texts(home, cache) == SESSIONS + 4


ASK = """
import os, sys, threading
import msgspec
import amux.index.pool as pool, amux.index.text.update as update
from amux import create_client
from datetime import UTC, datetime
os.sched_getaffinity = lambda _: {0, 1, 2}
pool._FORK_BYTES = pool.SPAWN_BYTES = update._SHARED_BYTES = -1
update._BULK = 3000
if sys.argv[3].isdigit():
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
if sys.argv[3] == "spawned":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
now = datetime(2026, 11, 20, tzinfo=UTC)
with create_client(home=sys.argv[1], env={"AMUX_CACHE_DIR": sys.argv[2]}, now=now) as client:
    found = [
        (each.unified_id, each.relevance_score, each.hit_count, each.snippet, each.hits)
        for query in sys.argv[4:]
        for each in client.sessions.search(query, limit=None)
    ]
    sys.stdout.buffer.write(msgspec.json.encode(found))
"""


def start(home: Path, cache: Path, kind: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", ASK, str(home), str(cache), kind, *QUERIES],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_env(), start_new_session=True,
    )  # fmt: skip


def direct_answer(home: Path) -> bytes:
    direct = create_client(home=home, now=NOW)
    return msgspec.json.encode([each for query in QUERIES for each in hits(direct, query)])


@pytest.mark.parametrize("kind", ["forked", "spawned"])
def test_processes_that_read_at_once_all_find_the_same(home: Path, cache: Path, kind: str) -> None:
    wanted = direct_answer(home)
    processes = [start(home, cache, kind) for _ in range(3)]
    for process in processes:
        answer, error = process.communicate(timeout=120)
        assert answer == wanted, error
    assert_equal(home, cache, QUERIES[:3])


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["forked", "spawned"])
def test_processes_killed_at_any_moment_change_no_answer(
    home: Path, cache: Path, kind: str
) -> None:
    wanted, chance = direct_answer(home), random.Random(kind)
    with indexed(home, cache) as client:
        client.index.update()
    for attempt in range(6):
        process = start(home, cache, kind)
        try:
            process.wait(chance.uniform(0.3, 2.5))
        except subprocess.TimeoutExpired:
            if attempt % 2:
                process.send_signal(signal.SIGKILL)  # its workers notice it
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)
    answer, error = start(home, cache, kind).communicate(timeout=120)
    assert answer == wanted, error
    with three_cores():
        assert_equal(home, cache)
    spread = [sources_in(each) for each in shards(cache)]
    assert sum(map(len, spread)) == len(set[str]().union(*spread)) == SESSIONS + 4


def test_a_shard_that_cannot_be_opened_changes_no_answer(home: Path, cache: Path) -> None:
    build(home, cache)
    with three_cores():
        for path in shards(cache):
            path.unlink()
            Path(path.parent, f"{path.stem}.1.db").mkdir()  # cannot be opened
        assert_equal(home, cache, QUERIES[:4])


@pytest.mark.parametrize("limit", [50_000, 150_000, 250_000, 350_000])
def test_a_full_disk_changes_no_answer(home: Path, cache: Path, limit: int) -> None:
    with indexed(home, cache) as client:
        client.index.update()
    answer, error = start(home, cache, str(limit)).communicate(timeout=120)
    assert answer == direct_answer(home), error
    with three_cores():
        build(home, cache)
        assert indexed_texts(home, cache) == SESSIONS + 4
        assert_equal(home, cache)
