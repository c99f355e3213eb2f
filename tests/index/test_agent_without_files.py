"""An agent without files: its adapter reports the locations and the changes of its sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import msgspec
import pytest
from builders import NOW, PRICES, START
from following import ScriptedClock, texts

from amux import create_client
from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Command,
    Head,
    Item,
    SourceRef,
    Want,
)
from amux.adapters.kit import Fold
from amux.client import Client
from amux.config import Config
from amux.host import Clock, Host
from amux.index.pool import work_through
from amux.model.message import Role, SessionMessage
from amux.model.options import SessionListOptions
from amux.model.usage import Call, Tokens

ROOT = "postgresql://host/chat"


class Threads:
    """A table of threads, each with a version; the adapter that reads it counts its readings."""

    info = AgentInfo(
        name="threads",
        label="Threads",
        cli_command="threads",
        capabilities=Capabilities(session_persistence="in-memory"),
        tier="plugin",
        indexable=True,
    )

    def __init__(self, *, tells_all: bool = True) -> None:
        self.readings: list[str] = []
        self.asked: list[str] = []
        self._rows: dict[str, list[SessionMessage]] = {}
        self.versions: dict[str, int] = {}
        self.tells_all = tells_all

    def say(self, thread: str, role: Role, text: str) -> None:
        said = self._rows.setdefault(thread, [])
        at = START + timedelta(minutes=len(self._rows), seconds=len(said))
        said.append(SessionMessage(role=role, content=text, timestamp=at, id=f"m{len(said)}"))
        self.versions[thread] = self.versions.get(thread, 0) + 1

    def delete(self, thread: str) -> None:
        del self._rows[thread], self.versions[thread]

    def roots(self, host: Host) -> Sequence[Path]:
        del host
        return [Path(ROOT)]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        del cwd
        for thread in self._rows:
            path = f"{ROOT}#{thread}"
            yield SourceRef(agent="threads", path=path, root=root, session_id=thread)

    def fingerprint(self, source: SourceRef | Path) -> bytes:
        if isinstance(source, Path):
            self.asked.append("*")
            return repr(self.versions).encode() if self.tells_all else b""
        assert source.session_id is not None
        self.asked.append(source.session_id)
        return b"%d" % self.versions[source.session_id]

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        del only, until
        assert source.location.startswith(f"{ROOT}#")
        thread, fold = source.session_id or "", Fold()
        self.readings.append(thread)
        yield Head(session_id=thread)
        for message in self._rows.get(thread, ()):
            fold.message(message)
            if want == "all":
                yield message
            if message.role == "assistant":
                key = f"{thread}:{message.id}"
                tokens = Tokens(input=100, output=len(message.content))
                call = Call(key=key, tokens=tokens, at=message.timestamp, model="m-small")
                fold.call(call)
                yield call
        yield fold.facts(thread)

    def command(self, action: Literal["new", "resume", "fork"], **more: Any) -> Command | None:
        del action, more
        return None


@pytest.fixture
def threads() -> Threads:
    threads = Threads()
    for number in range(1, 4):
        threads.say(f"t{number}", "user", f"what is {number}?")
        threads.say(f"t{number}", "assistant", f"the number {number}")
    return threads


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def open_client(home: Path, threads: Threads, *, index: bool = True, **more: Any) -> Client:
    env = {"AMUX_CACHE_DIR": str(home.parent / "cache")} if index else {"AMUX_INDEX": "off"}
    client = create_client(home=home, env=env, now=NOW, config=Config(prices=PRICES), **more)
    client.adapters.register(threads)
    return client


def ask(client: Client) -> list[object]:
    return [
        client.list_report(None, SessionListOptions(limit=None)),
        client.list_report(["threads"], SessionListOptions(limit=None)),
        client.sessions.total_cost(agent="threads"),
        client.sessions.total_cost(group_by="model"),
        client.cost_blocks(),
        client.sessions.search("number"),
        client.sessions.search("2"),
        client.overview(),
        [client.sessions.get("threads", s.session_id) for s in client.sessions.list("threads")],
    ]


def answers(home: Path, threads: Threads, *, index: bool) -> list[object]:
    with open_client(home, threads, index=index) as client:
        return ask(client)


def test_answers_are_equal_with_and_without_the_index(home: Path, threads: Threads) -> None:
    for change in (
        lambda: None,
        lambda: threads.say("t2", "user", "and a number more?"),
        lambda: threads.say("t9", "user", "a new one"),
        lambda: threads.delete("t1"),
    ):
        change()
        directly = answers(home, threads, index=False)
        assert answers(home, threads, index=True) == directly
        assert answers(home, threads, index=True) == directly
    with open_client(home, threads) as client:
        assert {s.session_id for s in client.sessions.list("threads")} == {"t2", "t3", "t9"}


def test_a_location_is_shown_as_it_is(home: Path, threads: Threads) -> None:
    with open_client(home, threads) as client:
        assert client.sessions.get("threads", "t1").raw["sources"] == [f"{ROOT}#t1"]
        [report] = client.doctor("threads")
        assert {file.path: file.status for file in report.files} == {
            f"{ROOT}#t{number}": "session" for number in (1, 2, 3)
        }
        assert report.problems == ()
        assert client.find_latest(agent="threads").native_session_id == "t3"


@pytest.mark.parametrize("tells_all", [True, False])
def test_a_thread_is_read_again_when_its_fingerprint_changes(
    home: Path, threads: Threads, tells_all: bool
) -> None:
    threads.tells_all = tells_all

    def listed() -> list[str]:
        threads.readings.clear()
        threads.asked.clear()
        with open_client(home, threads) as client:
            client.list_report(["threads"], SessionListOptions(limit=None))
            client.sessions.total_cost(agent="threads")
        return sorted(threads.readings)

    assert listed() == ["t1", "t2", "t3"]
    assert listed() == []
    assert set(threads.asked) == ({"*"} if tells_all else {"*", "t1", "t2", "t3"})
    threads.say("t2", "user", "more")
    assert listed() == ["t2"]
    assert listed() == []


def test_texts_are_read_once_and_again_when_they_change(home: Path, threads: Threads) -> None:
    def found(word: str) -> list[str]:
        threads.readings.clear()
        with open_client(home, threads) as client:
            return [session.session_id for session in client.sessions.search(word)]

    assert found("zebra") == []
    assert found("zebra") == []
    assert threads.readings == []
    threads.say("t2", "assistant", "a zebra")
    assert found("zebra") == ["t2"]
    assert set(threads.readings) == {"t2"}


def test_another_adapter_of_the_name_finds_nothing_of_the_first(
    home: Path, threads: Threads
) -> None:
    class Others(Threads):
        pass

    first = answers(home, threads, index=True)
    others = Others()
    others.say("t1", "user", "something else")
    others.say("t1", "assistant", "quite")
    others.versions["t1"] = threads.versions["t1"]
    assert answers(home, others, index=True) == answers(home, others, index=False) != first


def test_a_process_without_the_adapter_does_not_see_its_sessions(
    home: Path, threads: Threads
) -> None:
    answers(home, threads, index=True)
    with create_client(home=home, env={"AMUX_CACHE_DIR": str(home.parent / "cache")}) as client:
        quick = client.fast_list(None, limit=20)
        assert quick is None or quick.sessions == ()
        assert client.list_report(None, SessionListOptions()).sessions == ()


class _Forbidden:
    """Fails when a location that is no path is touched."""

    def __enter__(self) -> None:
        self._stack = ExitStack()
        for name in ("stat", "lstat", "scandir", "open", "listdir"):
            self._stack.enter_context(patch.object(os, name, self._checked(getattr(os, name))))
        self._stack.enter_context(patch("builtins.open", self._checked(open)))

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @staticmethod
    def _checked(function: Any) -> Any:
        def checked(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            assert isinstance(path, int) or "postgresql" not in os.fsdecode(path), path
            return function(path, *arguments, **named)

        return checked


@pytest.mark.parametrize("index", [True, False])
def test_no_location_is_touched(home: Path, threads: Threads, index: bool) -> None:
    for change in (lambda: None, lambda: threads.say("t2", "user", "more")):
        change()
        with _Forbidden(), open_client(home, threads, index=index) as client:
            ask(client)
            client.doctor("threads")
            client.find_latest(agent="threads")
            client.agents()
            with pytest.raises(Exception, match="no session"):
                client.sessions.get("threads", "t77")
            if index:
                client.index.update()
                client.index.status()
                assert client.index.check(sample=None).mismatches == ()


def test_no_process_is_forked_to_read_threads(home: Path, threads: Threads) -> None:
    seen: list[int] = []

    def counted(tasks: Any, work: Any, *, workers: int = 1, **more: Any) -> Any:
        seen.append(workers)
        return work_through(tasks, work, workers=workers, **more)

    with (
        patch("amux.index.facts.sources.work_through", counted),
        patch("amux.index.text.update.work_through", counted),
        patch("amux.index.pool._FORK_BYTES", -1),
        patch("amux.index.text.update._BULK", -1),
        open_client(home, threads) as client,
    ):
        client.sessions.search("number")
    assert set(seen) == {1}


def follow(home: Path, threads: Threads, *deeds: Any, **more: Any) -> list[Any]:
    clock: Clock = ScriptedClock(deeds)
    client = Client(Host(home, now=lambda: NOW, clock=clock), config=Config(prices=PRICES))
    client.adapters.register(threads)
    with client.follow("threads", "t1", **more) as changes:
        return list(changes)


def test_a_thread_is_followed(home: Path, threads: Threads) -> None:
    with _Forbidden():
        changes = follow(
            home,
            threads,
            (3, lambda: threads.say("t1", "user", "and then?")),
            (9, lambda: threads.say("t1", "assistant", "nothing")),
            (15, lambda: threads.delete("t1")),
        )
    assert texts(changes) == ["and then?", "nothing"]
    assert changes[-1].kind == "ended"


def test_a_quiet_thread_is_not_read(home: Path, threads: Threads) -> None:
    follow(home, threads, (1, lambda: None))
    begin = len(threads.readings)
    threads.readings.clear()
    follow(home, threads, (60, lambda: None))
    assert len(threads.readings) == begin


def test_a_thread_whose_state_is_unknown_is_read_at_every_look(
    home: Path, threads: Threads
) -> None:
    with patch.object(threads, "fingerprint", return_value=b""):
        changes = follow(home, threads, (3, lambda: threads.say("t1", "user", "and then?")))
        assert texts(changes) == ["and then?"]
        assert answers(home, threads, index=True) == answers(home, threads, index=False)
        threads.say("t1", "user", "more")
        assert answers(home, threads, index=True) == answers(home, threads, index=False)


def test_an_adapter_that_does_not_say_so_is_not_indexed(home: Path, threads: Threads) -> None:
    threads.info = msgspec.structs.replace(threads.info, indexable=False)
    for _ in range(2):
        threads.readings.clear()
        with open_client(home, threads) as client:
            client.list_report(["threads"], SessionListOptions(limit=None))
        assert sorted(threads.readings) == ["t1", "t2", "t3"]


def test_every_built_in_adapter_is_indexable(home: Path) -> None:
    with create_client(home=home) as client:
        assert all(info.indexable for info in client.adapters.list())
