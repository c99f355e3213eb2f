"""Every captured session as a terminal shows it: complete with `full`, short without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from builders import CAPTURES, SharedHome, capture_named, open_client
from newest_captures import newest_of_each

from amux.client import Client
from amux.errors import SessionNotFoundError
from amux.model.message import SessionMessage
from amux.model.options import SessionListOptions
from amux.model.session import Session
from amux.render.content import visible
from amux.testing import Capture

EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


def squeezed(text: str) -> str:
    return "".join(visible(text.strip()).split())


def shown(client: Client, session: Session, *, full: bool, width: int = 80) -> str:
    lines = client.stream_terminal(session.agent, session.session_id, width=width, full=full)
    return "".join("".join(text for text, _ in line) + "\n" for line in lines)


def all_messages(session: Session) -> Iterator[SessionMessage]:
    yield from session.messages
    for child in session.children:
        yield from all_messages(child)


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_full_shows_all_that_was_said_by_a_session_and_its_sub_agents(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    for summary in client.list_report(None, EVERYTHING).sessions:
        session = client.sessions.get(summary.agent, summary.session_id)
        text = squeezed(shown(client, session, full=True))
        for message in all_messages(session):
            said = squeezed(message.content)
            if message.synthetic and message.role == "assistant":
                said = said[len("AI_APICallError:") :]  # an error notice gets a word of ours
            assert said in text
            assert squeezed(message.thinking or "") in text


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_every_failed_call_is_marked(capture: Capture, shared_home: SharedHome) -> None:
    client = open_client(shared_home(capture))
    for summary in client.list_report(None, EVERYTHING).sessions:
        session = client.sessions.get(summary.agent, summary.session_id)
        failed = sum(
            message.tool_result is not None and bool(message.tool_result.is_error)
            for message in all_messages(session)
        )
        rows = shown(client, session, full=False, width=200).splitlines()
        assert sum(row.startswith("  ✗ ") and row.endswith(" failed") for row in rows) == failed


def test_an_unknown_session_is_an_error_before_the_first_line(shared_home: SharedHome) -> None:
    client = open_client(shared_home(capture_named("claude-2.1.50")))
    with pytest.raises(SessionNotFoundError):
        client.stream_terminal("claude", "no-such-session", width=80)
