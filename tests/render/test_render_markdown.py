from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token
from render_samples import assistant, full_session, make, shell_call, shell_result, user

from amux.model.cost import CostRecord
from amux.model.message import SessionMessage
from amux.model.session import Session
from amux.render import render
from amux.testing.strategies import HOSTILE, sessions, texts

# A CommonMark parser written by others, tables included, that passes raw HTML through.
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")
OUR_HTML = {"<details>\n<summary>Thinking</summary>\n", "</details>\n"}


def flattened(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flattened(token.children or [])


def headings(text: str) -> list[tuple[str, str]]:
    """Level and text of all headings that a parser sees in the document, at any depth."""
    tokens = PARSER.parse(text)
    return [
        (token.tag, tokens[index + 1].content)
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag in ("h1", "h2", "h3")
    ]


def foreign_html(text: str) -> list[str]:
    kinds = ("html_block", "html_inline", "image")
    return [
        token.content
        for token in flattened(PARSER.parse(text))
        if token.type in kinds and token.content not in OUR_HTML
    ]


def message_headings(messages: Iterable[SessionMessage]) -> list[tuple[str, str]]:
    return [("h3", message.role.capitalize()) for message in messages]


def child_headings(session: Session) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for child in session.children:
        found += [("h2", "Sub-agent"), *message_headings(child.messages), *child_headings(child)]
    return found


def has_problems(session: Session) -> bool:
    return bool(session.problems) or any(has_problems(child) for child in session.children)


def structure(session: Session) -> list[tuple[str, str]]:
    """The headings the document of a session must have, and no others."""
    problems = [("h2", "Problems")] if has_problems(session) else []
    return [
        ("h1", ""),
        *message_headings(session.messages),
        *child_headings(session),
        *problems,
        ("h2", "Cost"),
    ]


def simplified(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without the titles that come from the session."""
    return [
        (tag, "" if tag == "h1" else re.sub(r"^(Sub-agent) [\d.]+: .*", r"\1", text))
        for tag, text in found
    ]


@drawn(60)
@given(session=sessions())
def test_no_content_changes_the_structure_of_the_document(session: Session) -> None:
    text = render(session, "markdown")
    # Headings inside lists and quotations are content; the document's own stand at the margin.
    at_margin = [
        (token.tag, token.map[0] if token.map else -1)
        for token in PARSER.parse(text)
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2", "h3")
    ]
    assert [tag for tag, _ in at_margin] == [tag for tag, _ in structure(session)]
    assert foreign_html(text) == []


@drawn(400)
@given(content=texts(), thinking=texts())
def test_hostile_prose_and_thoughts_stay_in_their_message(content: str, thinking: str) -> None:
    session = make(assistant(content, thinking=thinking), user("after"))
    text = render(session, "markdown")
    tokens = PARSER.parse(text)
    own = [token.content for token in tokens if token.type == "html_block"]
    assert own == (["<details>\n<summary>Thinking</summary>\n", "</details>\n"] if thinking else [])
    assert foreign_html(text) == []
    at_margin = [t for t in tokens if t.type == "heading_open" and t.level == 0 and t.tag < "h4"]
    assert len(at_margin) == 4
    assert text.count("</details") == len(own) // 2 + fenced_ends(content)


def fenced_ends(content: str) -> int:
    """Ends of details elements that are shown as code in the answer, where they are harmless."""
    return render(make(assistant(content)), "markdown").count("</details")


@pytest.mark.parametrize("snippet", HOSTILE)
def test_each_hostile_snippet_leaves_the_outline_alone(snippet: str) -> None:
    session = make(user(snippet), assistant(snippet, thinking=snippet), title=snippet)
    assert simplified(headings(render(session, "markdown"))) == structure(session)


@drawn(200)
@given(output=texts())
def test_tool_output_is_shown_letter_by_letter_in_one_fence(output: str) -> None:
    text = render(make(shell_result(f"x{output}x")), "markdown")
    [fence] = [token for token in PARSER.parse(text) if token.type == "fence"]
    plain = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", "", output)
    if plain == output and not set(output) & set("\ufeff\ufff9\ufffa\ufffb"):
        assert fence.content == f"x{output}x\n"


def test_the_header_names_agent_model_dates_cost_place_and_lineage() -> None:
    head = render(full_session(), "markdown").partition("### ")[0]
    assert head.startswith("# Fix the login test\n")
    for fact in (
        "**Agent:** claude",
        "**Session:** `claude:0123456789abcdef`",
        "**Model:** `claude-sonnet-4-5`, `claude-haiku-4-5`",
        "**Created:** 2026-03-01 12:00:00 UTC",
        "**Directory:** `/home/ann/project`",
        "**Kind:** fork",
        "**Forked from:** `claude:fedcba`",
        "**Cost:** >= $1.20 (estimate)",
    ):
        assert fact in head


def test_messages_carry_role_time_usage_marks_and_notes() -> None:
    text = render(full_session(), "markdown")
    assert simplified(headings(text)) == structure(full_session())
    assert "*2026-03-01 12:00:00 UTC · `claude-sonnet-4-5` · 1,200 in, 9,000 cached, 34 out" in text
    assert "**Injected:**" in text
    assert "**Compaction:**" in text
    assert "*Image 1: image/png, about 1 kB*" in text
    assert "<summary>Thinking</summary>\n\nThe clock may be wrong.\n\n</details>" in text
    assert '**Tool call** `bash` · `call-1` · 1,250 ms\n\n```json\n{\n  "command": "pytest' in text
    assert "**Result** of `bash` · `call-1` (failed)\n\n```\n1 failed\n```" in text
    assert "## Problems\n\n- not JSON in /x.jsonl line 7\n" in text


def test_sub_agents_follow_the_messages_and_the_cost_closes_the_document() -> None:
    text = render(full_session(), "markdown")
    order = ["Summary of what", "## Sub-agent 1: Find the clock", "It is in clock.py.", "## Cost"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "**Total:** >= $1.20 (estimate)" in text
    assert text.endswith("- **Incomplete:** `call-interrupted`\n")


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (None, "no calls"),
        (CostRecord(total_usd=0, input_tokens=5, output_tokens=1), "$0.00"),
        (CostRecord(total_usd=0.25, input_tokens=5, output_tokens=1), "$0.2500"),
        (CostRecord(total_usd=0.000123, input_tokens=5, output_tokens=1), "$0.000123"),
        (CostRecord(total_usd=1234.5, input_tokens=5, output_tokens=1), "$1,234.50"),
        (
            CostRecord(
                total_usd=0, input_tokens=5, output_tokens=1, incomplete=("unpriced-model",)
            ),
            "? (no price is known)",
        ),
    ],
)
def test_an_unknown_cost_is_never_zero(cost: CostRecord | None, words: str) -> None:
    text = render(make(cost=cost), "markdown")
    assert f"- **Cost:** {words}\n" in text
    assert f"- **Total:** {words}" in text


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("API Error: 500 Internal server error", "**API error:** the agent reports"),
        ("Credit balance is too low", "**API error:** the agent reports"),
        ("No response requested.", "**Notice:** the agent wrote this"),
        ("", "**Notice:** the agent wrote this"),
    ],
)
def test_a_notice_of_the_agent_is_not_called_injected(content: str, label: str) -> None:
    text = render(make(assistant(content, synthetic=True)), "markdown")
    assert label in text
    assert "Injected" not in text
    assert "nobody typed" not in text


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("[API Error: got status: 429]", "**API error:** the agent reports"),
        ("API error (500)", "**API error:** the agent reports"),
        ("You handle every API error.", "**Injected:** nobody typed this"),
        ("# API errors\n\nRetry them.", "**Injected:** nobody typed this"),
    ],
)
def test_an_api_error_in_a_system_message_is_one_of_the_agent(content: str, label: str) -> None:
    system = SessionMessage(role="system", content=content, synthetic=True)
    assert label in render(make(system), "markdown")


def test_a_recorded_zero_without_a_call_has_one_wording() -> None:
    zero = CostRecord(
        total_usd=0, input_tokens=0, output_tokens=0, cached_tokens=0, source="native"
    )
    session = make(user("a"), cost=zero, model=None)
    for text in (render(session, "markdown"), render(session, "html")):
        assert text.count("no calls") == 2
        assert "$0.00" not in text
        assert "recorded by the agent" not in text
        assert "Input tokens" not in text


def test_output_is_shown_once_whether_its_message_precedes_or_follows_the_call() -> None:
    call = assistant("", tool_calls=(shell_call("ls", output="file.txt"),))
    result = shell_result("file.txt")
    for messages in ([call, result], [result, call]):
        assert render(make(*messages), "markdown").count("file.txt") == 1
    again = assistant("", tool_calls=(shell_call("ls", output="other.txt"),))
    assert render(make(call, result, again), "markdown").count("other.txt") == 1


def test_output_without_a_message_of_its_own_is_shown_with_the_call() -> None:
    call = shell_call("ls", output="file.txt")
    assert "**Output**\n\n```\nfile.txt\n```" in render(
        make(assistant("", tool_calls=(call,))), "markdown"
    )
    answered = make(assistant("", tool_calls=(call,)), user("wait"), shell_result("file.txt"))
    assert render(answered, "markdown").count("file.txt") == 1


def test_fences_are_longer_than_any_run_of_backticks_inside() -> None:
    assert "\n`````\na\n````\nb\n`````\n" in render(make(shell_result("a\n````\nb")), "markdown")


def test_markdown_of_people_and_models_stays_readable() -> None:
    answer = (
        "## Plan\n\n1. Use `Vec<String>` and a < b\n\n```html\n<div># not a heading</div>\n```\n\n"
        "It works & <b>well</b>.\n\n---\n\nsnake_case **bold**"
    )
    assert (
        "##### Plan\n\n1. Use `Vec<String>` and a < b\n\n"
        "```html\n<div># not a heading</div>\n```\n\n"
        "It works & &lt;b>well&lt;/b>.\n\n---\n\nsnake_case **bold**\n"
    ) in render(make(assistant(answer)), "markdown")


def test_an_unclosed_fence_is_closed() -> None:
    text = render(make(user("look:\n```\ncode"), assistant("ok")), "markdown")
    assert "```\ncode\n```\n\n### Assistant" in text


@pytest.mark.parametrize(
    "text",
    [
        "a `\n` <script> `",  # the first line takes the first backtick of the second
        "\\`<script>`",  # the first backtick is a character, not a mark
        "| a | b |\n|---|---|\n| `<script> | x` |",  # cells are cut before code is looked for
    ],
)
def test_code_that_can_be_read_in_another_way_is_escaped(text: str) -> None:
    document = render(make(user(text)), "markdown")
    assert "<script" not in document
    assert foreign_html(document) == []


def test_not_even_code_in_a_thought_spells_the_end_of_the_thought() -> None:
    thought = "`</details>`\n\n```html\n</DETAILS>\n```"
    text = render(make(assistant("", thinking=thought)), "markdown")
    assert text.lower().count("</details") == 1


def test_an_untitled_session_gets_a_default_title() -> None:
    assert render(make(title=" "), "markdown").startswith("# Agent Session\n")


def costing(usd: float, **fields: Any) -> CostRecord:
    return CostRecord(total_usd=usd, input_tokens=1, output_tokens=1, **fields)


@pytest.mark.parametrize(
    ("usd", "incomplete", "words"),
    [
        (1.2, (), "$1.20"),
        (1.209, ("call-interrupted",), ">= $1.20"),
        (1.201, ("output-overstated-on-disk",), "<= $1.21"),
        (0.01231, ("output-overstated-on-disk",), "<= $0.0124"),
        (0.0, ("output-overstated-on-disk",), "$0.00"),
        (0.0, ("unpriced-model", "x"), "? (no price is known, x)"),
        (1.209, ("output-overstated-on-disk", "unpriced-model"), "~ $1.21"),
    ],
)
def test_the_sign_before_a_cost_says_which_bound_it_is(
    usd: float, incomplete: tuple[str, ...], words: str
) -> None:
    session = make(cost=costing(usd, incomplete=incomplete))
    assert f"**Cost:** {words}\n" in render(session, "markdown")
    assert f"<dd>{escape(words)}</dd>" in render(session, "html")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cost": None}, "no calls"),
        ({"cost": None, "unrecorded": ("usage-not-recorded",)}, "? (the agent recorded no usage)"),
        ({"cost": None, "unrecorded": ("call-interrupted",)}, "? (call-interrupted)"),
        ({"cost": costing(1.0, source="native")}, "$1.00 (recorded by the agent)"),
        ({"cost": costing(1.0, source="run-index")}, "$1.00 (recorded in the run index)"),
        ({"cost": costing(1.0, source="estimate")}, "$1.00 (estimate)"),
        (
            {"cost": costing(0.0, source="estimate", incomplete=("unpriced-model",))},
            "? (no price is known)",
        ),
    ],
)
def test_a_cost_says_where_it_comes_from_or_why_it_is_unknown(
    fields: dict[str, Any], words: str
) -> None:
    session = make(**fields)
    text, page = render(session, "markdown"), render(session, "html")
    assert f"**Cost:** {words}\n" in text
    assert f"**Total:** {words}\n" in text
    assert page.count(f"<dd>{escape(words)}</dd>") == 2
