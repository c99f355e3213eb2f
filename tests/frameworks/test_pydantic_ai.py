"""The conversation store of Pydantic AI on every backend, compared with the framework's own."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from child_processes import child_env
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.usage import RequestUsage, RunUsage

from amux.integrations.pydantic_ai import NAMESPACE, AmuxConversationStore
from amux.store.session_store import SessionStore

SEEDS, OPERATIONS = 100, 100

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

OpenStore = Callable[[], SessionStore]


def prompt(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content=text)])


def answer(text: str) -> ModelResponse:
    usage = RequestUsage(input_tokens=len(text), output_tokens=3)
    return ModelResponse(parts=[TextPart(content=text)], model_name="gpt-5", usage=usage)


def turn(text: str) -> list[ModelMessage]:
    call = ToolCallPart("look", {"at": text}, tool_call_id=f"call-{text}")
    result = ToolReturnPart("look", [1, None, text], tool_call_id=f"call-{text}")
    return [
        prompt(text),
        ModelResponse(parts=[call]),
        ModelRequest(parts=[result]),
        answer(f"re: {text}"),
    ]


class Twins:
    """Makes one call on both stores, and checks that results and errors are equal.

    Entry ids and revisions are random, so those of our store are translated to the other's.
    """

    def __init__(self, ours: ConversationStore) -> None:
        self.stores: tuple[ConversationStore, ConversationStore] = (
            InMemoryConversationStore(),
            ours,
        )
        self.ids: dict[str | None, str | None] = {None: None}
        self._ours: dict[str, str] = {}
        self.errors: dict[str, int] = {}

    async def call(
        self, make: Callable[[ConversationStore, int], Awaitable[Any]]
    ) -> tuple[Any, Any] | None:
        """Return both results; None if both calls failed, with errors of one type and text."""
        results: list[Any] = []
        errors: list[Exception] = []
        for number, store in enumerate(self.stores):
            try:
                results.append(await make(store, number))
            except (UserError, LookupError) as error:
                errors.append(error)
        if errors:
            assert not results, errors
            expected, found = errors
            if isinstance(expected, LookupError):
                assert isinstance(found, LookupError)
            else:
                assert type(found) is type(expected)
                assert self._translated(str(found)) == str(expected)
            name = type(expected).__name__
            self.errors[name] = self.errors.get(name, 0) + 1
            return None
        return results[0], results[1]

    def note(self, entries: tuple[list[ConversationEntry], list[ConversationEntry]]) -> None:
        """Take note of the ids of entries that both stores made."""
        theirs, ours = entries
        assert len(theirs) == len(ours)
        for their, our in zip(theirs, ours, strict=True):
            self.ids[our.id] = their.id
            self._ours.setdefault(their.id, our.id)

    def entries(self, found: list[ConversationEntry]) -> list[ConversationEntry]:
        return [
            dataclasses.replace(each, id=str(self.ids[each.id]), parent_id=self.ids[each.parent_id])
            for each in found
        ]

    def record(self, found: ConversationRecord, expected: ConversationRecord) -> ConversationRecord:
        assert found.revision
        return dataclasses.replace(
            found,
            head_id=self.ids[found.head_id],
            forked_at=self.ids[found.forked_at],
            branches=[str(self.ids[each]) for each in found.branches],
            revision=expected.revision,
            updated_at=expected.updated_at,
        )

    def _translated(self, text: str) -> str:
        return UUID.sub(lambda found: self.ids.get(found[0]) or found[0], text)

    def pair(self, their_entry: str) -> tuple[str, str]:
        """Return an entry id of the framework's store and that of ours."""
        return their_entry, self._ours[their_entry]


