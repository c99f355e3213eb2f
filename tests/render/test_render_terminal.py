from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import count, islice
from typing import Any, cast

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from render_samples import (
    NOON,
    PNG,
    assistant,
    full_session,
    make,
    outline,
    shell_call,
    shell_result,
    user,
)
from rich.cells import cell_len

from amux.model.change import SessionChange
from amux.model.cost import CostRecord
from amux.model.message import SessionMessage, SessionToolCall, TokenUsage, ToolResult
from amux.model.outline import SessionOutline
from amux.model.problems import Problem
from amux.model.session import Session
from amux.model.usage import Call
from amux.render.content import visible
from amux.render.terminal import render_terminal
from amux.render.terminal_messages import ChangeLayout
from amux.render.terminal_text import Layout, Line, Style
from amux.testing.strategies import messages, sessions, texts

IDS: dict[str, Any] = {"session_id": "a", "unified_id": "claude:a"}
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def lines(session: Session, width: int = 80, *, full: bool = False, **more: Any) -> list[Line]:
    return [*render_terminal(outline(session), Layout(width, full), **more)]


def text_of(line: Line) -> str:
    return "".join(text for text, _ in line)


def shown(session: Session, width: int = 80, *, full: bool = False, **more: Any) -> str:
    return "".join(f"{text_of(line)}\n" for line in lines(session, width, full=full, **more))


def styled(session: Session, style: Style) -> list[str]:
    """The texts that have a style."""
    return [text.strip() for line in lines(session) for text, name in line if name == style]


def squeezed(text: str) -> str:
    """All that is not white space, as it is made visible; line ends at both ends are white."""
    return "".join(visible(text.strip(" \t\r\n")).split())


# The header


def test_the_header_names_title_id_agent_models_directory_dates_turns_and_cost() -> None:
    session = full_session()
    head = shown(session).partition("── ")[0]
    assert head.startswith("Fix the login test\n\n")
    assert dict(line.split(maxsplit=1) for line in head.splitlines()[2:10]) == {
        "Session": "claude:0123456789abcdef",
        "Agent": "claude",
        "Model": "claude-sonnet-4-5, claude-haiku-4-5",
        "Directory": "/home/ann/project",
        "Time": "2026-03-01 12:00",
        "Turns": "1",
        "Cost": ">= $1.20 (estimate; incomplete: call-interrupted)",
        "Fork": "of    claude:fedcba",
    }
    assert "problem: not JSON in /x.jsonl line 7\n" in head


def test_dates_are_those_of_the_reader_and_the_day_is_not_repeated() -> None:
    late = NOON + timedelta(hours=11, minutes=30)
    session = make(user("a", timestamp=NOON), user("b", timestamp=late), updated_at=late)

    def tokyo(moment: datetime) -> datetime:
        return moment.astimezone(timezone(timedelta(hours=9)))

    local = Layout(80, to_local=tokyo)
    text = "\n".join(map(text_of, render_terminal(outline(session), local)))
    assert "Time       2026-03-01 21:00 - 2026-03-02 08:30" in text
    assert [line[:13] for line in text.splitlines() if line.startswith("──")] == [
        "── 2026-03-01", "── 2026-03-02",
    ]  # fmt: skip
    assert "user  21:00  #1\n  a" in text
    assert "user  08:30  #2\n  b" in text


def call(nusd: int | None = None) -> Call:
    return Call(key="k", native_nusd=nusd)


def cost(usd: float, source: Any = "estimate", *gaps: str) -> CostRecord:
    return CostRecord(
        total_usd=usd, input_tokens=1, output_tokens=1, source=source, incomplete=gaps
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no calls"),
        ({"unrecorded": ("usage-not-recorded",)}, "? (the agent recorded no usage)"),
        ({"unrecorded": ("call-interrupted",)}, "? (call-interrupted)"),
        ({"cost": cost(0)}, "$0.00 (its calls are counted in another session)"),
        ({"cost": cost(1.5), "calls": (call(),)}, "$1.50 (estimate)"),
        ({"cost": cost(1.5, "native"), "calls": (call(),)}, "$1.50 (recorded by the agent)"),
        ({"cost": cost(1.5, "run-index")}, "$1.50 (recorded in the run index)"),
        (
            {"cost": cost(0, "estimate", "unpriced-model"), "calls": (call(),)},
            "? (no price is known)",
        ),
        (
            {"cost": cost(0.07139, "estimate", "call-interrupted"), "calls": (call(),)},
            ">= $0.0713 (estimate; incomplete: call-interrupted)",
        ),
        (
            {"cost": cost(0.07131, "estimate", "output-overstated-on-disk"), "calls": (call(),)},
            "<= $0.0714 (estimate; incomplete: output-overstated-on-disk)",
        ),
    ],
)
def test_a_cost_says_where_it_comes_from_and_what_is_missing(
    fields: dict[str, Any], words: str
) -> None:
    assert f"Cost       {words}\n" in shown(make(**fields))


