"""Codex: authors and billing in versions and situations without a capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from codex_lines import AGENTS_MD, ENVIRONMENT, OWN, PARENT, Writer, prompts

from amux.model.facts import Prefix


@pytest.fixture
def rollout(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


# Authors


def test_bare_lines_have_their_cwd_in_the_environment_block(rollout: Writer) -> None:
    rollout.bare(id=OWN, timestamp="2026-01-02T03:04:05Z", instructions=None)
    rollout.bare(record_type="state")
    for text in ("<user_instructions>\nrules\n</user_instructions>", ENVIRONMENT, "Hello"):
        part = {"type": "input_text", "text": text}
        rollout.bare(type="message", role="user", content=[part])
    rollout.bare(type="message", role="assistant", content=[{"type": "output_text", "text": "Hi"}])
    facts, messages, _ = rollout.read()
    assert facts.cwd == "/home/dev/x"
    assert prompts(messages) == ["Hello"]
    assert facts.gaps == ("usage-not-recorded",)
    assert facts.created_at == facts.updated_at


def test_the_specifications_path_gives_the_stem_as_id(tmp_path: Path) -> None:
    rollout = Writer(tmp_path, name="session-2025-01-15-001.jsonl")
    rollout.bare(role="user", content="What is up?").bare(role="assistant", content="Nothing.")
    facts, messages, _ = rollout.read()
    assert facts.session_id == "session-2025-01-15-001"
    assert facts.first_prompt == "What is up?"
    assert [m.content for m in messages] == ["What is up?", "Nothing."]


@pytest.mark.parametrize(
    "stated",
    [
        {"usage": {"input_tokens": 700, "output_tokens": 50}},
        {"usage": {"prompt_tokens": 700, "completion_tokens": 50}},
        {"usage": {"input_tokens": 900, "cached_input_tokens": 200, "output_tokens": 50}},
        {"usage": {"input_tokens": 900, "input_tokens_details": {"cached_tokens": 200},
                   "output_tokens": 50}},
        {"tokenUsage": {"inputTokens": 700, "outputTokens": 50, "cachedTokens": 200}},
        {"token_usage": {"input_tokens": 700, "output_tokens": 50}},
        {"tokens": {"input": 700, "output": 50}},
    ],
)  # fmt: skip
def test_a_bare_answer_may_state_model_and_usage_itself(tmp_path: Path, stated: Any) -> None:
    rollout = Writer(tmp_path, name="spec.jsonl")
    for name in ("one", "two"):
        rollout.bare(role="user", content=f"{name}?")
        rollout.bare(role="assistant", content=name, model="gpt-5", **stated)
    facts, messages, _ = rollout.read()
    assert [(call.model, call.tokens.input, call.tokens.output) for call in facts.calls] == [
        ("gpt-5", 700, 50),
        ("gpt-5", 700, 50),
    ]
    assert len({call.key for call in facts.calls}) == 2
    assert all(call.tokens.cache_read in {0, 200} for call in facts.calls)
    answers = [message for message in messages if message.role == "assistant"]
    assert [answer.model for answer in answers] == ["gpt-5", "gpt-5"]
    assert all(answer.token_usage and answer.token_usage.input_tokens == 700 for answer in answers)
    assert facts.gaps == ()


def test_a_bare_answer_may_state_its_cost_or_only_its_model(tmp_path: Path) -> None:
    rollout = Writer(tmp_path, name="spec.jsonl")
    rollout.bare(role="user", content="?")
    rollout.bare(role="assistant", content="!", model="gpt-5", cost=0.5)
    rollout.bare(role="user", content="?").bare(role="assistant", content="!", model="gpt-6")
    facts, _, _ = rollout.read()
    (call,) = facts.calls
    assert (call.native_nusd, call.tokens.total) == (500_000_000, 0)
    assert call.gaps == ("usage-not-recorded",)
    assert facts.models == ("gpt-6",)
    assert facts.gaps == ("usage-not-recorded",)


def test_without_events_prompts_are_recognised_by_how_they_begin(rollout: Writer) -> None:
    rollout.meta().user(AGENTS_MD, ENVIRONMENT).user("First").answer("One")
    _, messages, _ = rollout.read()
    assert prompts(messages) == ["First"]
    rollout.prompt("Second").user("a text that no event confirms").answer("Two")
    _, messages, _ = rollout.read()
    assert prompts(messages) == ["First", "Second"], "what was written by hand stays a prompt"


def test_injected_text_of_an_unknown_kind_is_told_by_the_missing_event(rollout: Writer) -> None:
    rollout.meta().user("<from_the_future>context</from_the_future>").prompt("Real").answer("Yes")
    facts, messages, _ = rollout.read()
    assert prompts(messages) == ["Real"]
    assert facts.first_prompt == "Real"


def test_events_before_their_text_and_events_of_injected_text(rollout: Writer) -> None:
    rollout.meta().user(ENVIRONMENT)
    rollout.event("user_message", message=ENVIRONMENT, kind="environment_context")
    rollout.event("user_message", message="Hello", kind="plain").user("Hello").answer("Hi")
    rollout.event("user_message", message="only on screen").answer("Indeed")
    _, messages, _ = rollout.read()
    assert prompts(messages) == ["Hello", "only on screen"]


def test_typed_and_injected_parts_of_one_message_are_distinguished(rollout: Writer) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    content = [
        {"type": "input_text", "text": ENVIRONMENT},
        {"type": "input_text", "text": '<image name=[Image #1] path="/x.png">'},
        image,
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "What is this?"},
    ]
    rollout.meta().item("message", role="user", content=content)
    rollout.event("user_message", message="What is this?").answer("A dot")
    _, messages, _ = rollout.read()
    assert [(m.content, m.synthetic) for m in messages[:2]] == [
        (ENVIRONMENT, True),
        ("What is this?", False),
    ]
    assert messages[1].images == ("data:image/png;base64,AAAA",)


def test_the_kind_of_a_part_is_enough_to_know_a_prompt(rollout: Writer) -> None:
    kinds = "internal_chat_message_metadata_passthrough"
    rollout.meta()
    rollout.user("Typed", **{kinds: {"content_item_kinds": ["user.text"]}})
    rollout.event("user_message", message="Typed")
    rollout.user("Made up", **{kinds: {"content_item_kinds": ["harness.hint"]}}).answer("Yes")
    _, messages, _ = rollout.read()
    assert prompts(messages) == ["Typed"]


def test_reasoning_and_calls_of_one_response_are_one_message(rollout: Writer) -> None:
    rollout.meta().model().prompt("Go")
    rollout.item("reasoning", summary=[{"type": "summary_text", "text": "Hm."}])
    rollout.answer("I will.")
    rollout.item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c1")
    rollout.item("local_shell_call", call_id="c2", action={"type": "exec", "command": ["ls"]})
    rollout.item("web_search_call", id="w1", action={"type": "search", "query": "q"})
    rollout.count(10, 5)
    rollout.item("custom_tool_call_output", call_id="c1", output="Exit code: 1\nOutput:\nno")
    rollout.item("local_shell_call_output", call_id="c2", output="fine")
    _, (_, answer, patch, shell), problems = rollout.read()
    assert (answer.content, answer.thinking, answer.model) == ("I will.", "Hm.", "gpt-x")
    assert [call.tool_name for call in answer.tool_calls] == [
        "apply_patch",
        "local_shell",
        "web_search",
    ]
    assert answer.token_usage is not None
    assert answer.token_usage.output_tokens == 5
    assert patch.tool_result is not None
    assert (patch.tool_result.tool_name, patch.tool_result.is_error) == ("apply_patch", True)
    assert shell.tool_result is not None
    assert (shell.tool_result.tool_name, shell.tool_result.is_error) == ("local_shell", False)
    assert problems == []


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ('{"output":"oops","metadata":{"exit_code":1,"duration_seconds":0.0}}', True),
        ('{"output":"fine","metadata":{"exit_code":0}}', False),
        ("Exit code: 2\nWall time: 0 seconds\nOutput:\n", True),
        ("Chunk ID: 1\nProcess exited with code 1\nOutput:\nExit code: 0", True),
        ("Chunk ID: 1\nProcess exited with code 0\nOutput:\nExit code: 1", False),
        ([{"type": "input_text", "text": '{"exit_code":3,"output":""}'}], True),
        ([{"type": "input_text", "text": "Script completed"}, {"type": "x"}], False),
        ("aborted by user after 1.2s", True),
        ({"content": "no", "success": False}, True),
        ("failed to parse function arguments: EOF", True),
        ("Plan updated", False),
        (None, False),
        ([1, None, {"text": 2}], False),
    ],
)
def test_failed_tools_are_recognised_in_every_shape(
    rollout: Writer, output: Any, failed: bool
) -> None:
    rollout.meta().prompt("Go").call("c1", output=output)
    _, messages, _ = rollout.read()
    assert messages[-1].tool_result is not None
    assert messages[-1].tool_result.is_error is failed


def test_an_events_exit_code_beats_the_text(rollout: Writer) -> None:
    rollout.meta().prompt("Go")
    rollout.item("function_call", name="exec_command", arguments="{}", call_id="c1")
    item = {"type": "CommandExecution", "id": "c1", "status": "failed", "exit_code": 9}
    rollout.event("item_completed", item=item)
    rollout.item("function_call_output", call_id="c1", output="looks fine")
    _, messages, _ = rollout.read()
    assert messages[-1].tool_result is not None
    assert messages[-1].tool_result.is_error is True


def test_a_tools_output_without_its_call_is_a_problem(rollout: Writer) -> None:
    rollout.meta().prompt("Go").item("function_call_output", call_id="lost", output="x")
    facts, messages, problems = rollout.read()
    assert [problem.code for problem in problems] == ["orphan-result"]
    assert facts.problem_count == 1
    assert messages[-1].content == "x"


# Billing


def test_a_repeated_count_an_estimate_and_an_empty_one_are_no_calls(rollout: Writer) -> None:
    rollout.meta().model().prompt("Go").event("token_count", info=None)
    rollout.answer("One").count(10, 1).count(0, 0).count(10, 1, total=(10, 1))
    rollout.prompt("More").answer("Two").count(20, 2)
    facts, _, _ = rollout.read()
    assert [call.tokens.input for call in facts.calls] == [10, 20]
    assert facts.gaps == ()


@pytest.mark.parametrize(("odd", "tokens"), [(7.9, 7), (None, 0), (1e3, 1000)])
def test_an_odd_figure_counts_as_a_whole_number(
    rollout: Writer, odd: float | None, tokens: int
) -> None:
    usage = {"input_tokens": 5, "output_tokens": odd, "reasoning_output_tokens": odd}
    rollout.meta().prompt("Go").answer("One").line("token_usage_record", {"usage": usage})
    info = {"total_token_usage": usage, "last_token_usage": {**usage, "input_tokens": 6}}
    rollout.prompt("More").answer("Two").event("token_count", info=info).count(4, 4)
    facts, _, problems = rollout.read()
    thinking = None if odd is None else tokens
    found = [(call.tokens.output, call.tokens.thinking) for call in facts.calls]
    assert found == [(tokens, thinking), (tokens, thinking), (4, None)]
    assert problems == []


@pytest.mark.parametrize("odd", [-3, "7", 10**30, True, [1]], ids=str)
def test_a_figure_that_is_none_marks_the_call(rollout: Writer, odd: object) -> None:
    usage = {"input_tokens": 5, "output_tokens": odd, "reasoning_output_tokens": 1}
    rollout.meta().prompt("Go").answer("One").line("token_usage_record", {"usage": usage})
    info = {"total_token_usage": {"input_tokens": 9}, "last_token_usage": {"input_tokens": odd}}
    rollout.prompt("More").answer("Two").event("token_count", info=info).count(4, 4)
    facts, messages, problems = rollout.read()
    found = [(call.tokens.input, call.tokens.output, call.gaps) for call in facts.calls]
    assert found == [(5, 0, ("usage-unusable",)), (0, 0, ("usage-unusable",)), (4, 4, ())]
    answers = (message for message in messages if message.role == "assistant")
    assert next(answers).token_usage is None
    assert (facts.gaps, problems) == ((), [])


def test_unusable_totals_are_a_gap(rollout: Writer) -> None:
    info = {"total_token_usage": {"input_tokens": "?"}, "last_token_usage": {"input_tokens": 5}}
    rollout.meta().prompt("Go").answer("One").event("token_count", info=info)
    rollout.prompt("More").answer("Two").event("token_count", info=info)
    facts, _, _ = rollout.read()
    assert "usage-unusable" in facts.gaps


def test_totals_that_start_again_after_a_resume_count_on(rollout: Writer) -> None:
    rollout.meta().prompt("Go").answer("One").count(10, 1)
    rollout.prompt("More").answer("Two").count(30, 3, total=(30, 3))
    facts, _, _ = rollout.read()
    assert [call.tokens.input for call in facts.calls] == [10, 30]


def test_counts_of_an_old_version_and_records_of_a_new_one_add_up(rollout: Writer) -> None:
    rollout.meta().prompt("Go").answer("One").count(10, 1)
    rollout.prompt("More").answer("Two").record("r2", 20, 2).count(20, 2).record("r2", 20, 2)
    rollout.prompt("Again").answer("Three").record("r3", 30, 3, thread_id=PARENT).count(30, 3)
    facts, _, _ = rollout.read()
    assert [call.tokens.input for call in facts.calls] == [10, 20, 30]
    assert [call.copied for call in facts.calls] == [False, False, True]
    assert [call.key for call in facts.calls[1:]] == ["r2", "r3"]


def test_a_fork_by_reference_does_not_count_its_parents_last_total(rollout: Writer) -> None:
    rollout.ordinal = 40
    base = {"thread_id": PARENT, "end_ordinal_exclusive": 40}
    rollout.meta(forked_from_id=PARENT, history_base=base).prompt("Go")
    rollout.count(100, 10, total=(900, 90)).answer("One").count(5, 1)
    facts, _, _ = rollout.read()
    assert [call.tokens.input for call in facts.calls] == [5]
    assert facts.prefix == Prefix(of=PARENT, until=40)
    assert (facts.kind, facts.parent) == ("fork", PARENT)


def test_a_turn_without_usage_is_a_gap_and_others_still_count(rollout: Writer) -> None:
    rollout.meta().prompt("Go").answer("One").prompt("More").answer("Two").count(10, 1)
    facts, _, _ = rollout.read()
    assert facts.gaps == ("usage-not-recorded",)
    assert len(facts.calls) == 1


def test_an_interrupted_call_is_a_gap_and_an_interrupted_tool_is_none(rollout: Writer) -> None:
    rollout.meta().prompt("Go")
    rollout.item("function_call", name="shell", arguments="{}", call_id="c1").count(10, 1)
    rollout.item("function_call_output", call_id="c1", output="aborted by user after 1.0s")
    rollout.user("<turn_aborted>\nstopped\n</turn_aborted>")
    rollout.event("turn_aborted", reason="interrupted")
    facts, _, _ = rollout.read()
    assert facts.gaps == ()
    rollout.prompt("More").event("turn_aborted", reason="interrupted")
    facts, messages, _ = rollout.read()
    assert facts.gaps == ("call-interrupted",)
    assert prompts(messages) == ["Go", "More"]


def test_a_model_that_was_asked_but_never_billed_is_known(rollout: Writer) -> None:
    rollout.meta().model("a").prompt("Go").answer("One").count(1, 1).model("b").prompt("Fails")
    facts, _, _ = rollout.read()
    assert facts.models == ("b",)