class Walk:
    """Random operations on a handful of conversations."""

    def __init__(self, twins: Twins, seed: int) -> None:
        self.twins = twins
        self.random = random.Random(seed)
        self.seed = seed
        self.names = [f"{seed}-{number} 'ü/.." for number in range(6)]
        self.held: list[tuple[Conversation, Conversation]] = []  # loaded, and perhaps outdated
        self.count = 0

    def text(self) -> str:
        self.count += 1
        return f"text {self.seed}.{self.count}\u2028\x00"

    def scope(self) -> str | None:
        return self.random.choice([None, None, f"scope {self.seed}", "another"])

    async def load(self, limit: int | None = None) -> tuple[Conversation, Conversation] | None:
        name, scope = self.random.choice(self.names), self.scope()
        found = await self.twins.call(lambda s, _: s.load(name, limit=limit, scope=scope))
        assert found is not None
        theirs, ours = found
        if theirs is None:
            assert ours is None
            return None
        assert ours.messages == theirs.messages
        assert (ours.usage, ours.deferred_tool_requests) == (
            theirs.usage,
            theirs.deferred_tool_requests,
        )
        self.held = [*self.held[-5:], (theirs, ours)]
        return theirs, ours

    async def save(self, pair: tuple[Conversation, Conversation], scope: str | None = None) -> None:
        saved = await self.twins.call(lambda s, number: s.save(pair[number], scope=scope))
        if saved is not None:
            self.twins.note(saved)
            assert self.twins.entries(saved[1]) == saved[0]

    async def new(self) -> None:
        name, messages, scope = self.random.choice(self.names), turn(self.text()), self.scope()
        usage = RunUsage(requests=self.count, input_tokens=7, details={"x": 1})
        pair = tuple(
            Conversation(messages=list(messages), usage=usage, conversation_id=name)
            for _ in range(2)
        )
        await self.save((pair[0], pair[1]), scope)

    async def turn(self, limit: int | None = None) -> None:
        pair = await self.load(limit)
        if pair is not None:
            messages = turn(self.text())
            call = ToolCallPart("ask", {"n": self.count}, tool_call_id=f"ask{self.count}")
            for each in pair:
                each.messages.extend(messages)
                each.deferred_tool_requests = DeferredToolRequests(
                    approvals=[call], metadata={call.tool_call_id: {"why": None}}
                )
            await self.save(pair, self.scope())

    async def window(self) -> None:
        await self.turn(self.random.randrange(0, 5))

    async def rewrite(self) -> None:
        pair = await self.load()
        if pair is not None and pair[0].messages:
            place, changed = self.random.randrange(len(pair[0].messages)), prompt(self.text())
            for each in pair:
                each.messages[place] = changed
                each.new_message_index = None
            await self.save(pair)

    async def stale(self) -> None:
        if self.held:
            pair, messages = self.random.choice(self.held), turn(self.text())
            for each in pair:
                each.messages.extend(messages)
            await self.save(pair)

    async def branch(self) -> None:
        pair = await self.load()
        if pair is not None:
            name, at = pair[0].conversation_id, self.random.randrange(-1, 12)
            branched = await self.twins.call(
                lambda s, n: s.branch(name, at=at, expected_revision=pair[n].revision)
            )
            if branched is not None:
                assert branched[1].messages == branched[0].messages

    async def _entry(self, name: str) -> tuple[str, str]:
        """Return an entry of a conversation, of one of its branches, or of none."""
        record = await self.twins.stores[0].read_record(name)
        found = ["none"]
        if record is not None:
            for tip in (record.head_id, *record.branches):
                found += [each.id for each in await self.twins.stores[0].read_history(tip)]
        chosen = self.random.choice(found)
        return ("none", "none") if chosen == "none" else self.twins.pair(chosen)

    async def back(self) -> None:
        pair = await self.load()
        name = self.random.choice(self.names) if pair is None else pair[0].conversation_id
        entry = await self._entry(name)
        revisions = ("x", "x") if pair is None else (pair[0].revision, pair[1].revision)
        branched = await self.twins.call(
            lambda s, n: s.branch(name, from_entry=entry[n], expected_revision=revisions[n])
        )
        if branched is not None:
            assert branched[1].messages == branched[0].messages

    async def fork(self) -> None:
        name, new = self.random.choice(self.names), self.random.choice(self.names)
        scope, entry, at = self.scope(), await self._entry(name), self.random.randrange(0, 8)
        way = self.random.randrange(3)

        async def fork(store: ConversationStore, number: int) -> Conversation:
            if way == 0:
                return await store.fork(name, new_conversation_id=new, scope=scope)
            if way == 1:
                return await store.fork(name, at=at, new_conversation_id=new, source_scope=scope)
            return await store.fork(name, from_entry=entry[number], new_conversation_id=new)

        forked = await self.twins.call(fork)
        if forked is not None:
            assert forked[1].messages == forked[0].messages
            assert forked[1].usage == forked[0].usage

    async def delete(self) -> None:
        name, scope = self.random.choice(self.names), self.scope()
        await self.twins.call(lambda s, _: s.delete(name, scope=scope))

    async def list(self) -> None:
        scope, limit = f"scope {self.seed}", self.random.choice([None, 0, 2, -1])
        listed = await self.twins.call(lambda s, _: s.list_conversations(scope=scope, limit=limit))
        if listed is not None:
            theirs, ours = listed
            assert [each.conversation_id for each in ours] == [
                each.conversation_id for each in theirs
            ]
            pairs = zip(ours, theirs, strict=True)
            assert [self.twins.record(our, their) for our, their in pairs] == theirs

    async def entries(self) -> None:
        name, limit = self.random.choice(self.names), self.random.choice([None, 0, 1, 3, 50])
        found = await self.twins.call(lambda s, _: s.load_entries(name, limit=limit))
        assert found is not None
        theirs, ours = found
        assert (None if ours is None else self.twins.entries(ours)) == theirs
        if theirs:
            pair = self.twins.pair(theirs[-1].id)
            one = await self.twins.call(lambda s, n: s.read_entry(pair[n]))
            assert one is not None
            assert self.twins.entries([one[1]]) == [one[0]]

    async def gone(self) -> None:
        """Read any entry there ever was: if its last conversation was deleted, it is gone."""
        known = [each for each in self.twins.ids.values() if each][-80:]
        if known:
            pair = self.twins.pair(self.random.choice(known))
            await self.twins.call(lambda s, n: s.read_entry(pair[n]))

    async def run(self, operations: int) -> None:
        steps = [
            self.new, self.turn, self.turn, self.turn, self.window, self.rewrite, self.stale,
            self.branch, self.back, self.fork, self.fork, self.delete, self.list, self.entries,
            self.gone,
        ]  # fmt: skip
        for _ in range(operations):
            await self.random.choice(steps)()