def test_an_id_is_never_broken_so_that_it_can_be_copied() -> None:
    session = make(user("a"), unified_id="claude:" + "x" * 60)
    rows = shown(session, 40, resumable=True).splitlines()
    assert f"Session    {session.unified_id}" in rows
    assert rows[-1] == f"resume: amux sessions resume {session.unified_id}"


def test_the_command_that_resumes_is_shown_only_where_it_works() -> None:
    assert "resume" not in shown(make(user("a")))
    assert "resume" not in shown(make(user("a"), kind="subagent"), resumable=True)


def test_many_problems_are_counted() -> None:
    problems = tuple(Problem(code="bad-line", message=f"bad {n}") for n in range(5))
    session = make(user("a"), problems=problems)
    assert styled(session, "warning") == [
        "problem: bad 0", "problem: bad 1", "problem: bad 2", "… 2 more problems",
    ]  # fmt: skip
    assert "problem: bad 4" in shown(session, full=True)


def test_an_empty_session_says_so() -> None:
    assert "(no prompt)\n" in shown(make(title=" "))
    assert "\n(no messages)" in shown(make())


# Messages


def test_each_speaker_is_named_with_time_and_number() -> None:
    session = make(user("Why?", timestamp=NOON), assistant("Because.", timestamp=NOON))
    assert "\n\nuser  12:00  #1\n  Why?\n\nclaude  12:00  #2\n  Because.\n" in shown(session)
    assert styled(session, "user") == ["user"]
    assert styled(session, "agent") == ["claude"]


def test_the_model_is_named_where_it_changes() -> None:
    answers = [assistant(str(n), model=model) for n, model in enumerate("aab")]
    rows = shown(make(*answers, models=("a", "b"))).splitlines()
    assert [row for row in rows if row.startswith("claude  ")] == [
        "claude  #1  a", "claude  #2", "claude  #3  b",
    ]  # fmt: skip
    assert "#1  a" not in shown(make(assistant("x", model="a"), models=("a",)))


def test_full_adds_the_usage_and_the_cost_of_an_answer() -> None:
    usage = TokenUsage(input_tokens=1200, output_tokens=34, cached_tokens=9000)
    session = make(assistant("x", token_usage=usage, cost=cost(0.5)))
    assert "claude  #1  1,200 in, 9,000 cached, 34 out  $0.5000\n" in shown(session, full=True)
    assert "1,200" not in shown(session)


def test_text_is_wrapped_at_words_and_code_is_not_reflowed() -> None:
    answer = "- one two three four five six\n\n```\nalpha  beta  gamma  delta\n```\n# Heading"
    rows = shown(make(assistant(answer)), 24).splitlines()
    start = rows.index("claude  #1")
    assert rows[start + 1 : start + 9] == [
        "  - one two three four",
        "    five six",
        "",
        "  ```",
        "  alpha  beta  gamma  de",
        "  lta",
        "  ```",
        "  # Heading",
    ]
    assert styled(make(assistant(answer)), "heading") == ["# Heading"]


@pytest.mark.parametrize("text", ["<b>&amp;</b>", "snake_case_name", "*a* [b](c) \\ `d`", "a < b"])
def test_text_is_shown_as_it_is_without_escapes(text: str) -> None:
    for role in (user, assistant):
        assert f"\n  {text}\n" in shown(make(role(text)))


def test_thoughts_are_folded_with_a_count_of_the_rest() -> None:
    thought = "\n\n".join(f"thought {n}" for n in range(20))
    session = make(assistant("x", thinking=thought))
    text = shown(session)
    assert "  thinking: thought 0\n            thought 1\n            thought 2\n" in text
    assert "            … 17 more lines\n  x\n" in text
    assert "thought 19" in shown(session, full=True)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (user("<env>\n\na\n</env>", synthetic=True), "injected: <env> a </env> (4 lines)"),
        (SessionMessage(role="system", content="Be brief."), "system: Be brief."),
        (assistant("No response requested.", synthetic=True), "injected: No response requested."),
    ],
)
def test_a_text_that_nobody_wrote_is_one_line(message: SessionMessage, line: str) -> None:
    session = make(message, message, user("hello"))
    assert f"\n\n{line}\n{line}\n\nuser  #3\n  hello\n" in shown(session)
    full = shown(session, full=True)
    assert squeezed(message.content) in squeezed(full)
    assert "lines)" not in full


