from __future__ import annotations

from render_samples import assistant, make, shell_call, user

from amux.model.message import SessionMessage
from amux.render.diff_text import diff_lines
from amux.sessions.diff import diff_sessions


def lines(a: list[SessionMessage], b: list[SessionMessage]) -> list[str]:
    diff = diff_sessions(make(*a, unified_id="claude:a"), make(*b, unified_id="codex:b"))
    return list(diff_lines(diff))


def test_operations_are_signed_and_long_unchanged_runs_are_counted() -> None:
    same = [user(f"prompt {number}") for number in range(10)]
    assert lines([*same, assistant("old")], [*same, assistant("new"), user("more")]) == [
        "- claude:a",
        "+ codex:b",
        "",
        "  … 10 unchanged",
        "~ assistant  old",
        "          →  new",
        "+ user       more",
        "",
        "0 removed, 1 added, 1 modified, 10 unchanged",
    ]


def test_a_short_unchanged_run_is_shown() -> None:
    assert lines([user("hello"), assistant("x")], [user("hello")])[3:5] == [
        "  user       hello",
        "- assistant  x",
    ]


def test_a_change_is_shown_from_where_the_texts_part() -> None:
    common = "word " * 60
    changed = lines([user(f"{common}old end")], [user(f"{common}new end")])
    assert changed[3].endswith("old end")
    assert changed[4].endswith("new end")


def test_a_message_without_words_is_told_by_its_tools() -> None:
    text = lines([], [assistant("", tool_calls=(shell_call("ls"),))])[3]
    assert text == '+ assistant  (bash {"command":"ls"})'


def test_lines_are_short_and_free_of_control_characters() -> None:
    for line in lines([user("\x1b[2J\x9b" * 500)], [assistant("a\nb\r" * 500)]):
        assert len(line) <= 100
        assert line.isprintable()
