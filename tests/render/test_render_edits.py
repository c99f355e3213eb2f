"""Edits of all agents are shown as diffs. Inputs have the shapes of the agents' own tools."""

from __future__ import annotations

from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from render_samples import assistant, make, outline, shell_result

from amux.model.message import SessionToolCall
from amux.render.edits import find_edits
from amux.render.terminal import render_terminal
from amux.render.terminal_text import Layout, Line

OLD = "def f():\n    return 1\n"
NEW = "def f():\n    return 2\n"
DIFF = ["      def f():", "    -     return 1", "    +     return 2"]
ADDED = ["    + def f():", "    +     return 2"]
PATCH = (
    "*** Begin Patch\n*** Update File: /w/a.py\n@@ def f():\n-    return 1\n+    return 2\n"
    "*** End Patch\n"
)
PATCHED = ["    @@ def f():", "    -     return 1", "    +     return 2"]
UNIFIED = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n"


def rows(name: str, fields: Any, *, full: bool = False, is_error: bool = False) -> list[Line]:
    tool = SessionToolCall(tool_call_id="call-1", tool_name=name, input=fields, output="done")
    session = make(
        assistant("", tool_calls=(tool,)), shell_result("done", is_error=is_error), cwd="/w"
    )
    made = [*render_terminal(outline(session), Layout(80, full))]
    start = next(at for at, line in enumerate(made) if "".join(t for t, _ in line) == "claude  #1")
    return made[start + 1 :]


def texts(made: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in made]


REPLACEMENTS = [
    ("Edit", {"file_path": "/w/a.py", "old_string": OLD, "new_string": NEW}),  # claude
    ("edit", {"filePath": "/w/a.py", "oldString": OLD, "newString": NEW}),  # opencode
    ("edit", {"path": "/w/a.py", "oldText": OLD, "newText": NEW}),  # pi, openclaw
    ("edit", {"path": "a.py", "edits": [{"oldText": OLD, "newText": NEW}]}),  # pi 1.5
    ("edit", {"path": "a.py", "old_text": OLD, "new_text": NEW, "i": "Editing"}),  # omp
    ("replace", {"file_path": "/w/a.py", "old_string": OLD, "new_string": NEW}),  # gemini
    ("edit", {"file_path": "/w/a.py", "old_string": OLD, "new_string": NEW}),  # qwen
    ("Edit", {"file_path": "/w/a.py", "old_str": OLD, "new_str": NEW}),  # droid
    ("MultiEdit", {"file_path": "/w/a.py", "changes": [{"old_str": OLD, "new_str": NEW}]}),
    ("edit", {"path": "/w/a.py", "old_str": OLD, "new_str": NEW}),  # copilot
    (
        "str_replace_editor",
        {"command": "str_replace", "path": "a.py", "old_str": OLD, "new_str": NEW},
    ),
    ("search_replace", {"file_path": "a.py", "old_string": OLD, "new_string": NEW}),  # cursor
    ("patch", {"mode": "replace", "path": "a.py", "old_string": OLD, "new_string": NEW}),  # hermes
]


@pytest.mark.parametrize(("name", "fields"), REPLACEMENTS)
def test_a_replaced_text_is_shown_as_a_diff(name: str, fields: dict[str, Any]) -> None:
    assert texts(rows(name, fields)) == [f"  ✓ {name}  a.py  +1 -1", *DIFF]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Write", {"file_path": "/w/a.py", "content": NEW}),  # claude
        ("write", {"filePath": "/w/a.py", "content": NEW}),  # opencode
        ("write", {"path": "a.py", "content": NEW}),  # pi, omp, openclaw
        ("write_file", {"file_path": "/w/a.py", "content": NEW}),  # gemini, qwen
        ("write_file", {"path": "a.py", "content": NEW}),  # hermes
        ("Create", {"file_path": "/w/a.py", "content": NEW}),  # droid
        ("create", {"path": "/w/a.py", "file_text": NEW}),  # copilot
        ("Write", {"path": "a.py", "contents": NEW}),  # cursor
        ("str_replace_editor", {"command": "insert", "path": "a.py", "new_str": NEW}),
    ],
)
def test_a_written_file_is_shown_as_added_lines(name: str, fields: dict[str, Any]) -> None:
    assert texts(rows(name, fields)) == [f"  ✓ {name}  a.py  +2", *ADDED]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("apply_patch", PATCH),  # codex
        ("apply_patch", {"input": PATCH}),  # codex, copilot, openclaw
        ("ApplyPatch", {"input": PATCH}),  # droid
        ("patch", {"mode": "patch", "patch": PATCH}),  # hermes
        ("patch", {"patchText": PATCH}),  # opencode
        ("shell", {"command": ["apply_patch", PATCH]}),  # codex before its own tool
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF"]}),
        ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF"}),
    ],
)
def test_a_patch_is_shown_without_its_frame(name: str, fields: Any) -> None:
    assert texts(rows(name, fields)) == [f"  ✓ {name}  a.py  +1 -1", *PATCHED]


