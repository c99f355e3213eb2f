"""The contract of ADK's session services: ours on every backend, beside the three that ADK ships.

A test that takes `service` runs for all of them. Where a shipped one differs, `DIFFERS` says how,
and the test expects just that: so the tests are checked by services that we did not write.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from child_processes import child_env
from counted_bytes import counted_bytes
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from amux import create_client
from amux.integrations._common import new_meta
from amux.integrations.adk import NAMESPACE, AmuxSessionService
from amux.integrations.adk_state import EMPTY, as_register
from amux.rollout.records import NewRecord, PayloadText
from amux.store.session_store import SessionStore

OURS = ("files", "memory", "postgres")
SHIPPED = ("InMemory", "Database", "Sqlite")

OpenStore = Callable[[], SessionStore]

DIFFERS: dict[tuple[str, str], str] = {
    ("superseded", "InMemory"): "accepted",
    ("clock steps back", "Database"): "reordered",
    ("clock steps back", "Sqlite"): "reordered",
    ("one timestamp", "Database"): "by id",
    ("appended again", "Database"): "IntegrityError",
    ("appended again", "Sqlite"): "IntegrityError",
    ("appended changed", "Database"): "IntegrityError",
    ("appended changed", "Sqlite"): "IntegrityError",
    ("padded id", "Database"): "kept",
    ("blank id", "Database"): "kept",
}
"""Where a shipped service differs from the contract that ours has to keep, and how."""

App: dict[str, Any] = {"app_name": "app", "user_id": "ada"}


class Case:
    """A service with its name, and how it differs from ours."""

    def __init__(self, name: str, service: BaseSessionService) -> None:
        self.name = name
        self.service = service

    def differs(self, case: str) -> str:
        return DIFFERS.get((case, self.name), "")

    async def create(self, session_id: str = "s", **state: Any) -> Session:
        return await self.service.create_session(**App, session_id=session_id, state=state or None)

    async def get(self, session_id: str = "s", **config: Any) -> Session:
        found = await self.service.get_session(
            **App, session_id=session_id, config=GetSessionConfig(**config) if config else None
        )
        assert found is not None
        return found


@pytest.fixture(params=[*OURS, *SHIPPED])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    """Return an empty service, ours on each backend and those that ADK ships."""
    name: str = request.param
    with ExitStack() as stack:
        service: BaseSessionService
        if name == "InMemory":
            service = InMemorySessionService()
        elif name == "Database":
            service = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path}/database.db")
        elif name == "Sqlite":
            service = SqliteSessionService(str(tmp_path / "sqlite.db"))
        else:
            fixtures = {"files": "store_folder", "postgres": "store_url"}
            address = request.getfixturevalue(fixtures[name]) if name in fixtures else "memory:"
            opened = SessionStore(address)
            stack.callback(opened.close)
            service = AmuxSessionService(opened)
        yield Case(name, service)


@pytest.fixture(params=OURS)
def ours(request: pytest.FixtureRequest) -> Iterator[AmuxSessionService]:
    """Return an empty service of ours on each backend."""
    fixtures = {"files": "store_folder", "postgres": "store_url"}
    name: str = request.param
    address = request.getfixturevalue(fixtures[name]) if name in fixtures else "memory:"
    with SessionStore(address) as opened:
        yield AmuxSessionService(opened)


def run(case: Case, work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with closing(case.service):
            return await work()

    return asyncio.run(main())


@asynccontextmanager
async def closing(service: BaseSessionService) -> AsyncIterator[None]:
    try:
        yield
    finally:
        if isinstance(service, DatabaseSessionService):
            await service.close()


def said(text: str, *, at: float | None = None, event_id: str = "", **delta: Any) -> Event:
    fields: dict[str, Any] = {} if at is None else {"timestamp": at}
    return Event(
        id=event_id,
        author="user",
        invocation_id="i",
        content=types.Content(role="user", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=delta.get("delta", {})),
        **fields,
    )


def texts(session: Session) -> list[str]:
    return [
        "".join(part.text or "" for part in (event.content.parts if event.content else None) or ())
        for event in session.events
    ]


# the first table: the methods


def test_an_id_is_stripped_a_blank_one_is_replaced_and_a_known_one_refused(case: Case) -> None:
    async def work() -> None:
        padded = await case.create("k\n")
        assert padded.id == ("k\n" if case.differs("padded id") else "k")
        assert (await case.get("k\n")).id == padded.id
        with pytest.raises(AlreadyExistsError):
            await case.create("k\n")
        if not case.differs("padded id"):
            with pytest.raises(AlreadyExistsError):
                await case.create("k")
        blank = await case.create("  ")
        assert len(blank.id.strip()) == (0 if case.differs("blank id") else 36)
        new = await case.service.create_session(**App)
        assert len(new.id) == 36

    run(case, work)


def test_each_prefix_of_a_key_has_its_scope_and_temporary_keys_are_dropped(case: Case) -> None:
    async def work() -> None:
        state = {"app:a": 1, "user:u": 2, "temp:t": 3, "s": 4}
        first = await case.create("one", **state)
        assert first.state == {"app:a": 1, "user:u": 2, "s": 4}
        second = await case.create("two")
        assert second.state == {"app:a": 1, "user:u": 2}
        other = await case.service.create_session(app_name="app", user_id="bob")
        assert other.state == {"app:a": 1}
        elsewhere = await case.service.create_session(app_name="app2", user_id="ada")
        assert elsewhere.state == {}
        assert await case.service.get_user_state(**App) == {"u": 2}
        assert await case.service.get_user_state(app_name="app", user_id="bob") == {}

    run(case, work)


def test_a_session_has_its_latest_events_or_those_since_a_time(case: Case) -> None:
    async def work() -> None:
        session = await case.create()
        for number in range(5):
            await case.service.append_event(session, said(f"{number}", at=100.0 + number))
        assert texts(await case.get()) == ["0", "1", "2", "3", "4"]
        assert texts(await case.get(num_recent_events=2)) == ["3", "4"]
        assert texts(await case.get(num_recent_events=0)) == []
        assert texts(await case.get(num_recent_events=50)) == ["0", "1", "2", "3", "4"]
        assert texts(await case.get(after_timestamp=102.0)) == ["2", "3", "4"]
        assert texts(await case.get(after_timestamp=103.0, num_recent_events=3)) == ["3", "4"]
        assert await case.service.get_session(**App, session_id="unknown") is None

    run(case, work)


def test_a_list_has_no_events_merged_states_and_the_oldest_update_first(case: Case) -> None:
    async def work() -> None:
        for user, name, at in (
            ("bob", "x", 300.0), ("ada", "b", 200.0), ("ada", "a", 200.0), ("ada", "c", 100.0),
        ):  # fmt: skip
            session = await case.service.create_session(
                app_name="app", user_id=user, session_id=name, state={"user:who": user}
            )
            if case.name == "Sqlite":  # it refuses events from before the creation
                session.last_update_time = 2.0**40
            await case.service.append_event(session, said("hi", at=at, delta={"n": name}))
        everyone = (await case.service.list_sessions(app_name="app")).sessions
        assert [(each.user_id, each.id) for each in everyone] == [
            ("ada", "c"), ("ada", "a"), ("ada", "b"), ("bob", "x"),
        ]  # fmt: skip
        assert [each.state for each in everyone] == [
            {"n": each.id, "user:who": each.user_id} for each in everyone
        ]
        assert [each.last_update_time for each in everyone] == [100.0, 200.0, 200.0, 300.0]
        assert not any(each.events for each in everyone)
        mine = (await case.service.list_sessions(**App)).sessions
        assert [each.id for each in mine] == ["c", "a", "b"]
        assert (await case.service.list_sessions(app_name="none")).sessions == []

    run(case, work)


def test_a_deleted_session_leaves_the_states_of_user_and_app(case: Case) -> None:
    async def work() -> None:
        session = await case.create("s", **{"app:a": 1, "user:u": 2, "s": 3})
        await case.service.delete_session(**App, session_id="s")
        await case.service.delete_session(**App, session_id="s")
        assert await case.service.get_session(**App, session_id="s") is None
        with pytest.raises(SessionNotFoundError):
            await case.service.append_event(session, said("too late"))
        again = await case.create("s")
        assert again.state == {"app:a": 1, "user:u": 2}
        assert (await case.get()).events == []

    run(case, work)


def test_an_event_changes_three_scopes_and_the_live_object_but_temporary_keys_are_not_stored(
    case: Case,
) -> None:
    async def work() -> None:
        session = await case.create()
        delta = {"app:a": 1, "user:u": 2, "temp:t": 3, "s": 4}
        event = said("hi", delta=delta)
        assert await case.service.append_event(session, event) is event
        assert session.state == delta
        assert session.events == [event]
        assert "temp:t" not in event.actions.state_delta
        loaded = await case.get()
        assert loaded.state == {"app:a": 1, "user:u": 2, "s": 4}
        assert loaded.events == [event]
        assert await case.service.get_user_state(**App) == {"u": 2}

    run(case, work)


def test_a_partial_event_is_returned_untouched(case: Case) -> None:
    async def work() -> None:
        session = await case.create()
        event = said("hal", delta={"temp:t": 1, "s": 2})
        event.partial = True
        assert await case.service.append_event(session, event) is event
        assert event.actions.state_delta == {"temp:t": 1, "s": 2}
        assert (session.state, session.events) == ({}, [])
        assert (await case.get()).events == []

    run(case, work)


def test_a_delta_replaces_values_and_keeps_them_exact(case: Case) -> None:
    async def work() -> None:
        nested = {"a": {"deep": [1, None]}, "flag": True, "f": 0.1 + 0.2, "big": 2**70}
        session = await case.create("s", **nested)
        await case.service.append_event(session, said("1", delta={"a": {"other": 1}, "n": None}))
        expected = {**nested, "a": {"other": 1}, "n": None}
        assert (await case.get()).state == expected
        assert (await case.get()).state["flag"] is True
        scoped: dict[str, Any] = {
            "app:f": 0.1 + 0.2,
            "user:big": 2**70,
            "user:n": None,
            "app:o": {"x": {}},
        }
        await case.service.append_event(session, said("2", delta=scoped))
        await case.service.append_event(session, said("3", delta={"app:o": {"y": False}}))
        assert (await case.get()).state == {**expected, **scoped, "app:o": {"y": False}}

    run(case, work)


def test_a_value_that_json_cannot_hold_becomes_a_text_with_a_warning(
    ours: AmuxSessionService, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        session = await case.create()
        with caplog.at_level(logging.WARNING):
            await ours.append_event(session, said("1", delta={"f": len, "user:f": len, "n": 1}))
        assert (await case.get()).state == {"f": repr(len), "user:f": repr(len), "n": 1}

    run(case, work)
    assert "JSON-serializable" in caplog.text


def test_the_time_of_a_session_is_that_of_its_last_event(case: Case) -> None:
    async def work() -> None:
        session = await case.create()
        assert session.last_update_time == pytest.approx(time.time(), abs=60)
        if case.name == "Sqlite":  # it refuses events from before the creation
            session.last_update_time = 2.0**40
        for at in (4_000_000_000.25, 1_000.5):
            await case.service.append_event(session, said("x", at=at))
            assert session.last_update_time == at
            assert (await case.get()).last_update_time == at
            if case.name == "Sqlite":
                session.last_update_time = 2.0**40

    run(case, work)


def test_ambiguous_and_very_precise_times_come_back_exact(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    at = [1_793_510_999.1234567, 1_793_514_599.1234567, 1_793_514_600.000001]  # 1:29:59 twice
    assert time.localtime(at[0])[:6] == time.localtime(at[1])[:6]

    async def work() -> None:
        session = await case.create()
        if case.name == "Sqlite":
            session.last_update_time = 2.0**40
        for number, moment in enumerate(at):
            await case.service.append_event(session, said(f"{number}", at=moment))
            if case.name == "Sqlite":
                session.last_update_time = 2.0**40
        loaded = await case.get()
        found = [event.timestamp for event in loaded.events]
        if case.name == "Database":  # a column of microseconds
            assert found == pytest.approx(at, abs=1e-6)
        else:
            assert found == at
            assert loaded.last_update_time == at[-1]
        assert texts(await case.get(after_timestamp=at[1])) == ["1", "2"]

    try:
        run(case, work)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_id_belongs_to_its_app_and_user(case: Case) -> None:
    async def work() -> None:
        owners = [("app", "ada"), ("app", "bob"), ("other", "ada"), ("app'; --", "../ü"), ("a", "")]
        for app, user in owners:
            session = await case.service.create_session(
                app_name=app, user_id=user, session_id="s", state={"of": f"{app}/{user}"}
            )
            await case.service.append_event(session, said(f"{app}/{user}"))
        for app, user in owners:
            found = await case.service.get_session(app_name=app, user_id=user, session_id="s")
            assert found is not None
            assert (texts(found), found.state["of"]) == ([f"{app}/{user}"], f"{app}/{user}")

    run(case, work)


def test_events_come_back_whole(case: Case) -> None:
    event = Event(
        author="agent",
        invocation_id="i",
        model_version="gemini-3",
        long_running_tool_ids={"b", "a"},
        branch="a.b",
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="hm", thought=True, thought_signature=b"\x00\xff"),
                types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="image/png")),
                types.Part(function_call=types.FunctionCall(id="1", name="f", args={"a": [None]})),
            ],
        ),
        actions=EventActions(
            rewind_before_invocation_id="i0",
            compaction=EventCompaction(
                start_timestamp=1.0,
                end_timestamp=2.0,
                compacted_content=types.Content(role="model", parts=[types.Part(text="sum")]),
            ),
        ),
    )

    async def work() -> None:
        session = await case.create()
        await case.service.append_event(session, event)
        assert (await case.get()).events == [event]

    run(case, work)


# the second table: where the shipped services disagree


def test_an_append_through_a_superseded_object_is_refused(case: Case) -> None:
    async def work() -> None:
        first = await case.create()
        second = await case.get()
        await case.service.append_event(first, said("1", at=5_000_000_000.0))
        if case.differs("superseded"):
            await case.service.append_event(second, said("2"))
            return
        with pytest.raises(StaleSessionError):
            await case.service.append_event(second, said("2", delta={"app:a": 1}))
        assert (second.events, "a" in second.state) == ([], False)
        loaded = await case.get()
        assert (texts(loaded), loaded.state) == (["1"], {})
        await case.service.append_event(loaded, said("3", at=5_000_000_001.0))
        assert texts(await case.get()) == ["1", "3"]

    run(case, work)


def test_the_order_is_that_of_the_appends_when_the_clock_steps_back(case: Case) -> None:
    async def work() -> None:
        session = await case.create()
        for number, at in enumerate((300.0, 200.0, 400.0, 100.0)):
            if case.name == "Sqlite":
                session.last_update_time = 2.0**40
            await case.service.append_event(session, said(f"{number}", at=at))
        expected = ["3", "1", "0", "2"] if case.differs("clock steps back") else list("0123")
        assert texts(await case.get()) == expected
        assert texts(await case.get(num_recent_events=2)) == expected[-2:]

    run(case, work)


def test_the_order_is_that_of_the_appends_when_times_are_equal(case: Case) -> None:
    async def work() -> None:
        session = await case.create()
        for name in ("b", "c", "a"):
            if case.name == "Sqlite":
                session.last_update_time = 2.0**40
            await case.service.append_event(session, said(name, at=300.0, event_id=name))
        expected = ["a", "b", "c"] if case.differs("one timestamp") else ["b", "c", "a"]
        assert texts(await case.get()) == expected

    run(case, work)


def test_an_event_that_is_appended_again_is_stored_once(case: Case) -> None:
    async def work() -> None:
        session = await case.create()
        event = said("1", at=5_000_000_000.0, event_id="e", delta={"n": 1, "user:n": 1})
        await case.service.append_event(session, event)
        if case.differs("appended again"):
            with pytest.raises(Exception, match=r"IntegrityError|UNIQUE"):
                await case.service.append_event(session, event)
            return
        later = said("2", at=5_000_000_001.0, delta={"n": 2, "user:n": 2})
        await case.service.append_event(session, later)
        for copy in (event, event.model_copy(deep=True)):
            assert await case.service.append_event(session, copy) == event
        loaded = await case.get()
        assert (texts(loaded), loaded.state) == (["1", "2"], {"n": 2, "user:n": 2})

    run(case, work)


def test_an_event_that_differs_from_the_one_with_its_id_is_stored_as_well(case: Case) -> None:
    async def work() -> None:
        session = await case.create()
        await case.service.append_event(session, said("1", at=5e9, event_id="e"))
        changed = said("changed", at=5e9 + 1, event_id="e")
        if case.differs("appended changed"):
            with pytest.raises(Exception, match=r"IntegrityError|UNIQUE"):
                await case.service.append_event(session, changed)
            return
        await case.service.append_event(session, changed)
        await case.service.append_event(session, changed)
        assert texts(await case.get()) == ["1", "changed"]

    run(case, work)


# what must hold of ours alone


def test_an_event_sent_again_through_an_old_object_is_no_conflict(ours: AmuxSessionService) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        await case.create()
        before, event = await case.get(), said("1")
        await ours.append_event(await case.get(), event)
        assert await ours.append_event(before, event) == event
        assert texts(await case.get()) == ["1"]

    run(case, work)


def test_a_title_that_amux_sets_makes_no_session_stale(ours: AmuxSessionService) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        session = await case.create("s", **{"user:u": 1})
        await ours.append_event(session, said("1"))
        thread_id = ours.store.log.find(NAMESPACE, ("app", "ada", "s"))
        assert thread_id is not None
        ours.store.thread(thread_id).set_title("About one")
        await ours.append_event(session, said("2"))
        assert texts(await case.get()) == ["1", "2"]

    run(case, work)


def test_an_object_without_a_marker_is_checked_by_its_last_event(ours: AmuxSessionService) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        await ours.append_event(await case.create(), said("1", at=5e9))
        sent = Session.model_validate_json((await case.get()).model_dump_json())
        old = sent.model_copy(deep=True)
        await ours.append_event(sent, said("2", at=4e9))
        await ours.append_event(sent, said("3", at=5e9 + 1))
        old.last_update_time = 5e9
        with pytest.raises(StaleSessionError):
            await ours.append_event(old, said("4"))

    run(case, work)


def test_calls_with_one_object_are_made_one_after_the_other(ours: AmuxSessionService) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        session = await case.create()
        events = [said(f"{number}") for number in range(20)]
        await asyncio.gather(*(ours.append_event(session, event) for event in events))
        assert (await case.get()).events == session.events
        assert len(session.events) == 20

    run(case, work)


def test_of_two_appends_from_one_loaded_session_exactly_one_succeeds(
    ours: AmuxSessionService,
) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        await case.create()
        for number in range(8):
            copies = [await case.get() for _ in range(2)]
            results = await asyncio.gather(
                *(ours.append_event(copy, said(f"{number}")) for copy in copies),
                return_exceptions=True,
            )
            assert sorted(type(each).__name__ for each in results) == ["Event", "StaleSessionError"]
        assert texts(await case.get()) == [f"{number}" for number in range(8)]

    run(case, work)


def test_the_states_are_the_fold_of_thousands_of_changes(ours: AmuxSessionService) -> None:
    case = Case("ours", ours)
    expected: dict[str, Any] = {}

    async def work() -> None:
        sessions = [await case.create(f"{number}") for number in range(2)]
        for number in range(300):
            delta = {f"{scope}k{number % 7}": number for scope in ("", "user:", "app:")}
            await ours.append_event(sessions[number % 2], said("x", delta=delta))
            expected.update(delta)
        fresh = AmuxSessionService(ours.store)
        both = [await fresh.get_session(**App, session_id=f"{number}") for number in range(2)]
        shared = {name: value for name, value in expected.items() if ":" in name}
        for number, found in enumerate(both):
            assert found is not None
            own = {f"k{n % 7}": n for n in range(300) if n % 2 == number}
            assert found.state == own | shared
        listed = (await fresh.list_sessions(**App)).sessions
        assert [each.state for each in sorted(listed, key=lambda s: s.id)] == [
            found.state for found in both if found
        ]

    run(case, work)


def test_the_command_line_builds_the_service_from_a_uri(store_address: str, tmp_path: Path) -> None:
    from google.adk.cli.service_registry import get_service_registry, load_services_module

    (tmp_path / "services.yaml").write_text(
        "services:\n- scheme: amux\n  type: session\n"
        "  class: amux.integrations.adk.AmuxSessionService\n",
        encoding="utf-8",
    )
    load_services_module(str(tmp_path))
    service = get_service_registry().create_session_service(
        f"amux://{store_address}", agents_dir=str(tmp_path)
    )
    assert isinstance(service, AmuxSessionService)
    asyncio.run(Case("ours", service).create("s", n=1))
    with SessionStore(store_address) as opened:
        assert asyncio.run(Case("ours", AmuxSessionService(opened)).get()).state == {"n": 1}
    service.store.close()


EVENTS = 50_000


def fill_long_session(address: Path | str) -> None:
    """Store events as the service stores them, most of them without a call for each.

    The service ends a group of 64 records with a register of the whole state, if it is its turn.
    """
    with SessionStore(address, fsync="never") as opened:
        service = AmuxSessionService(opened)
        asyncio.run(Case("ours", service).create("s", n=1))
        thread_id = opened.log.find(NAMESPACE, ("app", "ada", "s"))
        assert thread_id is not None
        head, last = 2, EVENTS - 100
        text = said("NUMBER " + "x" * 500).model_dump_json(exclude_none=True, by_alias=True)
        for start in range(0, last, 63):
            numbers = range(start, min(start + 63, last))
            head += len(numbers) + 1
            state = EMPTY._replace(head=head - 1, revision=head - 1, text='{"n":1}')
            events = [PayloadText(text.replace("NUMBER", str(number))) for number in numbers]
            records = [NewRecord(payload=event) for event in events]
            opened.log.append(thread_id, [*records, as_register(state)])

        async def finish() -> None:
            session = await Case("ours", service).get(num_recent_events=1)
            for number in range(last, EVENTS):
                await service.append_event(session, said(f"{number} " + "x" * 500))

        asyncio.run(finish())


def rows_read(url: str, schema: str) -> int:
    """Return how many records of all threads the server has looked at so far."""
    query = (
        "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables "
        "WHERE schemaname = %s AND relname = 'records'"
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(query, (schema,)).fetchone()
    assert row is not None
    return int(row[0])


def latest_events(address: Path | str) -> Session:
    with SessionStore(address) as opened:
        return asyncio.run(Case("ours", AmuxSessionService(opened)).get(num_recent_events=10))


def is_the_end(found: Session) -> bool:
    numbers = [text.split()[0] for text in texts(found)]
    return numbers == [str(n) for n in range(EVENTS - 10, EVENTS)] and found.state == {"n": 1}


def test_the_latest_events_of_a_long_session_are_read_from_its_end(store_folder: Path) -> None:
    fill_long_session(store_folder)
    (rollout,) = store_folder.glob("sessions/**/*.jsonl")
    latest_events(store_folder)  # the index knows the thread now
    with counted_bytes() as read:
        found = latest_events(store_folder)
    assert is_the_end(found)
    assert read() < 400_000 < rollout.stat().st_size / 50


def test_the_server_looks_at_the_end_of_a_long_session_only(
    store_url: str, postgres_url: str
) -> None:
    fill_long_session(store_url)
    schema = store_url.rpartition("schema=")[2]
    before = rows_read(postgres_url, schema)
    found = latest_events(store_url)  # its connections report when they end
    assert is_the_end(found)
    assert 0 < rows_read(postgres_url, schema) - before < EVENTS / 50


def test_a_list_does_not_read_the_sessions_that_its_service_has_created(
    store_url: str, postgres_url: str
) -> None:
    schema = store_url.rpartition("schema=")[2]
    with SessionStore(store_url) as opened:
        case = Case("ours", AmuxSessionService(opened))

        async def work() -> list[dict[str, Any]]:
            for number in range(60):
                scoped = {"app:x": 0} if number == 59 else {}
                await case.create(f"{number:02}", n=number, **scoped)
            found = (await case.service.list_sessions(**App)).sessions
            return [each.state for each in sorted(found, key=lambda each: each.id)]

        assert asyncio.run(work()) == [{"n": number, "app:x": 0} for number in range(60)]
    assert rows_read(postgres_url, schema) < 60


def test_a_list_of_ten_thousand_sessions_takes_little_more_than_making_their_objects(
    ours: AmuxSessionService,
) -> None:
    ours.store.log.fsync = "never"  # type: ignore[attr-defined]  # of the file backend
    listing: list[float] = []
    building: list[float] = []

    for number in range(9_999):  # what `create_session` writes, without what it reads
        first = EMPTY._replace(updated_at=float(number), text=f'{{"n":{number}}}')
        key = ("app", f"user {number % 100}", f"session {number}")
        meta = new_meta(NAMESPACE, key, payload_format="adk-event", user_id=key[1])
        ours.store.log.create(meta, [as_register(first)])

    async def work() -> None:
        await ours.create_session(app_name="app", user_id="last", state={"n": 9_999})
        found = (await ours.list_sessions(app_name="app")).sessions
        assert [each.state["n"] for each in found] == list(range(10_000))
        del found
        for _ in range(8):
            start = time.process_time()
            await ours.list_sessions(app_name="app")
            listing.append(time.process_time() - start)
            start = time.process_time()
            _ = [Session(app_name="app", user_id="u", id=str(n)) for n in range(10_000)]
            building.append(time.process_time() - start)

    asyncio.run(work())
    # A ratio, since a busy machine slows both: reading the sessions again would take 80 times.
    assert min(listing) < 10 * min(building)


# processes

WRITER = """
import asyncio, sys
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from amux.integrations.adk import AmuxSessionService

