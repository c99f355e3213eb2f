"""Claude Code: how lines are combined into messages and calls."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from claude_transcripts import (
    SESSION,
    Json,
    Transcript,
    identity_keys,
    text,
    tool,
)

from amux.adapters._base import SourceRef
from amux.adapters.claude import ADAPTER
from amux.client import create_client
from amux.model.message import SessionMessage
from amux.model.trace import count_turns, key_of
from amux.model.usage import Tokens
from amux.render import render


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


def test_a_message_streamed_over_lines_is_one_message_and_one_call(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant({"type": "thinking", "thinking": "hm"}, output=3, stop=None)
    transcript.assistant(text("Hello"), output=3, stop=None)
    transcript.assistant(tool("t1"), output=250, stop="tool_use")
    read = transcript.session_read()
    answer = read.messages[1]
    assert (answer.content, answer.thinking, answer.id) == ("Hello", "hm", "uuid-2")
    assert [call.tool_call_id for call in answer.tool_calls] == ["t1"]
    (call,) = read.facts.calls
    assert (call.tokens.output, call.repeats, call.gaps) == (250, 2, ())
    assert (call.key, call.message_id) == ("msg_1", "uuid-2")
    assert answer.token_usage is not None
    assert answer.token_usage.output_tokens == 250


def test_results_between_parallel_calls_wait_behind_their_message(transcript: Transcript) -> None:
    transcript.user("go")
    transcript.assistant(tool("t1"), stop="tool_use")
    transcript.result("t1", "one")
    transcript.assistant(tool("t2", "Read"), stop="tool_use")
    transcript.result("t2", [text("two")], is_error=True)
    transcript.assistant(text("done"), message_id="msg_2")
    read = transcript.session_read()
    assert [message.role for message in read.messages] == [
        "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip
    assert read.tool_calls == [("Bash", True), ("Read", False)]
    results = [message.tool_result for message in read.messages if message.tool_result]
    assert [(result.tool_name, result.is_error) for result in results] == [
        ("Bash", False),
        ("Read", True),
    ]
    assert read.messages[3].content == "two"
    assert len(read.facts.calls) == 2


def test_figures_that_never_became_final_are_a_lower_bound(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("a"), output=3, stop=None)
    transcript.assistant(text("b"), output=3, stop=None)
    transcript.assistant(text("c"), message_id="msg_2", output=3, stop=None)
    transcript.assistant(text("d"), message_id="msg_2", output=209, stop=None)
    first, second = transcript.session_read().facts.calls
    assert first.gaps == ("output-not-recorded",)
    assert second.gaps == ()


def test_lines_that_know_no_stop_reason_are_taken_at_their_word(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("a"), output=7, stop=...)
    (call,) = transcript.session_read().facts.calls
    assert (call.tokens.output, call.gaps) == (7, ())


def test_an_answer_without_usage_is_a_gap_and_not_a_free_call(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("a"), message={"usage": ...})
    read = transcript.session_read()
    assert read.facts.calls == ()
    assert read.facts.gaps == ("usage-not-recorded",)
    assert read.facts.models == ("claude-sonnet-4-5",)


def test_token_buckets_are_disjoint_and_odd_figures_count_nothing(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(
        text("a"),
        usage={
            "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 7,
            "cache_creation": {"ephemeral_1h_input_tokens": 3},
            "output_tokens_details": {"thinking_tokens": 2},
        },
    )
    transcript.assistant(
        text("b"), message_id="m2", usage={"input_tokens": -4}, output=cast("int", "9")
    )
    first, second = transcript.session_read().facts.calls
    assert first.tokens == Tokens(
        input=10, cache_read=5, cache_write=7, cache_write_1h=3, output=100, thinking=2
    )
    assert second.tokens == Tokens()


def test_an_interrupted_answer_is_marked_by_either_sign(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("par"), output=3, stop=None, isAbortedMidStream=True)
    transcript.user([text("[Request interrupted by user]")])
    transcript.user("again")
    transcript.assistant(text("par"), message_id="msg_2", output=3, stop=None)
    transcript.user([text("[Request interrupted by user]")], interruptedMessageId="msg_2")
    read = transcript.session_read()
    assert [call.gaps for call in read.facts.calls] == [("call-interrupted",)] * 2
    assert read.facts.gaps == ()
    assert read.texts("user") == ["hi", "again"]


def test_an_interrupted_call_that_left_no_line_is_a_gap_of_the_session(
    transcript: Transcript,
) -> None:
    transcript.user("hi")
    transcript.user([text("[Request interrupted by user]")])
    assert transcript.session_read().facts.gaps == ("call-interrupted",)


def test_a_tool_result_that_nothing_follows_leaves_a_call_that_was_not_recorded(
    transcript: Transcript,
) -> None:
    transcript.user("hi")
    transcript.assistant(tool("call_1"), tool("call_2"), stop="tool_use")
    transcript.result("call_1")
    assert transcript.session_read().facts.gaps == ()  # the other tool is still running
    transcript.result("call_2")
    transcript.raw({"type": "last-prompt", "lastPrompt": "hi", "sessionId": SESSION})
    assert transcript.session_read().facts.gaps == ("call-interrupted",)


REQUEST: Json = {"type": "api-request", "id": "request", "timestamp": "2026-01-02T03:05:00.000Z"}
COST: Json = {"type": "cost-state", "totalCostUSD": 0.25}
GIVEN_UP: Json = {
    "type": "assistant",
    "message": {"id": "up", "model": "<synthetic>", "content": [text("No response requested.")]},
    "isApiErrorMessage": False,
}


@pytest.mark.parametrize("end", [COST, GIVEN_UP], ids=["terminated", "killed-and-resumed"])
def test_a_request_with_tool_results_that_was_not_answered_is_a_gap(
    transcript: Transcript, end: Json
) -> None:
    transcript.user("hi")
    transcript.assistant(tool("call_1"), stop="tool_use")
    transcript.result("call_1")
    transcript.raw(REQUEST).raw({**end, "uuid": "end"})
    transcript.user("again")
    transcript.raw(REQUEST)
    transcript.assistant(text("hello"), message_id="msg_2")
    transcript.raw(COST)
    assert transcript.session_read().facts.gaps == ("call-interrupted",)


def test_the_call_that_a_forked_session_waited_for_is_no_gap_of_the_fork(
    transcript: Transcript,
) -> None:
    transcript.user("hi")
    transcript.assistant(tool("call_1"), stop="tool_use")
    transcript.result("call_1")
    transcript.raw({**GIVEN_UP, "uuid": "up"})  # a fork repeats messages, not requests
    transcript.user("again")
    transcript.raw(REQUEST)
    transcript.assistant(text("hello"), message_id="msg_2")
    assert transcript.session_read().facts.gaps == ()


@pytest.mark.parametrize(
    "end",
    [
        {"type": "assistant", "message": {"id": "msg_2", "content": "done", "usage": {}}},
        {"type": "assistant", "message": {"content": "API Error: 500"}, "isApiErrorMessage": True},
        COST,
    ],
    ids=["answered", "refused", "ended-in-order"],
)
def test_a_tool_result_before_the_end_leaves_no_gap(transcript: Transcript, end: Json) -> None:
    transcript.user("hi")
    transcript.assistant(tool("call_1"), stop="tool_use")
    transcript.result("call_1")
    transcript.raw({**end, "uuid": "last", "sessionId": SESSION})
    assert transcript.session_read().facts.gaps == ()


def test_error_notices_are_no_calls_but_part_of_the_identity(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("API Error: 500"), message_id="err", message={"model": "<synthetic>"})
    transcript.assistant(text("Overloaded"), message_id="err2", isApiErrorMessage=True)
    read = transcript.session_read()
    assert read.facts.calls == ()
    assert read.texts("assistant", synthetic=True) == ["API Error: 500", "Overloaded"]
    assert identity_keys(read.facts.copy_keys) == [key_of("err"), key_of("err2")]
    assert count_turns(read.facts.trace.kinds) == 0


def test_an_api_error_reads_as_an_error_of_the_agent(transcript: Transcript) -> None:
    transcript.user("go")
    fields = {"model": "<synthetic>", "id": "0e8a"}
    error = text("API Error: 500 Internal server error")
    transcript.assistant(error, message=fields, isApiErrorMessage=True)
    transcript.read()
    place = transcript.path.parents[2]
    client = create_client(home=place, env={"CLAUDE_CONFIG_DIR": str(place)})
    document = render(client.sessions.get("claude", transcript.session), "markdown")
    assert "**API error:** the agent reports that a model call failed." in document
    assert "API Error: 500 Internal server error" in document
    assert "Injected" not in document


def test_lines_without_ids_times_or_parents_follow_each_other(transcript: Transcript) -> None:
    transcript.raw({"type": "user", "message": {"role": "user", "content": "hi"}})
    transcript.raw({"type": "assistant", "message": {"role": "assistant", "content": "Hello"}})
    read = transcript.session_read()
    assert [message.content for message in read.messages] == ["hi", "Hello"]
    assert read.messages[1].parent_id == read.messages[0].id
    assert read.facts.created_at is None


def test_parents_skip_lines_that_are_no_messages(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.envelope("attachment")
    transcript.envelope("progress")
    transcript.assistant(text("Hello"))
    read = transcript.session_read()
    assert read.messages[1].parent_id == read.messages[0].id


def test_pasted_images_become_data_urls(transcript: Transcript) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    hostile = {"type": "base64", "media_type": 'text/html"><script>', "data": "AAAA"}
    transcript.user([{"type": "image", "source": source}, {"type": "image", "source": hostile}])
    (message,) = transcript.session_read().messages
    assert message.images == ("data:image/png;base64,AAAA",)
    assert not message.synthetic


def test_a_compaction_is_a_boundary_a_summary_and_a_gap(transcript: Transcript) -> None:
    last = transcript.user("hi")
    transcript.envelope(
        "system",
        subtype="compact_boundary",
        content="Conversation compacted",
        parentUuid=None,
        logicalParentUuid=last,
    )
    transcript.user("This session is being continued ...", isCompactSummary=True)
    read = transcript.session_read()
    assert read.facts.compactions == 1
    assert read.facts.gaps == ("compaction-call-not-recorded",)
    boundary, summary = read.messages[1:]
    assert (boundary.role, boundary.synthetic, boundary.parent_id) == ("system", True, last)
    assert (summary.role, summary.synthetic, summary.compaction) == ("user", True, True)


def test_a_summary_without_a_boundary_is_a_compaction_too(transcript: Transcript) -> None:
    transcript.user("This session is being continued ...", isCompactSummary=True)
    assert transcript.session_read().facts.compactions == 1


def test_a_message_that_goes_on_after_a_prompt_is_not_lost(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("first half"), output=3, stop=None)
    transcript.user("queued while busy")
    transcript.assistant(text("second half"), output=90)
    read = transcript.session_read()
    assert read.texts("assistant") == ["first half", "second half"]
    (call,) = read.facts.calls
    assert (call.tokens.output, call.message_id) == (90, read.messages[1].id)


def test_messages_behind_an_open_answer_are_bounded(transcript: Transcript) -> None:
    transcript.user("hi")
    transcript.assistant(text("Hello"))
    for _ in range(600):
        transcript.user("<system-reminder>x</system-reminder>", isMeta=True, timestamp=...)
    source = SourceRef(
        agent="claude", path=transcript.path, root=transcript.path.parents[1], session_id=SESSION
    )
    transcript.read()
    first = next(
        index
        for index, item in enumerate(ADAPTER.read(source, want="all"))
        if isinstance(item, SessionMessage) and item.role == "assistant"
    )
    assert first == 2
    assert len(transcript.session_read().messages) == 602


def test_a_tool_that_ran_on_the_server_is_answered_in_the_same_message(
    transcript: Transcript,
) -> None:
    transcript.user("search")
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    answer = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
    transcript.assistant(search, answer, text("Found"))
    read = transcript.session_read()
    (call,) = read.messages[1].tool_calls
    assert (call.tool_name, call.output) == ("web_search", [{"url": "u"}])
    assert read.messages[1].content == "Found"


@pytest.mark.parametrize("between", [tool("t1"), {"type": "thinking", "thinking": "hm"}])
def test_texts_of_an_answer_that_something_stands_between_are_paragraphs(
    transcript: Transcript, between: Json
) -> None:
    transcript.user("hi")
    for block in (text("I will look at"), text(" the file"), between, text("Meanwhile")):
        transcript.assistant(block)
    assert transcript.session_read().texts("assistant") == ["I will look at the file\n\nMeanwhile"]
