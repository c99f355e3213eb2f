"""The background indexer: when it starts, that it leaves nothing behind and changes no answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from background_processes import (
    ends_within,
    kill,
    lock_of,
    processes_of,
    running_record,
    wait_for_indexer,
)
from builders import write_claude, write_codex
from cli_process import Cli
from pseudo_terminal import on_terminal

from amux import create_client
from amux.background import PAUSE
from amux.client import Client
from amux.index.database import index_path
from amux.index.indexer_lock import IndexerLock, IndexerRecord
from amux.model.options import SessionListOptions
from amux.model.usage import Tokens

pytestmark = pytest.mark.no_cover  # processes of their own do the work

USED = Tokens(input=10, output=20)
SESSIONS = 150
QUESTIONS = (
    ("list", "--limit", "20", "--json"),
    ("search", "word7x3", "--json"),
    ("cost", "--json"),
)


def age(*paths: Path) -> None:
    """As if they had been written a while ago."""
    past = time.time() - 60
    for path in paths:
        os.utime(path, (past, past))


@pytest.fixture(scope="module")
def big_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than a list indexes by itself: one attachment makes most of it."""
    home = tmp_path_factory.mktemp("big") / "home"
    for number in range(SESSIONS):
        words = " ".join(f"word{number}x{each}" for each in range(300))
        write_claude(home, number, prompt=words, tokens=USED, cwd=f"/src/p{number % 5}")
        write_codex(home, 1000 + number, tokens=USED)
    largest = write_claude(home, 5000, prompt="with an attachment", tokens=USED).path
    line = b'{"type":"attachment","attachment":"' + b"x" * (1 << 20) + b'"}\n'
    with largest.open("ab") as stream:
        for _ in range(129):
            stream.write(line)
    age(*home.rglob("*"))
    return home


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    wait_for_indexer(tmp_path / "cache")


def cli_on(home: Path, cache: Path, **env: str) -> Cli:
    return Cli(home, {"AMUX_CACHE_DIR": str(cache), **env})


def on_people_terminal(home: Path, cache: Path, **env: str) -> Cli:
    """The command as people have it: nothing is said about the background."""
    cli = cli_on(home, cache, **env)
    if "AMUX_BACKGROUND" not in env:
        del cli.env["AMUX_BACKGROUND"]
    return cli


def indexer_state(cli: Cli) -> object:
    return cli("index", "status", "--json").json().get("indexer", {}).get("state")


def test_a_list_on_a_terminal_starts_an_indexer_that_completes_everything(
    big_home: Path, cache: Path
) -> None:
    silent = on_terminal(cli_on(big_home, cache), "list")
    assert not lock_of(cache).exists()
    cli = on_people_terminal(big_home, cache)
    assert on_terminal(cli, "list") == silent
    wait_for_indexer(cache)
    status = cli("index", "status", "--json").json()
    assert status["indexer"]["state"] == "complete"
    assert "pid" not in status["indexer"]
    assert status["indexer"]["startedAt"] <= status["indexer"]["endedAt"]
    by_agent = {each["agent"]: each for each in status["agents"]}
    assert {name: (each["stale"], each["texts"]) for name, each in by_agent.items()} == {
        "claude": (0, SESSIONS + 1),
        "codex": (0, SESSIONS),
    }
    assert "background indexer: complete; just now" in on_terminal(cli, "index", "status")
    assert on_terminal(cli, "list") == silent
    with create_client(env=cli.env) as client:
        assert client.fast_list(None, limit=100) is not None


def test_an_indexer_has_no_terminal_and_a_low_priority(big_home: Path, cache: Path) -> None:
    cli = cli_on(big_home, cache, AMUX_BACKGROUND="on")
    assert cli("list").code == 0
    pid = running_record(big_home, cache).pid
    proc = Path(f"/proc/{pid}")
    streams = {(proc / "fd" / str(number)).readlink() for number in range(3)}
    assert streams == {Path(os.devnull)}
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    assert int(fields[3]) == pid, "it leads a session of its own"
    assert int(fields[4]) == 0, "it has no terminal"
    assert int(fields[16]) == min(19, os.nice(0) + 10)
    assert (proc / "cwd").readlink() == cache
    shown = cli("index", "status", "--json").json()["indexer"]
    assert (shown["state"], shown["pid"]) == ("running", pid)


def test_an_indexer_can_be_wanted_in_a_pipe(big_home: Path, cache: Path) -> None:
    cli = cli_on(big_home, cache, AMUX_BACKGROUND="on", CI="1")
    assert cli("list").code == 0
    wait_for_indexer(cache)
    assert indexer_state(cli) == "complete"