def test_random_operations_have_the_results_and_the_errors_of_the_framework_s_own_store(
    store: SessionStore,
) -> None:
    twins = Twins(AmuxConversationStore(store))

    async def main() -> None:
        for seed in range(SEEDS):
            await Walk(twins, seed).run(OPERATIONS)

    asyncio.run(main())
    assert min(twins.errors[name] for name in ("ConversationConflict", "UserError", "KeyError")) > 9


def test_a_fork_survives_the_deletion_of_its_original_which_leaves_nothing(
    store: SessionStore,
) -> None:
    mine = AmuxConversationStore(store)

    async def main() -> None:
        whole = [*turn("a"), *turn("b")]
        saved = await mine.save(Conversation(messages=list(whole), conversation_id="original"))
        forked = await mine.fork("original", at=4, new_conversation_id="fork")
        await mine.delete("original")
        again = AmuxConversationStore(store)  # knows nothing about where entries are
        loaded = await again.load("fork")
        assert loaded is not None
        assert loaded.messages == forked.messages == whole[:4]
        assert (await again.read_entry(saved[3].id)).message == whole[3]
        with pytest.raises(LookupError):
            await again.read_entry(saved[4].id)
        loaded.messages.extend(turn("c"))
        await again.save(loaded)
        assert [each.conversation_id for each in await again.list_conversations()] == ["fork"]

    asyncio.run(main())
    (thread,) = store.list(namespace=NAMESPACE)
    assert thread.kind == "fork"


