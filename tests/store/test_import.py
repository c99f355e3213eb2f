"""Sessions of every agent are imported into a store and read back like any other session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import CAPTURES
from newest_captures import newest_names

from amux import create_client
from amux.model.message import SessionMessage
from amux.testing import Capture

NEWEST = [each for each in CAPTURES if each.name in newest_names(CAPTURES)]


def view(message: SessionMessage) -> tuple[Any, ...]:
    """Return what of a message an import keeps."""
    result = message.tool_result
    return (
        message.role,
        message.content,
        message.thinking or None,
        message.synthetic,
        message.images,
        [(call.tool_call_id, call.tool_name, call.input) for call in message.tool_calls],
        None if result is None else (result.tool_call_id, result.tool_name, result.is_error),
    )


@pytest.mark.parametrize("capture", NEWEST, ids=[each.name for each in NEWEST])
def test_an_imported_session_reads_like_the_original(capture: Capture, tmp_path: Path) -> None:
    client = create_client(home=capture.copy_to(tmp_path))
    before = client.sessions.total_cost()
    for summary in client.sessions.list(capture.agent, limit=None, include_archived=True):
        session = client.sessions.get(capture.agent, summary.session_id)
        thread = client.store.import_session(session)
        again = client.sessions.get("amux", thread.thread_id)
        assert [view(each) for each in again.messages] == [view(each) for each in session.messages]
        for imported, original in zip(again.messages, session.messages, strict=True):
            assert original.timestamp in (None, imported.timestamp)
        assert (again.title, again.cwd) == (session.title, session.cwd)
        assert again.turn_count == session.turn_count
    after = client.sessions.total_cost()
    assert (after.total_usd, after.input_tokens) == (before.total_usd, before.input_tokens)
    client.close()
