"""Agents and their managers die at any moment: no ghost, no orphan, no lost state."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from threading import Condition, Event, Thread

import pytest
from child_processes import child_env
from managed_home import ManagedHome, wait_until

from amux.errors import AmuxError, ErrorCode, TurnInProgressError, ValidationError
from amux.host import Clock, Host
from amux.managed.database import Activity
from amux.managed.processes import process_identity
from amux.managed.state import SessionStatus

AGENTS = ("claude", "droid", "opencode")
SEED = 16

MANAGER = """
import sys
from pathlib import Path
from amux.client import Client
from amux.config import Config
from amux.errors import AmuxError
from amux.host import Host
home, path, agent, prompt, cwd = sys.argv[1:]
host = Host(Path(home), env={"HOME": home, "PATH": path})
settings = {"session_management": {"agents": {"opencode": {"server_mode": False}}}}
client = Client(host, config=Config.load(host, overrides=settings), keeps_index=False)
try:
    client.managed.create_session(agent, prompt, cwd=cwd)
except AmuxError as error:
    sys.exit(error.exit_code)
"""


def manager(home: ManagedHome, agent: str, prompt: str) -> subprocess.Popen[bytes]:
    """A process that manages one session."""
    words = [sys.executable, "-c", MANAGER, str(home.home), str(home.bin), agent, prompt]
    env = child_env(HOME=str(home.home))
    return subprocess.Popen([*words, str(home.project)], env=env, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_killed_agent_leaves_its_partial_answer_and_choices(
    managed_home: ManagedHome, agent: str
) -> None:
    managed_home.configure(opencode={"server_mode": False})
    managed = managed_home.managed
    with pytest.raises(AmuxError) as caught:
        managed.create_session(agent, "DIE CHILD", cwd=str(managed_home.project))
    assert (caught.value.code, caught.value.exit_code) == (ErrorCode.AGENT_CRASH, 12)
    assert managed_home.living() == []
    (offer,) = managed_home.managed.recover()
    assert offer.choices == ("resume", "new", "export", "discard")
    assert offer.partial is not None
    assert offer.partial.strip() == "Half an answer"
    assert offer.session.status is SessionStatus.CRASHED
    export = managed.recover_session(offer.session.id, "export").export
    assert export is not None
    assert "DIE CHILD" in export
    assert "Half an answer" in export
    report = managed.recover_session(offer.session.id, "resume", "again")
    assert report.session is not None
    assert (report.session.text, report.session.is_new) == ("Answer to: again", False)
    assert managed.recover() == []
    with pytest.raises(ValidationError, match="cannot be recovered"):
        managed.recover_session(offer.session.id, "discard")


@pytest.mark.parametrize("way", ["new", "discard"])
def test_a_crashed_session_can_begin_anew_or_be_discarded(
    managed_home: ManagedHome, way: str
) -> None:
    managed = managed_home.managed
    with pytest.raises(AmuxError):
        managed.create_session("droid", "DIE", cwd=str(managed_home.project))
    (offer,) = managed.recover()
    before = managed_home.native_files()
    if way == "discard":
        assert managed.recover_session(offer.session.id, "discard").session is None
        assert managed.list_sessions() == []
        assert managed_home.native_files() == before
    else:
        report = managed.recover_session(offer.session.id, "new", "again")
        assert report.session is not None
        assert report.session.is_new
        assert report.session.agent_session_id != offer.session.agent_session_id


@pytest.mark.parametrize("agent", AGENTS)
def test_a_hanging_agent_is_stopped_after_the_timeout(
    managed_home: ManagedHome, agent: str
) -> None:
    for name in AGENTS:
        managed_home.configure(**{name: {"timeout": 1.0}})
    managed_home.configure(opencode={"timeout": 1.0, "server_mode": False})
    begun = time.monotonic()
    with pytest.raises(AmuxError) as caught:
        managed_home.managed.create_session(agent, "HANG CHILD", cwd=str(managed_home.project))
    assert (caught.value.code, caught.value.exit_code) == (ErrorCode.INACTIVITY_TIMEOUT, 11)
    assert time.monotonic() - begun < 20
    assert managed_home.living() == []


def test_eight_sessions_with_random_kills_are_all_recoverable(managed_home: ManagedHome) -> None:
    managed_home.configure(opencode={"server_mode": False})
    chance = random.Random(SEED)
    agents = [AGENTS[number % len(AGENTS)] for number in range(8)]
    managers = [manager(managed_home, agent, "HANG CHILD") for agent in agents]
    managed = managed_home.managed

    def all_active() -> bool:
        found = managed.list_sessions()
        named = [each for each in found if each.status is SessionStatus.ACTIVE]
        is_known = all(each.agent_session_id for each in named)
        return is_known and len(named) == 8 == len(managed_home.prompts())

    try:
        wait_until(all_active)
        assert managed.recover() == []  # they work
        by_session = {call["session"]: call["pid"] for call in managed_home.calls()}
        for process, info in zip(managers, managed.list_sessions()[::-1], strict=True):
            if chance.random() < 0.5:  # some managers survive their agents, some agents theirs
                os.kill(by_session[info.id], signal.SIGKILL)
            else:
                process.kill()
        wait_until(lambda: any(process.poll() == 12 for process in managers))
    finally:
        for process in managers:
            process.kill()
            process.wait()
    offers = managed_home.managed.recover()
    assert len(offers) == 8
    assert managed_home.living() == []
    states = [managed.get(offer.session.id) for offer in offers]
    assert {state.status for state in states} == {SessionStatus.CRASHED}
    assert sorted(state.agent_type for state in states) == sorted(agents)
    assert {state.prompt_history for state in states} == {("HANG CHILD",)}
    for offer in offers:
        report = managed.recover_session(offer.session.id, "resume", "again")
        assert report.session is not None
        assert report.session.text == "Answer to: again"
        assert report.session.agent_session_id == offer.session.agent_session_id
    assert managed.recover() == []


def test_a_manager_that_dies_before_the_agent_starts_leaves_no_ghost(
    managed_home: ManagedHome,
) -> None:
    managed = managed_home.managed
    info = managed.create_session("droid", cwd=str(managed_home.project))
    managed.store.update(info.id, lambda s: s.replace(prompt_history=("never sent",)))
    (offer,) = managed_home.managed.recover()
    assert offer.session.status is SessionStatus.CRASHED
    assert "before the agent was started" in offer.reason
    report = managed.recover_session(info.id, "new", "never sent")
    assert report.session is not None
    assert report.session.text == "Answer to: never sent"


class SteppedClock(Clock):
    """A clock whose waits end only when a test lets the time pass."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.waiting: list[float] = []
        self._changed = Condition()

    def elapsed(self) -> float:
        return self.now.timestamp()

    def wait(self, event: Event, seconds: float) -> None:
        with self._changed:
            due = self.now + timedelta(seconds=seconds)
            self.waiting.append(seconds)
            self._changed.wait_for(lambda: self.now >= due or event.is_set(), timeout=30)

    def pass_time(self, seconds: float) -> None:
        with self._changed:
            self.now += timedelta(seconds=seconds)
            self._changed.notify_all()


