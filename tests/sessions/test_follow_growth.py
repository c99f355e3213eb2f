"""Whatever a captured session looked like while it grew: applying the changes gives the session."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from builders import CAPTURES
from followed import Deed, ScriptedClock, append, applied, client_at
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amux.model.message import SessionMessage
from amux.model.session import Session
from amux.testing import Capture

LINE_LOGS = ("claude", "codex", "copilot", "droid", "gemini", "pi", "omp", "qwen")
GROWING = [capture for capture in CAPTURES if capture.agent in LINE_LOGS]


def main_file(home: Path, agent: str) -> tuple[str, Path] | None:
    """The longest session of a home that lies in one line log."""
    client = client_at(home, ScriptedClock())
    found: list[tuple[int, str, Path]] = []
    for summary in client.sessions.list(agent, limit=None, include_archived=True):
        session = client.sessions.get(agent, summary.session_id)
        sources = session.raw["sources"]
        if len(sources) == 1 and sources[0].endswith(".jsonl"):
            path = Path(sources[0])
            found.append((path.stat().st_size, summary.session_id, path))
    return max(found)[1:] if found else None


def without_outputs(messages: tuple[SessionMessage, ...]) -> list[object]:
    """Followers get a tool's output from the tool's own message."""
    plain = [message.to_dict() for message in messages]
    answered = {m["toolResult"]["toolCallId"] for m in plain if "toolResult" in m}
    for message in plain:
        for call in message.get("toolCalls", ()):
            if call["toolCallId"] in answered:
                call.pop("output", None)
                call.pop("isError", None)
    return [*plain]


def everyone(session: Session) -> dict[str, list[object]]:
    found = {session.session_id: without_outputs(session.messages)}
    for child in session.children:
        found |= everyone(child)
    return {name: messages for name, messages in found.items() if messages}


def grown(home: Path, agent: str, session_id: str, deeds: list[Deed]) -> dict[str, list[object]]:
    clock = ScriptedClock(deeds)
    with client_at(home, clock).follow(agent, session_id, from_start=True) as changes:
        told = applied(changes)
    found = {name: [message.to_dict() for message in told[name]] for name in told}
    return {name: [*messages] for name, messages in found.items() if messages}


@pytest.mark.parametrize("capture", GROWING, ids=lambda capture: capture.name)
@pytest.mark.parametrize("pause", [0.1, 1.7])
def test_a_captured_session_grown_line_by_line_arrives_as_it_is(
    capture: Capture, pause: float, tmp_path: Path
) -> None:
    home = capture.copy_to(tmp_path)
    found = main_file(home, capture.agent)
    if found is None:
        return  # this version kept its sessions otherwise
    session_id, path = found
    whole = client_at(home, ScriptedClock()).sessions.get(capture.agent, session_id)
    lines = path.read_bytes().splitlines(keepends=True)
    start = next(n for n in range(1, len(lines) + 1) if _is_known(home, path, lines[:n], found, capture))
    deeds: list[Deed] = [
        (1 + pause * n, partial(append, path, line)) for n, line in enumerate(lines[start:])
    ]
    assert grown(home, capture.agent, session_id, deeds) == everyone(whole)


def _is_known(
    home: Path, path: Path, lines: list[bytes], found: tuple[str, Path], capture: Capture
) -> bool:
    path.write_bytes(b"".join(lines))
    client = client_at(home, ScriptedClock())
    return any(
        summary.session_id == found[0]
        for summary in client.sessions.list(capture.agent, limit=None, include_archived=True)
    )


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_captured_session_cut_anywhere_arrives_as_it_is(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    capture = data.draw(st.sampled_from(GROWING))
    home = capture.copy_to(tmp_path_factory.mktemp("grown"))
    found = main_file(home, capture.agent)
    if found is None:
        return
    session_id, path = found
    whole = client_at(home, ScriptedClock()).sessions.get(capture.agent, session_id)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    start = next(n for n in range(1, len(lines) + 1) if _is_known(home, path, lines[:n], found, capture))
    begun = sum(map(len, lines[:start]))
    cuts = sorted(data.draw(st.sets(st.integers(begun, len(content)), max_size=12)))
    pieces = [content[a:b] for a, b in zip([begun, *cuts], [*cuts, len(content)], strict=True)]
    pauses = data.draw(
        st.lists(st.sampled_from([0.05, 0.4, 1.1, 3.0]), min_size=len(pieces), max_size=len(pieces))
    )
    deeds: list[Deed] = []
    for at, piece in zip(_sums(pauses), pieces, strict=True):
        deeds.append((at, partial(append, path, piece)))
    assert grown(home, capture.agent, session_id, deeds) == everyone(whole)


def _sums(pauses: list[float]) -> list[float]:
    return [sum(pauses[: n + 1]) for n in range(len(pauses))]