def test_the_hint_for_full_is_given_only_if_something_is_folded() -> None:
    for content in ("a\nb", "word " * 30):
        assert "--full" in shown(make(user(content, synthetic=True)))
    assert "--full" not in shown(make(user("[Request interrupted]", synthetic=True), user("b")))


def test_a_long_injected_text_fits_its_line() -> None:
    rows = shown(make(user("word " * 100, synthetic=True), user("a\n" * 50, synthetic=True)), 40)
    assert "injected: word word word word word word…" in rows.splitlines()
    assert any(row.endswith(" (50 lines)") for row in rows.splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("API Error: 500 Internal server error", "API error: 500 Internal server error"),
        ('400 {"type":"error"}', 'API error: 400 {"type":"error"}'),
        ("AI_APICallError: prompt rejected", "API error: prompt rejected"),
        ("Failed to get response from the AI model", "error: Failed to get response from the"),
    ],
)
def test_an_error_notice_is_an_error_of_the_agent(text: str, words: str) -> None:
    session = make(user("a"), assistant(text, synthetic=True))
    assert f"\nclaude  #2\n  {words}" in shown(session)
    assert "injected" not in shown(session)
    assert styled(session, "failed")[0].startswith(words)


def test_an_api_error_in_a_system_message_is_not_folded() -> None:
    text = "[API Error: got status: 429 RESOURCE_EXHAUSTED]"
    session = make(user("a"), SessionMessage(role="system", content=text, synthetic=True))
    assert "\nclaude  #2\n  API error: got status: 429" in shown(session)
    assert styled(session, "failed") != []


def test_a_compaction_is_marked_and_its_summary_folded() -> None:
    session = make(user("\n".join(f"point {n}" for n in range(9)), compaction=True), user("go"))
    assert "── history compacted ──" in shown(session)
    assert "summary  #1\n  point 0\n  point 1\n  point 2\n  … 6 more lines\n" in shown(session)


def test_images_are_described() -> None:
    assert "\n  look\n  [image 1: image/png, about 1 kB]\n" in shown(
        make(user("look", images=(PNG,)))
    )


# Tools


def failing(output: str) -> Session:
    return make(
        assistant("", tool_calls=(shell_call("make", output=output),)),
        shell_result(output, is_error=True),
    )


def test_a_call_is_one_line_with_its_outcome_and_its_output_below() -> None:
    session = make(
        assistant("I look.", tool_calls=(shell_call("ls", output="a", duration_ms=1250),)),
        shell_result("a"),
        assistant("", tool_calls=(shell_call("rm a"),)),
    )
    assert "  I look.\n  ✓ bash  ls  1.2 s\n    a\n  · bash  rm a\n" in shown(session)


def test_a_failed_call_is_red_and_shows_how_it_ended() -> None:
    session = failing("\n".join(f"line {n}" for n in range(50)))
    assert "  ✗ bash  make  failed\n" in shown(session)
    assert styled(session, "failed") == [
        *("✗", "bash", "make", "failed"),
        *(f"line {n}" for n in (0, 1, 46, 47, 48, 49)),
    ]
    assert styled(session, "folded") == ["… 44 more lines"]
    assert "line 25" in shown(session, full=True)


def test_a_long_output_is_folded_and_long_lines_are_cut() -> None:
    output = "\n".join(["x" * 200, *("y" for _ in range(45))])
    session = make(
        assistant("", tool_calls=(shell_call("cat", output=output),)), shell_result(output)
    )
    rows = shown(session).splitlines()
    assert f"    {'x' * 75}…" in rows
    assert rows.count("    y") == 3
    assert "    … 42 more lines" in rows
    assert "--full shows what is folded" in rows
    assert "x" * 200 in squeezed(shown(session, full=True))


def test_a_multi_line_command_is_one_line_and_whole_with_full() -> None:
    session = make(assistant("", tool_calls=(shell_call("cat <<E\none\ntwo\nE"),)))
    assert "  · bash  cat <<E one two E\n" in shown(session)
    assert "    command:\n      cat <<E\n      one\n      two\n      E\n" in shown(
        session, full=True
    )