@pytest.mark.parametrize(("agent", "interval"), [("droid", 60.0), ("opencode", 30.0)])
def test_active_sessions_are_saved_in_intervals(
    managed_home: ManagedHome, agent: str, interval: float
) -> None:
    managed_home.configure(opencode={"server_mode": False})
    clock = SteppedClock()
    host = Host(managed_home.home, env=managed_home.env, now=lambda: clock.now, clock=clock)
    managed = managed_home.client(host).managed

    def work() -> None:
        with pytest.raises(AmuxError):
            managed.create_session(agent, "HANG", cwd=str(managed_home.project))

    worker = Thread(target=work)
    worker.start()
    wait_until(lambda: clock.waiting and managed_home.calls())
    (info,) = managed.list_sessions()
    wait_until(lambda: managed.get(info.id).agent_session_id)
    assert clock.waiting == [interval]
    for number in (1, 2):
        clock.pass_time(interval)
        waits = number + 1
        wait_until(lambda: len(clock.waiting) == waits)  # noqa: B023 - called at once
        saved = managed_home.managed.get(info.id)
        assert saved.updated_at == clock.now
        held = managed.store.activity(info.id)
        assert held is not None
        assert held.heartbeat_at == clock.now
    managed.terminate(info.id)
    worker.join(30)
    clock.pass_time(interval)
    assert not worker.is_alive()
    assert (managed_home.base / agent / f"{info.id}.json").exists()


def test_a_session_that_began_without_a_disk_gets_its_lease_when_the_disk_returns(
    managed_home: ManagedHome,
) -> None:
    managed_home.base.parent.mkdir(parents=True)
    managed_home.base.write_text("a file where the directory should be")
    clock = SteppedClock()
    host = Host(managed_home.home, env=managed_home.env, now=lambda: clock.now, clock=clock)
    managed = managed_home.client(host).managed

    def work() -> None:
        with pytest.raises(AmuxError):
            managed.create_session("droid", "HANG", cwd=str(managed_home.project))

    worker = Thread(target=work)
    worker.start()
    wait_until(lambda: clock.waiting and managed_home.prompts())
    managed_home.base.unlink()
    clock.pass_time(60)
    wait_until(lambda: len(clock.waiting) == 2)
    (info,) = managed_home.managed.list_sessions()
    assert managed_home.managed.recover() == []  # the agent works
    for client in (managed, managed_home.managed):
        with pytest.raises(TurnInProgressError):
            client.resume_session(info.id, "me too", strategy="always_new")
    managed.terminate(info.id)
    worker.join(30)
    clock.pass_time(60)
    assert not worker.is_alive()
    assert managed.resume_session(info.id, "again", strategy="always_new").text is not None


def test_a_process_on_another_machine_is_judged_by_its_heartbeats(
    managed_home: ManagedHome,
) -> None:
    clock = SteppedClock()
    host = Host(managed_home.home, env=managed_home.env, now=lambda: clock.now, clock=clock)
    managed = managed_home.client(host).managed
    info = managed.create_session("droid")
    managed.save_session_state(info.id, {"status": "active"})
    far_away = Activity(
        session_id=info.id,
        token="t",
        host="elsewhere",
        pid=1,
        process="1@1",
        heartbeat_at=clock.now,
    )
    assert managed.store.claim(far_away, lambda _: False) is None
    clock.pass_time(179)
    assert managed.recover() == []
    clock.pass_time(2)
    (offer,) = managed.recover()
    assert "elsewhere" in offer.reason


def test_a_process_id_that_is_used_again_is_not_the_same_process() -> None:
    assert process_identity(os.getpid()) == process_identity(os.getpid()) != ""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert process_identity(ended.pid) == ""
    assert process_identity(os.getpid()) != process_identity(os.getppid())
