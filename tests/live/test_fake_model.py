"""The fake model answers in every protocol, fails as it is told, and logs what it did."""

from __future__ import annotations

import json
from http.client import HTTPConnection, IncompleteRead
from typing import Any

import pytest
from fake_model import HELPER_TEXT, FakeModel, fake_model
from model_protocols import Reply, Tool

Json = dict[str, Any]

PROMPT = "Say hello."
TOOL = Tool("shell", {"command": "ls"})
USER = {"role": "user", "content": PROMPT}
TOOLS = [{"name": "shell"}]

REQUESTS: dict[str, tuple[str, Json]] = {
    "messages": ("/v1/messages", {"model": "m", "messages": [USER], "tools": TOOLS}),
    "responses": ("/v1/responses", {"model": "m", "input": [USER], "tools": TOOLS}),
    "chat": ("/v1/chat/completions", {"model": "m", "messages": [USER], "tools": TOOLS}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}], "tools": TOOLS},
    ),
}
every_protocol = pytest.mark.parametrize("protocol", REQUESTS)


def post(model: FakeModel, path: str, request: Json) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(request))
        response = connection.getresponse()
        return response.status, response.read().decode()
    except IncompleteRead as cut:
        return 0, cut.partial.decode()
    finally:
        connection.close()


def streamed(model: FakeModel, protocol: str) -> tuple[int, str]:
    """Ask for a stream, and return its status and its text."""
    path, request = REQUESTS[protocol]
    if protocol == "gemini":
        return post(model, path.replace(":generate", ":streamGenerate"), request)
    return post(model, path, {**request, "stream": True})


def numbers_in(text: str) -> set[int]:
    """Every number in the documents or events of an answer."""
    found: set[int] = set()

    def collect(pairs: list[tuple[str, Any]]) -> None:
        found.update(value for _, value in pairs if isinstance(value, int))

    for line in text.splitlines():
        body = line.removeprefix("data: ")
        if body.startswith("{"):
            json.loads(body, object_pairs_hook=collect)
    return found


@every_protocol
@pytest.mark.parametrize("asks_stream", [True, False])
def test_an_answer_has_its_text_and_its_figures(protocol: str, asks_stream: bool) -> None:
    with fake_model({PROMPT: [Reply("Unused."), Reply("Hello there.")]}) as model:
        streamed(model, protocol)
        status, text = (
            streamed(model, protocol) if asks_stream else post(model, *REQUESTS[protocol])
        )
    assert status == 200
    halves = ("Hello ", "there.") if asks_stream else ("Hello there.",)
    assert all(piece in text for piece in halves)
    usage = model.served[1].usage  # its figures are even, unlike those of the first call
    assert (usage.input, usage.cache_read, usage.output) == (14, 22, 6)
    sent = usage.input if protocol == "messages" else usage.sent
    assert {sent, usage.cache_read, usage.thinking} <= numbers_in(text)
    assert model.served[1].finished
    assert model.refused == []


@every_protocol
def test_a_tool_call_carries_its_name_and_its_input(protocol: str) -> None:
    with fake_model({PROMPT: [Reply("Look.", tool=TOOL)]}) as model:
        _, text = streamed(model, protocol)
    assert '"shell"' in text
    assert "command" in text
    assert "call_live_0" in text


@every_protocol
@pytest.mark.parametrize("status", [429, 500])
def test_a_scripted_failure_is_followed_by_the_next_reply(protocol: str, status: int) -> None:
    with fake_model({PROMPT: [Reply(status=status), Reply("Hello.")]}) as model:
        failed, answered = streamed(model, protocol), streamed(model, protocol)
    assert failed[0] == status
    assert answered[0] == 200
    assert [one.finished for one in model.served] == [False, True]


@every_protocol
def test_a_cut_answer_ends_half_way_and_is_not_finished(protocol: str) -> None:
    with fake_model({PROMPT: [Reply("Hello there.", cut=True)]}) as model:
        _, text = streamed(model, protocol)
    assert "Hello " in text
    assert "there." not in text
    assert not model.served[0].finished


@every_protocol
def test_a_stalled_answer_goes_on_when_it_is_released(protocol: str) -> None:
    with fake_model({PROMPT: [Reply("Hello there.", stalls=True)]}) as model:
        model.released.set()
        _, text = streamed(model, protocol)
    assert model.stalled.is_set()
    assert "there." in text
    assert model.served[0].finished


def test_a_request_without_tools_is_a_helper_call_that_costs_nothing() -> None:
    path, request = REQUESTS["chat"]
    with fake_model({}) as model:
        status, text = post(model, path, {**request, "tools": []})
    assert (status, HELPER_TEXT in text) == (200, True)
    assert [one.usage.sent for one in model.helpers] == [0]
    assert model.served == []


def test_a_prompt_without_a_reply_is_refused_and_noted() -> None:
    with fake_model({PROMPT: []}) as model:
        status, _ = streamed(model, "chat")
    assert status == 404
    assert len(model.refused) == 1


def test_of_several_prompts_in_one_text_the_last_is_answered() -> None:
    path, request = REQUESTS["chat"]
    joined = {"role": "user", "content": f"Ignore this.\n\n{PROMPT}"}
    script = {PROMPT: [Reply("Hello.")], "Ignore this.": [Reply("Never.")]}
    with fake_model(script) as model:
        post(model, path, {**request, "messages": [joined]})
    assert [one.reply.text for one in model.served] == ["Hello."]
