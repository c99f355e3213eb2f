"""`BackendSuite`: a subclass with a backend runs every rule of the log protocol.

    class TestMyLog(BackendSuite):
        def open_log(self, place: Path) -> ThreadLog:
            return MyLog(place / "threads")

The name of a test contains the id of its rule (B01...), so that a failure names the broken rule.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from amux.errors import (
    ConflictError,
    SessionNotFoundError,
    StoreError,
    TitleInUseError,
    TurnInProgressError,
    ValidationError,
)
from amux.rollout import control, view
from amux.rollout.ids import new_run_session_id, new_thread_id
from amux.rollout.log import Batch, SearchQuery, ThreadLog
from amux.rollout.records import NewRecord, PayloadText, Record, SessionMeta
from amux.rollout.threads import ThreadFilter

_START = datetime(2026, 3, 1, 12, tzinfo=UTC)

PAYLOADS = (
    "NaN",
    '{"a":NaN,"b":-Infinity}',
    '{"big":1180591620717411303424,"f":1.0,"e":1e400}',
    '{"a":1,"a":2}',
    '{"z":1,"a":2}',
    '"nul \\u0000 and surrogate \\ud800"',
    '"line\u2028separator \u2029 and \x7f"',
    '{"pretty":\n  true}',
    "[]",
    "null",
    '"' + "x" * 100_000 + '"',
)
"""JSON texts that come back to the character."""


def new_meta(**fields: Any) -> SessionMeta:
    """Return the meta data of a new thread."""
    given: dict[str, Any] = {
        "thread_id": new_thread_id(),
        "session_id": new_run_session_id(),
        "created_at": _START,
        **fields,
    }
    return SessionMeta(**given)


def message(content: str, role: str = "user", **fields: Any) -> NewRecord:
    """Return a message to append."""
    given = {name: fields.pop(name) for name in ("id", "at", "parent_id") if name in fields}
    return NewRecord(
        payload={"type": "message", "role": role, "content": content, **fields}, **given
    )


def contents(records: Sequence[Record]) -> list[Any]:
    """Return the contents of messages."""
    return [record.payload.get("content") for record in records]


class BackendSuite:
    """The rules of the log protocol."""

    is_durable: ClassVar[bool] = True
    """Whether threads are still there when the log is opened again."""

    def open_log(self, place: Path) -> ThreadLog:
        """Open the log in a directory that is the test's own; twice is the same store."""
        raise NotImplementedError

    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[ThreadLog]:
        """Return an empty log."""
        log = self.open_log(tmp_path)
        yield log
        log.close()

    def make(self, log: ThreadLog, *contents_: str, **meta: Any) -> str:
        """Create a thread with some messages and return its id."""
        given = new_meta(**meta)
        log.create(given, [message(each) for each in contents_])
        return given.thread_id

    # creating and finding

    def test_b01_the_first_record_is_the_meta_data(self, log: ThreadLog) -> None:
        meta = new_meta(cwd="/w", model="m", extra={"x": [1, None]}, git_sha="abc")
        log.create(meta)
        (first,) = log.read(meta.thread_id)
        assert (first.type, first.seq) == ("session_meta", 1)
        assert log.meta(meta.thread_id) == meta
        assert "agent_role" not in first.payload

    def test_b01_an_id_is_created_once(self, log: ThreadLog) -> None:
        meta = new_meta()
        log.create(meta, [message("kept")])
        with pytest.raises(ConflictError):
            log.create(meta, [message("other")])
        assert contents(view.visible(log.read_back(meta.thread_id))) == ["kept"]

    def test_b01_first_records_have_ids_of_their_own(self, log: ThreadLog) -> None:
        meta = new_meta()
        with pytest.raises(ConflictError):
            log.create(meta, [message("a", id="same"), message("b", id="same")])
        assert log.get(meta.thread_id) is None

    def test_b02_an_unknown_thread_is_an_error_or_nothing(self, log: ThreadLog) -> None:
        unknown = new_thread_id()
        assert log.get(unknown) is None
        assert log.delete(unknown) is False
        assert log.lease_of(unknown) is None
        for attempt in (
            lambda: log.meta(unknown),
            lambda: log.append(unknown, [message("x")]),
            lambda: list(log.read(unknown)),
            lambda: list(log.read_back(unknown)),
            lambda: log.set_title(unknown, "t"),
            lambda: log.archive(unknown, archived=True),
            lambda: log.vacuum(unknown),
            lambda: log.verify(unknown),
            lambda: log.stored_ids(unknown, ["x"]),
        ):
            with pytest.raises(SessionNotFoundError):
                attempt()

    @pytest.mark.parametrize(
        "key",
        [
            ("a",),
            ("a", "b"),
            ("",),
            ("../../etc", "x"),
            ("'; DROP", '"'),
            ("日本", "\u2028"),
            ("a", ""),
        ],
    )
    def test_b03_a_thread_is_found_by_its_key(self, log: ThreadLog, key: tuple[str, ...]) -> None:
        thread_id = self.make(log, "x", namespace="n", key=key)
        assert log.find("n", key) == thread_id
        assert log.find("other", key) is None
        assert log.find("n", (*key, "more")) is None
        with pytest.raises(ConflictError):
            self.make(log, namespace="n", key=key)
        assert log.meta(thread_id).key == key
        assert log.delete(thread_id)
        assert log.find("n", key) is None
        assert self.make(log, namespace="n", key=key) != thread_id

    @pytest.mark.parametrize("key", [(), ("a\0b",), ("\ud800",), ("é" * 1001,)])
    def test_b03_a_bad_key_is_refused(self, log: ThreadLog, key: tuple[str, ...]) -> None:
        with pytest.raises(ValidationError):
            self.make(log, namespace="n", key=key)
        assert log.threads(ThreadFilter()) == []

    def test_b03_keys_are_listed_by_prefix(self, log: ThreadLog) -> None:
        for key in (("p", "1"), ("p", "2"), ("p", "2", "sub"), ("pp", "1")):
            self.make(log, namespace="n", key=key)
        self.make(log, namespace="other", key=("p", "3"))
        found = log.threads(ThreadFilter(namespace="n", key_prefix=("p",)))
        assert sorted(thread.key or () for thread in found) == [
            ("p", "1"),
            ("p", "2"),
            ("p", "2", "sub"),
        ]
        found = log.threads(ThreadFilter(namespace="n", key_prefix=("p", "2")))
        assert sorted(thread.key or () for thread in found) == [("p", "2"), ("p", "2", "sub")]

    def test_b03_of_many_creators_of_a_key_one_wins(self, log: ThreadLog) -> None:
        outcomes = _in_threads(8, lambda _: self.make(log, "x", namespace="n", key=("k",)))
        made = [each for each in outcomes if isinstance(each, str)]
        assert len(made) == 1
        assert log.find("n", ("k",)) == made[0]
        assert len(log.threads(ThreadFilter())) == 1
        assert all(isinstance(each, ConflictError) for each in outcomes if each not in made)

    # appending

    def test_b04_records_come_back_in_order_and_equal(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        ids = [log.append(thread_id, [message(str(n))]).ids[0] for n in range(20)]
        records = list(log.read(thread_id))
        assert [record.id for record in records[1:]] == ids
        assert [record.seq for record in records] == sorted({record.seq for record in records})
        assert list(log.read_back(thread_id)) == records[::-1]
        middle = records[10].seq
        assert list(log.read(thread_id, after=middle)) == records[11:]
        assert list(log.read_back(thread_id, before=middle)) == records[:10][::-1]

    def test_b04_parents_follow_the_items(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        first, second = log.append(thread_id, [message("1"), message("2")]).ids
        title = log.append(thread_id, [control.event("note", text="x")]).ids[0]
        third = log.append(thread_id, [message("3")]).ids[0]
        root = log.append(thread_id, [message("4", parent_id=None)]).ids[0]
        child = log.append(thread_id, [message("5", parent_id=first)]).ids[0]
        parents = {record.id: record.parent_id for record in log.read(thread_id)}
        assert parents[first] is None
        assert (parents[second], parents[title], parents[third]) == (first, second, second)
        assert (parents[root], parents[child]) == (None, first)
        path = view.path(log.read_back(thread_id), child)
        assert [record.id for record in path] == [first, child]

    @pytest.mark.parametrize("text", PAYLOADS, ids=range(len(PAYLOADS)))
    def test_b05_a_payload_is_kept_to_the_character(self, log: ThreadLog, text: str) -> None:
        thread_id = self.make(log)
        log.append(thread_id, [NewRecord(payload=PayloadText(text))])
        assert next(log.read_back(thread_id)).text == text

    def test_b05_values_come_back_equal(self, log: ThreadLog) -> None:
        value: dict[str, Any] = {"b": [1, 2.5, None, True, 2**70], "a": "\ud800 \0 \u2028", "": {}}
        thread_id = self.make(log)
        log.append(thread_id, [NewRecord(payload=value)])
        found = next(log.read_back(thread_id)).payload
        assert found == value
        assert list(found) == list(value)

    @pytest.mark.parametrize("payload", [object(), {1, 2}, PayloadText("{broken"), b"bytes"])
    def test_b05_a_payload_that_is_not_json_is_refused(
        self, log: ThreadLog, payload: object
    ) -> None:
        thread_id = self.make(log, "kept")
        with pytest.raises(ValidationError):
            log.append(thread_id, [message("not stored"), NewRecord(payload=payload)])
        assert contents(view.visible(log.read_back(thread_id))) == ["kept"]

    def test_b05_the_caller_keeps_what_it_passed(self, log: ThreadLog) -> None:
        payload: dict[str, Any] = {"type": "message", "role": "user", "content": ["a"]}
        thread_id = self.make(log)
        log.append(thread_id, [NewRecord(payload=payload)])
        payload["content"].append("b")
        assert next(log.read_back(thread_id)).payload["content"] == ["a"]

    def test_b06_a_batch_is_all_or_nothing(self, log: ThreadLog) -> None:
        thread_id = self.make(log, "old")
        with pytest.raises(ConflictError):
            log.append(
                thread_id,
                [message("a", id="same"), message("b", id="same")],
                repeat="error",
            )
        assert contents(view.visible(log.read_back(thread_id))) == ["old"]

    def test_b06_a_guard_admits_one_writer(self, log: ThreadLog) -> None:
        thread_id = self.make(log, "x")
        head = log.append(thread_id, [message("y")]).head
        outcomes = _in_threads(
            8, lambda n: log.append(thread_id, [message(str(n))], expect=head).head
        )
        winners = [each for each in outcomes if isinstance(each, int)]
        assert len(winners) == 1
        assert all(isinstance(each, ConflictError) for each in outcomes if each not in winners)
        assert len(list(log.read(thread_id))) == 4

    def test_b07_appends_of_many_threads_lose_nothing(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        _in_threads(8, lambda n: [log.append(thread_id, [message(f"{n}.{i}")]) for i in range(25)])
        found = contents(view.visible(log.read_back(thread_id)))
        assert len(found) == 200
        for n in range(8):
            own = [each for each in found if each.startswith(f"{n}.")]
            assert own == [f"{n}.{i}" for i in range(25)]

    def test_b08_a_repeated_id_is_skipped(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        first = log.append(thread_id, [message("a", id="1"), message("b", id="2")])
        again = log.append(thread_id, [message("B", id="2"), message("c", id="3"), message("d")])
        assert (first.stored, again.stored) == (2, 2)
        assert again.ids[:2] == ("2", "3")
        assert log.stored_ids(thread_id, ["1", "3", "4"]) == {"1", "3"}
        assert contents(view.visible(log.read_back(thread_id))) == ["a", "b", "c", "d"]

    def test_b08_an_id_that_is_stored_and_given_twice_is_skipped_twice(
        self, log: ThreadLog
    ) -> None:
        thread_id = self.make(log)
        head = log.append(thread_id, [message("a", id="1")]).head
        again = log.append(thread_id, [message("b", id="1"), message("c", id="1")])
        assert (again.head, again.ids, again.stored) == (head, ("1", "1"), 0)
        assert contents(view.visible(log.read_back(thread_id))) == ["a"]

    def test_b08_a_repeated_id_replaces(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        log.append(thread_id, [message("a", id="1"), message("b", id="2")])
        log.append(thread_id, [message("A", id="1")], repeat="replace")
        assert contents(view.visible(log.read_back(thread_id))) == ["b", "A"]

    def test_b08_equal_ids_in_two_threads_are_two_records(self, log: ThreadLog) -> None:
        one, two = self.make(log), self.make(log)
        log.append(one, [message("1", id="same")])
        log.append(two, [message("2", id="same")])
        assert sorted(thread_id for thread_id, _ in log.locate("same")) == sorted([one, two])
        assert log.locate("unknown") == []

    def test_b08_any_record_is_located(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        log.append(thread_id, [control.register("a", 1), message("x")])
        for record in log.read(thread_id):
            assert log.locate(record.id) == [(thread_id, record.seq)]

    @pytest.mark.parametrize("record_id", ["", " ", "x" * 129, "a\0b", "\ud800"])
    def test_b08_a_bad_id_is_refused(self, log: ThreadLog, record_id: str) -> None:
        thread_id = self.make(log)
        with pytest.raises(ValidationError):
            log.append(thread_id, [message("x", id=record_id)])

    def test_b09_several_threads_change_together(self, log: ThreadLog) -> None:
        one, two = self.make(log, "1"), self.make(log, "2")
        heads = log.append_many(
            [
                Batch(thread_id=one, records=(message("a"), message("b"))),
                Batch(thread_id=two, records=(message("c"),)),
            ]
        )
        assert contents(view.visible(log.read_back(one))) == ["1", "a", "b"]
        assert contents(view.visible(log.read_back(two))) == ["2", "c"]
        with pytest.raises(ConflictError):
            log.append_many(
                [
                    Batch(thread_id=one, records=(message("x"),)),
                    Batch(thread_id=two, records=(message("y"),), expect=heads[1].head - 1),
                ]
            )
        assert contents(view.visible(log.read_back(one))) == ["1", "a", "b"]

    def test_b09_large_batches_are_stored_counted_and_found(self, log: ThreadLog) -> None:
        one, two = self.make(log), self.make(log)
        batches = {
            thread_id: tuple(message(f"word{number} needle", id=f"{number}") for number in range(n))
            for thread_id, n in ((one, 150), (two, 250))
        }
        log.append_many([Batch(thread_id=key, records=batches[key]) for key in batches])
        for thread_id, records in batches.items():
            assert [each.id for each in log.read(thread_id)][1:] == [each.id for each in records]
            thread = log.get(thread_id)
            assert thread is not None
            assert thread.message_count == len(records)
        hits = log.search(SearchQuery(text="needle", limit=1000))
        assert len(hits) == 400
        hits = log.search(SearchQuery(text="word149"))
        assert {hit.thread_id for hit in hits} == {one, two}

    def test_b10_order_is_that_of_appends(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        times = [_START, _START - timedelta(days=1), _START + timedelta(days=1), _START]
        for number, at in enumerate(times):
            log.append(thread_id, [message(str(number), at=at)])
        records = view.visible(log.read_back(thread_id))
        assert contents(records) == ["0", "1", "2", "3"]
        assert [record.at for record in records] == times

    # views

    def test_b11_hidden_records_can_come_back(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        ids = log.append(thread_id, [message(str(n)) for n in range(6)]).ids
        by_id = {record.id: record for record in log.read(thread_id)}

        def shown() -> str:
            return "".join(contents(view.visible(log.read_back(thread_id))))

        log.append(thread_id, [control.hide_ids([ids[1], ids[4]])])
        assert shown() == "0235"
        cut = log.append(thread_id, [control.hide_from(by_id[ids[3]])]).ids[0]
        assert shown() == "02"
        log.append(thread_id, [message("6")])
        assert shown() == "026"
        log.append(thread_id, [control.hide_up_to(by_id[ids[0]])])
        assert shown() == "26"
        log.append(thread_id, [control.unhide(cut)])
        assert shown() == "2356"
        log.append(thread_id, [control.hide_all(), message("new")])
        assert shown() == "new"

    def test_b11_the_tail_is_the_latest_visible_items(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        ids = log.append(thread_id, [message(str(n)) for n in range(9)]).ids
        log.append(thread_id, [control.hide_ids([ids[8], ids[6]])])
        tail = view.visible(log.read_back(thread_id), limit=3)
        assert contents(tail) == ["4", "5", "7"]

    def test_b12_registers_and_corrections_are_read_from_the_end(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        (first,) = log.append(thread_id, [message("wrong")]).ids
        log.append(thread_id, [control.correction(first, {"content": "less wrong"})])
        log.append(thread_id, [control.correction(first, {"content": "right", "model": "m"})])
        (record,) = view.visible(log.read_back(thread_id))
        assert record.payload["content"] == "right"
        assert record.payload["model"] == "m"
        assert len(list(log.read(thread_id))) == 4

    def test_b12_records_of_some_kinds_are_read_without_the_others(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        context = NewRecord(type="turn_context", payload={"model": "register"})
        for number in range(3):
            log.append(thread_id, [control.register("a", number), message("register"), context])
            log.append(thread_id, [message("turn_context"), control.event("register_not")])
        records = list(log.read_back(thread_id))
        for kinds in ((), ("turn_context",), ("register",), ("register", "response_item"), ("%",)):
            found = [each for each in records if control.kind_of(each) in kinds]
            assert list(log.read_back(thread_id, kinds=kinds)) == found
        (first, *_), middle = records, records[len(records) // 2].seq
        registers = log.read_back(thread_id, before=middle, kinds=("register",))
        assert [record.seq < middle < first.seq for record in registers] == [True, True]
        assert len(list(log.read_back(thread_id, kinds=("register", "session_meta")))) == 4

    # threads

    def test_b13_the_list_counts_what_was_appended(self, log: ThreadLog) -> None:
        thread_id = self.make(log, "First prompt\nwith lines", cwd="/w", model="m", source="tg")
        usage = {"input_tokens": 10, "output_tokens": 4, "cache_read_tokens": 3}
        calls: list[dict[str, Any]] = [{"id": "1", "name": "ls", "arguments": {}}]
        log.append(
            thread_id,
            [
                message("answer", "assistant", usage=usage, cost_usd=0.5, tool_calls=calls),
                message("out", "tool", tool_call_id="1", tool_name="ls"),
            ],
        )
        (thread,) = log.threads(ThreadFilter())
        assert thread == log.get(thread_id)
        assert (thread.message_count, thread.turn_count, thread.tool_call_count) == (3, 1, 1)
        assert (thread.input_tokens, thread.output_tokens, thread.cache_read_tokens) == (10, 4, 3)
        assert thread.cost_nusd == 500_000_000
        assert thread.preview == "First prompt with lines"
        assert (thread.cwd, thread.model, thread.source) == ("/w", "m", "tg")
        assert thread.head == list(log.read(thread_id))[-1].seq

    @pytest.mark.parametrize("text", ["a \0 nul", "half \ud83d of a pair"])
    def test_b13_any_text_can_be_stored_listed_and_searched(
        self, log: ThreadLog, text: str
    ) -> None:
        healthy = self.make(log, "healthy")
        thread_id = self.make(log, text, cwd=text, user_id=text, extra={"x": text})
        log.append(thread_id, [NewRecord(type="turn_context", payload={"model": text})])
        log.append(thread_id, [control.event(control.TAGS, tags=[text])])
        log.append(thread_id, [control.event(control.SESSION_ENDED, reason=text)])
        log.append(thread_id, [message(f"needle {text}")])
        log.set_title(thread_id, text)
        meta = log.meta(thread_id)
        assert (meta.cwd, meta.user_id, meta.extra) == (text, text, {"x": text})
        assert contents(view.visible(log.read_back(thread_id))) == [text, f"needle {text}"]
        listed = {thread.thread_id: thread for thread in log.threads(ThreadFilter())}
        assert listed.keys() == {healthy, thread_id}
        thread = listed[thread_id]
        fields = (thread.preview, thread.cwd, thread.user_id, thread.model, thread.title)
        assert {*fields, thread.end_reason, *thread.tags} == {
            text.replace("\0", "\ufffd").replace("\ud83d", "\ufffd")
        }
        hits = log.search(SearchQuery(text="needle"))
        assert [hit.thread_id for hit in hits] == [thread_id]

    def test_b13_lists_are_filtered_sorted_and_paged(self, log: ThreadLog) -> None:
        made = [
            self.make(
                log,
                created_at=_START + timedelta(hours=number),
                source="even" if number % 2 == 0 else "odd",
                cwd=f"/w/{number}",
            )
            for number in range(6)
        ]
        newest = made[::-1]
        assert [each.thread_id for each in log.threads(ThreadFilter())] == newest
        page = log.threads(ThreadFilter(limit=2, offset=1))
        assert [each.thread_id for each in page] == newest[1:3]
        even = log.threads(ThreadFilter(source="even"))
        assert [each.thread_id for each in even] == newest[1::2]
        span = ThreadFilter(since=_START + timedelta(hours=1), until=_START + timedelta(hours=3))
        assert [each.thread_id for each in log.threads(span)] == [made[2], made[1]]
        assert [each.thread_id for each in log.threads(ThreadFilter(cwd="/w/3"))] == [made[3]]

    def test_b13_lists_are_sorted_by_what_they_show(self, log: ThreadLog) -> None:
        """The label is the title, else the first prompt, else the beginning of the id."""
        named = [self.make(log, title=title) for title in ("Zebra", "apple", "Ämter", "u", "b_c")]
        prompted = self.make(log, "Melon")
        bare = self.make(log)
        found = [each.thread_id for each in log.threads(ThreadFilter(order="title"))]
        zebra, apple, offices, letter, joined = named
        assert found == [apple, joined, prompted, bare, letter, zebra, offices]

    def test_b13_a_directory_selects_what_is_below_it(self, log: ThreadLog) -> None:
        for cwd in ("/a", "/a/b", "/a/b/c", "/ab", "/", ""):
            self.make(log, cwd=cwd)

        def below(folder: str) -> list[str]:
            return sorted(each.cwd for each in log.threads(ThreadFilter(worktree=folder)))

        assert below("/a") == below("/a/") == ["/a", "/a/b", "/a/b/c"]
        assert below("/a/b") == ["/a/b", "/a/b/c"]
        assert below("/a%") == below("/_") == []
        assert below("/ab") == ["/ab"]

    def test_b13_tags_end_and_kind_select(self, log: ThreadLog) -> None:
        one = self.make(log, "x")
        two = self.make(log, "y", kind="subagent", parent=one)
        log.append(one, [control.event(control.TAGS, tags=["a", "b%"])])
        log.append(two, [control.event(control.SESSION_ENDED, reason="done")])

        def found(**fields: Any) -> list[str]:
            return [thread.thread_id for thread in log.threads(ThreadFilter(**fields))]

        assert found(tag="a") == [one]
        assert found(tag="b%") == [one]
        assert found(tag="b") == []
        assert found(ended=True) == [two]
        assert found(ended=False) == [one]
        assert found(parent=one) == found(related_to=one) == found(kind="subagent") == [two]
        ended = log.get(two)
        assert ended is not None
        assert ended.end_reason == "done"
        log.append(two, [control.event(control.SESSION_RESUMED, session_id="r")])
        assert found(ended=True) == []

    def test_b14_ids_resolve_by_prefix(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        assert log.resolve(thread_id[:8]) == [thread_id]
        assert log.resolve(thread_id.upper()) == [thread_id]
        assert log.resolve("zzzz") == []
        assert log.resolve("%") == []
        assert log.resolve("") == [thread_id]

    def test_b15_a_title_belongs_to_one_thread(self, log: ThreadLog) -> None:
        one, two = self.make(log), self.make(log)
        log.set_title(one, "50% off_")
        with pytest.raises(TitleInUseError) as caught:
            log.set_title(two, "50% off_")
        assert caught.value.holder == one
        log.set_title(two, "500 off.")
        log.set_title(one, None)
        log.set_title(two, "50% off_")
        assert [t.thread_id for t in log.threads(ThreadFilter(title="50% off_"))] == [two]
        assert [t.thread_id for t in log.threads(ThreadFilter(title_base="50% o"))] == [two]
        with pytest.raises(TitleInUseError):
            self.make(log, title="50% off_")

    def test_b15_of_many_who_want_a_title_one_gets_it(self, log: ThreadLog) -> None:
        made = [self.make(log) for _ in range(6)]

        def take(number: int) -> str:
            log.set_title(made[number], "wanted")
            return made[number]

        outcomes = _in_threads(6, take)
        winners = [each for each in outcomes if isinstance(each, str)]
        assert len(winners) == 1
        assert [t.thread_id for t in log.threads(ThreadFilter(title="wanted"))] == winners

    def test_b16_archived_threads_are_apart_and_whole(self, log: ThreadLog) -> None:
        thread_id = self.make(log, "x", namespace="n", key=("k",))
        before = list(log.read(thread_id))
        log.archive(thread_id, archived=True)
        log.archive(thread_id, archived=True)
        assert log.threads(ThreadFilter()) == []
        assert [t.thread_id for t in log.threads(ThreadFilter(archived=True))] == [thread_id]
        assert list(log.read(thread_id)) == before
        assert log.find("n", ("k",)) == thread_id
        log.append(thread_id, [message("y")])
        log.archive(thread_id, archived=False)
        assert len(log.threads(ThreadFilter())) == 1
        assert contents(view.visible(log.read_back(thread_id))) == ["x", "y"]

    def test_b17_a_deleted_thread_is_gone(self, log: ThreadLog) -> None:
        thread_id, other = self.make(log, "needle"), self.make(log, "needle too")
        assert log.delete(thread_id) is True
        assert log.delete(thread_id) is False
        assert log.get(thread_id) is None
        assert [hit.thread_id for hit in log.search(SearchQuery(text="needle"))] == [other]

    def test_b17_of_many_who_delete_a_thread_one_does(self, log: ThreadLog) -> None:
        for _ in range(5):
            self.make(log, "x", namespace="n", key=("k",))
            (thread,) = log.threads(ThreadFilter())
            outcomes = _in_threads(6, partial(_delete, log, thread.thread_id))
            assert sorted(outcomes, key=str) == [False] * 5 + [True]

    def test_b18_a_vacuum_removes_what_nothing_shows(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        ids = log.append(thread_id, [message(str(n) * 1000) for n in range(4)]).ids
        log.append(thread_id, [control.register("r", 1), control.register("r", 2)])
        log.append(thread_id, [control.hide_ids([ids[0]])])
        log.append(thread_id, [message("new", id=ids[1])], repeat="replace")
        before = view.visible(log.read_back(thread_id))
        report = log.vacuum(thread_id)
        assert report.removed >= 2
        assert report.bytes_after < report.bytes_before
        assert view.visible(log.read_back(thread_id)) == before
        appended = log.append(thread_id, [message("after")])
        seqs = [record.seq for record in log.read(thread_id)]
        assert seqs == sorted(set(seqs))
        assert appended.head == seqs[-1]

    def test_b18_an_erased_record_is_nowhere(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        ids = log.append(thread_id, [message("secret word"), message("kept")]).ids
        log.append(thread_id, [control.correction(ids[0], {"content": "secret correction"})])
        log.vacuum(thread_id, erase={ids[0]})
        assert contents(view.visible(log.read_back(thread_id))) == ["kept"]
        assert all("secret" not in record.text for record in log.read(thread_id))
        assert log.search(SearchQuery(text="secret", include_inactive=True)) == []
        assert log.locate(ids[0]) == []

    # turns

    def test_b19_a_thread_has_one_lease(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        lease = log.acquire_lease(thread_id, "me", seconds=60)
        with pytest.raises(TurnInProgressError):
            log.acquire_lease(thread_id, "you", seconds=60)
        assert log.lease_of(thread_id) is not None
        renewed = log.renew_lease(lease, seconds=90)
        assert renewed is not None
        assert renewed.expires_at > lease.expires_at
        assert log.release_lease(lease) is True
        assert log.release_lease(lease) is False
        assert log.renew_lease(lease, seconds=60) is None
        log.acquire_lease(thread_id, "you", seconds=60)

    def test_b19_a_lease_ends_when_it_expires_or_is_broken(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        expired = log.acquire_lease(thread_id, "dead", seconds=-1)
        assert log.lease_of(thread_id) is None
        taken = log.acquire_lease(thread_id, "alive", seconds=60)
        assert log.release_lease(expired) is False
        assert log.break_lease(thread_id) is True
        assert log.break_lease(thread_id) is False
        assert log.renew_lease(taken, seconds=60) is None

    def test_b19_of_many_who_want_a_lease_one_gets_it(self, log: ThreadLog) -> None:
        thread_id = self.make(log)
        outcomes = _in_threads(8, lambda n: log.acquire_lease(thread_id, str(n), seconds=60).owner)
        assert sum(isinstance(each, str) for each in outcomes) == 1

    # blobs and values

    def test_b20_blobs_are_stored_once_and_collected(self, log: ThreadLog) -> None:
        digest = log.put_blob(b"\0bytes")
        assert log.put_blob(b"\0bytes") == digest
        assert log.get_blob(digest) == b"\0bytes"
        thread_id = self.make(log)
        log.append(thread_id, [NewRecord(payload={"blob": digest}, blobs=(digest,))])
        log.collect_blobs()
        assert log.get_blob(digest) == b"\0bytes"
        assert next(log.read_back(thread_id)).blobs == (digest,)
        for wrong in ("0" * 64, "../../etc/passwd", ""):
            with pytest.raises((StoreError, ValidationError)):
                log.get_blob(wrong)

    def test_b21_values_are_replaced_under_a_guard(self, log: ThreadLog) -> None:
        key = ("a/../b", "日本", "'")
        assert log.get_value(key) is None
        first = log.put_value(key, b"1", expect="")
        second = log.put_value(key, b"\0\n2")
        assert first.version != second.version
        with pytest.raises(ConflictError):
            log.put_value(key, b"3", expect=first.version)
        with pytest.raises(ConflictError):
            log.put_value(key, b"3", expect="")
        log.put_value(key, b"3", expect=second.version)
        stored = log.get_value(key)
        assert stored is not None
        assert (stored.key, stored.data) == (key, b"3")
        log.put_value(("a", "x"), b"")
        log.put_value(("a", "y"), b"")
        assert log.list_values(("a",)) == [("a", "x"), ("a", "y")]
        assert len(log.list_values()) == 3
        assert log.delete_value(key) is True
        assert log.delete_value(key) is False
        assert log.get_value(key) is None

    # searching

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("parser", {"a", "b"}),
            ("PARSER", {"a", "b"}),
            ("fix parser", {"a"}),
            ('"the parser"', {"a", "b"}),
            ('"parser the"', set[str]()),
            ("fix OR 日本", {"a", "c"}),
            ("parser NOT fix", {"b"}),
            ("pars*", {"a", "b"}),
            ("*arse*", {"a", "b"}),
            ("*ARSER", {"a", "b"}),
            ("*arse", set[str]()),
            ("*x* NOT *lea*", set[str]()),
            ('"*ix the pars*"', {"a"}),
            ("日本", {"c"}),
            ("", set[str]()),
            ("   ", set[str]()),
            ("nowhere", set[str]()),
        ],
    )
    def test_b22_searches_find_words(self, log: ThreadLog, query: str, found: set[str]) -> None:
        thread_id = self.make(log)
        log.append(
            thread_id,
            [
                message("please fix the parser", id="a"),
                message("the parser works", "assistant", id="b"),
                message("これは日本語です", id="c"),
            ],
        )
        hits = log.search(SearchQuery(text=query))
        assert {hit.record_id for hit in hits} == found
        assert all(hit.thread_id == thread_id for hit in hits)

    @pytest.mark.parametrize(
        "query", ['"', "'", "AND", "NOT", "a OR", "((", "*", "a-b", "x:y", "%", "\0", "🙂" * 3000]
    )
    def test_b22_no_query_is_an_error(self, log: ThreadLog, query: str) -> None:
        self.make(log, "text")
        log.search(SearchQuery(text=query))

    def test_b22_hits_have_a_snippet_and_their_neighbours(self, log: ThreadLog) -> None:
        thread_id = self.make(log, title="T", source="cli", model="m")
        log.append(thread_id, [message("before"), message("the needle here"), message("after")])
        (hit,) = log.search(SearchQuery(text="needle"))
        assert ">>>needle<<<" in hit.snippet
        assert [each.content for each in hit.context] == ["before", "the needle here", "after"]
        assert (hit.title, hit.source, hit.role) == ("T", "cli", "user")
        assert hit.session_started == _START

    def test_b22_neighbours_show_what_was_said_and_the_model_is_that_of_the_thread(
        self, log: ThreadLog
    ) -> None:
        thread_id = self.make(log, model="m")
        calls: list[dict[str, Any]] = [{"id": "1", "name": "ls", "arguments": {"path": "/needle"}}]
        log.append(thread_id, [message("I look", "assistant", model="other", tool_calls=calls)])
        (hit,) = log.search(SearchQuery(text="needle"))
        assert [each.content for each in hit.context] == ["I look"]
        assert hit.model == "m"

    def test_b22_every_word_of_a_long_message_is_found(self, log: ThreadLog) -> None:
        """An index of words may have a limit: what it cannot hold must be found all the same."""
        thread_id = self.make(log)
        words = [f"{number}{'x' * 60}" for number in range(20_000)]
        log.append(thread_id, [message(" ".join(words), id="long"), message(words[7], id="short")])
        for query, found in (
            (words[0], {"long"}),
            (words[7], {"long", "short"}),
            (words[-1], {"long"}),
            ("1999*", {"long"}),
            (f"{words[7]} NOT {words[8]}", {"short"}),
        ):
            assert {hit.record_id for hit in log.search(SearchQuery(text=query))} == found

    def test_b22_searches_are_filtered_and_paged(self, log: ThreadLog) -> None:
        one = self.make(log, source="tg", namespace="n", key=("1",))
        two = self.make(log, source="cli")
        for number in range(3):
            at = _START + timedelta(minutes=number)
            log.append(one, [message(f"needle {number}", at=at)])
        log.append(two, [message("needle", "assistant", at=_START + timedelta(hours=1))])

        def found(**fields: Any) -> list[str]:
            return [hit.thread_id for hit in log.search(SearchQuery(text="needle", **fields))]

        assert found(sources=("tg",)) == [one] * 3
        assert found(exclude_sources=("tg",)) == [two]
        assert found(roles=("assistant",)) == [two]
        assert found(namespace="n") == found(thread_id=one) == [one] * 3
        assert found(sort="newest", limit=2) == [two, one]
        assert found(sort="oldest", offset=3) == [two]

    def test_b22_hidden_text_is_found_only_if_it_stays_searchable(self, log: ThreadLog) -> None:
        thread_id = self.make(log, "apple")
        log.append(thread_id, [control.hide_all(searchable=True, reason="clear")])
        (second,) = log.append(thread_id, [message("banana")]).ids
        log.append(thread_id, [control.hide_ids([second])])
        assert len(log.search(SearchQuery(text="apple"))) == 1
        assert log.search(SearchQuery(text="banana")) == []
        assert len(log.search(SearchQuery(text="banana", include_inactive=True))) == 1
        log.append(thread_id, [message("cherry", id="c")])
        log.append(thread_id, [control.correction("c", {"content": "damson"})])
        assert log.search(SearchQuery(text="cherry")) == []
        assert len(log.search(SearchQuery(text="damson"))) == 1

    @pytest.mark.parametrize("is_first", [True, False])
    def test_b22_a_batch_that_hides_and_corrects_is_searched_as_it_shows(
        self, log: ThreadLog, *, is_first: bool
    ) -> None:
        records = (
            message("banana", id="b"),
            message("cherry", id="c"),
            *(
                NewRecord(type="event_msg", payload=PayloadText(json.dumps(each.payload)))
                for each in (
                    control.hide_ids(["b"]),
                    control.correction("c", {"content": "damson"}),
                )
            ),
        )
        meta = new_meta()
        log.create(meta, records if is_first else ())
        if not is_first:
            log.append(meta.thread_id, records)
        assert log.search(SearchQuery(text="banana")) == []
        assert log.search(SearchQuery(text="cherry")) == []
        assert [hit.record_id for hit in log.search(SearchQuery(text="damson"))] == ["c"]

    # opening again

    def test_b23_everything_is_there_when_opened_again(self, tmp_path: Path) -> None:
        if not self.is_durable:
            return
        log = self.open_log(tmp_path)
        thread_id = self.make(log, "one two", namespace="n", key=("k",), title="T")
        log.append(thread_id, [message("three")])
        digest, value = log.put_blob(b"b"), log.put_value(("v",), b"v")
        before = list(log.read(thread_id)), log.get(thread_id)
        log.close()
        again = self.open_log(tmp_path)
        assert (list(again.read(thread_id)), again.get(thread_id)) == before
        assert again.find("n", ("k",)) == thread_id
        assert again.get_blob(digest) == b"b"
        assert again.get_value(("v",)) == value
        assert len(again.search(SearchQuery(text="three"))) == 1
        assert again.append(thread_id, [message("four")]).head > before[0][-1].seq
        again.close()

    def test_b23_two_open_logs_see_each_other(self, tmp_path: Path) -> None:
        if not self.is_durable:
            return
        one, two = self.open_log(tmp_path), self.open_log(tmp_path)
        thread_id = self.make(one, "1", namespace="n", key=("k",))
        assert two.find("n", ("k",)) == thread_id
        two.append(thread_id, [message("2", id="x")])
        one.append(thread_id, [message("again", id="x"), message("3")])
        assert contents(view.visible(two.read_back(thread_id))) == ["1", "2", "3"]
        assert len(one.search(SearchQuery(text="2"))) == 1
        two.vacuum(thread_id)
        one.append(thread_id, [message("4")])
        two.archive(thread_id, archived=True)
        one.append(thread_id, [message("5")])
        assert contents(view.visible(two.read_back(thread_id))) == ["1", "2", "3", "4", "5"]
        lease = one.acquire_lease(thread_id, "one", seconds=60)
        with pytest.raises(TurnInProgressError):
            two.acquire_lease(thread_id, "two", seconds=60)
        assert two.release_lease(lease) is True
        one.close()
        two.close()

    def test_b24_a_healthy_thread_has_no_problems(self, log: ThreadLog) -> None:
        thread_id = self.make(log, "x", "y")
        assert log.verify(thread_id) == []

    def test_b25_summaries_survive_the_codec(self, log: ThreadLog) -> None:
        thread_id = self.make(log, "x", namespace="n", key=("k", ""))
        thread = log.get(thread_id)
        encoded = msgspec.json.encode(thread)
        assert msgspec.json.decode(encoded, type=type(thread)) == thread


def _delete(log: ThreadLog, thread_id: str, _: int) -> bool:
    return log.delete(thread_id)


def _in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run work(0), work(1)... at the same time; return the results, errors included."""
    outcomes: list[Any] = [None] * count
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        try:
            outcomes[number] = work(number)
        except Exception as error:  # noqa: BLE001 - an error is an outcome
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