def test_a_list_reads_the_conversations_of_its_scope_alone(store: SessionStore) -> None:
    mine = AmuxConversationStore(store)
    scopes = ("ada", "bob", "", "a\0b", "a\ud800b", "\x1b[31m", "x" * 3000)

    async def main() -> None:
        for scope in scopes:
            for number in range(2):
                name = f"{scopes.index(scope)}.{number}"
                await mine.save(
                    Conversation(messages=turn(name), conversation_id=name), scope=scope
                )
        again = AmuxConversationStore(store)
        for position, scope in enumerate(scopes):
            found = await again.list_conversations(scope=scope)
            assert [each.conversation_id for each in found] == [f"{position}.1", f"{position}.0"]
        record = await mine.read_record("0.0")
        assert record is not None
        moved = dataclasses.replace(record, scope="bob")
        with pytest.raises(ConversationConflict):
            await mine.write_record(moved, expected_revision=record.revision)

    asyncio.run(main())


def test_of_two_saves_from_one_revision_exactly_one_wins(store: SessionStore) -> None:
    mine = AmuxConversationStore(store)

    async def main() -> None:
        await mine.save(Conversation(messages=turn("0"), conversation_id="c"))
        for number in range(8):
            copies = [await mine.load("c") for _ in range(2)]
            for side, copy in enumerate(copies):
                assert copy is not None
                copy.messages.append(prompt(f"{number}.{side}"))
            results = await asyncio.gather(
                *(mine.save(copy) for copy in copies if copy), return_exceptions=True
            )
            assert sorted(type(each).__name__ for each in results) == [
                "ConversationConflict",
                "list",
            ]
        loaded = await mine.load("c")
        assert loaded is not None
        assert len(loaded.messages) == 4 + 8

    asyncio.run(main())


def test_of_two_first_saves_of_a_conversation_exactly_one_wins(store: SessionStore) -> None:
    mine = AmuxConversationStore(store)

    async def main() -> None:
        for number in range(8):
            both = [
                Conversation(messages=turn(f"{side}"), conversation_id=f"c{number}")
                for side in range(2)
            ]
            results = await asyncio.gather(*map(mine.save, both), return_exceptions=True)
            assert sum(isinstance(each, ConversationConflict) for each in results) == 1

    asyncio.run(main())


def test_a_title_that_amux_sets_is_no_conflict(store: SessionStore) -> None:
    mine = AmuxConversationStore(store)

    async def main() -> None:
        conversation = Conversation(messages=turn("a"), conversation_id="c")
        await mine.save(conversation)
        (thread,) = store.list()
        store.thread(thread.thread_id).set_title("About a")
        conversation.messages.extend(turn("b"))
        await mine.save(conversation)
        loaded = await mine.load("c")
        assert loaded is not None
        assert len(loaded.messages) == 8

    asyncio.run(main())


