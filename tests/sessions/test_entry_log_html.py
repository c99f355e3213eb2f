"""The page of an entry log: the one of the read side, from bytes alone, whatever they are."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux import EntryLog, Host, ValidationError, create_client, export_html
from amux.testing.strategies import HOSTILE

AT = datetime(2026, 2, 26, 14, 30, 12, tzinfo=UTC)
MODEL = "claude-sonnet-4-5"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
USAGE = {"input": 1200, "output": 34, "cache_read": 0, "cache_write": 0, "total_tokens": 1234}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def write(folder: Path) -> EntryLog:
    """A log with every kind of entry and of block."""
    log = EntryLog.create(folder, "/home/user/project", now=lambda: AT)
    image = {"type": "image", "data": PNG, "mime_type": "image/png"}
    log.append_message({"role": "user", "content": [text("Why does it fail?"), image]})
    log.append_message(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "It may be the clock."},
                text("I look."),
                {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
            ],
            "model": MODEL,
            "provider": "anthropic",
            "usage": USAGE,
            "stop_reason": "tool_use",
        }
    )
    kept = log.append_message(
        {
            "role": "tool_result",
            "tool_call_id": "c1",
            "tool_name": "bash",
            "content": [text("no such file")],
            "is_error": True,
        }
    )
    log.append_compaction("## Goal\nFix it.", kept, 45000)
    failed: dict[str, Any] = {"role": "assistant", "content": [], "stop_reason": "error"}
    log.append_message({**failed, "error_message": "the model is overloaded"})
    return log


def page_of(tmp_path: Path, **options: Any) -> str:
    return export_html(write(tmp_path).file_path.read_bytes(), **options)


def test_the_page_is_the_one_of_the_read_side(home: Path) -> None:
    log = write(EntryLog.sessions_dir("agent", Host(home)))
    log = log.fork(log.file_path.parent, branch_summary="Another way")
    session = create_client(home=home).sessions.get("agent", log.id)
    exported = export_html(session, title="Mine")
    alone = export_html(log.file_path.read_bytes(), title="Mine")

    def body(page: str) -> str:
        return page[page.index("<main>") : page.index("</main>")]

    assert body(alone) == body(exported)
    parent = log.file_path.parent / next(
        path.name for path in sorted(log.file_path.parent.iterdir()) if path != log.file_path
    )
    first = create_client(home=home).sessions.get("agent", parent.stem)
    assert export_html(parent.read_bytes(), title="Mine") == export_html(first, title="Mine")


def test_the_header_has_title_short_id_folder_time_and_count(tmp_path: Path) -> None:
    log = write(tmp_path)
    page = export_html(log.file_path.read_bytes())
    for fact in (
        "<title>Agent Session</title>",
        "<h1>Agent Session</h1>",
        f"<dd>{log.id[:8]}</dd>",
        "<dd>/home/user/project</dd>",
        "<dd>2026-02-26 14:30:12 UTC</dd>",
        "5 messages",
    ):
        assert fact in page


def test_everything_in_the_header_can_be_replaced(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        title="My <Session>",
        session_id="0123456789",
        cwd="/x",
        created=AT.replace(year=2020),
    )
    for fact in (
        "<h1>My &lt;Session&gt;</h1>",
        "<dd>01234567</dd>",
        "<dd>/x</dd>",
        "<dd>2020-02-26",
    ):
        assert fact in page
    assert "<dd>2021-01-02 03:04:05 UTC</dd>" in page_of(tmp_path, created="2021-01-02T03:04:05Z")


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError) as caught:
        page_of(tmp_path, created="yesterday or so")
    assert caught.value.fields == ("created",)


def test_every_kind_of_block_has_its_class(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    classes = " ".join(re.findall(r'class="([^"]*)"', page)).split()
    kinds = {"user", "assistant", "tool-call", "tool-result", "thinking", "compaction"}
    assert kinds <= set(classes)


def test_usage_errors_images_and_the_summary_are_shown(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert "1,200 in · 0 cached · 0 cache written · 34 out" in page
    assert page.count(">failed</span>") == 2, "the call and its result"
    assert "the model is overloaded" in page
    assert ">API error</span>" in page
    assert f'src="data:image/png;base64,{PNG}"' in page
    assert "<h4>Goal</h4>Fix it." in page


def test_the_cost_is_that_of_the_recorded_usage(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert "<dt>Input tokens</dt><dd>1,200</dd>" in page
    assert "<dt>Output tokens</dt><dd>34</dd>" in page
    assert "$" in page


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    page = re.sub(r"data:image/[^\"]+", "", page_of(tmp_path))
    for forbidden in ("http://", "https://", "@import", "url(", "<script", "<link", "<iframe"):
        assert forbidden not in page


def test_one_log_gives_one_page(tmp_path: Path) -> None:
    data = write(tmp_path).file_path.read_bytes()
    assert export_html(data) == export_html(data)


@pytest.mark.parametrize("snippet", HOSTILE)
def test_hostile_content_stays_text(snippet: str, tmp_path: Path) -> None:
    log = EntryLog.create(tmp_path, snippet, now=lambda: AT)
    log.append_message({"role": "user", "content": snippet})
    block = {"type": "tool_call", "id": snippet, "name": snippet, "arguments": {snippet: snippet}}
    thought = {"type": "thinking", "thinking": snippet}
    log.append_message({"role": "assistant", "content": [thought, block], "model": snippet})
    log.append_message({"role": "tool_result", "tool_call_id": "x" + snippet, "content": snippet})
    log.append_compaction(snippet, "", 1)
    page = export_html(log.file_path.read_bytes(), title=snippet, session_id=snippet)
    for element in ("<script", "<img", '<a href="j', "<style>alert", "<!--", "<b>", 'onerror="'):
        assert element not in page.replace("<style>\n", "", 1)


@pytest.mark.parametrize(
    ("data", "problems"),
    [
        (b"", 0),
        (b"\n\n", 0),
        (b"nonsense\n", 2),
        (b'{"type":"session","id":"x","version":9}\n', 1),
        (b'{"type":"sess', 2),
    ],
)
def test_bytes_without_a_session_are_an_empty_page_with_their_problems(
    data: bytes, problems: int
) -> None:
    page = export_html(data)
    assert "<h1>Agent Session</h1>" in page
    assert "0 messages" in page
    assert "1970" not in page
    assert page.count("<li>") == problems


@drawn(60)
@given(st.lists(st.binary(max_size=40) | st.just(b'{"type":"message","role":"user"}'), max_size=5))
def test_any_bytes_are_a_page(lines: list[bytes]) -> None:
    assert export_html(b"\n".join(lines)).endswith("</html>\n")
