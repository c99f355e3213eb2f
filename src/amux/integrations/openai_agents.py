"""`AmuxSession`: the OpenAI Agents SDK keeps its sessions in an amux store.

    from agents import Agent, Runner
    from amux.integrations.openai_agents import AmuxSession

    session = AmuxSession("user-17", "~/.myagent")
    result = await Runner.run(agent, "Hello", session=session)
    await session.store_run_usage(result)

A session is a thread, an item is a record with the item as the SDK gave it. `AmuxSession` behaves
like `SQLiteSession`, and has the branches and reports of `AdvancedSQLiteSession` under their names.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

try:
    from agents.items import TResponseInputItem
    from agents.memory.session_settings import (
        SessionSettings,
        coerce_session_settings,
        resolve_session_limit,
    )
    from agents.result import RunResultBase
except ImportError as error:
    from amux.integrations._extras import missing_extra

    raise missing_extra(error, "the OpenAI Agents SDK", "openai-agents") from error

from amux.errors import ConflictError
from amux.integrations import openai_agents_turns as turns
from amux.integrations._common import StoreAddress, check_choice, open_store, threads_below
from amux.integrations.openai_agents_thread import NAMESPACE, ItemThread, key_of
from amux.rollout import control
from amux.rollout.records import Record
from amux.store.session_store import SessionStore
from amux.workers import run_in_worker

try:  # private to the SDK: without it a compaction clears the session and adds the items
    from agents.memory.session import _CompactionSnapshot
except ImportError:
    _CompactionSnapshot = None  # type: ignore[assignment,misc]  # a class, if the SDK has it

MAIN: Final = "main"
"""The branch that every session begins with."""

_RECENT: Final = 50
"""The last prompt is mostly one of so many last items."""

OnClear = Literal["hide", "erase"]
"""The effect of `clear_session`: the history stays searchable, or is removed for good."""


class AmuxSession:
    """A session of the OpenAI Agents SDK in a directory, a database or an open store.

    Calls run in worker threads and are bound to no event loop. A cancelled change is waited for.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: StoreAddress,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        on_clear: OnClear = "hide",
        **meta: Any,
    ) -> None:
        """Open a session; nothing is read or created before the first use.

        `meta` are fields of a new thread, such as `user_id`, `title` and `cwd`.
        """
        check_choice("on_clear", on_clear, get_args(OnClear))
        self.session_id = session_id
        self.session_settings = (
            SessionSettings()
            if session_settings is None
            else coerce_session_settings(session_settings)
        )
        self.store = open_store(store)
        self._owns_store = not isinstance(store, SessionStore)
        self._erases = on_clear == "erase"
        self._meta = {**meta, "extra": {"session_id": session_id, **meta.get("extra", {})}}
        self._branch = MAIN
        self._thread = self._thread_of(MAIN)
        self._closed = False

    # the protocol of the SDK

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit the latest ones, all if it is negative."""
        records = await run_in_worker(self._open_thread().records, self._limit(limit))
        return [record.payload for record in records]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items; all are stored or none."""
        thread = self._open_thread()
        if items:
            await run_in_worker(thread.append, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None if there is none."""
        popped: TResponseInputItem | None = await run_in_worker(self._open_thread().pop)
        return popped

    async def clear_session(self) -> None:
        """Empty the conversation of the current branch."""
        await run_in_worker(self._open_thread().clear, erase=self._erases)

    def close(self) -> None:
        """Close the session, and the store if the session opened it."""
        if not self._closed and self._owns_store:
            self.store.close()
        self._closed = True

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """Return the latest items with a function that replaces them if nothing changed them.

        The compaction session of the SDK looks for this method. None makes it clear the session and
        add the items again; so does a subclass that reads or adds items in another way.
        """
        is_plain = (
            type(self).get_items is AmuxSession.get_items
            and type(self).add_items is AmuxSession.add_items
        )
        if _CompactionSnapshot is None or not is_plain:
            return None
        thread = self._open_thread()
        records, complete = await run_in_worker(thread.tail, limit)

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            return await run_in_worker(thread.replace_tail, records[start:], output, prune_prefix)

        return _CompactionSnapshot([each.payload for each in records], complete, replace_suffix)

    # usage

    async def store_run_usage(self, result: RunResultBase, *, model: str | None = None) -> None:
        """Store the tokens of a run, call by call; storing one result twice counts it once.

        `model` is the name of the model, needed if the agents of the run do not name it.
        """
        await run_in_worker(self._store_run_usage, self._open_thread(), result, model)

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Return the usage of a branch, by default of all; None if none was stored."""
        branches = [branch_id] if branch_id else await run_in_worker(self._branch_ids)
        events: list[Record] = []
        for branch in branches:
            events += await run_in_worker(self._thread_of(branch).events, control.USAGE)
        return turns.total_usage(events)

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the usage of every turn that has any, or of one; {} if that has none."""
        thread = self._thread_of(branch_id or self._branch)
        events = await run_in_worker(thread.events, control.USAGE)
        found = turns.turn_usage(await run_in_worker(thread.records), events)
        if user_turn_number is None:
            return found
        chosen = (each for each in found if each.pop("user_turn_number") == user_turn_number)
        return next(chosen, {})

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """Return the tools, how often each was called in a turn, and the number of the turn."""
        return turns.count_tools(await self._records(branch_id))

    # turns and branches

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return the turns of a branch with `turn`, `content`, `full_content` and `timestamp`."""
        return turns.describe_turns(await self._records(branch_id))

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the turns whose prompts contain a text."""
        found = await self.get_conversation_turns(branch_id)
        return [turn for turn in found if turns.matches(turn, search_term)]

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Continue from the point before a turn on a new branch; return the id of the branch.

        The branch is a fork: it has copies of the items, and its cost does not count them.

        Raises:
            ValueError: There is no such turn, or the name is blank or taken.
        """
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")
        name = branch_name or f"branch_from_turn_{turn_number}_{uuid.uuid4().hex[:8]}"
        await run_in_worker(self._fork, turn_number, name)
        self._switch(name)
        return name

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """Continue from the point before the first turn whose prompt contains a text."""
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(f"No user turns found containing '{search_term}'")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Work on another branch; raise `ValueError` if it does not exist."""
        if branch_id not in await run_in_worker(self._branch_ids):
            raise ValueError(f"Branch '{branch_id}' does not exist")
        self._switch(branch_id)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return the branches with their numbers of messages and turns, the oldest first."""
        return await run_in_worker(self._describe_branches)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:  # noqa: FBT001, FBT002  # the SDK's
        """Delete a branch; with `force` also the current one, after switching to "main"."""
        if branch_id == MAIN:
            raise ValueError("Cannot delete the 'main' branch")
        if branch_id not in await run_in_worker(self._branch_ids):
            raise ValueError(f"Branch '{branch_id}' does not exist")
        if branch_id == self._branch:
            if not force:
                raise ValueError(f"Cannot delete current branch '{branch_id}' without force=True")
            self._switch(MAIN)
        thread_id = self._thread_of(branch_id).thread_id
        if thread_id is not None:
            await run_in_worker(self.store.log.delete, thread_id)

    def _open_thread(self) -> ItemThread:
        """Return the thread of the current branch."""
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} is closed")
        return self._thread

    def _limit(self, limit: int | None) -> int | None:
        resolved = resolve_session_limit(limit, self.session_settings)
        return None if resolved is None or resolved < 0 else resolved

    def _thread_of(self, branch: str) -> ItemThread:
        key = key_of(self.session_id) if branch == MAIN else key_of(self.session_id, branch)
        return ItemThread(self.store, key, self._meta)

    def _switch(self, branch: str) -> None:
        self._branch, self._thread = branch, self._thread_of(branch)

    async def _records(self, branch_id: str | None) -> list[Record]:
        return await run_in_worker(self._thread_of(branch_id or self._branch).records)

    def _branch_ids(self) -> list[str]:
        """Return the branches, the oldest first."""
        own = key_of(self.session_id)
        threads = threads_below(self.store.log, NAMESPACE, *own)
        keys = [each.key for each in sorted(threads, key=lambda each: each.created_at)]
        return [MAIN, *(key[-1] for key in keys if key is not None and key != own)]

    def _describe_branches(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for branch in self._branch_ids():
            thread = self._thread_of(branch)
            records = thread.records()
            summary = None if thread.thread_id is None else self.store.log.get(thread.thread_id)
            found.append(
                {
                    "branch_id": branch,
                    "message_count": len(records),
                    "user_turns": len(turns.prompts_of(records)),
                    "is_current": branch == self._branch,
                    "created_at": None if summary is None else summary.created_at.isoformat(),
                }
            )
        return found

    def _fork(self, turn_number: int, branch: str) -> None:
        thread = self._open_thread()
        records = thread.records()
        prompts = turns.prompts_of(records)
        if thread.thread_id is None or not 0 < turn_number <= len(prompts):
            raise ValueError(f"Turn {turn_number} does not exist in branch '{self._branch}'")
        place = records.index(prompts[turn_number - 1])
        kept: dict[str, Any] = {"until": records[place - 1].id} if place else {"keep_first": 0}
        key = key_of(self.session_id, branch)
        if branch == MAIN or self.store.log.find(NAMESPACE, key) is not None:
            raise ValueError(f"Branch '{branch}' already exists")
        try:
            given = {name: each for name, each in self._meta.items() if name != "title"}
            self.store.fork(thread.thread_id, **kept, **given, key=key)
        except ConflictError as error:
            raise ValueError(f"Branch '{branch}' already exists") from error

    @staticmethod
    def _store_run_usage(thread: ItemThread, result: RunResultBase, model: str | None) -> None:
        prompts = turns.prompts_of(thread.records(_RECENT)) or turns.prompts_of(thread.records())
        records = turns.usage_records(result, prompts[-1] if prompts else None, model)
        if records:
            thread.add_events(records)
