"""Unchanged sources are not read again, and nothing is written for them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from builders import ClaudeSession, uuid_of, write_claude, write_codex
from counted_bytes import counted_bytes
from counted_work import Work, counted_work

from amux import create_client
from amux.client import Client
from amux.errors import AmuxError
from amux.model.options import SessionListOptions
from amux.model.usage import Tokens

USED = Tokens(input=10, output=20)
_opened: list[str] | None = None


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], (str, bytes)):
        _opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(_watch)


@contextmanager
def opened_below(home: Path) -> Generator[Callable[[], list[str]]]:
    """Which files of the agents are opened by the body."""
    global _opened  # noqa: PLW0603 - an audit hook cannot be taken back
    _opened = []
    found = _opened
    try:
        stores = (str(home / ".claude"), str(home / ".codex"))
        yield lambda: sorted(
            {path for path in found if path.startswith(stores) and not Path(path).is_dir()}
        )
    finally:
        _opened = None


def indexed(home: Path, cache: Path) -> Client:
    return create_client(home=home, env={"AMUX_CACHE_DIR": str(cache)})


def settle(home: Path) -> None:
    """As if everything had been written a while ago."""
    age(*home.rglob("*"))


def age(*paths: Path) -> None:
    """What has just been written may change again unseen: until then it is read again."""
    past = time.time() - 60
    for path in paths:
        os.utime(path, (past, past))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for number in range(1, 31):
        write_claude(home, number, cwd=f"/src/p{number % 3}", tokens=USED)
        write_codex(home, 1000 + number, tokens=USED)
    settle(home)
    return home


def ask(client: Client) -> object:
    return (
        client.list_report(None, SessionListOptions(limit=None)),
        client.sessions.total_cost(group_by="model"),
        client.sessions.search("done"),
    )


def test_a_second_command_opens_no_source(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        first = client.list_report(None, SessionListOptions(limit=None))
        client.sessions.total_cost()
    with indexed(home, tmp_path / "cache") as client, opened_below(home) as opened:
        assert client.list_report(None, SessionListOptions(limit=None)) == first
        assert client.sessions.total_cost().session_count == len(first.sessions)
        assert opened() == []


def listed(client: Client) -> object:
    return client.list_report(None, SessionListOptions(limit=None, include_children=True))


def reported(client: Client) -> object:
    return client.sessions.total_cost(group_by=("session", "model"))


def blocks(client: Client) -> object:
    return client.cost_blocks(model="gpt-5")


FIRST_AND_NEXT = {"list": listed, "report": reported, "blocks": blocks}


@pytest.mark.parametrize("next_one", FIRST_AND_NEXT)
@pytest.mark.parametrize("first", FIRST_AND_NEXT)
def test_whatever_is_asked_first_reads_and_assembles_for_all_questions(
    home: Path, tmp_path: Path, first: str, next_one: str
) -> None:
    with indexed(home, tmp_path / "cache") as client, counted_work(home) as work:
        FIRST_AND_NEXT[first](client)
        assert work.readings.total() == len([*home.rglob("*.jsonl")])
    with indexed(home, tmp_path / "cache") as client, counted_work(home) as work:
        answer = FIRST_AND_NEXT[next_one](client)
    assert (work.readings.total(), work.listings.total()) == (0, 0)
    assert not {name for name in work.files if name.startswith("assembly/assemble")}
    with create_client(home=home, env={"AMUX_INDEX": "off"}) as direct:
        assert FIRST_AND_NEXT[next_one](direct) == answer


@pytest.mark.parametrize("first", FIRST_AND_NEXT)
def test_a_first_question_reads_every_byte_once(home: Path, tmp_path: Path, first: str) -> None:
    ClaudeSession(home, uuid_of(500)).prompt("x" * 3_000_000).reply("y", tokens=USED).write()
    settle(home)
    with indexed(home, tmp_path / "cache") as client:
        client.sessions.list("gemini")  # whatever is imported and opened is so by now
        with counted_bytes() as count:
            FIRST_AND_NEXT[first](client)
    size = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
    assert size <= count() < 1.2 * size


def test_a_list_after_a_report_takes_the_short_way(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        client.sessions.total_cost()
    with indexed(home, tmp_path / "cache") as client:
        found = client.fast_list(None, limit=None)
    assert found is not None
    assert len(found.sessions) == 60


def test_a_second_command_writes_nothing(home: Path, tmp_path: Path) -> None:
    def state() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / "cache").glob("*.db")}

    for _ in range(2):  # the first use also notes which agents there are
        with indexed(home, tmp_path / "cache") as client:
            ask(client)
    before = state()
    with indexed(home, tmp_path / "cache") as client:
        ask(client)
    assert state() == before


def test_stored_answers_stay_valid_on_the_next_day(home: Path, tmp_path: Path) -> None:
    def on(day: int) -> Client:
        now = datetime(2026, 3, day, 12, tzinfo=UTC)
        return create_client(home=home, now=now, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")})

    def kept() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / "cache").glob("*.db")}

    for _ in range(2):  # the first use also notes which agents there are
        with on(1) as client:
            ask(client)
    before = kept()
    with on(2) as client, opened_below(home) as opened:
        client.list_report(None, SessionListOptions(limit=None))
        client.sessions.total_cost(group_by="model")
        assert opened() == []
    assert kept() == before


def test_a_new_session_is_the_only_one_read(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        ask(client)
    new = write_claude(home, 77, cwd="/src/p1", tokens=USED)
    age(new.path)
    with indexed(home, tmp_path / "cache") as client, opened_below(home) as opened:
        found = client.list_report(None, SessionListOptions(limit=None))
        assert opened() == [str(new.path)]
    assert uuid_of(77) in {session.session_id for session in found.sessions}


def test_only_the_appended_tail_of_a_log_is_read(home: Path, tmp_path: Path) -> None:
    session = ClaudeSession(home, uuid_of(500))
    for number in range(200):
        session.prompt("x" * 50_000).reply(f"answer {number}", tokens=USED)
    path = session.write()
    settle(home)
    assert path.stat().st_size > 10_000_000
    with indexed(home, tmp_path / "cache") as client:
        before = client.sessions.total_cost().output_tokens
        client.sessions.list("claude")
    whole = session.prompt("one more").reply("one more answer", tokens=USED)
    tail = whole.write(tmp_path / "longer.jsonl").read_bytes()[path.stat().st_size :]
    with path.open("ab") as file:
        file.write(tail)
    settle(home)
    with indexed(home, tmp_path / "cache") as client:
        client.sessions.list("codex")  # whatever is imported and opened is so by now
        with counted_bytes() as count:
            assert client.sessions.total_cost().output_tokens == before + USED.output
            assert client.sessions.list("claude", limit=None)
        assert count() < 5_000_000


def test_a_shrunk_replaced_or_rewritten_file_is_read_again(home: Path, tmp_path: Path) -> None:
    session = ClaudeSession(home, uuid_of(600)).prompt("first").reply("one", tokens=USED)
    path = session.write()
    longer = session.prompt("second").reply("two", tokens=USED).write(tmp_path / "longer")
    other = ClaudeSession(home, uuid_of(600)).prompt("other").reply("else", tokens=USED)
    states = [
        longer.read_bytes(),
        path.read_bytes(),
        other.write(tmp_path / "other").read_bytes(),
        b"".join(reversed(longer.read_bytes().splitlines(keepends=True))),
    ]
    settle(home)
    for state in states:
        path.write_bytes(state)
        settle(home)
        with indexed(home, tmp_path / "cache") as client:
            found = client.sessions.list("claude", limit=None)
        assert found == create_client(home=home).sessions.list("claude", limit=None)


def test_opening_a_session_reads_no_unrelated_file(home: Path, tmp_path: Path) -> None:
    with indexed(home, tmp_path / "cache") as client:
        ask(client)
    with indexed(home, tmp_path / "cache") as client, opened_below(home) as opened:
        session = client.sessions.get("claude", uuid_of(7))
        assert [Path(path).name for path in opened()] == [f"{uuid_of(7)}.jsonl"]
    assert session == create_client(home=home).sessions.get("claude", uuid_of(7))


def test_an_interrupted_update_continues_where_it_stopped(home: Path, tmp_path: Path) -> None:
    for number in range(2000, 2600):
        write_claude(home, number, cwd="/src/many", tokens=USED)
    settle(home)
    done: list[int] = []

    def stop_after_some(now: int, total: int, what: str) -> None:
        del total, what
        done.append(now)
        if len(done) == 400:
            raise KeyboardInterrupt

    with indexed(home, tmp_path / "cache") as client:
        client.watch(stop_after_some)
        with pytest.raises(KeyboardInterrupt):
            client.sessions.list("claude")
    with indexed(home, tmp_path / "cache") as client, opened_below(home) as opened:
        found = client.sessions.list("claude", limit=None)
        assert 0 < len(opened()) <= 600 + 30 - 399
    assert len(found) == 630


CAPTURES = Path(__file__).parent.parent / "captures"
SIX_AGENTS = (
    "claude/2.1.325", "codex/0.166.0", "gemini/0.61.0", "hermes/0.19.0", "droid/0.225.2",
    "opencode/1.18.33",
)  # fmt: skip


@pytest.fixture(scope="module")
def six_agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of six agents with an index that is up to date."""
    home = tmp_path_factory.mktemp("six") / "home"
    for capture in SIX_AGENTS:
        shutil.copytree(CAPTURES / capture / "home", home, symlinks=True, dirs_exist_ok=True)
    age(*(path for path in home.rglob("*") if not path.is_symlink()))
    for _ in range(2):
        with indexed(home, home.parent / "cache") as client:
            ask(client)
    return home


