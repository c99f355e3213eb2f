"""Every fixture is read as its `expected.json` says, with and without an index.

A fixture shows one peculiarity of real disks in a handful of records of the agent's own shape. It
has the form of a capture, `tests/fixtures/<agent>/<name>/{home,expected.json}`, but its records and
its expected values are written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amux.client import Client, create_client
from amux.testing import (
    Capture,
    find_captures,
    fingerprint,
    injected_openings,
    listing_mismatches,
    session_mismatches,
)

FIXTURES = find_captures(Path(__file__).parent.parent / "fixtures")


@pytest.fixture(params=FIXTURES, ids=[f"{each.folder}-{each.version}" for each in FIXTURES])
def fixture(request: pytest.FixtureRequest) -> Capture:
    found: Capture = request.param
    return found


@pytest.fixture
def home(fixture: Capture, tmp_path: Path) -> Path:
    return fixture.copy_to(tmp_path)


def test_sessions_lists_and_totals_are_as_expected(fixture: Capture, home: Path) -> None:
    before = fingerprint(home)
    client = create_client(home=home)
    assert _mismatches(client, fixture) == []
    assert fingerprint(home) == before


def test_the_index_changes_no_answer(fixture: Capture, home: Path, tmp_path: Path) -> None:
    before = fingerprint(home)
    client = create_client(home=home, env={"AMUX_CACHE_DIR": str(tmp_path / "cache")})
    client.index.update()
    assert _mismatches(client, fixture) == []
    assert _answers(client, fixture.agent) == _answers(create_client(home=home), fixture.agent)
    assert fingerprint(home) == before


def test_no_title_and_no_prompt_begins_with_an_injected_text(fixture: Capture, home: Path) -> None:
    client = create_client(home=home)
    (info,) = (each for each in client.adapters.list() if each.name == fixture.agent)
    assert injected_openings(client, fixture.agent, info) == []


def _mismatches(client: Client, fixture: Capture) -> list[str]:
    wrong = listing_mismatches(client.sessions.list(fixture.agent, limit=None), fixture.sessions)
    for expected in fixture.sessions:
        if expected.get("session_id") is not None:
            session = client.sessions.get(fixture.agent, expected["session_id"])
            wrong += [
                f"{session.session_id} {each}" for each in session_mismatches(session, expected)
            ]
            wrong += [f"{session.session_id} {problem}" for problem in session.problems]
    totals: dict[str, Any] = fixture.expected.get("home_totals") or {}
    if totals.get("tokens_recoverable") is not None:
        total = client.sessions.total_cost(agent=fixture.agent)
        found = {
            "input": total.input_tokens,
            "cache_read": total.cached_tokens,
            "cache_write": total.cache_write_tokens,
            "output": total.output_tokens,
            "thinking": total.thinking_tokens,
        }
        if found != totals["tokens_recoverable"]:
            wrong.append(f"home total: found {found}, expected {totals['tokens_recoverable']}")
    return wrong


def _answers(client: Client, agent: str) -> list[Any]:
    return [
        client.sessions.list(agent, limit=None, include_children=True, include_archived=True),
        client.sessions.total_cost(agent=agent),
    ]
