"""Hypothesis strategies for the model: sessions and messages with hostile content.

Texts mix ordinary characters with those that break renderers: markup, fences, terminal escapes,
direction overrides, line ends of other systems. This is the only module of amux that imports
hypothesis; install `agent-mux[testing]` to use it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, get_args

from hypothesis import strategies as st

from amux.model.annotation import Note
from amux.model.cost import CostRecord, CostSource
from amux.model.facts import Kind
from amux.model.incomplete import CALL_INTERRUPTED, UNPRICED_MODEL
from amux.model.message import (
    Role,
    SessionMessage,
    SessionToolCall,
    TokenUsage,
    ToolResult,
)
from amux.model.problems import Problem
from amux.model.session import Session
from amux.model.usage import Call, Tokens

HOSTILE: Final = (
    "<script>alert(1)</script>",
    "</details>",
    "</style>",
    "<!--",
    "]]>",
    "<img src=x onerror=alert(1)>",
    '"><a href="javascript:alert(1)">',
    "### User",
    "# Title",
    "- ### Assistant",
    "> # Quoted",
    "Underlined\n===",
    "Underlined\n---",
    "```",
    "````python",
    "~~~",
    "~~~ <b> | x\n|---|---|",
    "~~~~~~\\~~~#",
    "  ```",
    "    ```",
    "\t```",
    "- ```",
    "1. item\n\n   ```\n",
    "`",
    "``",
    "\\`",
    "| `<b>` | x |\n|---|---|",
    "![pixel](https://example.org/p.png)",
    "[ref]: https://example.org",
    "\\",
    "&lt;b&gt;",
    "\x1b[31mred\x1b[0m",
    "\x9b2J",
    "\x00",
    "\r",
    "\r\n",
    "\x0b\x0c\x1c\x85\u2028\u2029",
    "\u202egnp.exe",
    "\u2066isolated\u2069",
    "你好 🙂 e\u0301",
    "\n\n",
    "    indented",
)
"""Texts that have broken renderers of transcripts."""

_TOKENS: Final = st.integers(min_value=0, max_value=10**9)
_TIMES: Final = st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis adds the time zone itself
    max_value=datetime(2040, 1, 1),  # noqa: DTZ001 - likewise
    timezones=st.just(UTC),
)


def texts() -> st.SearchStrategy[str]:
    """Return a strategy for texts, often composed of hostile snippets; no lone surrogates."""
    snippets = st.lists(
        st.sampled_from(HOSTILE) | st.sampled_from(["\n", " ", "word", "`code`"]), max_size=8
    )
    return st.text(max_size=40) | snippets.map("".join) | snippets.map("\n".join)


def json_values() -> st.SearchStrategy[Any]:
    """Return a strategy for JSON values: the input or output of a tool."""
    scalars = (
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts()
    ).filter(lambda value: value not in (float("inf"), float("-inf")))
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=6,
    )


def costs() -> st.SearchStrategy[CostRecord]:
    """Return a strategy for exact and incomplete cost records."""
    return st.builds(
        CostRecord,
        total_usd=st.integers(min_value=0, max_value=10**12).map(lambda nano: nano / 10**9),
        input_tokens=_TOKENS,
        output_tokens=_TOKENS,
        thinking_tokens=st.none() | _TOKENS,
        cached_tokens=st.none() | _TOKENS,
        cache_write_tokens=st.none() | _TOKENS,
        source=st.none() | st.sampled_from(get_args(CostSource)),
        incomplete=st.lists(st.sampled_from([UNPRICED_MODEL, CALL_INTERRUPTED])).map(tuple),
    )


def _tool_calls() -> st.SearchStrategy[SessionToolCall]:
    return st.builds(
        SessionToolCall,
        tool_call_id=st.sampled_from(["call-1", "call-2"]) | texts(),
        tool_name=texts(),
        input=json_values(),
        output=json_values(),
        duration_ms=st.none() | _TOKENS,
        is_error=st.none() | st.booleans(),
    )


def _tool_results() -> st.SearchStrategy[ToolResult]:
    return st.builds(
        ToolResult,
        tool_call_id=st.sampled_from(["call-1", "call-2"]) | texts(),
        tool_name=texts(),
        output=json_values(),
        is_error=st.none() | st.booleans(),
    )


def _usages() -> st.SearchStrategy[TokenUsage]:
    return st.builds(
        TokenUsage,
        input_tokens=_TOKENS,
        output_tokens=_TOKENS,
        thinking_tokens=st.none() | _TOKENS,
        cached_tokens=st.none() | _TOKENS,
        cache_write_tokens=st.none() | _TOKENS,
    )


def messages() -> st.SearchStrategy[SessionMessage]:
    """Return a strategy for messages of every role, with and without each optional part."""
    return st.builds(
        SessionMessage,
        role=st.sampled_from(get_args(Role)),
        content=texts(),
        timestamp=st.none() | _TIMES,
        tool_calls=st.lists(_tool_calls(), max_size=2).map(tuple),
        tool_result=st.none() | _tool_results(),
        token_usage=st.none() | _usages(),
        cost=st.none() | costs(),
        thinking=st.none() | texts(),
        model=st.none() | texts(),
        id=st.none() | texts(),
        parent_id=st.none() | texts(),
        synthetic=st.booleans(),
        images=st.lists(st.just("data:image/png;base64,iVBORw0KGgo=") | texts(), max_size=2).map(
            tuple
        ),
        compaction=st.booleans(),
    )


def _calls() -> st.SearchStrategy[Call]:
    return st.builds(
        Call,
        key=texts(),
        model=st.none() | texts(),
        at=st.none() | _TIMES,
        tokens=st.builds(Tokens, input=_TOKENS, output=_TOKENS, thinking=st.none() | _TOKENS),
        native_nusd=st.none() | _TOKENS,
    )


def sessions(*, depth: int = 1) -> st.SearchStrategy[Session]:
    """Return a strategy for sessions with sub-agents nested up to `depth` levels."""
    children = st.lists(sessions(depth=depth - 1), max_size=2) if depth > 0 else st.just([])
    return st.builds(
        Session,
        agent=st.sampled_from(["claude", "codex"]) | texts(),
        session_id=texts(),
        unified_id=texts(),
        title=texts(),
        created_at=_TIMES,
        updated_at=_TIMES,
        turn_count=_TOKENS,
        tags=st.lists(texts(), max_size=2).map(tuple),
        messages=st.lists(messages(), max_size=4).map(tuple),
        model=st.none() | texts(),
        cost=st.none() | costs(),
        cwd=st.none() | texts(),
        forked_from=st.none() | texts(),
        models=st.lists(texts(), max_size=2).map(tuple),
        kind=st.sampled_from(get_args(Kind)),
        parent=st.none() | texts(),
        archived=st.booleans(),
        starred=st.booleans(),
        notes=st.lists(st.builds(Note, number=_TOKENS, at=_TIMES, text=texts()), max_size=2).map(
            tuple
        ),
        calls=st.lists(_calls(), max_size=2).map(tuple),
        children=children.map(tuple),
        problems=st.lists(
            st.builds(Problem, code=st.just("bad-line"), message=texts(), path=st.none() | texts()),
            max_size=2,
        ).map(tuple),
        raw=st.dictionaries(st.text(max_size=8), json_values(), max_size=2),
    )
