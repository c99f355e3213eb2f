"""A model for the OpenAI Agents SDK that says what it is told to, without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

set_tracing_disabled(disabled=True)

Step = str | ResponseFunctionToolCall


def tool_call(name: str, arguments: str = "{}", call_id: str = "call-1") -> Step:
    """Return a step in which the model calls a tool."""
    return ResponseFunctionToolCall(
        type="function_call", name=name, arguments=arguments, call_id=call_id, id=f"fc-{call_id}"
    )


class ScriptedModel(Model):
    """Answers with the given steps, one per call; every call costs 100 + 20 tokens."""

    def __init__(self, *steps: Step, name: str = "gpt-5-mini") -> None:
        self.model = name
        self.seen: list[list[Any]] = []
        self._steps = list(steps)

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        self.seen.append([input] if isinstance(input, str) else list(input))
        step = self._steps.pop(0)
        number = len(self.seen)
        if isinstance(step, str):
            text = ResponseOutputText(type="output_text", text=step, annotations=[])
            output: Any = ResponseOutputMessage(
                id=f"msg-{number}",
                type="message",
                role="assistant",
                content=[text],
                status="completed",
            )
        else:
            output = step
        return ModelResponse(output=[output], usage=USAGE, response_id=f"resp-{number}")

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


USAGE = Usage(
    requests=1,
    input_tokens=100,
    output_tokens=20,
    total_tokens=120,
    input_tokens_details=InputTokensDetails.model_validate(
        {"cached_tokens": 60, "cache_write_tokens": 0}
    ),
    output_tokens_details=OutputTokensDetails(reasoning_tokens=5),
)