def test_options_that_select_the_client_reach_the_indexer(
    big_home: Path, cache: Path, tmp_path: Path
) -> None:
    other, project = tmp_path / "other", tmp_path / "-project"
    other.mkdir()
    project.mkdir()
    (project / "config.json").write_text(json.dumps({"profiles": {"work": {"timezone": "UTC"}}}))
    words = ("--home", str(big_home), "--project-dir", str(project), "--profile", "work")
    cli = cli_on(other, cache, AMUX_BACKGROUND="on")
    env = {**cli.env, "AGENT_MUX_PROJECT_DIR": str(project)}
    done = subprocess.run(
        cli.command("list", *words), env=env, cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, done.stderr)
    wait_for_indexer(cache)
    record = IndexerLock(index_path(cache, big_home)).record()
    assert record is not None
    assert record.result == "complete"


@pytest.mark.parametrize(
    "env",
    [
        {"CI": "1"},
        {"AMUX_BACKGROUND": "off"},
        {"AMUX_BACKGROUND": "0"},
        {"AMUX_INDEX": "off", "AMUX_BACKGROUND": "on"},
        {"AMUX_CACHE_DIR": "/dev/null/cache", "AMUX_BACKGROUND": "on"},
    ],
    ids=str,
)
def test_no_indexer_starts_on_a_terminal_if_it_is_barred(
    big_home: Path, cache: Path, env: dict[str, str]
) -> None:
    cli = on_people_terminal(big_home, cache, **env)
    assert on_terminal(cli, "list")
    assert not lock_of(cache).exists()
    assert processes_of(cache) == []


def test_no_indexer_starts_if_the_settings_bar_it(
    big_home: Path, cache: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "config.yaml").write_text("index_in_background: false\n")
    cli = on_people_terminal(big_home, cache, AGENT_MUX_CONFIG_DIR=str(folder))
    assert on_terminal(cli, "list")
    assert not lock_of(cache).exists()


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("list", "--quiet")], ids=str)
def test_no_indexer_starts_in_a_pipe(big_home: Path, cache: Path, words: tuple[str, ...]) -> None:
    assert on_people_terminal(big_home, cache)(*words).code == 0
    assert not lock_of(cache).exists()


def test_no_indexer_starts_for_little(tmp_path: Path, cache: Path) -> None:
    home = tmp_path / "home"
    write_claude(home, 1, tokens=USED)
    cli = on_people_terminal(home, cache)
    for words in (("list",), ("cost",), ("index", "update")):
        on_terminal(cli, *words)
    assert not lock_of(cache).exists()


def test_a_report_that_makes_the_rows_of_much_starts_an_indexer_for_the_texts(
    big_home: Path, cache: Path
) -> None:
    cli = on_people_terminal(big_home, cache)
    on_terminal(cli, "index", "update")
    wait_for_indexer(cache)
    status = cli("index", "status", "--json").json()
    assert status["indexer"]["state"] == "complete"
    assert {each["texts"] for each in status["agents"]} == {SESSIONS, SESSIONS + 1}
    lock_of(cache).unlink()
    on_terminal(cli, "index", "update")
    assert not lock_of(cache).exists(), "nothing was written, so nothing is left to do"


def test_terminals_at_once_start_one_indexer(big_home: Path, cache: Path) -> None:
    cli = cli_on(big_home, cache, AMUX_BACKGROUND="on")
    commands = [
        subprocess.Popen(cli.command("list"), env=cli.env, stdout=subprocess.DEVNULL)
        for _ in range(5)
    ]
    assert {command.wait() for command in commands} == {0}
    leaders = {pid for pid in processes_of(cache) if leads_session(pid)}
    wait_for_indexer(cache)
    record = IndexerLock(index_path(cache, big_home)).record()
    assert record is not None
    assert leaders <= {record.pid}
    assert indexer_state(cli) == "complete"


def leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def answers(cli: Cli) -> list[str]:
    found = [cli(*words) for words in QUESTIONS]
    assert {each.code for each in found} == {0}, found
    return [each.out for each in found]


@pytest.fixture(scope="module")
def wanted(big_home: Path) -> list[str]:
    """The answers without an index."""
    return answers(cli_on(big_home, big_home.parent / "no-cache", AMUX_INDEX="off"))


