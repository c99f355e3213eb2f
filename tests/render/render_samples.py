"""Sessions for the tests of the exporters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from amux.model.cost import CostRecord
from amux.model.message import SessionMessage, SessionToolCall, TokenUsage, ToolResult
from amux.model.outline import SessionOutline
from amux.model.problems import Problem
from amux.model.session import Session

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)


def make(*messages: SessionMessage, **fields: Any) -> Session:
    """A small session; any field can be given."""
    base: dict[str, Any] = {
        "agent": "claude",
        "session_id": "0123456789abcdef",
        "unified_id": "claude:0123456789abcdef",
        "title": "A title",
        "created_at": NOON,
        "updated_at": NOON,
        "turn_count": 1,
        "tags": (),
        "messages": messages,
    }
    return Session(**(base | fields))


def user(content: str, **fields: Any) -> SessionMessage:
    return SessionMessage(role="user", content=content, **fields)


def assistant(content: str, **fields: Any) -> SessionMessage:
    return SessionMessage(role="assistant", content=content, **fields)


def shell_call(command: str, **fields: Any) -> SessionToolCall:
    return SessionToolCall(
        tool_call_id="call-1", tool_name="bash", input={"command": command}, **fields
    )


def shell_result(output: str, **fields: Any) -> SessionMessage:
    result = ToolResult(tool_call_id="call-1", tool_name="bash", output=output, **fields)
    return SessionMessage(role="tool", content=output, tool_result=result)


def full_session() -> Session:
    """Everything a session can hold, once."""
    return make(
        user("Why does the *login* test fail?", timestamp=NOON, images=(PNG,)),
        user("<environment>linux</environment>", synthetic=True),
        SessionMessage(role="system", content="Be brief."),
        assistant(
            "I look at the test first.",
            timestamp=NOON,
            thinking="The clock may be wrong.",
            model="claude-sonnet-4-5",
            tool_calls=(shell_call("pytest -k login", output="1 failed", duration_ms=1250),),
            token_usage=TokenUsage(input_tokens=1200, output_tokens=34, cached_tokens=9000),
            cost=CostRecord(total_usd=0.0123, input_tokens=1200, output_tokens=34),
        ),
        shell_result("1 failed", is_error=True),
        user("Summary of what happened so far.", compaction=True),
        title="Fix the login test",
        model="claude-sonnet-4-5",
        models=("claude-sonnet-4-5", "claude-haiku-4-5"),
        cwd="/home/ann/project",
        kind="fork",
        forked_from="claude:fedcba",
        cost=CostRecord(
            total_usd=1.2,
            input_tokens=1200,
            output_tokens=34,
            source="estimate",
            incomplete=("call-interrupted",),
        ),
        children=(
            make(
                user("Find the clock."),
                assistant("It is in clock.py."),
                title="Find the clock",
                kind="subagent",
                session_id="child",
                unified_id="claude:child",
            ),
        ),
        problems=(Problem(code="bad-line", message="not JSON", path="/x.jsonl", line=7),),
    )


def outline(session: Session) -> SessionOutline:
    """The same session, with messages that are handed out on demand."""
    header = msgspec.structs.replace(session, messages=(), children=())
    children = tuple(outline(child) for child in session.children)
    return SessionOutline(header, lambda: session.messages, children)
