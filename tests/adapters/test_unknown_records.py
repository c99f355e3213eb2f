"""Records of unknown types change no message and are listed in `raw`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amux.client import create_client
from amux.model.session import Session
from amux.testing import Capture, find_captures

CAPTURES = Path(__file__).parent.parent / "captures"
LOGS = {
    "claude", "claude-agent-sdk", "codex", "copilot", "cursor", "droid", "gemini", "omp",
    "openclaw", "pi", "qwen",
}  # fmt: skip
FUTURE = {"type": "future", "zz": 1}
TALK = (
    {"id": "1", "parentId": None, "role": "user", "content": "do"},
    {"id": "2", "parentId": "1", "role": "assistant", "content": "done"},
)
PLACES = {
    "codex": ".codex/sessions/abc.jsonl",
    "gemini": ".gemini/sessions/abc.jsonl",
    "pi": ".pi/agent/sessions/abc/1.jsonl",
    "hermes": ".hermes/sessions/abc.jsonl",
    "cursor": ".cursor/projects/w/agent-transcripts/abc.jsonl",
}


def sessions_of(home: Path, agent: str, *, index: str = "off") -> dict[str, Session]:
    env = {"AMUX_INDEX": index, "AMUX_CACHE_DIR": str(home / "cache")}
    with create_client(home=home, env=env) as client:
        listed = client.sessions.list(agent, limit=None, include_archived=True)
        ids = {summary.session_id for summary in listed}
        return {name: client.sessions.get(agent, name) for name in ids}


def said_in(session: Session) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in session.messages]


def has_logs(capture: Capture) -> bool:
    return capture.folder in LOGS and any(capture.home.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "capture", [*filter(has_logs, find_captures(CAPTURES))], ids=lambda capture: capture.name
)
def test_a_record_of_the_future_changes_no_message_and_is_shown(
    capture: Capture, tmp_path: Path
) -> None:
    home = capture.copy_to(tmp_path)
    before = sessions_of(home, capture.agent)
    changed: set[str] = set()
    for session in before.values():
        for source in map(Path, session.raw["sources"]):
            if source.suffix == ".jsonl" and str(source) not in changed:
                lines = source.read_bytes().splitlines(keepends=True)
                strange = json.dumps(FUTURE).encode() + b"\n"
                source.write_bytes(b"".join((*lines[:2], strange, *lines[2:])))
                changed.add(str(source))
    assert changed
    after = sessions_of(home, capture.agent)
    assert {name: said_in(one) for name, one in after.items()} == {
        name: said_in(one) for name, one in before.items()
    }
    for session in after.values():
        if changed.intersection(session.raw["sources"]):
            assert session.raw["unknownTypes"]["future"] >= 1
            assert FUTURE in session.raw["unknownRecords"]


def write(home: Path, agent: str, *records: Any) -> Session:
    path = home / PLACES[agent]
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (session,) = sessions_of(home, agent).values()
    return session


@pytest.mark.parametrize("agent", PLACES)
def test_unknown_records_are_read_equally_in_the_directory_of_the_specification(
    tmp_path: Path, agent: str
) -> None:
    session = write(tmp_path, agent, TALK[0], FUTURE, TALK[1])
    assert [message.role for message in session.messages] == ["user", "assistant"]
    assert session.raw["unknownTypes"] == {"future": 1}
    assert session.raw["unknownRecords"] == [FUTURE]


@pytest.mark.parametrize("agent", PLACES)
def test_what_is_kept_has_bounds_in_number_and_size(tmp_path: Path, agent: str) -> None:
    many = [{"type": f"t{n % 40}", "text": "x" * 50_000} for n in range(120)]
    session = write(tmp_path, agent, TALK[0], *many, TALK[1])
    assert session.raw["unknownTypes"] == {f"t{n}": 3 for n in range(40)}
    records = session.raw["unknownRecords"]
    assert len(records) == 20
    assert all(record["truncated"].startswith('{"type"') for record in records)
    assert len(json.dumps(records)) < 60_000
