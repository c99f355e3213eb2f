"""One thread of the store: reading it, and working on it in one run of a program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from amux.errors import StoreError, ValidationError
from amux.rollout import control, view
from amux.rollout.log import Appended, Repeat, ThreadLog
from amux.rollout.records import (
    NewRecord,
    PayloadText,
    Record,
    RecordType,
    SessionMeta,
    as_mapping,
    new_record_id,
)
from amux.rollout.threads import ThreadSummary
from amux.store.compaction import PROTECTED_TURNS, plan_compaction
from amux.store.costs import CostTracker, track_costs
from amux.store.titles import clean_title
from amux.store.turns import PendingInput, Turn, TurnContext, begin_turn, open_matters

POLL_SECONDS: Final = 0.5

Summary = str | Mapping[str, Any]
"""The result of summarising: a text, or a mapping with `summary`, `usage`, `model`, `cost_usd`."""


class ThreadView:
    """A thread to read."""

    def __init__(self, log: ThreadLog, thread_id: str) -> None:
        self.thread_id = thread_id
        self._log = log
        self._meta: SessionMeta | None = None

    @property
    def meta(self) -> SessionMeta:
        """The meta data that the thread was started with."""
        if self._meta is None:
            self._meta = self._log.meta(self.thread_id)
        return self._meta

    @property
    def summary(self) -> ThreadSummary:
        """The thread as a list shows it now."""
        found = self._log.get(self.thread_id)
        if found is None:
            raise StoreError(f"thread `{self.thread_id}` was deleted")
        return found

    @property
    def path(self) -> Path:
        """The file of the thread; raise `StoreError` if the backend has no files."""
        path_of: Callable[[str], Path] | None = getattr(self._log, "path_of", None)
        if path_of is None:
            raise StoreError(f"thread `{self.thread_id}` is not in a file")
        return path_of(self.thread_id)

    @property
    def cost(self) -> CostTracker:
        """The tokens and the cost of the thread."""
        return track_costs(
            self._log.read(self.thread_id), self.meta.payload_format, copied=self.meta.copied
        )

    @property
    def environment(self) -> TurnContext:
        """The environment to continue in: that of the last turns, else that of the start."""
        names = TurnContext.__struct_fields__
        fields: dict[str, Any] = {}
        for record in self._log.read_back(self.thread_id, kinds=("turn_context",)):
            recorded = as_mapping(record.payload)
            stated = {name: each for name in names if (each := recorded.get(name)) is not None}
            with suppress(msgspec.ValidationError, UnicodeError):  # of a foreign or damaged record
                msgspec.convert(stated, TurnContext)
                fields = stated | fields
        for name in set(names) - fields.keys() - {"extra"}:
            fields[name] = getattr(self.meta, name, None)
        return TurnContext(**fields)

    def items(self, *, raw: bool = False) -> Iterator[Record]:
        """Yield the visible items, oldest first; with `raw` all records, hidden ones included."""
        if raw:
            yield from self._log.read(self.thread_id)
        else:
            yield from view.visible(self._log.read_back(self.thread_id))

    def tail(self, limit: int) -> list[Record]:
        """Return the latest visible items, oldest first, reading only the end of the thread."""
        return view.visible(self._log.read_back(self.thread_id), limit=limit)

    def path_to(self, record_id: str, *, limit: int | None = None) -> list[Record]:
        """Return the records from a root of the tree to a record, oldest first."""
        return view.path(self._log.read_back(self.thread_id), record_id, limit=limit)

    def conversation_records(self) -> list[Record]:
        """Return the records that a model is given, oldest first."""
        return view.conversation(self._log.read_back(self.thread_id))

    def conversation(self) -> list[dict[str, Any]]:
        """Return the messages that a model is given, oldest first.

        A summary stands for what was compacted. Meta data and control records are never included.
        """
        messages: list[dict[str, Any]] = []
        for record in self.conversation_records():
            payload = dict(as_mapping(record.payload))
            if record.type == "compacted":
                text = f"<summary>\n{payload.get('summary', '')}\n</summary>"
                messages.append({"role": "user", "content": text})
            else:
                payload.pop("type", None)
                messages.append(payload)
        return messages

    def register(self, name: str) -> Any:
        """Return the last value of a register; None if it was never set."""
        for record in self._log.read_back(self.thread_id, kinds=(control.REGISTER,)):
            payload = as_mapping(record.payload)
            if payload.get("name") == name:
                return payload.get("value")
        return None

    def pending(self) -> list[PendingInput]:
        """Return the input that arrived during a turn and that no turn has taken yet."""
        return open_matters(self._log, self.thread_id)[1]

    def follow(
        self,
        *,
        after: int | None = None,
        poll: float = POLL_SECONDS,
        stop: threading.Event | None = None,
    ) -> Iterator[Record]:
        """Yield new records as they are appended, until `stop` is set.

        Only whole records appear. `after` is the sequence number to continue from; without one,
        only records that are appended from now on are yielded.
        """
        stop = stop or threading.Event()
        if after is None:
            after = next((record.seq for record in self._log.read_back(self.thread_id)), 0)
        while not stop.is_set():
            for record in self._log.read(self.thread_id, after=after):
                after = record.seq
                yield record
            stop.wait(poll)


class ThreadHandle(ThreadView):
    """A thread that this program works on; `run_session_id` names the run.

    Appending needs no turn; a turn keeps other processes from running one at the same time.
    """

    def __init__(self, log: ThreadLog, thread_id: str, run_session_id: str) -> None:
        super().__init__(log, thread_id)
        self.run_session_id = run_session_id
        self._turn: Turn | None = None

    def begin_turn(self, context: TurnContext | None = None) -> Turn:
        """Begin a turn; raise `TurnInProgressError` while another one runs, here or elsewhere."""
        self._turn = begin_turn(
            self._log, self.thread_id, self.run_session_id, context=context, new_id=new_record_id
        )
        return self._turn

    def interrupt(self, reason: str = "interrupted") -> bool:
        """End a running turn of any process; return False if there is none."""
        if not self._log.break_lease(self.thread_id):
            return False
        unfinished, _ = open_matters(self._log, self.thread_id)
        self.append_all(
            [
                control.event(control.TURN_INTERRUPTED, turn_id=turn_id, reason=reason)
                for turn_id in unfinished
            ]
        )
        return True

    def enqueue(self, message: Mapping[str, Any] | str) -> str:
        """Keep input for the next turn; return its id."""
        given = {"role": "user", "content": message} if isinstance(message, str) else message
        return self.append(control.event(control.INPUT, message=dict(given)))

    def append(self, item: NewRecord | Mapping[str, Any], *, type: RecordType | None = None) -> str:
        """Append one record and return its id. A mapping is the payload of a `response_item`."""
        record = item if isinstance(item, NewRecord) else NewRecord(payload=dict(item))
        if type is not None:
            record = msgspec.structs.replace(record, type=type)
        return self.append_all((record,)).ids[0]

    def append_all(
        self,
        records: Sequence[NewRecord],
        *,
        expect: int | None = None,
        repeat: Repeat = "skip",
    ) -> Appended:
        """Append records as one batch; see `ThreadLog.append`."""
        return self._log.append(self.thread_id, records, expect=expect, repeat=repeat)

    def append_json(self, text: str) -> str:
        """Append an item whose payload is given as JSON text, which is stored unchanged."""
        return self.append(NewRecord(payload=PayloadText(text)))

    def message(self, role: str, content: Any, **fields: Any) -> str:
        """Append a message and return its id.

        Known fields are `thinking`, `tool_calls`, `tool_call_id`, `tool_name`, `is_error`, `model`,
        `usage`, `cost_usd`, `images` and `synthetic`; others are stored as they are.
        """
        payload = {"type": "message", "role": role, "content": content, **fields}
        return self._log.append(self.thread_id, (NewRecord(payload=payload),)).ids[0]

    def correct(self, entry_id: str, **fields: Any) -> str:
        """Replace fields of an earlier record for all readers; the original stays in the file."""
        self._record(entry_id)
        return self.append(control.correction(entry_id, fields))

    def set_register(self, name: str, value: Any) -> str:
        """Set a register of the thread; the last value counts."""
        return self.append(control.register(name, value))

    def compact(
        self,
        summarize: Callable[[list[dict[str, Any]]], Summary] | Summary,
        *,
        first_kept: str | None = None,
        keep_turns: int = PROTECTED_TURNS,
        keep_tokens: int | None = None,
    ) -> str | None:
        """Replace the older part of the conversation by a summary; the history stays readable.

        `summarize` is the summary, or a function that makes it from the messages; amux calls no
        model itself. `first_kept` is the id of the first record to keep; without it the last turns
        are kept. Return the id of the new record, or None if there is nothing to summarise.
        """
        conversation = self.conversation_records()
        plan = plan_compaction(
            conversation, self.meta.payload_format, keep_turns=keep_turns, keep_tokens=keep_tokens
        )
        summarized, kept = plan.summarized, plan.first_kept
        if first_kept is not None:
            index = next((i for i, r in enumerate(conversation) if r.id == first_kept), None)
            if index is None:
                raise ValidationError(
                    f"the conversation has no record `{first_kept}`", fields=("first_kept",)
                )
            summarized, kept = tuple(conversation[:index]), conversation[index]
        if not summarized:
            return None
        if callable(summarize):
            summarize = summarize([dict(as_mapping(record.payload)) for record in summarized])
        fields = {"summary": summarize} if isinstance(summarize, str) else dict(summarize)
        payload: dict[str, Any] = {**fields, "tokens_before": plan.tokens_before}
        if kept is None:  # whatever was appended since stays
            payload["first_kept_seq"] = conversation[-1].seq + 1
        else:
            payload |= {"first_kept_id": kept.id, "first_kept_seq": kept.seq}
        return self.append(NewRecord(type="compacted", payload=payload))

    def clear(self) -> None:
        """Empty the conversation. History, meta data, cost and registers stay."""
        self.append(control.hide_all(searchable=True, reason="clear"))

    def reset(self, reason: str = "reset") -> None:
        """Empty the conversation because a policy says so; the old transcript stays searchable."""
        self.append(control.hide_all(searchable=True, reason=reason))

    def rewind(self, entry_id: str) -> int:
        """Take a record and everything after it out of the conversation; return how many items.

        `undo` with the id of the last `hide` record brings them back.
        """
        record = self._record(entry_id)
        count = sum(each.seq >= record.seq for each in self.items())
        self.append(control.hide_from(record, reason="rewind"))
        return count

    def hide(self, ids: Sequence[str], *, searchable: bool = False) -> str:
        """Hide single records; return the id of the record that hides them."""
        return self.append(control.hide_ids(ids, searchable=searchable))

    def undo(self, hide_id: str | None = None) -> bool:
        """Undo a `hide`, by default the last one; return False if there is none."""
        undone: set[str] = set()
        for record in self._log.read_back(self.thread_id, kinds=(control.HIDE, control.UNHIDE)):
            payload = as_mapping(record.payload)
            if payload.get("type") == control.UNHIDE:
                undone.add(str(payload.get("hide")))
            elif record.id not in undone and hide_id in {None, record.id}:
                self.append(control.unhide(record.id))
                return True
        return False

    def set_head(self, record_id: str) -> str:
        """Continue from an earlier record of the tree; later records stay, as a branch."""
        self._record(record_id)
        return self.append(control.event(control.HEAD, id=record_id))

    def set_title(self, title: str | None) -> None:
        """Give the thread a title, or take it away; raise `TitleInUseError` if another has it."""
        self._log.set_title(self.thread_id, clean_title(title))

    def change_tags(self, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Sequence[str]:
        """Add tags to the thread and remove others; return its tags."""
        gone = {" ".join(tag.split()) for tag in remove}
        self.set_tags([tag for tag in (*self.summary.tags, *add) if tag not in gone])
        return self.summary.tags

    def set_tags(self, tags: Sequence[str]) -> None:
        """Replace the tags of the thread."""
        clean = sorted({" ".join(tag.split()) for tag in tags} - {""})
        self.append(control.event(control.TAGS, tags=clean))

    def end(self, reason: str = "user_exit") -> None:
        """Record that the session ended, and force it to the disk; resuming opens it again."""
        self.append(control.event(control.SESSION_ENDED, reason=reason))
        self._log.sync(self.thread_id)

    def close(self) -> None:
        """End a running turn of this handle and force the records to the disk."""
        if self._turn is not None:
            self._turn.interrupt("closed")
            self._turn = None
        with suppress(StoreError):
            self._log.sync(self.thread_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _record(self, record_id: str) -> Record:
        for record in self._log.read_back(self.thread_id):
            if record.id == record_id:
                return record
        raise ValidationError(
            f"thread `{self.thread_id}` has no record `{record_id}`", fields=("entry_id",)
        )
