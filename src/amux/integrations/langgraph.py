"""`AmuxSaver`: LangGraph keeps its checkpoints in an amux store.

    from amux.integrations.langgraph import AmuxSaver

    graph = builder.compile(checkpointer=AmuxSaver("~/.myagent"))

A thread of LangGraph, with all its checkpoint namespaces, is a thread of the store. A checkpoint is
one batch: new elements of lists, the checkpoint with the values that changed, and a readable form
of new messages. What is pruned is hidden; `vacuum` removes it for good.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Self, cast

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        PendingWrite,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
except ImportError as error:
    from amux.integrations._extras import missing_extra

    raise missing_extra(error, "LangGraph", "langgraph") from error

from amux.errors import ValidationError
from amux.integrations._common import StoreAddress, open_store, threads_below
from amux.integrations.langgraph_messages import MessageProjections
from amux.integrations.langgraph_state import (
    CHECKPOINT,
    VALUE,
    WRITES,
    CheckpointKey,
    GraphThreadState,
    ValueKey,
)
from amux.integrations.langgraph_threads import NAMESPACE, OpenThreads, copy_thread
from amux.integrations.langgraph_values import NewValues, ValueCodec, blobs_in
from amux.rollout import control
from amux.rollout.log import ThreadLog
from amux.rollout.records import NewRecord, new_record_id
from amux.workers import iterate, run_in_worker

_COUNTER_DIGITS: Final = 10
_RANDOM_BYTES: Final = 6
_DELTA_COUNTERS: Final = "counters_since_delta_snapshot"

Records = list[NewRecord]
Keys = list[CheckpointKey]
Writes = list[PendingWrite]
"""`list` is also the name of a method."""


class AmuxSaver(BaseCheckpointSaver[str]):
    """A checkpoint saver of LangGraph on a directory, a database or an open store.

    All methods may be called from any thread. The asynchronous ones work in worker threads.
    """

    def __init__(
        self,
        store: StoreAddress,
        *,
        serde: SerializerProtocol | None = None,
        readable_messages: bool | None = None,
    ) -> None:
        """Open a saver; nothing is read or created before the first use.

        With `readable_messages` messages are also stored in a form that amux reads. By default they
        are with LangGraph's own serialiser only: another one may encrypt.
        """
        super().__init__(serde=serde)
        self.store = open_store(store)
        self.readable_messages = readable_messages
        self._log: ThreadLog = self.store.log
        self._threads = OpenThreads(self.store)  # shared by the copies of `with_allowlist`

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _codec(self) -> ValueCodec:
        return ValueCodec(self._log, self.serde)

    def _projections(self, state: GraphThreadState) -> MessageProjections:
        is_plain = isinstance(self.serde, JsonPlusSerializer)
        is_wanted = is_plain if self.readable_messages is None else self.readable_messages
        return MessageProjections(state.projections, is_wanted=is_wanted)

    # writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and the values of the channels that changed."""
        thread_key, ns = _address(config)
        key = CheckpointKey(ns, checkpoint["id"])
        codec, values = self._codec, checkpoint["channel_values"]
        payload = self._checkpoint_payload(config, key, checkpoint, metadata)

        def make_records(state: GraphThreadState) -> Records:
            record_id, new, shown = new_record_id(), NewValues(), self._projections(state)
            described: list[dict[str, Any]] = []
            for channel, version in new_versions.items():
                value_key = ValueKey(ns, channel, version)
                fields: dict[str, Any] = {"channel": channel, "version": version}
                if channel in values:
                    value = codec.encode_value(
                        values[channel],
                        state.elements,
                        new,
                        record_id,
                        state.last_list(ns, channel),
                    )
                    described.append(fields | value.payload())
                    shown.add(values[channel], value)
                elif value_key in state.values:
                    described.append(fields)
            for write in state.writes_of(CheckpointKey(ns, payload.get("parent", ""))):
                if write.channel in payload.get("delta", ()):
                    shown.add(codec.decode(write.value, state.elements), write.value)
            record = _record({**payload, "values": described}, record_id)
            return [*new.records, record, *shown.records]

        self._change(thread_key, make_records, config)
        return _config(thread_key, key)

    def _checkpoint_payload(
        self,
        config: RunnableConfig,
        key: CheckpointKey,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
    ) -> dict[str, Any]:
        body = {name: each for name, each in checkpoint.items() if name != "channel_values"}
        stated = get_checkpoint_metadata(config, metadata)
        payload = {
            "type": CHECKPOINT,
            "ns": key.ns,
            "id": key.id,
            "parent": get_checkpoint_id(config),
            "run": _text(stated.get("run_id")),
            "delta": sorted(stated.get(_DELTA_COUNTERS) or {}) or None,
            "checkpoint": self._codec.encode(body).payload(),
            "metadata": self._codec.encode(stated).payload(),
        }
        return {name: each for name, each in payload.items() if each is not None}

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote; normal writes that are stored already are left out."""
        thread_key, ns = _address(config)
        key = CheckpointKey(ns, config["configurable"]["checkpoint_id"])
        codec = self._codec
        numbered = [
            (WRITES_IDX_MAP.get(channel, position), channel, value)
            for position, (channel, value) in enumerate(writes)
        ]

        def make_records(state: GraphThreadState) -> Records:
            record_id, new, shown = new_record_id(), NewValues(), self._projections(state)
            described: list[dict[str, Any]] = []
            for index, channel, value in numbered:
                if index >= 0 and state.has_write(key, task_id, index):
                    continue
                encoded = codec.encode_value(value, state.elements, new, record_id)
                described.append({"index": index, "channel": channel, **encoded.payload()})
                if channel in state.delta_channels:
                    shown.add(value, encoded)
            payload = {"type": WRITES, "ns": ns, "checkpoint": key.id, "task": task_id}
            if task_path:
                payload["path"] = task_path
            record = _record({**payload, "writes": described}, record_id)
            return [*new.records, record, *shown.records] if described else []

        if numbered:
            self._change(thread_key, make_records, config)

    def _change(
        self,
        thread_key: str,
        make_records: Callable[[GraphThreadState], Records],
        config: RunnableConfig,
    ) -> None:
        thread = self._threads.get(thread_key)
        user_id = _text(config["configurable"].get("user_id"))
        with thread.lock:
            thread.change(make_records, user_id=user_id)

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """Return a version that follows another one and differs from those of other branches."""
        counter = "" if current is None else str(current).split(".", maxsplit=1)[0]
        width = max(len(counter), _COUNTER_DIGITS)
        return f"{int(counter or 0) + 1:0{width}}.{secrets.token_hex(_RANDOM_BYTES)}"

    # reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, or the one with the greatest id of its namespace."""
        thread_key, ns = _address(config)
        thread = self._threads.get(thread_key)
        with thread.lock:
            state = thread.read()
            if state is None:
                return None
            checkpoint_id = get_checkpoint_id(config)
            key = CheckpointKey(ns, checkpoint_id) if checkpoint_id else state.latest(ns)
            return None if key is None else self._tuple(state, thread_key, key)

    def _tuple(
        self, state: GraphThreadState, thread_key: str, key: CheckpointKey
    ) -> CheckpointTuple | None:
        stored = state.checkpoints.get(key)
        if stored is None:
            return None
        codec, elements = self._codec, state.elements
        body = codec.decode(stored.body, elements)
        values = {
            channel: codec.decode(owned.value, elements)
            for channel, version in body["channel_versions"].items()
            if (owned := state.values.get(ValueKey(key.ns, channel, version))) is not None
        }
        parent = stored.parent
        return CheckpointTuple(
            config=_config(thread_key, key),
            checkpoint=cast("Checkpoint", {**body, "channel_values": values}),
            metadata=codec.decode(stored.metadata, elements),
            parent_config=_config(thread_key, CheckpointKey(key.ns, parent)) if parent else None,
            pending_writes=self._writes(state, key),
        )

    def _writes(
        self, state: GraphThreadState, key: CheckpointKey, channels: Collection[str] | None = None
    ) -> Writes:
        return [
            (write.task_id, write.channel, self._codec.decode(write.value, state.elements))
            for write in state.writes_of(key)
            if channels is None or write.channel in channels
        ]

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, or of all threads, those with greater ids first."""
        ns = None if config is None else config["configurable"].get("checkpoint_ns")
        only = None if config is None else get_checkpoint_id(config)
        end = None if before is None else get_checkpoint_id(before)
        found: list[tuple[str, CheckpointKey]] = []
        for thread_key in self._thread_keys() if config is None else [_address(config)[0]]:
            found += [
                (thread_key, key)
                for key in self._checkpoint_keys(thread_key)
                if ns in {None, key.ns} and only in {None, key.id} and (not end or key.id < end)
            ]
        found.sort(key=lambda each: each[1].id, reverse=True)
        for thread_key, key in found:
            if limit is not None and limit <= 0:
                return
            saved = self._filtered_tuple(thread_key, key, filter or {})
            if saved is not None:
                limit = None if limit is None else limit - 1
                yield saved

    def _thread_keys(self) -> Sequence[str]:
        return [each.key[0] for each in threads_below(self._log, NAMESPACE) if each.key is not None]

    def _checkpoint_keys(self, thread_key: str) -> Keys:
        thread = self._threads.get(thread_key)
        with thread.lock:
            state = thread.read()
            return [] if state is None else [*state.checkpoints]

    def _filtered_tuple(
        self, thread_key: str, key: CheckpointKey, wanted: Mapping[str, Any]
    ) -> CheckpointTuple | None:
        """Return a checkpoint if its metadata match, and if it was not removed meanwhile."""
        thread = self._threads.get(thread_key)
        with thread.lock:
            state = thread.read()
            stored = None if state is None else state.checkpoints.get(key)
            if state is None or stored is None:
                return None
            metadata = self._codec.decode(stored.metadata, state.elements) if wanted else {}
            if any(metadata.get(name) != value for name, value in wanted.items()):
                return None
            return self._tuple(state, thread_key, key)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to some channels since their last stored values, oldest first."""
        thread_key, ns = _address(config)
        thread = self._threads.get(thread_key)
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        open_channels = set(channels)
        with thread.lock:
            state = thread.read()
            if state is None:
                return history
            checkpoint_id = get_checkpoint_id(config)
            key = CheckpointKey(ns, checkpoint_id) if checkpoint_id else state.latest(ns)
            for each in () if key is None else state.ancestors(key):
                if not open_channels:
                    break
                for write in reversed(self._writes(state, each, open_channels)):
                    history[write[1]]["writes"].append(write)
                versions = self._versions(state, each)
                for channel in open_channels & versions.keys():
                    owned = state.values.get(ValueKey(ns, channel, versions[channel]))
                    if owned is not None:
                        value = self._codec.decode(owned.value, state.elements)
                        history[channel]["seed"] = value
                        open_channels.discard(channel)
        for entry in history.values():
            entry["writes"].reverse()
        return history

    def _versions(self, state: GraphThreadState, key: CheckpointKey) -> ChannelVersions:
        body = self._codec.decode(state.checkpoints[key].body, state.elements)
        return cast("ChannelVersions", body["channel_versions"])

    # removing and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its namespaces."""
        thread = self._threads.get(str(thread_id))
        with thread.lock:
            thread.delete()
        self._threads.remove(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of some runs, and the messages that only they hold."""
        runs = {str(run_id) for run_id in run_ids}

        def make_records(state: GraphThreadState) -> Records:
            kept = {key for key, each in state.checkpoints.items() if each.run not in runs}
            return self._removal(state, kept, with_messages=True)

        for thread_key in self._thread_keys() if runs else ():
            self._remove(thread_key, make_records)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove the checkpoints of some threads, by default all but the latest per namespace.

        Checkpoints that a delta channel needs to be rebuilt are kept as well.

        Raises:
            ValidationError: The strategy is neither "keep_latest" nor "delete".
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValidationError(
                f"`{strategy}` is not a strategy of `prune`",
                fields=("strategy",),
                hint='the strategies are "keep_latest" and "delete"',
            )

        def make_records(state: GraphThreadState) -> Records:
            latest = {state.latest(key.ns) for key in state.checkpoints}
            kept = {key for key in latest if key is not None}
            needed = [self._delta_ancestors(state, key) for key in kept]
            return self._removal(state, kept.union(*needed))

        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._remove(str(thread_id), make_records)

    def _delta_ancestors(self, state: GraphThreadState, key: CheckpointKey) -> set[CheckpointKey]:
        """Return the ancestors from which the delta channels of a checkpoint are rebuilt."""
        metadata = self._codec.decode(state.checkpoints[key].metadata, state.elements)
        versions = self._versions(state, key)
        missing = {
            channel
            for channel in metadata.get(_DELTA_COUNTERS) or {}
            if ValueKey(key.ns, channel, versions.get(channel, 0)) not in state.values
        }
        needed: set[CheckpointKey] = set()
        for each in state.ancestors(key):
            if not missing:
                break
            needed.add(each)
            versions = self._versions(state, each)
            missing -= {
                channel
                for channel in missing & versions.keys()
                if ValueKey(key.ns, channel, versions[channel]) in state.values
            }
        return needed

    def _remove(self, thread_key: str, make_records: Callable[[GraphThreadState], Records]) -> None:
        thread = self._threads.get(thread_key)
        with thread.lock:
            thread.change(make_records, create=False)

    def _removal(
        self,
        state: GraphThreadState,
        kept: Collection[CheckpointKey],
        *,
        with_messages: bool = False,
    ) -> Records:
        """Return records that hide all but some checkpoints, and carry values that these need."""
        if len(kept) == len(state.checkpoints):
            return []
        needed = {
            ValueKey(key.ns, channel, version)
            for key in kept
            for channel, version in self._versions(state, key).items()
        }
        removed = state.records_without(kept, needed)
        carried = [
            _record({"type": VALUE, **key._asdict(), **value.payload()})
            for key, value in state.carried_values(needed, removed)
        ]
        hidden = set(removed)
        if with_messages:
            hidden |= {each for each, source in state.projections.items() if source in removed}
        return [*carried, control.hide_ids(sorted(hidden), reason="prune")]

    def vacuum(self, thread_ids: Sequence[str]) -> int:
        """Remove what was pruned from the store for good; return how many bytes became free.

        Large values are blobs, which `SessionStore.optimize` removes.
        """
        freed = 0
        for thread_id in thread_ids:
            found = self._log.find(NAMESPACE, (str(thread_id),))
            if found is not None:
                report = self._log.vacuum(found)
                freed += report.bytes_before - report.bytes_after
        return freed

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread; an unknown source copies nothing.

        The target is a fork of the source: what the source has cost does not count again.

        Raises:
            ConflictError: The target exists.
        """
        copy_thread(self.store, str(source_thread_id), str(target_thread_id))

    # the asynchronous interface

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; see `put`."""
        return await run_in_worker(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote; see `put_writes`."""
        await run_in_worker(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint; see `get_tuple`."""
        return await run_in_worker(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints; see `list`."""

        def found() -> Iterator[CheckpointTuple]:
            return self.list(config, filter=filter, before=before, limit=limit)

        async for each in iterate(found, batch=8):
            yield each

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread; see `delete_thread`."""
        await run_in_worker(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of some runs; see `delete_for_runs`."""
        await run_in_worker(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread; see `copy_thread`."""
        await run_in_worker(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove checkpoints of some threads; see `prune`."""
        await run_in_worker(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to some channels; see `get_delta_channel_history`."""
        return await run_in_worker(self.get_delta_channel_history, config=config, channels=channels)


def _address(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the checkpoint namespace that a config names."""
    given = config["configurable"]
    return str(given["thread_id"]), given.get("checkpoint_ns") or ""


def _config(thread_key: str, key: CheckpointKey) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_key,
            "checkpoint_ns": key.ns,
            "checkpoint_id": key.id,
        }
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _record(payload: dict[str, Any], record_id: str | None = None) -> NewRecord:
    return NewRecord(payload=payload, id=record_id, parent_id=None, blobs=blobs_in(payload))
