"""The outcomes of live tests: which agents are tested, and a JSON file per cell of the matrix.

`build/live/<agent>/<version>/<cell>.json` says whether the test of a cell passed, how long it took,
how it failed, and what amux does not know in the files that the agent wrote.
`tools/gen_live_matrix.py` makes the table in docs/agents.md from these files, `tools/live.py` a
report about one version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from live_agent import WANTED_AGENT, Agent

from amux.model.reports import UnknownReport

FOLDER: Final = Path(__file__).parents[2] / "build" / "live"
_LONGEST_COMPLAINT: Final = 4000


@dataclass
class Outcome:
    """What a test adds to its own result."""

    unknown: tuple[UnknownReport, ...] = ()


def chosen_agents(
    agents: Iterable[type[Agent]], pins: Mapping[str, Mapping[str, Any]]
) -> list[type[Agent]]:
    """The agents to test: the one that `make live` names, all, or those of `make test-full`."""
    if WANTED_AGENT == "all":
        return list(agents)
    if WANTED_AGENT:
        return [agent for agent in agents if agent.name == WANTED_AGENT]
    return [agent for agent in agents if pins[agent.name].get("full")]


def write_outcome(
    agent: str, version: str, cell: str, *, complaint: str | None, seconds: float, extra: Outcome
) -> None:
    """Keep the outcome of one test; an earlier one is replaced."""
    content = {
        "agent": agent,
        "version": version,
        "cell": cell,
        "passed": complaint is None,
        "complaint": None if complaint is None else complaint[-_LONGEST_COMPLAINT:],
        "seconds": round(seconds, 1),
        "unknown": msgspec.to_builtins(extra.unknown),
    }
    path = FOLDER / agent / version / f"{cell}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