@pytest.mark.parametrize(
    ("name", "given", "line"),
    [
        ("shell", {"command": ["bash", "-lc", "ls -l"]}, "shell  ls -l"),
        ("shell", {"command": ["git", "commit", "-m", "a b"]}, "shell  git commit -m 'a b'"),
        ("Read", {"file_path": "/home/ann/project/a.py"}, "Read  a.py"),
        ("Read", {"file_path": "/etc/passwd"}, "Read  /etc/passwd"),
        ("Bash", {"command": "rm -r /home/ann/project/"}, "Bash  rm -r /home/ann/project/"),
        ("Grep", {"path": "src", "pattern": "a.*b"}, "Grep  a.*b"),
        ("Task", {"description": "Count files", "prompt": "..."}, "Task  Count files"),
        ("wait", {"timeout_ms": 20}, 'wait  {"timeout_ms":20}'),
        ("exec", "const r = 1;\nr", "exec  const r = 1; r"),
        ("list", ["a", 1], 'list  ["a",1]'),
        ("zero", 0, "zero  0"),
        ("none", None, "none"),
        ("", {}, "?"),
    ],
)
def test_a_call_shows_its_most_telling_input(name: str, given: Any, line: str) -> None:
    tool = SessionToolCall(tool_call_id="1", tool_name=name, input=given)
    session = make(assistant("", tool_calls=(tool,)), cwd="/home/ann/project")
    assert f"\n  · {line}\n" in shown(session)


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        ('{"output": "oops", "exit_code": 1, "error": null}', "oops"),
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nhi\n", "hi"),
        ('{"bytes": 6}', '{"bytes": 6}'),
        ("{" * 5000, "{" * 75 + "…"),
    ],
)
def test_an_output_is_shown_without_the_frame_of_the_agent(output: str, seen: str) -> None:
    session = failing(output)
    assert f"  ✗ bash  make  failed\n    {seen}\n" in shown(session)
    assert squeezed(output) in squeezed(shown(session, full=True))


def test_a_result_is_shown_with_its_call_even_if_it_comes_later() -> None:
    calls = tuple(
        SessionToolCall(tool_call_id=name, tool_name=name, input={}, output="x") for name in "ab"
    )
    results = [
        SessionMessage(
            role="tool",
            content=f"of {name}",
            tool_result=ToolResult(tool_call_id=name, tool_name=name, output=None),
        )
        for name in "ba"
    ]
    session = make(assistant("", tool_calls=calls), user("wait"), *results)
    assert shown(session).endswith("  ✓ a\n    of a\n  ✓ b\n    of b\n\nuser  #2\n  wait\n")


def test_a_result_without_its_call_is_shown_alone() -> None:
    assert "\ntool  #1\n  ✓ bash  (result)\n    lost\n" in shown(make(shell_result("lost")))


# Sub-agents


def nested() -> Session:
    inner = make(user("deep"), title="Inner", unified_id="claude:inner", cost=cost(0.25))
    child = make(
        user("task", timestamp=NOON),
        title="Outer",
        unified_id="claude:outer",
        kind="subagent",
        children=(inner,),
    )
    return make(user("go", timestamp=NOON), children=(child,))


def test_sub_agents_follow_and_those_below_them_are_named_with_their_cost() -> None:
    text = shown(nested())
    assert "── sub-agent 1: Outer ──" in text
    assert "\nclaude:outer\n? · 1 turn · " in text
    assert (
        "\nuser  12:00  #1\n  task\n\nsub-agent 1.1: Inner ($0.2500)\n  amux show claude:inner\n"
        in text
    )
    assert text.count("── 2026-03-01") == 1
    assert "  deep" not in text
    assert "── sub-agent 1.1: Inner ──" in shown(nested(), full=True)
    assert "\n  deep\n" in shown(nested(), full=True)


# Hostile and huge content


def steers(char: str) -> bool:
    """A second opinion, from the Unicode database."""
    return unicodedata.category(char) in ("Cc", "Cs") or unicodedata.bidirectional(char) in BIDI


@drawn(200)
@given(session=sessions(depth=2), width=st.integers(20, 120), full=st.booleans())
def test_no_control_character_reaches_a_line(session: Session, width: int, *, full: bool) -> None:
    for line in lines(session, width, full=full, resumable=True):
        assert not any(steers(char) for char in text_of(line))


@drawn(200)
@given(session=sessions(), full=st.booleans())
def test_content_cannot_imitate_the_layout(session: Session, *, full: bool) -> None:
    bare = make(user("first"), *session.messages)
    starts = ("user  ", "claude  ", "system", "injected", "tool  ", "summary  ", "── ", "--full")
    rows = [text_of(line) for line in lines(bare, full=full)]
    conversation = rows[rows.index("user  #1") :]
    assert all(row.startswith((" ", *starts)) for row in conversation if row)