def first_of(home: Path, agent: str) -> tuple[str, str]:
    with indexed(home, home.parent / "cache") as client:
        session = client.sessions.list(agent)[0]
    return session.session_id, session.title


def work_of(home: Path, question: Callable[[Client], object]) -> Work:
    """Count the work of one question that an index answers."""
    with (
        indexed(home, home.parent / "cache") as client,
        counted_work(home) as work,
        suppress(AmuxError),
    ):
        question(client)
    return work


def show(client: Client, name: str) -> object:
    found = client.find(name)
    return [*client.stream_export(found.agent, found.native_session_id, "markdown")]


QUESTIONS: dict[str, Callable[[Client, str, str], object]] = {
    "list": lambda client, id, title: client.list_report(None, SessionListOptions()),
    "show": lambda client, id, title: show(client, id),
    "search": lambda client, id, title: client.sessions.search("the"),
    "cost": lambda client, id, title: client.sessions.total_cost(),
    "wrong id": lambda client, id, title: client.find("ffffffff-0000"),
    "title": lambda client, id, title: client.find(title),
    "show title": lambda client, id, title: show(client, title),
    "latest": lambda client, id, title: client.find_latest(),
}


class Most(NamedTuple):
    """Upper bounds of the work for a question."""

    listings: int
    readings: int
    stats: int
    files: int


