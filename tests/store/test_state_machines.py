"""Any sequence of changes, reopenings and crashes leaves what a naive reading of the rules says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from drawn import drawn
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from naive_threads import NaiveThread, following_title
from psycopg import sql

from amux.errors import ConflictError, TitleInUseError
from amux.rollout import control
from amux.rollout.log import Batch, ThreadLog
from amux.rollout.records import NewRecord, Record
from amux.store.file_log.log import FileLog
from amux.store.memory import MemoryLog
from amux.store.postgres.log import PostgresLog
from amux.store.session_store import SessionStore
from amux.store.thread import ThreadHandle

WORDS = ("apple", "banana", "cherry")
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
IDS = st.none() | st.sampled_from(("k0", "k1", "k2", "k3"))
ROLES = st.sampled_from(("user", "assistant", "tool"))
ITEMS = st.lists(st.tuples(IDS, ROLES, TEXT), min_size=1, max_size=3)
PLACE = st.integers(0, 30)
TITLES = st.sampled_from(("A", "B", "A #2", None))


def _message(role: str, content: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


class Threads(RuleBasedStateMachine):
    """Threads of a store beside their naive twins; subclasses name the backend."""

    notes_vacuum = False

    keeps_replaced = True  # raw reads show a replaced record; hides may name it

    def __init__(self) -> None:
        super().__init__()
        self.store = SessionStore(self.open_log())
        self.handles: dict[str, ThreadHandle] = {}
        self.models: dict[str, NaiveThread] = {}

    def open_log(self) -> ThreadLog:
        return MemoryLog()

    def teardown(self) -> None:
        self.store.close()

    def pick(self, place: int) -> tuple[ThreadHandle, NaiveThread]:
        thread_id = [*self.handles][place % len(self.handles)]
        return self.handles[thread_id], self.models[thread_id]

    @initialize(texts=st.lists(TEXT, max_size=2))
    def begin(self, texts: list[str]) -> None:
        self.start(texts)

    @precondition(lambda self: len(self.handles) < 4)
    @rule(texts=st.lists(TEXT, max_size=2))
    def start(self, texts: list[str]) -> None:
        given = [{"role": "user", "content": each} for each in texts]
        handle, model = self.store.start(cwd="/w", initial_messages=given), NaiveThread()
        for record in list(handle.items(raw=True))[1:]:
            model.add("item", id=record.id, role="user", content=record.payload["content"])
        assert [item.content for item in model.items()] == texts
        self.handles[handle.thread_id], self.models[handle.thread_id] = handle, model

    # appending

    @rule(place=PLACE, items=ITEMS, repeat=st.sampled_from(("skip", "replace", "error")))
    def append(self, place: int, items: list[tuple[str | None, str, str]], repeat: Any) -> None:
        handle, model = self.pick(place)
        records = [NewRecord(payload=_message(role, text), id=id) for id, role, text in items]
        own = [id for id, _, _ in items if id is not None]
        if repeat == "error" and (len(own) > len(set(own)) or any(map(model.has, own))):
            with pytest.raises(ConflictError):
                handle.append_all(records, repeat=repeat)
            return
        appended = handle.append_all(records, repeat=repeat)
        self._take(model, items, appended.ids, repeat)

    def _take(
        self,
        model: NaiveThread,
        items: list[tuple[str | None, str, str]],
        ids: tuple[str, ...],
        repeat: str = "skip",
    ) -> None:
        for (own, role, text), id in zip(items, ids, strict=True):
            assert own in {None, id}
            if repeat == "replace" and not self.keeps_replaced:
                model.entries = [entry for entry in model.entries if entry.id != id]
            if repeat == "replace" or not model.has(id):
                model.add("item", id=id, role=role, content=text)

    @rule(place=PLACE, off=st.integers(-1, 1))
    def append_under_a_guard(self, place: int, off: int) -> None:
        handle, model = self.pick(place)
        records = [NewRecord(payload=_message("user", "apple"))]
        expect = handle.summary.head + off
        if off:
            with pytest.raises(ConflictError):
                handle.append_all(records, expect=expect)
        else:
            ids = handle.append_all(records, expect=expect).ids
            self._take(model, [(None, "user", "apple")], ids)

    @precondition(lambda self: len(self.handles) > 1)
    @rule(first=ITEMS, second=ITEMS, is_guarded=st.booleans())
    def append_to_two(self, first: Any, second: Any, is_guarded: bool) -> None:
        (one, model), (two, other) = self.pick(0), self.pick(1)
        wrong = two.summary.head + 1 if is_guarded else None
        batches = [
            Batch(
                thread_id=handle.thread_id,
                records=tuple(NewRecord(payload=_message(r, t), id=i) for i, r, t in items),
                expect=expect,
            )
            for handle, items, expect in ((one, first, None), (two, second, wrong))
        ]
        if is_guarded:
            with pytest.raises(ConflictError):
                self.store.log.append_many(batches)
            return
        appended = self.store.log.append_many(batches)
        self._take(model, first, appended[0].ids)
        self._take(other, second, appended[1].ids)

    # hiding, correcting, compacting

    @rule(place=PLACE, at=PLACE, how=st.sampled_from(("ids", "up to", "all")), found=st.booleans())
    def hide(self, place: int, at: int, how: str, found: bool) -> None:
        handle, model = self.pick(place)
        records = [r for r in handle.items(raw=True) if r.type in {"response_item", "compacted"}]
        numbers = [item.entry.number for item in model.items()]
        if how == "all" or not records:
            id = handle.append(control.hide_all(searchable=found))
            model.add_hide(id, searchable=found)
            return
        at %= len(records)
        if how == "ids":
            ids = (records[at].id, records[-1].id, "unknown")
            model.add("hide", id=handle.hide(ids, searchable=found), ids=ids, searchable=found)
        else:
            id = handle.append(control.hide_up_to(records[at], searchable=found))
            model.add("hide", id=id, first=1, last=numbers[at], searchable=found)

    @rule(place=PLACE, at=PLACE)
    def rewind(self, place: int, at: int) -> None:
        handle, model = self.pick(place)
        visible = model.visible()
        if not visible:
            return
        item = visible[at % len(visible)]
        expected = sum(each.entry.number >= item.entry.number for each in visible)
        assert handle.rewind(item.entry.id or "") == expected
        model.add_hide(self._last(handle).id, first=item.entry.number)

    @rule(place=PLACE)
    def clear(self, place: int) -> None:
        handle, model = self.pick(place)
        handle.clear()
        model.add_hide(self._last(handle).id, searchable=True)

    @rule(place=PLACE)
    def undo(self, place: int) -> None:
        handle, model = self.pick(place)
        hide = model.last_hide()
        assert handle.undo() is (hide is not None)
        if hide is not None:
            model.add("unhide", id=self._last(handle).id, target=hide)

    @rule(place=PLACE, at=PLACE, text=TEXT)
    def correct(self, place: int, at: int, text: str) -> None:
        handle, model = self.pick(place)
        items = [each for each in model.items() if each.entry.kind == "item"]
        if items:
            target = items[at % len(items)].entry.id or ""
            id = handle.correct(target, content=text)
            model.add("correction", id=id, target=target, content=text)

    @rule(place=PLACE, at=PLACE, text=TEXT)
    def compact(self, place: int, at: int, text: str) -> None:
        handle, model = self.pick(place)
        shown = model.conversation()
        if not shown:
            return
        at %= len(shown)
        first = shown[at].entry
        id = handle.compact(text, first_kept=first.id)
        assert (id is None) == (at == 0)
        if id is not None:
            model.add("summary", id=id, content=text, first_kept=first.number)

    @rule(place=PLACE, text=TEXT)
    def compact_everything(self, place: int, text: str) -> None:
        handle, model = self.pick(place)
        id = handle.append(NewRecord(type="compacted", payload={"summary": text}))
        model.add("summary", id=id, content=text)

    # threads

    @precondition(lambda self: len(self.handles) < 4)
    @rule(place=PLACE, keep=st.none() | st.integers(0, 4), from_end=st.booleans())
    def fork(self, place: int, keep: int | None, from_end: bool) -> None:
        parent, model = self.pick(place)
        shown, copy = model.conversation(), NaiveThread()
        if keep is not None:
            shown = shown[max(0, len(shown) - keep) :] if from_end else shown[:keep]
        while shown and shown[0].entry.role == "tool":
            shown = shown[1:]
        which = {"keep_last" if from_end else "keep_first": keep}
        handle = self.store.fork(parent.thread_id, **which)  # type: ignore[arg-type]
        for item in shown:
            kind, role = item.entry.kind, item.entry.role
            copy.add(kind, id=item.entry.id, role=role, content=item.content)
        if model.title is not None:
            titles = [each.title for each in self.models.values()]
            copy.entries[0].title = following_title(model.title, titles)
            copy.entries[0].kind = "title"
        self.handles[handle.thread_id], self.models[handle.thread_id] = handle, copy

    @rule(place=PLACE, title=TITLES)
    def set_title(self, place: int, title: str | None) -> None:
        handle, model = self.pick(place)
        others = {each.title for each in self.models.values() if each is not model}
        if title is not None and title in others:
            with pytest.raises(TitleInUseError):
                handle.set_title(title)
        else:
            handle.set_title(title)
            model.add("title", id=self._last(handle).id, title=title)

    @rule(place=PLACE, archived=st.booleans())
    def archive(self, place: int, archived: bool) -> None:
        handle, model = self.pick(place)
        (self.store.archive if archived else self.store.unarchive)(handle.thread_id)
        model.is_archived = archived

    @rule(place=PLACE, at=st.none() | PLACE)
    def vacuum(self, place: int, at: int | None) -> None:
        handle, model = self.pick(place)
        items = model.items()
        erased = frozenset[str]()
        if items and at is not None:
            erased = frozenset({items[at % len(items)].entry.id or ""})
        ids = [entry.id for entry in model.entries]
        replaced = len(ids) - len(set(ids))  # a backend may have dropped these already
        removed, expected = self.store.erase(handle.thread_id, sorted(erased)), model.vacuum(erased)
        assert expected - replaced <= removed <= expected
        if self.notes_vacuum:
            model.add("note", id=self._last(handle).id)

    @staticmethod
    def _last(handle: ThreadHandle) -> Record:
        return list(handle.items(raw=True))[-1]

    # comparing

    @invariant()
    def threads_read_as_the_rules_say(self) -> None:
        for thread_id, model in self.models.items():
            handle = self.handles[thread_id]
            visible = [(item.entry.id, item.content) for item in model.visible()]
            assert [_shown(each) for each in handle.items()] == visible
            for limit in (0, 1, 2, 100):
                expected = visible[-limit:] if limit else []
                assert [_shown(each) for each in handle.tail(limit)] == expected
            expected = [item.message for item in model.conversation()]
            assert handle.conversation() == expected

    @invariant()
    def records_are_read_in_both_directions(self) -> None:
        for thread_id, model in self.models.items():
            records = list(self.store.log.read(thread_id))
            ids = [entry.id for entry in model.entries]
            # a backend may drop a record that a later one with its id replaces
            assert _latest([record.id for record in records][1:]) == _latest(ids[1:])
            assert list(self.store.log.read_back(thread_id)) == records[::-1]
            numbers = [record.seq for record in records]
            assert numbers == sorted(set(numbers))
            middle = numbers[len(numbers) // 2]
            after = [record for record in records if record.seq > middle]
            before = [record for record in records[::-1] if record.seq < middle]
            assert list(self.store.log.read(thread_id, after=middle)) == after
            assert list(self.store.log.read_back(thread_id, before=middle)) == before
            known = {"k0", "k1", "k2", "k3"}
            assert self.store.log.stored_ids(thread_id, known) == known & set(ids)
            assert self.store.log.verify(thread_id) == [] or self.is_torn(thread_id)

    def is_torn(self, thread_id: str) -> bool:
        return False

    @invariant()
    def lists_and_searches_agree(self) -> None:
        listed = {
            thread.thread_id: (thread.title, thread.archived)
            for thread in self.store.list(archived=None)
        }
        assert listed == {id: (each.title, each.is_archived) for id, each in self.models.items()}
        active = {id for id, each in self.models.items() if not each.is_archived}
        assert {thread.thread_id for thread in self.store.list()} == active
        for word in WORDS:
            for inactive in (False, True):
                hits = self.store.search(word, limit=1000, include_inactive=inactive)
                found = [(hit.thread_id, hit.record_id) for hit in hits]
                assert len(found) == len(set(found))
                assert set(found) == {
                    (thread_id, id)
                    for thread_id, model in self.models.items()
                    for id in model.search(word, inactive=inactive)
                }


def _latest(ids: Sequence[str | None]) -> list[str | None]:
    """Return the ids, each at its last place."""
    return [each for number, each in enumerate(ids) if each not in ids[number + 1 :]]


def _shown(record: Record) -> tuple[str, str]:
    payload = record.payload
    return record.id, payload["summary" if record.type == "compacted" else "content"]


class DurableThreads(Threads):
    """Threads that another process could open."""

    @rule(is_resumed=st.booleans())
    def reopen(self, is_resumed: bool) -> None:
        self.store.close()
        self.store = SessionStore(self.open_log())
        for thread_id, model in self.models.items():
            if is_resumed:
                handle = self.store.resume(thread_id[:30])
                model.add("note", id=self._last(handle).id)
            else:
                handle = ThreadHandle(self.store.log, thread_id, "run")
            self.handles[thread_id] = handle


class FileThreads(DurableThreads):
    """Threads in a directory, which may lose the end of a file."""

    notes_vacuum = True

    def __init__(self) -> None:
        self.folder = TemporaryDirectory(prefix="amux-threads-")
        self.torn: set[str] = set()
        super().__init__()

    def open_log(self) -> ThreadLog:
        return FileLog(Path(self.folder.name) / "store", fsync="never")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()

    def is_torn(self, thread_id: str) -> bool:
        return thread_id in self.torn

    @rule(place=PLACE, count=st.integers(1, 900), appends=st.booleans())
    def lose_the_end(self, place: int, count: int, appends: bool) -> None:
        handle, model = self.pick(place)
        path = handle.path
        lines = path.read_bytes().split(b"\n")
        start = sum(len(line) + 1 for line in lines[: json.loads(lines[0]).get("batch", [1, 1])[1]])
        before = path.read_bytes()
        after = before[: max(start, len(before) - count)]
        lost = _whole_batches(before) - _whole_batches(after)
        kept = NaiveThread()
        kept.entries = model.entries[: len(model.entries) - lost]
        others = {each.title for each in self.models.values() if each is not model}
        if kept.title is not None and kept.title in others:
            return
        self.store.close()
        with path.open("r+b") as stream:
            stream.truncate(len(after))
        model.entries = kept.entries
        self.torn.add(handle.thread_id)
        self.store = SessionStore(self.open_log())
        for thread_id in self.handles:
            self.handles[thread_id] = ThreadHandle(self.store.log, thread_id, "run")
        if appends:
            id = self.handles[handle.thread_id].message("user", "apple " * (count // 6))
            model.add("item", id=id, role="user", content="apple " * (count // 6))


def _whole_batches(data: bytes) -> int:
    """The number of records in batches that are there from the first line to the last.

    The last line may lack its line break.
    """
    total, begun = 0, 0
    for raw in data.split(b"\n"):
        try:
            position, count = json.loads(raw).get("batch", [1, 1])
        except ValueError:
            begun = 0
            continue
        begun = begun + 1 if position == begun + 1 else int(position == 1)
        if begun == count:
            total, begun = total + count, 0
    return total


def _run(machine: type[Threads] | Any, examples: int, *, steps: int = 25) -> None:
    settings = drawn(examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=settings)


def test_threads_in_memory_follow_the_rules() -> None:
    _run(Threads, 40)


def test_threads_in_files_follow_the_rules_through_crashes() -> None:
    _run(FileThreads, 20)


def test_threads_in_postgresql_follow_the_rules(postgres_url: str) -> None:
    names: list[str] = []

    class PostgresThreads(DurableThreads):
        keeps_replaced = False

        def __init__(self) -> None:
            self.schema = f"machine_{len(names)}_{id(names)}"
            names.append(self.schema)
            super().__init__()

        def open_log(self) -> ThreadLog:
            mark = "&" if "?" in postgres_url else "?"
            return PostgresLog(f"{postgres_url}{mark}schema={self.schema}")

        def teardown(self) -> None:
            super().teardown()
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                name = sql.Identifier(self.schema)
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))

    _run(PostgresThreads, 8, steps=8)  # every step asks the server many times
