"""No part assumes a local path: everything works on a backend behind a connection."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest
from clocks import Clock
from fixture_sessions import BUILDERS
from remote_log import RemoteLog, open_remote
from test_invariants import INVARIANTS, Case

import amux
from amux import SessionFramework, SessionSource, SessionStore, StoreError, ThreadLog
from amux.store.resume_counts import read_resume_counts
from amux.testing import BackendSuite


class TestRemote(BackendSuite):
    """The rules of the protocol hold over a connection."""

    is_durable: ClassVar[bool] = False

    def open_log(self, place: Path) -> ThreadLog:
        return open_remote()


@pytest.fixture
def remote(clock: Clock) -> Iterator[SessionFramework]:
    """Return a framework whose threads another process keeps."""
    with amux.framework(open_remote(), now=clock) as sm:
        yield sm


@pytest.mark.parametrize("name", BUILDERS)
def test_every_invariant_holds_for_a_remote_session(
    remote: SessionFramework, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    case = Case(remote, BUILDERS[name](remote, folder), folder)
    assert [text for text, holds in INVARIANTS.items() if not holds(case)] == []


def test_chats_work_remotely(remote: SessionFramework, clock: Clock) -> None:
    clock.time = datetime.now(UTC)  # the other process has no other clock
    source = SessionSource(platform="telegram", chat_id="7", user_id="8")
    thread = remote.router.route(source)
    thread.message("user", "a needle")
    clock.advance(days=2)
    assert remote.router.route(source).thread_id == thread.thread_id
    assert remote.router.route(source).conversation() == []
    assert [hit.thread_id for hit in remote.store.search("needle")] == [thread.thread_id]


def test_a_remote_session_has_no_path(remote: SessionFramework) -> None:
    session = remote.start_session(cwd="")
    with pytest.raises(StoreError, match="is not in a file"):
        _ = session.path
    assert not hasattr(remote.store.log, "path_of")


def test_a_remote_session_can_be_packed_and_unpacked(
    remote: SessionFramework, tmp_path: Path
) -> None:
    session = remote.start_session(cwd="")
    session.state.todos = [{"text": "x"}]
    remote.end(session)
    packed = remote.store.pack(session.thread_id, tmp_path / "p")
    local = SessionStore("memory:")
    local.unpack(packed)
    assert amux.framework(local).resume(session.thread_id).state.todos == [{"text": "x"}]
    with amux.framework(open_remote()) as other:
        other.store.unpack(packed)
        assert other.resume(session.thread_id).state.todos == [{"text": "x"}]


def test_a_resume_asks_the_remote_side_a_few_times(remote: SessionFramework) -> None:
    session = remote.start_session(cwd="")
    for number in range(50):
        session.message("user", f"question {number}")
    remote.checkpoint(session)
    log = remote.store.log
    assert isinstance(log, RemoteLog)
    log.calls.clear()
    remote.resume(session.thread_id)
    assert len(log.calls) <= 12
    assert read_resume_counts(remote.store.log).complete == 1