async def main():
    service = AmuxSessionService(sys.argv[1])
    key = dict(app_name="app", user_id="ada", session_id="s")
    for number in range(int(sys.argv[3])):
        while True:
            session = await service.get_session(**key)
            count = session.state.get("n", 0) + 1
            delta = {"n": count, "user:n": count, "app:n": count}
            event = Event(author="user", id=f"{sys.argv[2]}.{number}",
                          actions=EventActions(state_delta=delta))
            try:
                await service.append_event(session, event)
            except StaleSessionError:
                continue
            break
        print(event.id, flush=True)

asyncio.run(main())
"""


def writer(address: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, address, name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=child_env(),
    )


def test_processes_that_append_to_one_session_lose_nothing(
    store_address: str, reopened: OpenStore
) -> None:
    case = Case("ours", AmuxSessionService(reopened()))
    asyncio.run(case.create())
    children = [writer(store_address, f"{number}", 6) for number in range(3)]
    for child in children:
        child.communicate()
        assert child.returncode == 0
    found = asyncio.run(case.get())
    assert len({event.id for event in found.events}) == len(found.events) == 18
    assert found.state == {"n": 18, "user:n": 18, "app:n": 18}


def test_an_event_is_there_with_all_its_states_or_not_at_all_after_a_kill(
    store_address: str, reopened: OpenStore
) -> None:
    asyncio.run(Case("ours", AmuxSessionService(reopened())).create())
    acknowledged: list[str] = []
    for number in range(4):
        with writer(store_address, f"{number}", 10_000) as child:
            assert child.stdout is not None
            acknowledged += [child.stdout.readline().strip() for _ in range(4 + number)]
            os.kill(child.pid, signal.SIGKILL)
            acknowledged += child.stdout.read().split()
        found = asyncio.run(Case("ours", AmuxSessionService(reopened())).get())
        ids = [event.id for event in found.events]
        assert [each for each in ids if each in acknowledged] == acknowledged
        count = len(ids)
        assert found.state == {"n": count, "user:n": count, "app:n": count}


DYING = """
import asyncio, os, signal, sys
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from amux.integrations.adk import AmuxSessionService
import amux.store.file_log.rollout_file as rollout_file

