"""Text scans return the texts that reading returns, and locate the messages in the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import CAPTURES
from claude_generated import source_at, transcripts
from codex_any import logs, write
from drawn import drawn
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from text_scans import Scanning, assert_scanned_as_read, assert_scanned_on

from amux.adapters.claude import ADAPTER as CLAUDE
from amux.adapters.codex import ADAPTER as CODEX
from amux.host import Host
from amux.testing import Capture

LEFT_TO_BE_READ = {"codex-0.1.2505291658", "codex-0.20.0"}  # in older forms
SCANNED: dict[str, Scanning] = {"claude": CLAUDE, "codex": CODEX}
OF_BOTH = [capture for capture in CAPTURES if capture.agent in SCANNED]
WITH_FOLDER = drawn(150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("capture", OF_BOTH, ids=lambda capture: capture.name)
def test_every_capture_is_scanned_as_it_is_read(capture: Capture, tmp_path: Path) -> None:
    adapter = SCANNED[capture.agent]
    host = Host(capture.copy_to(tmp_path), platform="linux")
    found = [ref for root in adapter.roots(host) for ref in adapter.discover(root)]
    cut = [assert_scanned_as_read(adapter, ref) for ref in found if ref.role != "names"]
    assert cut


@pytest.mark.parametrize(
    "capture", [one for one in OF_BOTH if one.agent == "claude"], ids=lambda capture: capture.name
)
def test_no_transcript_of_claude_code_is_left_to_be_read(capture: Capture, tmp_path: Path) -> None:
    root = capture.copy_to(tmp_path) / ".claude" / "projects"
    found = [ref for ref in CLAUDE.discover(root) if ref.role != "names"]
    for ref in found:
        scanned = CLAUDE.extract_texts(ref, tools=True)
        assert scanned is not None
        docs = [doc for _, some in scanned.sessions for doc in some]
        assert all(doc.location is not None for doc in docs if doc.ordinal), "but for a warm-up"


SAID = b'"type":"assistant","message":{"content":"Do it"}}'


@WITH_FOLDER
@given(data=transcripts(), agent=st.booleans())
@example(
    data=SAID.replace(b'"type"', b'{"type"').replace(b'"Do it"', b'[{"type":"tool_use","id":"t"}]'),
    agent=False,
)
@example(data=b"{\n" + SAID + b"\n", agent=False)
@example(data=b"\n{" + SAID + b"{" + SAID + b"\n", agent=False)
@example(data=b"{" + SAID + b"{" + SAID, agent=False)
@example(data=b'{"x":{}\n,' + SAID + b"{" + SAID + b"\n", agent=False)
def test_any_transcript_is_scanned_as_it_is_read(tmp_path: Path, data: bytes, agent: bool) -> None:
    ref = source_at(tmp_path, agent=agent)
    ref.path.parent.mkdir(parents=True, exist_ok=True)
    ref.path.write_bytes(data)
    assert_scanned_as_read(CLAUDE, ref)


@WITH_FOLDER
@given(data=transcripts(), agent=st.booleans(), cut=st.integers(0, 100_000))
def test_any_transcript_is_scanned_on_from_where_it_was_left(
    tmp_path: Path, data: bytes, agent: bool, cut: int
) -> None:
    ref = source_at(tmp_path, agent=agent)
    ref.path.parent.mkdir(parents=True, exist_ok=True)
    ref.path.write_bytes(data)
    assert_scanned_on(CLAUDE, ref, cut % (len(data) + 1))


@pytest.mark.parametrize("capture", OF_BOTH, ids=lambda capture: capture.name)
def test_a_capture_is_scanned_on_from_any_line(capture: Capture, tmp_path: Path) -> None:
    adapter = SCANNED[capture.agent]
    host = Host(capture.copy_to(tmp_path), platform="linux")
    found = [ref for root in adapter.roots(host) for ref in adapter.discover(root)]
    went_on = 0
    for ref in found:
        if ref.role == "names" or ref.path.suffix != ".jsonl":
            continue
        lines = ref.path.read_bytes().splitlines(keepends=True)
        for count in range(0, len(lines), max(1, len(lines) // 8)):
            went_on += assert_scanned_on(adapter, ref, sum(map(len, lines[:count])))
    assert went_on or capture.name in LEFT_TO_BE_READ


DONE = (
    b'{"timestamp":"2026-01-02T03:04:05.678Z","type":"response_item",'
    b'"payload":{"type":"function_call_output","call_id":null,"output":"ok"}}'
)


@WITH_FOLDER
@given(data=logs())
@example(data=b"\n" + DONE + DONE + b"\n")
@example(data=DONE.replace(b'{"type', b'\n{"type') + DONE + b"\n")
def test_any_rollout_is_scanned_as_it_is_read(tmp_path: Path, data: bytes) -> None:
    assert_scanned_as_read(CODEX, write(tmp_path, data))


@pytest.mark.parametrize("kind", range(9))
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"type":"user"}', b"\xff\n{}"])
def test_bytes_that_hold_no_message_give_none_or_an_empty_one(data: bytes, kind: int) -> None:
    for adapter in SCANNED.values():
        for tools in (True, False):
            message = adapter.read_message_at(data, kind, tools=tools)
            assert message is None or not message.content


@WITH_FOLDER
@given(data=logs(), cut=st.integers(0, 100_000))
def test_any_rollout_is_scanned_on_from_where_it_was_left(
    tmp_path: Path, data: bytes, cut: int
) -> None:
    assert_scanned_on(CODEX, write(tmp_path, data), cut % (len(data) + 1))