@pytest.mark.parametrize(
    ("question", "agent", "most"),
    [
        ("list", "claude", Most(0, 0, 101, 30)),
        ("show", "claude", Most(1, 1, 45, 75)),
        ("search", "claude", Most(0, 42, 198, 130)),
        ("cost", "claude", Most(0, 0, 167, 40)),
        ("wrong id", "claude", Most(6, 0, 60, 70)),
        ("title", "claude", Most(6, 0, 60, 70)),
        ("show title", "claude", Most(7, 1, 85, 105)),
        ("latest", "claude", Most(6, 1, 160, 65)),
        ("show", "hermes", Most(1, 2, 40, 70)),
    ],
    ids=str,
)
def test_a_question_takes_no_more_work_than_it_did(
    six_agents: Path, question: str, agent: str, most: Most
) -> None:
    """The bounds were measured and are to shrink: a change that saves work lowers them."""
    id, title = first_of(six_agents, agent)
    work = work_of(six_agents, lambda client: QUESTIONS[question](client, id, title))
    done = Most(work.listings.total(), work.readings.total(), work.stats, len(work.files))
    assert all(one <= other for one, other in zip(done, most, strict=True)), done


def write_droid(home: Path, number: int, *, continues: int | None = None) -> Path:
    """A session of Droid with its settings; one that continues another inherits its total."""
    folder = home / ".factory" / "sessions" / "-src"
    start = {"type": "session_start", "id": uuid_of(number), "cwd": "/src"}
    lines: list[object] = [start if continues is None else start | {"parent": uuid_of(continues)}]
    if continues is not None:
        lines.append({"type": "compaction_state", "id": "c", "summaryText": "so far"})
    for role in ("user", "assistant"):
        said = {"role": role, "content": [{"type": "text", "text": f"{role} {number}"}]}
        at = "2026-01-02T03:04:05Z"
        lines.append({"type": "message", "id": role, "timestamp": at, "message": said})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid_of(number)}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    usage = {"inputTokens": 100 * number, "outputTokens": number}
    settings = path.with_name(f"{path.stem}.settings.json")
    settings.write_text(json.dumps({"model": "gpt-5", "tokenUsage": usage}))
    return settings