writes = 0
original = rollout_file.RolloutFile.append

def append(self, records):
    global writes
    if any(record.id == "e" or "\\"e\\"" in record.text for record in records):
        if writes == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        writes += 1
    original(self, records)

rollout_file.RolloutFile.append = append

async def main():
    service = AmuxSessionService(sys.argv[1])
    session = await service.get_session(app_name="app", user_id="ada", session_id="s")
    delta = {"n": 1, "user:n": 1, "app:n": 1}
    await service.append_event(
        session, Event(author="user", id="e", actions=EventActions(state_delta=delta))
    )

asyncio.run(main())
"""


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_kill_between_the_files_of_an_event_shows_all_of_it(
    store_folder: Path, writes: int
) -> None:
    with SessionStore(store_folder) as opened:
        asyncio.run(Case("ours", AmuxSessionService(opened)).create("s", **{"app:x": 0}))
    command = [sys.executable, "-c", DYING, str(store_folder), str(writes)]
    ended = subprocess.run(command, env=child_env(), check=False)
    assert ended.returncode == -signal.SIGKILL
    with SessionStore(store_folder) as opened:
        found = asyncio.run(Case("ours", AmuxSessionService(opened)).get())
    assert [event.id for event in found.events] == ["e"]  # the intent was stored before
    assert found.state == {"n": 1, "user:n": 1, "app:n": 1, "app:x": 0}


def test_a_session_whose_creation_was_interrupted_does_not_exist_and_can_be_created(
    ours: AmuxSessionService,
) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        ours.store.start(
            cwd="", namespace=NAMESPACE, key=("app", "ada", "s"), payload_format="adk-event"
        )
        assert await ours.get_session(**App, session_id="s") is None
        assert (await ours.list_sessions(**App)).sessions == []
        created = await case.create("s", n=1)
        assert created.state == {"n": 1}
        with pytest.raises(AlreadyExistsError):
            await case.create("s")

    run(case, work)


def test_of_two_that_create_one_session_exactly_one_succeeds(ours: AmuxSessionService) -> None:
    case = Case("ours", ours)

    async def work() -> None:
        for number in range(8):
            state = {"app:n": number} if number % 2 else {}
            results = await asyncio.gather(
                *(case.create(f"{number}", **state) for _ in range(2)), return_exceptions=True
            )
            assert sorted(type(each).__name__ for each in results) == [
                "AlreadyExistsError",
                "Session",
            ]

    run(case, work)


def test_amux_lists_searches_and_costs_the_sessions(ours: AmuxSessionService) -> None:
    case = Case("ours", ours)
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=100,
        cached_content_token_count=60,
        candidates_token_count=7,
        thoughts_token_count=5,
    )

    async def work() -> None:
        session = await case.create()
        await ours.append_event(session, said("What time is it?"))
        answer = types.Content(role="model", parts=[types.Part(text="It is noon.")])
        await ours.append_event(
            session,
            Event(author="clock", content=answer, usage_metadata=usage, model_version="gemini-3"),
        )

    run(case, work)
    (thread,) = ours.store.list(user_id="ada")
    assert (thread.preview, thread.turn_count) == ("What time is it?", 1)
    counts = (thread.input_tokens, thread.cache_read_tokens, thread.output_tokens)
    assert counts == (40, 60, 12)
    assert [hit.snippet.strip() for hit in ours.store.search("noon")] == ["It is >>>noon<<<."]


@pytest.mark.parametrize("index", ["off", "on"])
def test_amux_lists_the_session_and_not_the_states_of_its_user_and_app(
    store_address: str, tmp_path: Path, index: str
) -> None:
    with SessionStore(store_address) as opened:
        service = AmuxSessionService(opened)
        delta = {"n": 1, "user:n": 2, "app:n": 3}

        async def work() -> None:
            session = await Case("ours", service).create("s", **{"user:name": "Ada"})
            await service.append_event(session, said("What time is it?", delta=delta))

        asyncio.run(work())
        env = {"AMUX_STORE": store_address, "AMUX_INDEX": index}
        client = create_client(home=tmp_path, env=env)
        for _ in range(2):
            (listed,) = client.sessions.list("amux")
            assert listed.title == "What time is it?"
        statuses = {file.status for root in client.doctor("amux") for file in root.files}
        assert statuses <= {"session", "no-session", "bystander"}
        assert len(opened.list(user_id="ada")) == 2  # the store itself shows all its threads
