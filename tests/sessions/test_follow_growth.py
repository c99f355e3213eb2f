"""Applying the reported changes of a growing captured session gives that session."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from builders import CAPTURES
from drawn import drawn
from following import Deed, ScriptedClock, append, applied, client_at
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from amux.model.session import Session
from amux.testing import Capture

IN_DOCUMENTS = ("codex-0.1.2505291658", "gemini-0.1.22", "gemini-0.15.4")
LINE_LOGS = ("claude", "codex", "copilot", "droid", "gemini", "omp", "pi", "qwen")
GROWING = [
    capture
    for capture in CAPTURES
    if capture.agent in LINE_LOGS and not capture.name.startswith(IN_DOCUMENTS)
]
PAUSES = (0.05, 0.4, 1.1, 3.0)

Followed = dict[str, list[dict[str, Any]]]


class Grown(NamedTuple):
    """A captured session, cut back to its first lines, and what it was."""

    home: Path
    agent: str
    path: Path
    session: Session
    rest: bytes

    def follow(self, deeds: list[Deed]) -> Followed:
        client = client_at(self.home, ScriptedClock(deeds))
        with client.follow(self.agent, self.session.session_id, from_start=True) as changes:
            told = applied(changes)
        return {name: [m.to_dict() for m in messages] for name, messages in told.items()}


class Begun(NamedTuple):
    """The longest session in one line log, and how many bytes make it known."""

    log: Path  # below the home
    session: Session
    size: int


def cut_back(capture: Capture, folder: Path) -> Grown:
    """That session, with as few lines as make it known."""
    begun = find_beginning(capture)
    home = capture.copy_to(folder)
    path = home / begun.log
    content = path.read_bytes()
    path.write_bytes(content[: begun.size])
    return Grown(home, capture.agent, path, begun.session, content[begun.size :])


BEGINNINGS: dict[str, Begun] = {}


def find_beginning(capture: Capture) -> Begun:
    """Looked for once per capture: it takes a list for every line."""
    if capture.name not in BEGINNINGS:
        with TemporaryDirectory() as folder:
            BEGINNINGS[capture.name] = _find_beginning(capture, Path(folder))
    return BEGINNINGS[capture.name]


def _find_beginning(capture: Capture, folder: Path) -> Begun:
    home = capture.copy_to(folder)
    client = client_at(home, ScriptedClock())
    listed = client.sessions.list(capture.agent, limit=None, include_archived=True)
    sessions = [client.sessions.get(capture.agent, each.session_id) for each in listed]
    in_logs = [each for each in sessions if _log_of(each) is not None]
    session = max(in_logs, key=lambda each: len(each.messages))
    path = _log_of(session)
    assert path is not None
    content = path.read_bytes()
    ends = accumulate(map(len, content.splitlines(keepends=True)))
    size = next(end for end in ends if _is_known(client, session, path, content[:end]))
    return Begun(path.relative_to(home), session, size)


def _log_of(session: Session) -> Path | None:
    sources = [Path(each) for each in session.raw["sources"]]
    return sources[0] if len(sources) == 1 and sources[0].suffix == ".jsonl" else None


def _is_known(client: Any, session: Session, path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    listed = client.sessions.list(session.agent, limit=None, include_archived=True)
    return session.session_id in {each.session_id for each in listed}


def expected(session: Session) -> Followed:
    """The messages of a session and its sub-agents; outputs only in the tools' own messages."""
    messages = [message.to_dict() for message in session.messages]
    answered = {each["toolResult"]["toolCallId"] for each in messages if "toolResult" in each}
    for call in (call for each in messages for call in each.get("toolCalls", ())):
        if call["toolCallId"] in answered:
            call.pop("output", None)
            call.pop("isError", None)
    found: Followed = {session.session_id: messages} if messages else {}
    for child in session.children:
        found |= expected(child)
    return found


@pytest.mark.parametrize("capture", GROWING, ids=lambda capture: capture.name)
@pytest.mark.parametrize("pause", [0.1, 1.7])
def test_a_captured_session_grown_line_by_line_arrives_as_it_is(
    capture: Capture, pause: float, tmp_path: Path
) -> None:
    grown = cut_back(capture, tmp_path)
    lines = grown.rest.splitlines(keepends=True)
    deeds: list[Deed] = [
        (1 + pause * n, partial(append, grown.path, line)) for n, line in enumerate(lines)
    ]
    assert grown.follow(deeds) == expected(grown.session)


@drawn(25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_captured_session_cut_anywhere_arrives_as_it_is(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    capture = data.draw(st.sampled_from(GROWING))
    grown = cut_back(capture, tmp_path_factory.mktemp("grown"))
    places = st.integers(0, len(grown.rest))
    steps = data.draw(st.lists(st.tuples(places, st.sampled_from(PAUSES)), max_size=12))
    cuts = [0, *sorted(place for place, _ in steps), len(grown.rest)]
    times = accumulate([1.0, *(pause for _, pause in steps)])
    deeds: list[Deed] = [
        (at, partial(append, grown.path, grown.rest[begin:end]))
        for at, begin, end in zip(times, cuts, cuts[1:], strict=False)
    ]
    assert grown.follow(deeds) == expected(grown.session)