@pytest.fixture
def droids(tmp_path: Path) -> Path:
    """A home of 40 sessions of Droid, the last of which continues the 39th."""
    home = tmp_path / "home"
    for number in range(1, 40):
        write_droid(home, number)
    write_droid(home, 40, continues=39)
    settle(home)
    with indexed(home, tmp_path / "cache") as client:
        ask(client)
    return home


@pytest.mark.parametrize(("touched", "readings"), [(7, 1), (39, 2), (40, 1)])
def test_a_touched_session_of_droid_makes_at_most_two_sources_be_read(
    droids: Path, tmp_path: Path, touched: int, readings: int
) -> None:
    settings = write_droid(droids, touched, continues=39 if touched == 40 else None)
    settings.write_text(settings.read_text().replace("00,", "50,"))
    age(settings, settings.with_name(f"{uuid_of(touched)}.jsonl"))
    with indexed(droids, tmp_path / "cache") as client, counted_work(droids) as work:
        found = client.list_report(["droid"], SessionListOptions(limit=None))
    assert work.readings.total() == readings
    assert work.stats <= 4 * 40
    with create_client(home=droids, env={"AMUX_INDEX": "off"}) as client:
        assert client.list_report(["droid"], SessionListOptions(limit=None)) == found


def test_a_changed_predecessor_changes_the_session_that_continues_it(
    droids: Path, tmp_path: Path
) -> None:
    def spent() -> int:
        with indexed(droids, tmp_path / "cache") as client:
            return client.sessions.total_cost().input_tokens

    before = spent()
    settings = write_droid(droids, 39)
    settings.write_text(settings.read_text().replace("3900", "3800"))
    age(settings, settings.with_name(f"{uuid_of(39)}.jsonl"))
    assert spent() == before, "100 less in one session, 100 more in the other"


def test_a_folder_that_several_sources_name_is_walked_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(CAPTURES / "opencode" / "1.1.65" / "home", home)
    settle(home)
    with indexed(home, tmp_path / "cache") as client:
        ask(client)
    write_claude(home, 1)
    settle(home)
    count = sum(path.is_file() for path in home.rglob("*"))
    [one, *_] = (home / ".local/share/opencode/storage/session").glob("*/*.json")
    os.utime(one, (0, 0))
    with indexed(home, tmp_path / "cache") as client, counted_work(home) as work:
        client.list_report(["opencode"], SessionListOptions(limit=None))
    assert work.stats <= 3 * count
