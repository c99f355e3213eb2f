"""The checkpoints, writes and values of one LangGraph thread, folded from its records.

`checkpoint` records carry a checkpoint without its values, its metadata, and the values of the
channels that changed. `writes` records carry what one task wrote. A `value` record carries a value
whose own record a prune removes. Later records win.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from langgraph.checkpoint.base import writes_sort_key

from amux.errors import StoreError
from amux.integrations.langgraph_values import (
    ELEMENT,
    ChannelValue,
    Elements,
    Encoded,
    ListValue,
    element_ids,
    encoded_in,
    fields_in,
    items_in,
)
from amux.rollout import control
from amux.rollout.log import ThreadLog
from amux.rollout.records import Record, as_mapping
from amux.rollout.view import visible

CHECKPOINT: Final = "checkpoint"
WRITES: Final = "writes"
VALUE: Final = "value"

_REBUILDING: Final = frozenset(
    {control.HIDE, control.UNHIDE, control.CORRECTION, "vacuumed", "repaired"}
)
"""Records that change what earlier ones say."""

_TYPES: Final = frozenset({"response_item", "event_msg"})

Version = str | int | float


class CheckpointKey(NamedTuple):
    """A checkpoint of a thread. Ids are compared as texts."""

    ns: str
    id: str


class ValueKey(NamedTuple):
    """The value of a channel of a namespace in one version."""

    ns: str
    channel: str
    version: Version


class CheckpointEntry(NamedTuple):
    """A checkpoint without its values; `record_id` is the record that holds it."""

    record_id: str
    parent: str | None
    body: Encoded
    metadata: Encoded
    run: str | None


class StoredWrite(NamedTuple):
    """A value that a task wrote to a channel.

    The position is that in the task's writes; it is negative for errors, interrupts and the like,
    which may be written again.
    """

    record_id: str
    task_id: str
    position: int
    task_path: str
    channel: str
    value: ChannelValue


class OwnedValue(NamedTuple):
    """The value of a channel, and the record that holds it."""

    record_id: str
    value: ChannelValue


class GraphThreadState:
    """Everything that the visible records of a thread say, up to the record `head`."""

    def __init__(self) -> None:
        self.head = 0
        self.checkpoints: dict[CheckpointKey, CheckpointEntry] = {}
        self.values: dict[ValueKey, OwnedValue] = {}
        self.elements = Elements()
        self.projections: dict[str, str] = {}  # record id: the record it is derived from
        self.delta_channels: set[str] = set()  # they are rebuilt from writes
        self._writes: dict[CheckpointKey, dict[tuple[str, int], StoredWrite]] = {}
        self._write_records: dict[str, CheckpointKey] = {}
        self._lists: dict[tuple[str, str], ListValue] = {}  # by owner and channel
        self._last_lists: dict[tuple[str | None, str], ListValue] = {}  # by namespace and channel
        self._carrying: set[str] = set()  # the `value` records
        self._readers: dict[str, Callable[[str, Mapping[str, Any]], None]] = {
            ELEMENT: self._add_element,
            CHECKPOINT: self._add_checkpoint,
            WRITES: self._add_writes,
            VALUE: self._add_carried,
        }

    @classmethod
    def load(cls, log: ThreadLog, thread_id: str) -> GraphThreadState:
        """Return the state of a thread from all its visible records."""
        state = cls()
        newest_first = list(log.read_back(thread_id))
        for record in visible(newest_first, types=_TYPES):
            state._fold(record)
        state.head = newest_first[0].seq if newest_first else 0
        return state

    def update(self, log: ThreadLog, thread_id: str) -> GraphThreadState:
        """Return the state with the records that were appended since."""
        for record in log.read(thread_id, after=self.head):
            if control.kind_of(record) in _REBUILDING:
                return GraphThreadState.load(log, thread_id)
            self._fold(record)
            self.head = record.seq
        return self

    def _fold(self, record: Record) -> None:
        payload = as_mapping(record.payload)
        if record.type == "event_msg":
            if payload.get("type") == control.PROJECTION:
                self.projections[record.id] = str(payload.get("of"))
        elif record.type == "response_item":
            self.add(record.id, payload)

    def add(self, record_id: str, payload: Mapping[str, Any]) -> None:
        """Add what a record says. Payloads of unknown types say nothing.

        Raises:
            StoreError: The payload is damaged.
        """
        add = self._readers.get(str(payload.get("type")))
        if add is None:
            return
        try:
            add(record_id, payload)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"the record `{record_id}` of a LangGraph thread is damaged: {error!r}",
                hint="`amux store doctor` says what can be saved",
            ) from error

    def _add_element(self, record_id: str, payload: Mapping[str, Any]) -> None:
        if record_id not in self.elements.by_id:
            self.elements.add(record_id, encoded_in(payload))

    def _add_checkpoint(self, record_id: str, payload: Mapping[str, Any]) -> None:
        self.checkpoints[CheckpointKey(payload["ns"], payload["id"])] = CheckpointEntry(
            record_id,
            payload.get("parent"),
            encoded_in(payload["checkpoint"]),
            encoded_in(payload["metadata"]),
            payload.get("run"),
        )
        self.delta_channels.update(payload.get("delta", ()))
        for each in payload["values"]:
            self._add_value(record_id, payload["ns"], each)

    def _add_carried(self, record_id: str, payload: Mapping[str, Any]) -> None:
        self._carrying.add(record_id)
        self._add_value(record_id, payload["ns"], payload)

    def _add_value(self, record_id: str, ns: str, payload: Mapping[str, Any]) -> None:
        key = ValueKey(ns, payload["channel"], payload["version"])
        value = self._value_in(record_id, payload)
        if value is None:
            self.values.pop(key, None)
            return
        self.values[key] = OwnedValue(record_id, value)
        if isinstance(value, ListValue):
            self._lists[record_id, key.channel] = value
            value.supersede(self._last_lists.get((ns, key.channel)))
            self._last_lists[ns, key.channel] = value
            self._last_lists[None, key.channel] = value

    def _value_in(self, record_id: str, payload: Mapping[str, Any]) -> ChannelValue | None:
        """Return the value that a payload describes; None if it says that there is none."""
        if "items" in payload:
            base: ListValue | None = None
            if "base" in payload:
                base = self._lists.get((payload["base"], payload["channel"]))
            return ListValue(record_id, items_in(payload), base, payload.get("keep", 0))
        if "fields" in payload:
            return fields_in(payload, record_id)
        return encoded_in(payload) if "tag" in payload else None

    def _add_writes(self, record_id: str, payload: Mapping[str, Any]) -> None:
        key = CheckpointKey(payload["ns"], payload["checkpoint"])
        task_id, task_path = payload["task"], payload.get("path", "")
        self._write_records[record_id] = key
        writes = self._writes.setdefault(key, {})
        for each in payload["writes"]:
            position: int = each["index"]
            value = self._value_in(record_id, each)
            if value is not None:
                writes[task_id, position] = StoredWrite(
                    record_id, task_id, position, task_path, each["channel"], value
                )

    # questions

    def latest(self, ns: str) -> CheckpointKey | None:
        """Return the checkpoint of a namespace with the greatest id; None if there is none."""
        found = [key for key in self.checkpoints if key.ns == ns]
        return max(found, key=lambda key: key.id, default=None)

    def has_write(self, key: CheckpointKey, task_id: str, position: int) -> bool:
        """Return whether a task has stored its write at a position."""
        return (task_id, position) in self._writes.get(key, {})

    def writes_of(self, key: CheckpointKey) -> list[StoredWrite]:
        """Return the writes to a checkpoint in the order in which they are applied."""
        found = self._writes.get(key, {}).values()
        return sorted(found, key=lambda w: writes_sort_key(w.task_path, w.task_id, w.position))

    def last_list(self, ns: str, channel: str) -> ListValue | None:
        """Return the last list of a channel, of another namespace if this one has none."""
        return self._last_lists.get((ns, channel)) or self._last_lists.get((None, channel))

    def ancestors(self, key: CheckpointKey) -> Iterator[CheckpointKey]:
        """Yield the parent of a checkpoint, its parent and so on, as far as they exist."""
        seen = {key}
        stored = self.checkpoints.get(key)
        while stored is not None and stored.parent is not None:
            key = CheckpointKey(key.ns, stored.parent)
            stored = self.checkpoints.get(key)
            if stored is None or key in seen:  # a checkpoint may be stored again as its own heir
                return
            seen.add(key)
            yield key

    # removal

    def records_without(
        self, kept: Collection[CheckpointKey], needed: Collection[ValueKey]
    ) -> set[str]:
        """Return the ids of the records that some kept checkpoints do not need.

        Writes to checkpoints that do not exist yet are kept. Some values may be needed of removed
        records: see `carried_values`.
        """
        records = {each.record_id for key, each in self.checkpoints.items() if key not in kept}
        records |= {
            record_id
            for record_id, key in self._write_records.items()
            if key in self.checkpoints and key not in kept
        }
        kept_values = [self.values[key].value for key in needed if key in self.values]
        kept_values += [
            write.value
            for key, writes in self._writes.items()
            for write in writes.values()
            if key not in self.checkpoints or key in kept
        ]
        reachable = {each for value in kept_values for each in element_ids(value)}
        return records | self._carrying | (self.elements.by_id.keys() - reachable)

    def carried_values(
        self, needed: Collection[ValueKey], removed: Collection[str]
    ) -> list[tuple[ValueKey, ChannelValue]]:
        """Return the needed values that lie in removed records, or build on lists in them."""
        carried: list[tuple[ValueKey, ChannelValue]] = []
        for key in needed:
            owned = self.values.get(key)
            if owned is None:
                continue
            value = owned.value
            if isinstance(value, ListValue) and (value.base or owned.record_id in removed):
                carried.append((key, ListValue("", value.all_items())))
            elif owned.record_id in removed:
                carried.append((key, value))
        return carried