def test_a_deletion_that_was_interrupted_counts_and_is_completed_by_the_next_save(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = AmuxConversationStore(store)

    async def main() -> None:
        (first, *_) = await mine.save(Conversation(messages=turn("a"), conversation_id="c"))
        monkeypatch.setattr(store.log, "delete", lambda _: False)  # the process died before it
        await mine.delete("c")
        monkeypatch.undo()
        assert await mine.load("c") is None
        assert await mine.list_conversations() == []
        await mine.save(Conversation(messages=turn("b"), conversation_id="c"))
        loaded = await mine.load("c")
        assert loaded is not None
        assert len(loaded.messages) == 4
        with pytest.raises(LookupError):
            await AmuxConversationStore(store).read_entry(first.id)

    asyncio.run(main())
    assert len(store.list()) == 1


def test_it_works_under_trio(store: SessionStore) -> None:
    mine = AmuxConversationStore(store)

    async def main() -> int:
        await mine.save(Conversation(messages=turn("a"), conversation_id="c"))
        loaded = await mine.load("c", limit=3)
        return 0 if loaded is None else len(loaded.messages)

    assert trio.run(main) == 3


def test_a_batch_that_is_cut_off_anywhere_shows_neither_its_entries_nor_its_head(
    store_folder: Path,
) -> None:
    async def save(number: int) -> None:
        with SessionStore(store_folder) as opened:
            mine = AmuxConversationStore(opened)
            conversation = await mine.load("c") or Conversation(conversation_id="c")
            conversation.messages.extend(turn(f"{number}"))
            await mine.save(conversation)

    async def loaded() -> Conversation:
        with SessionStore(store_folder) as opened:
            found = await AmuxConversationStore(opened).load("c")
            assert found is not None
            return found

    asyncio.run(save(1))
    before = asyncio.run(loaded())
    (rollout,) = store_folder.glob("sessions/**/*.jsonl")
    start = rollout.stat().st_size
    asyncio.run(save(2))
    after = asyncio.run(loaded())
    whole = rollout.read_bytes()
    ends = [number for number, byte in enumerate(whole) if byte == ord("\n") and number >= start]
    assert len(ends) == 5  # four entries and the record
    for cut in sorted({start, start + 1, *ends, *(end + 1 for end in ends[:-1]), ends[-1] - 1}):
        rollout.write_bytes(whole[:cut])
        found = asyncio.run(loaded())
        assert found.messages == (after if cut == ends[-1] else before).messages
        assert found.revision == (after if cut == ends[-1] else before).revision
    rollout.write_bytes(whole[: ends[2]])
    asyncio.run(save(3))  # from what is visible
    assert len(asyncio.run(loaded()).messages) == 8


WRITER = """
import asyncio, sys
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from amux.integrations.pydantic_ai import AmuxConversationStore

async def main():
    store = AmuxConversationStore(sys.argv[1])
    for number in range(int(sys.argv[3])):
        while True:
            found = await store.load("c") or Conversation(conversation_id="c")
            text = f"{sys.argv[2]}.{number}"
            found.messages += [
                ModelRequest(parts=[UserPromptPart(content=text)]),
                ModelResponse(parts=[TextPart(content=text)]),
            ]
            try:
                await store.save(found)
            except ConversationConflict:
                continue
            break
        print(text, flush=True)

asyncio.run(main())
"""


def writer(address: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, address, name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=child_env(),
    )


def prompts_of(conversation: Conversation | None) -> list[str]:
    assert conversation is not None
    texts = [str(getattr(message.parts[0], "content", "")) for message in conversation.messages]
    assert texts[::2] == texts[1::2]  # never a prompt without its answer
    return texts[::2]


def test_processes_that_save_one_conversation_lose_nothing(
    store_address: str, reopened: OpenStore
) -> None:
    children = [writer(store_address, f"{number}", 6) for number in range(3)]
    for child in children:
        child.communicate()
        assert child.returncode == 0
    texts = prompts_of(asyncio.run(AmuxConversationStore(reopened()).load("c")))
    assert sorted(texts) == sorted(f"{number}.{each}" for number in range(3) for each in range(6))


def test_what_was_saved_before_a_process_was_killed_is_there(
    store_address: str, reopened: OpenStore
) -> None:
    acknowledged: list[str] = []
    for number in range(3):
        with writer(store_address, f"{number}", 10_000) as child:
            assert child.stdout is not None
            acknowledged += [child.stdout.readline().strip() for _ in range(5 + number)]
            os.kill(child.pid, signal.SIGKILL)
            acknowledged += child.stdout.read().split()
    texts = prompts_of(asyncio.run(AmuxConversationStore(reopened()).load("c")))
    assert [text for text in texts if text in acknowledged] == acknowledged
    assert len(texts) - len(acknowledged) <= 3  # saved, but the process died before it said so


def test_an_agent_continues_its_conversation_and_amux_shows_and_costs_it(
    store: SessionStore,
) -> None:
    mine = AmuxConversationStore(store)
    agent = Agent(TestModel(custom_output_text="It is 14:03.", model_name="gpt-5"))

    @agent.tool_plain
    def clock() -> str:
        return "14:03"

    async def main() -> RunUsage:
        for question in ("What time is it?", "And now?"):
            conversation = await mine.load("c", scope="ada") or Conversation(conversation_id="c")
            result = await agent.run(question, conversation=conversation)
            await mine.save(result, scope="ada")
        (record,) = await mine.list_conversations(scope="ada")
        return record.usage

    usage = asyncio.run(main())
    (thread,) = store.list(user_id="ada")
    assert (thread.preview, thread.turn_count) == ("What time is it?", 2)
    assert thread.source == "pydantic-ai"
    assert thread.tool_call_count == 1
    assert (thread.input_tokens, thread.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert thread.input_tokens > 0
    assert {hit.thread_id for hit in store.search("time")} == {thread.thread_id}
