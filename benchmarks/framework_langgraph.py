"""Measures a chat of 100 turns through LangGraph, with its own savers and with `AmuxSaver`.

`python benchmarks/framework_langgraph.py [postgresql://...]` prints a table; the environment needs
LangGraph and its savers (`make frameworks`). A turn is 1.2 KB of text and three checkpoints. All
savers take turns, so that a busy machine slows all of them alike; medians count. The first row
shows what LangGraph itself needs.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from postgres_schema import new_schema

from amux.integrations.langgraph import AmuxSaver
from amux.store.session_store import SessionStore

TURNS: Final = 100
LOADS: Final = 20
TEXT: Final = 600
_CHAT: Final[RunnableConfig] = {"configurable": {"thread_id": "chat"}}

Figures = dict[str, float]
"""Milliseconds per turn, per load and per first load of a new saver, and bytes."""


def measure(folder: Path, url: str | None = None) -> dict[str, Figures]:
    """Return the figures of every saver by its name; with a URL also of those in PostgreSQL."""
    (folder / "sqlite").mkdir()
    with ExitStack() as stack:
        savers: dict[str, BaseCheckpointSaver[Any]] = {
            "InMemorySaver": InMemorySaver(),
            "SqliteSaver": stack.enter_context(
                SqliteSaver.from_conn_string(str(folder / "sqlite" / "chat.db"))
            ),
            "AmuxSaver, files": AmuxSaver(folder / "files"),
            "AmuxSaver, files, synced": AmuxSaver(SessionStore(folder / "synced", fsync="always")),
        }
        sizes: dict[str, Callable[[], int]] = {
            "SqliteSaver": lambda: _bytes_below(folder / "sqlite"),
            "AmuxSaver, files": lambda: _bytes_below(folder / "files"),
            "AmuxSaver, files, synced": lambda: _bytes_below(folder / "synced"),
        }
        again: dict[str, Callable[[], AbstractContextManager[BaseCheckpointSaver[Any]]]] = {
            "SqliteSaver": lambda: SqliteSaver.from_conn_string(str(folder / "sqlite" / "chat.db")),
            "AmuxSaver, files": lambda: AmuxSaver(folder / "files"),
        }
        if url is not None:
            from langgraph.checkpoint.postgres import PostgresSaver

            theirs, ours = (
                stack.enter_context(new_schema(url)),
                stack.enter_context(new_schema(url)),
            )
            their_saver = stack.enter_context(PostgresSaver.from_conn_string(theirs.theirs))
            their_saver.setup()
            savers["PostgresSaver"] = their_saver
            savers["AmuxSaver, PostgreSQL"] = AmuxSaver(ours.ours)
            sizes |= {"PostgresSaver": theirs.size, "AmuxSaver, PostgreSQL": ours.size}
            again["PostgresSaver"] = lambda: PostgresSaver.from_conn_string(theirs.theirs)
            again["AmuxSaver, PostgreSQL"] = lambda: AmuxSaver(ours.ours)
        figures = _time(savers)
        for name, make in again.items():
            figures[name]["first"] = median(_first_load(make) for _ in range(LOADS)) * 1e3
        for name, size in sizes.items():
            figures[name]["bytes"] = size()
        for saver in savers.values():
            if isinstance(saver, AmuxSaver):
                saver.close()
        return figures


def _time(savers: dict[str, BaseCheckpointSaver[Any]]) -> dict[str, Figures]:
    graphs = {name: _chat(saver) for name, saver in savers.items()}
    turns: dict[str, list[float]] = {name: [] for name in savers}
    loads: dict[str, list[float]] = {name: [] for name in savers}
    for number in range(TURNS):
        for name, graph in graphs.items():
            question = {"messages": [HumanMessage(_text(number))]}
            turns[name].append(_seconds(lambda: graph.invoke(question, _CHAT)))  # noqa: B023
    for _ in range(LOADS):
        for name, saver in savers.items():
            loads[name].append(_seconds(lambda: saver.get_tuple(_CHAT)))  # noqa: B023
    return {
        name: {"turn": median(turns[name]) * 1e3, "load": median(loads[name]) * 1e3}
        for name in savers
    }


def _first_load(make: Callable[[], AbstractContextManager[BaseCheckpointSaver[Any]]]) -> float:
    """Return the seconds of the first load of a new saver, which is connected already."""
    with make() as saver:
        saver.get_tuple({"configurable": {"thread_id": "another"}})
        return _seconds(lambda: saver.get_tuple(_CHAT))


def _chat(saver: BaseCheckpointSaver[Any]) -> Any:
    def answer(state: MessagesState) -> dict[str, Any]:
        number = len(state["messages"])
        return {"messages": [AIMessage(_text(-number), id=f"run-{number}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", answer)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    return builder.compile(checkpointer=saver)


def _text(seed: int) -> str:
    chosen = random.Random(seed)
    return "".join(chosen.choices("abcdefghij klmnop", k=TEXT))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _bytes_below(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def main() -> None:
    """Print the figures of all savers."""
    with tempfile.TemporaryDirectory(prefix="amux-bench-") as folder:
        figures = measure(Path(folder), sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"{'':26}{'ms/turn':>10}{'ms/load':>10}{'MB':>10}")
    for name, each in figures.items():
        size = f"{each['bytes'] / 1e6:10.2f}" if "bytes" in each else ""
        print(f"{name:26}{each['turn']:10.2f}{each['load']:10.2f}{size}")


if __name__ == "__main__":
    main()