def told(message: SessionMessage) -> Iterator[str]:
    """Texts of a message that `--full` must show, edits aside."""
    yield message.thinking or ""
    blank = not message.content.strip(" \t\r\n")
    if message.role != "tool" or not blank:
        yield message.content
    elif message.tool_result is not None and isinstance(message.tool_result.output, str):
        yield message.tool_result.output
    for tool in message.tool_calls:
        given: Any = tool.input
        values = cast("dict[str, Any]", given).values() if isinstance(given, dict) else (given,)
        yield from (value for value in values if isinstance(value, str))


@drawn(300)
@given(made=st.lists(messages(), max_size=6), width=st.integers(20, 120))
def test_full_loses_no_text(made: list[SessionMessage], width: int) -> None:
    text = squeezed(shown(make(*made), width, full=True))
    for message in made:
        if any("Begin Patch" in str(tool.input) for tool in message.tool_calls):
            continue
        for part in told(message):
            is_notice = message.synthetic and message.role == "assistant"
            own = part.find(" ") + 1 if is_notice else 0  # "API Error" is written in our words
            assert squeezed(part[own:]) in text


@drawn(200)
@given(content=texts(), width=st.integers(30, 120))
def test_rows_fit_the_terminal(content: str, width: int) -> None:
    session = make(
        user(content), assistant("", thinking=content, tool_calls=(shell_call(content),))
    )
    for full in (False, True):
        for line in lines(session, width, full=full):
            if "claude:" not in text_of(line):
                assert cell_len(text_of(line)) <= width


@pytest.mark.parametrize(
    "text", ["日本語のテキスト" * 30, "🚀🙂" * 50, "👨‍👩‍👧‍👦 " * 20, "❤️" * 60, "e\u0301" * 300]
)
def test_wide_and_combined_characters_fit_a_narrow_terminal(text: str) -> None:
    session = make(user(text), title=text)
    rows = [text_of(line) for line in lines(session, 40)]
    assert max(cell_len(row) for row in rows) <= 40
    assert squeezed(text) in squeezed("\n".join(rows))


def test_the_first_lines_are_there_before_the_last_message_is_read() -> None:
    read = count()

    def endless() -> Iterator[SessionMessage]:
        for number in read:
            yield assistant(f"message {number}", tool_calls=(shell_call("ls"),))

    session = SessionOutline(make(), endless)
    rows = [text_of(line) for line in islice(render_terminal(session, Layout(80)), 200)]
    assert "  message 20" in rows
    assert next(read) < 100


def test_a_session_is_laid_out_without_keeping_its_messages() -> None:
    alive: list[int] = []
    most = 0

    class Text(str):
        __slots__ = ()

        def __del__(self) -> None:
            alive.pop()

    def many() -> Iterator[SessionMessage]:
        for number in range(20_000):
            alive.append(number)
            yield assistant(Text(f"message {number}"))

    for _ in render_terminal(SessionOutline(make(), many), Layout(80)):
        most = max(most, len(alive))
    assert most < 100


def test_only_the_shown_part_of_a_huge_output_is_laid_out() -> None:
    output = "\x1b[31mred\x1b[0m\n" * 1_000_000
    made = shown(failing(output))
    assert "    … 999,994 more lines\n" in made
    assert len(made) < 1000


# Following


def change(number: int, message: SessionMessage, **fields: Any) -> SessionChange:
    base: dict[str, Any] = {"kind": "message", **IDS}
    return SessionChange(**(base | fields), agent="claude", at=NOON, number=number, message=message)


def test_the_messages_of_a_followed_session_are_laid_out_one_by_one() -> None:
    sub = {"session_id": "b", "unified_id": "claude:b", "parent": "claude:a"}
    changes = [
        change(1, user("go", timestamp=NOON)),
        change(2, assistant("", tool_calls=(shell_call("ls"),))),
        change(3, shell_result("a.py")),
        change(1, user("task"), **sub),
        change(1, user("go on", timestamp=NOON), kind="updated-message"),
    ]
    layout = ChangeLayout(Layout(40))
    rows = [text_of(line).rstrip("─ ") for each in changes for line in layout.lines(each)]
    assert rows == [
        *("", "── 2026-03-01", "", "user  12:00  #1", "  go"),
        *("", "claude  #2", "  · bash  ls"),
        *("", "tool  #3", "  ✓ bash  (result)", "    a.py"),
        *("", "── sub-agent b", "", "user  #1", "  task"),
        *("", "── session a", "", "message #1 again:", "", "user  12:00  #1", "  go on"),
    ]
    assert [*layout.lines(SessionChange(kind="ended", agent="claude", at=NOON, **IDS))] == []