def test_answers_are_equal_while_the_indexer_works(
    big_home: Path, cache: Path, wanted: list[str]
) -> None:
    cli = cli_on(big_home, cache, AMUX_BACKGROUND="on")
    assert cli(*QUESTIONS[0]).out == wanted[0]
    pid = running_record(big_home, cache).pid
    rounds = 0
    while not ends_within(pid, 0) or not rounds:
        assert answers(cli) == wanted
        rounds += 1
    wait_for_indexer(cache)
    assert answers(cli) == wanted


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.15, 0.3, 0.6, 1.0])
def test_a_killed_indexer_leaves_no_lock_and_the_next_one_completes(
    big_home: Path, cache: Path, wanted: list[str], seconds: float
) -> None:
    cli = cli_on(big_home, cache, AMUX_BACKGROUND="on")
    assert cli(*QUESTIONS[0]).out == wanted[0]
    pid = running_record(big_home, cache).pid
    was_killed = not ends_within(pid, seconds)  # a fast machine may have done everything
    if was_killed:
        kill(pid)
    assert not IndexerLock(index_path(cache, big_home)).is_held()
    state = indexer_state(cli)
    assert state == "killed" or (seconds and state == "complete")
    for worker in processes_of(cache):
        assert ends_within(worker, 20), "a worker has outlived the indexer"
    assert cli(*QUESTIONS[0]).out == wanted[0]
    wait_for_indexer(cache)
    touch(next((big_home / ".codex").rglob("*.jsonl")))  # only texts may be left to do
    assert cli("list").code == 0
    wait_for_indexer(cache)
    assert indexer_state(cli) == "complete"
    assert answers(cli) == wanted


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.5])
def test_a_cache_directory_that_is_deleted_under_an_indexer_changes_no_answer(
    big_home: Path, cache: Path, wanted: list[str], seconds: float
) -> None:
    cli = cli_on(big_home, cache, AMUX_BACKGROUND="on")
    assert cli(*QUESTIONS[0]).out == wanted[0]
    pid = running_record(big_home, cache).pid
    ends_within(pid, seconds)
    shutil.rmtree(cache, ignore_errors=True)
    assert answers(cli) == wanted
    assert ends_within(pid, 60)
    wait_for_indexer(cache)
    assert answers(cli) == wanted


def touch(path: Path) -> None:
    """Let a file look as if it had been changed once more, a while ago."""
    past = path.stat().st_mtime - 60
    os.utime(path, (past, past))


def test_an_indexer_stops_at_its_time_limit_and_keeps_what_it_did(
    big_home: Path, cache: Path
) -> None:
    cli = cli_on(big_home, cache)
    script = """
import sys
from amux import create_client
with create_client() as client:
    client.background.run(limit=float(sys.argv[1]))
"""

    def run(limit: float) -> int:
        command = [sys.executable, "-c", script, str(limit)]
        done = subprocess.run(command, env=cli.env, capture_output=True, check=False)
        assert (done.stdout, done.stderr) == (b"", b"")
        return done.returncode

    assert run(0.0001) != 0, "what does not stop is ended"
    assert indexer_state(cli) == "killed"
    states: list[object] = []
    kept: list[int] = []
    while "complete" not in states:
        run(2.0 + len(states))
        states.append(indexer_state(cli))
        agents = cli("index", "status", "--json").json()["agents"]
        kept.append(sum(each["kept"] for each in agents))
    assert kept == sorted(kept)
    assert {*states} <= {"time_limit", "killed", "complete"}


