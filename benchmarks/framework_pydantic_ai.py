"""Measures a chat of 100 turns of Pydantic AI against the store it ships, which is in memory only.

A turn loads the conversation, adds four messages and saves it, as an application does around a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationStore, InMemoryConversationStore
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from amux.integrations.pydantic_ai import AmuxConversationStore
from amux.store.session_store import SessionStore

TURNS: Final = 100
LOADS: Final = 20


def measure(folder: Path, url: str | None = None) -> dict[str, dict[str, float]]:
    """Return the milliseconds per turn and per load, and the bytes, of every store."""
    opened = {
        "AmuxConversationStore, files": SessionStore(folder / "files"),
        "AmuxConversationStore, files, synced": SessionStore(folder / "synced", fsync="always"),
    }
    if url is not None:
        schema = f"{'&' if '?' in url else '?'}schema=bench_{os.urandom(4).hex()}"
        opened["AmuxConversationStore, PostgreSQL"] = SessionStore(url + schema)
    stores: dict[str, ConversationStore] = {
        "InMemoryConversationStore": InMemoryConversationStore()
    }
    stores |= {name: AmuxConversationStore(store) for name, store in opened.items()}
    found = asyncio.run(_measure(stores))
    for store in opened.values():
        store.close()
    for name, place in zip(opened, ("files", "synced"), strict=False):
        files = (path for path in (folder / place).rglob("*") if path.is_file())
        found[name]["bytes"] = sum(path.stat().st_size for path in files)
    return found


async def _measure(stores: dict[str, ConversationStore]) -> dict[str, dict[str, float]]:
    turns: dict[str, list[float]] = {name: [] for name in stores}
    loads: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(TURNS):
        for name, store in stores.items():
            turns[name].append(await _seconds(_take_turn, store, number))
    for _ in range(LOADS):
        for name, store in stores.items():
            loads[name].append(await _seconds(_load, store))
    return {
        name: {"turn": median(turns[name]) * 1e3, "load": median(loads[name]) * 1e3}
        for name in stores
    }


async def _take_turn(store: ConversationStore, number: int) -> None:
    conversation = await store.load("chat") or Conversation(conversation_id="chat")
    conversation.messages.extend(_messages(number))
    await store.save(conversation)


def _messages(number: int) -> list[ModelMessage]:
    chosen = random.Random(number)
    texts = ["".join(chosen.choices("abcdef gh", k=300)) for _ in range(4)]
    usage = RequestUsage(input_tokens=900, output_tokens=200)
    call = ToolCallPart("look", {"at": texts[1]}, tool_call_id=f"call-{number}")
    result = ToolReturnPart("look", texts[2], tool_call_id=f"call-{number}")
    return [
        ModelRequest(parts=[UserPromptPart(content=texts[0])]),
        ModelResponse(parts=[call], usage=usage, model_name="gpt-5"),
        ModelRequest(parts=[result]),
        ModelResponse(parts=[TextPart(content=texts[3])], usage=usage, model_name="gpt-5"),
    ]


async def _load(store: ConversationStore) -> None:
    found = await store.load("chat")
    assert found is not None
    assert len(found.messages) == TURNS * 4


async def _seconds(call: Callable[..., Awaitable[Any]], *args: Any) -> float:
    start = time.perf_counter()
    await call(*args)
    return time.perf_counter() - start


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(measure(Path(place)), indent=2))
