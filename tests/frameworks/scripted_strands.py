"""A model for Strands Agents that says what it is told to, without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from strands.models import Model

Step = str | dict[str, Any]
"""A text, or the call of a tool with `name` and `input`."""


class ScriptedModel(Model):
    """Answers with the given steps, one per call; every call costs 40 + 60 + 20 tokens."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.seen: list[list[Any]] = []

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        self.seen.append(list(messages))
        step = self._steps.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(step, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": step}}}
        else:
            use = {"name": step["name"], "toolUseId": f"use-{len(self.seen)}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            given = {"input": json.dumps(step["input"])}
            yield {"contentBlockDelta": {"delta": {"toolUse": given}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(step, str) else "tool_use"}}
        usage = {
            "inputTokens": 100,
            "outputTokens": 20,
            "totalTokens": 120,
            "cacheReadInputTokens": 60,
        }
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}