def run_script(cli: Cli, script: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program; it counts as ended when its workers have closed their output, too."""
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, env=cli.env, capture_output=True, check=False, timeout=60)


def test_an_indexer_that_is_told_to_end_keeps_what_it_has_read(home: Path, cache: Path) -> None:
    for number in range(20):
        write_claude(home, number, prompt=f"needle{number}")
    age(*home.rglob("*.jsonl"))
    script = """
import os, signal, sys
from amux import create_client
opened = set()
def end_at_the_tenth(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".jsonl") and len(opened) < 10:
        opened.add(arguments[0])
        if len(opened) == 10:
            os.kill(os.getpid(), signal.SIGTERM)
with create_client() as client:
    if sys.argv[1] == "texts":
        client.index.update()
    sys.addaudithook(end_at_the_tenth)
    client.background.run()
"""
    cli = cli_on(home, cache)
    for kind, counted in (("facts", "kept"), ("texts", "texts")):
        assert run_script(cli, script, kind).returncode != 0
        assert not IndexerLock(index_path(cache, home)).is_held()
        status = cli("index", "status", "--json").json()
        assert status["indexer"]["state"] == "killed"
        assert 5 <= status["agents"][0].get(counted, 0) < 20


def test_workers_of_an_indexer_end_at_its_time_limit_too(home: Path, cache: Path) -> None:
    script = """
import os, signal
from pathlib import Path
from amux import create_client
from amux.adapters._base import AgentInfo, Capabilities, SourceRef
from amux.index import pool
os.sched_getaffinity = lambda _: {0, 1}
pool._FORK_BYTES = -1
class Stuck:
    info = AgentInfo(
        name="stuck", label="Stuck", cli_command="stuck", tier="plugin", indexable=True,
        capabilities=Capabilities(session_persistence="file-based"),
    )
    def roots(self, host):
        return [host.home]
    def discover(self, root, *, cwd=None):
        for path in sorted(root.glob("*.stuck")):
            yield SourceRef(agent="stuck", path=path, root=root, session_id=path.stem)
    def read(self, source, *, want, only=None, until=None):
        while source.session_id != "first":
            signal.pause()
        yield from ()
    def command(self, action, **more):
        return None
with create_client() as client:
    client.adapters.register(Stuck())
    client.background.run(limit=2.0)
"""
    for name in ("first", "second", "third"):
        (home / f"{name}.stuck").write_text("x")
    age(*home.glob("*.stuck"))
    cli = cli_on(home, cache)
    done = run_script(cli, script)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGALRM, b"", b"")
    assert indexer_state(cli) == "killed"


def test_a_program_that_starts_indexers_again_and_again_has_one_zombie_at_most(
    home: Path, cache: Path
) -> None:
    script = """
import os, sys
from pathlib import Path
from amux import create_client
from amux.durable import lock
with create_client() as client:
    for _ in range(5):
        assert client.background.start([sys.executable, "-c", "pass"], after_pause=False)
        file = os.open(Path(os.environ["AMUX_CACHE_DIR"], "indexer.lock"), os.O_RDWR)
        lock(file)  # when it has ended
        os.close(file)
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
print(len(children))
"""
    done = run_script(cli_on(home, cache), script)
    assert (done.stdout, done.stderr) in {(b"1\n", b""), (b"2\n", b"")}


def recorded(lock: IndexerLock, *, ago: timedelta) -> None:
    descriptor = lock.acquire()
    assert descriptor is not None
    IndexerRecord(index=lock.index, pid=1, started_at=datetime.now(UTC) - ago).write(descriptor)
    os.close(descriptor)


def client_of(home: Path, cache: Path) -> Client:
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)})


def test_starts_keep_a_distance_unless_they_are_forced(home: Path, cache: Path) -> None:
    lock = IndexerLock(index_path(cache, home))
    command = (sys.executable, "-c", "pass")
    recorded(lock, ago=PAUSE - timedelta(minutes=1))
    with client_of(home, cache) as client:
        assert not client.background.start(command)
        assert client.background.start(command, after_pause=False)
        wait_for_indexer(cache)
        recorded(lock, ago=PAUSE)
        assert client.background.start(command)
        wait_for_indexer(cache)
        descriptor = lock.acquire()
        assert descriptor is not None
        assert not client.background.start(command, after_pause=False), "one is running"
        os.close(descriptor)


def test_a_record_of_another_index_or_a_damaged_one_is_ignored(home: Path, cache: Path) -> None:
    recorded(IndexerLock(index_path(cache, home.parent)), ago=timedelta(0))
    with client_of(home, cache) as client:
        assert client.index.status().indexer is None
        lock_of(cache).write_bytes(b"\xff{")
        assert client.index.status().indexer is None


@pytest.mark.parametrize("reason", ["\x01" * 300, "\udcff", "\U0001f642" * 300, "a\udcff" * 99])
def test_any_reason_is_recorded_and_replaced(home: Path, cache: Path, reason: str) -> None:
    lock = IndexerLock(index_path(cache, home))
    recorded(lock, ago=timedelta(0))
    record = lock.record()
    descriptor = lock.acquire()
    assert record is not None
    assert descriptor is not None
    record.ended(datetime.now(UTC), "failed", reason).write(descriptor)
    status = lock.status()
    assert status is not None
    assert lock.record() is not None
    record.write(descriptor)
    assert lock.record() == record
    os.close(descriptor)


def test_a_failure_is_recorded(home: Path, cache: Path) -> None:
    write_claude(home, 1)
    path = index_path(cache, home)
    path.mkdir(parents=True)  # no database can be there
    script = "from amux import create_client; create_client().background.run()"
    cli = cli_on(home, cache)
    assert cli.python("-c", script) == (0, "", "")
    found = msgspec.convert(cli("index", "status", "--json").json()["indexer"], dict[str, str])
    assert found["state"] == "failed"
    assert "unable to open database file" in found["reason"]
    assert f"failed; {found['reason']}" in on_terminal(cli, "index", "status")


def test_the_question_whether_an_indexer_is_needed_creates_nothing(home: Path, cache: Path) -> None:
    write_claude(home, 1)
    with client_of(home, cache) as client:
        assert not client.needs_indexer
        client.list_report(None, SessionListOptions())
        assert not client.needs_indexer
