"""Unified ids: `<agent>:<native id>`, pure string work."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import open_client
from hypothesis import given
from hypothesis import strategies as st

from amux.client import create_client
from amux.model.ids import NativeRef, split_unified_id, unified_id
from amux.testing.reading import opened_files

AGENTS = st.sampled_from(["claude", "codex"])
CLIENT = create_client(home="/nowhere")


@given(agent=AGENTS, native=st.text(min_size=1))
def test_every_native_id_survives_the_round_trip(agent: str, native: str) -> None:
    unified = CLIENT.sessions.resolve_unified_id(agent, native)
    assert unified == agent + ":" + native
    expected = NativeRef(agent=agent, native_session_id=native)
    assert CLIENT.sessions.resolve_native_id(unified) == expected


@given(text=st.text())
def test_splitting_any_text_is_undone_by_joining(text: str) -> None:
    parts = split_unified_id(text)
    if parts is None:
        assert text.find(":") in {-1, 0, len(text) - 1}
    else:
        assert ":" not in parts[0]
        assert unified_id(*parts) == text


@pytest.mark.parametrize(
    ("text", "native"),
    [
        ("claude:a:b:c", "a:b:c"),
        ("codex:proj-xyz/branch-main", "proj-xyz/branch-main"),
        ("claude: ", " "),
        ("claude::", ":"),
    ],
)
def test_only_the_first_colon_counts(text: str, native: str) -> None:
    found = CLIENT.sessions.resolve_native_id(text)
    assert found is not None
    assert found.native_session_id == native


@pytest.mark.parametrize(
    "text", ["not-a-valid-id", "unknown-agent:123", ":x", "claude:", ":", "", "Claude:x"]
)
def test_an_id_without_a_known_agent_or_native_id_resolves_to_none(text: str) -> None:
    assert CLIENT.sessions.resolve_native_id(text) is None


def test_resolving_needs_no_session_and_touches_no_file(home: Path) -> None:
    sessions = open_client(home).sessions
    with opened_files() as opened:
        assert sessions.resolve_unified_id("claude", "does-not-exist") == "claude:does-not-exist"
        assert sessions.resolve_unified_id("no agent at all", "") == "no agent at all:"
        assert sessions.resolve_native_id("claude:does-not-exist") is not None
    assert opened == []
    assert list(home.iterdir()) == []
