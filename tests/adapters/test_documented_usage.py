"""Token counts and costs of answers in formats that only the documentation describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amux.client import create_client
from amux.model.session import Session

Json = dict[str, Any]

PLACES = {
    "codex": ".codex/sessions/s1.jsonl",
    "gemini": ".gemini/sessions/s1.jsonl",
    "pi": ".pi/agent/sessions/s1/one.jsonl",
    "copilot": ".config/github-copilot/sessions/s1.json",
    "openclaw": ".openclaw/sessions/cli/s1.json",
}
SPELLINGS: tuple[Json, ...] = (
    {"usage": {"prompt_tokens": 1000, "completion_tokens": 500}},
    {"usage": {"input_tokens": 1000, "output_tokens": 500}},
    {"tokenUsage": {"inputTokens": 1000, "outputTokens": 500}},
    {"token_usage": {"input_tokens": 1000, "output_tokens": 500}},
    {"tokens": {"input": 1000, "output": 500}},
)


def session_of(home: Path, agent: str, answer: Json) -> Session:
    path = home / PLACES[agent]
    path.parent.mkdir(parents=True)
    messages = [
        {"id": "1", "parentId": None, "role": "user", "content": "do"},
        {"id": "2", "parentId": "1", "role": "assistant", "content": "done", **answer},
    ]
    for second, message in enumerate(messages):
        message["timestamp"] = f"2026-01-01T00:00:0{second}Z"
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps({"messages": messages}))
    return create_client(home=home, env={"AMUX_INDEX": "off"}).sessions.get(agent, "s1")


@pytest.mark.parametrize("agent", PLACES)
@pytest.mark.parametrize("stated", SPELLINGS, ids=str)
def test_usage_is_read_in_every_spelling(tmp_path: Path, agent: str, stated: Json) -> None:
    session = session_of(tmp_path, agent, {"model": "gpt-5", **stated})
    assert session.model == "gpt-5"
    assert session.cost is not None
    assert (session.cost.input_tokens, session.cost.output_tokens) == (1000, 500)
    assert (session.cost.source, session.cost.incomplete) == ("estimate", ())
    assert session.cost.total_usd > 0
    shown = session.messages[1].token_usage
    assert shown is not None
    assert (shown.input_tokens, shown.output_tokens) == (1000, 500)


@pytest.mark.parametrize("agent", PLACES)
def test_a_cost_alone_is_an_amount_without_tokens(tmp_path: Path, agent: str) -> None:
    session = session_of(tmp_path, agent, {"model": "gpt-5", "cost": 0.5})
    assert session.cost is not None
    assert (session.cost.total_usd, session.cost.source) == (0.5, "native")
    assert session.cost.incomplete == ("usage-not-recorded",)


@pytest.mark.parametrize("agent", PLACES)
@pytest.mark.parametrize("odd", [-5, "12", 1e30, 0.5, True, [1], {"n": 1}], ids=str)
def test_a_figure_that_is_none_is_not_taken_for_zero(
    tmp_path: Path, agent: str, odd: object
) -> None:
    usage = {"input_tokens": 1000, "output_tokens": odd}
    session = session_of(tmp_path, agent, {"model": "gpt-5", "usage": usage})
    assert session.cost is not None
    assert (session.cost.input_tokens, session.cost.output_tokens) == (1000, 0)
    assert session.cost.incomplete == ("usage-unusable",)
    assert session.messages[1].token_usage is None