def test_a_unified_diff_is_shown_as_it_is() -> None:
    expected = ["    @@ -1,2 +1,2 @@", *DIFF]
    for name, fields in (
        ("edit", {"path": "a.py", "edits": [{"op": "update", "diff": UNIFIED}]}),  # omp
        ("edit", {"path": "a.py", "diff": UNIFIED}),
        ("patch", {"patch": UNIFIED}),
    ):
        assert texts(rows(name, fields)) == [f"  ✓ {name}  a.py  +1 -1", *expected]


def test_each_file_of_a_patch_is_named() -> None:
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** End Patch"
    assert texts(rows("apply_patch", patch)) == [
        "  ✓ apply_patch  a, b  +1", "    *** Add File: a", "    + x", "    *** Delete File: b",
    ]  # fmt: skip


def test_several_replacements_are_separated() -> None:
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]
    made = texts(rows("MultiEdit", {"file_path": "x", "edits": edits}))
    assert made == [
        "  ✓ MultiEdit  x  +2 -2", "    - a", "    + b", "    …", "    - c", "    + d",
        "", "--full shows what is folded",
    ]  # fmt: skip


def test_added_and_removed_lines_have_their_colours() -> None:
    made = rows("Edit", {"file_path": "x", "old_string": "a\nb", "new_string": "a\nc"})
    assert [line[0][1] for line in made[1:]] == ["plain", "removed", "added"]


def test_a_failed_edit_shows_why_and_is_no_change() -> None:
    made = rows("Edit", {"file_path": "x", "old_string": "a", "new_string": "b"}, is_error=True)
    assert texts(made) == ["  ✗ Edit  x  +1 -1 failed", "    - a", "    + b", "    done"]
    assert [line[0][1] for line in made] == ["failed", "faint", "faint", "failed"]


def test_a_long_diff_is_folded_and_its_unchanged_lines_are_left_out() -> None:
    lines = [str(n) for n in range(100)]
    fields = {
        "file_path": "x",
        "old_string": "\n".join(lines),
        "new_string": "\n".join([*lines, "new"]),
    }
    assert texts(rows("Edit", fields))[:5] == [
        "  ✓ Edit  x  +1", "    …", "      98", "      99", "    + new",
    ]  # fmt: skip
    made = texts(rows("Write", {"file_path": "x", "content": "\n".join(lines)}))
    assert made[20:22] == ["    + 19", "    … 80 more lines"]
    assert len([*filter(None, texts(rows("Edit", fields, full=True)))]) > 100


def test_full_shows_the_other_fields_and_the_output_of_an_edit() -> None:
    edits = [{"old_string": "a", "new_string": "b", "replace_all": True}]
    made = texts(rows("MultiEdit", {"file_path": "/w/x", "edits": edits, "why": "typo"}, full=True))
    assert made == [
        "  ✓ MultiEdit  /w/x  +1 -1", "    - a", "    + b",
        "    edits[0].replace_all: true", "    why: typo", "    output:", "    done",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Read", {"file_path": "x"}),
        ("Grep", {"path": "x", "content": "y"}),
        ("edit", {"path": "x", "edits": [{"op": "set_line", "anchor": "4:ab"}]}),
        ("edit", {"path": "x", "edits": ["odd"]}),
        ("edit", {"path": "x"}),
        ("edit", {"old_string": "a", "new_string": "b"}),
        ("edit", {"path": 7, "old_string": 1, "new_string": None}),
        ("write", "plain text"),
        ("write", None),
        ("write", ["a"]),
    ],
)
def test_another_call_is_no_edit(name: str, fields: Any) -> None:
    assert find_edits(name, fields) is None
    rows(name, fields)
    rows(name, fields, full=True)


LINES = st.lists(st.sampled_from(["a", "b", "  c", "", "d\te", "+x", "-y", "@@ z"]), max_size=12)


@drawn(300)
@given(old=LINES, new=LINES)
def test_a_full_diff_holds_both_texts(old: list[str], new: list[str]) -> None:
    fields = {"path": "x", "old_string": "\n".join(old) + "\n", "new_string": "\n".join(new) + "\n"}
    edits = find_edits("edit", fields)
    assert edits is not None
    changes = [*edits.changes(full=True)]
    before = "".join(f"{line}\n" for sign, line in changes if sign in " -")
    after = "".join(f"{line}\n" for sign, line in changes if sign in " +")
    assert (before, after) == (fields["old_string"], fields["new_string"])
    added, removed = edits.counts()
    assert (added, removed) == (
        sum(sign == "+" for sign, _ in changes), sum(sign == "-" for sign, _ in changes),
    )  # fmt: skip


def test_two_long_texts_are_compared_at_their_ends_only() -> None:
    old = "\n".join(["same", *(f"o{n}" for n in range(5000)), "end"])
    new = "\n".join(["same", *(f"n{n}" for n in range(5000)), "end"])
    edits = find_edits("Edit", {"file_path": "x", "old_string": old, "new_string": new})
    assert edits is not None
    assert edits.counts() == (5000, 5000)
