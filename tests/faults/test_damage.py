"""Random kills, torn writes and flipped bits: every undamaged text is still read.

Each case is one captured log, damaged at an offset drawn from a fixed seed and read through the
public client. A text of the original's messages counts as undamaged when every line that contains
it is intact; it must be a text of the messages again. Nothing may raise.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from builders import CAPTURES

from amux.client import create_client
from amux.model.message import SessionMessage
from amux.model.options import SessionListOptions
from amux.model.session import Session

TARGET = 0.999
LARGEST = 256 * 1024
"""Bytes of the largest log taken: the rate needs many cases, not long ones."""


KNOWN = {info.name for info in create_client().adapters.list()}
AGENTS = sorted(
    {
        capture.agent
        for capture in CAPTURES
        if capture.agent in KNOWN and any(capture.home.rglob("*.jsonl"))
    }
)


class Original(NamedTuple):
    """An intact log, and the lines that hold each text its messages show."""

    agent: str
    relative: Path
    lines: list[bytes]
    holders: dict[str, frozenset[int]]


class Damaged(NamedTuple):
    """The bytes after an accident, and the lines it spared."""

    data: bytes
    intact: frozenset[int]


def killed(log: Sequence[bytes], chance: random.Random) -> Damaged:
    """The writer died: the file ends anywhere."""
    data = b"".join(log)
    size = chance.randrange(len(data))
    return Damaged(data[:size], frozenset(_lines_within(log, size)))


def torn_and_resumed(log: Sequence[bytes], chance: random.Random) -> Damaged:
    """The writer died within a line and a new one went on, behind a line feed of its own."""
    hit = chance.randrange(len(log))
    rest = log[hit][: chance.randrange(len(log[hit]))]
    lines = [*log[:hit], rest.rstrip(b"\n") + b"\n", *log[hit + 1 :]]
    return Damaged(b"".join(lines), frozenset(range(len(log))) - {hit})


def bits_flipped(log: Sequence[bytes], chance: random.Random) -> Damaged:
    """A few bits are wrong; a line feed that turns into something else costs two lines."""
    data = bytearray(b"".join(log))
    intact = set(range(len(log)))
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data))
        data[place] ^= 1 << chance.randrange(8)
        hit = sum(1 for _ in _lines_within(log, place))
        intact -= {hit, hit + 1} if place == _end_of(log, hit) else {hit}
    return Damaged(bytes(data), frozenset(intact))


def zeroed(log: Sequence[bytes], chance: random.Random) -> Damaged:
    """A block that never reached the disk is full of zeros after a power cut."""
    data = b"".join(log)
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.randint(1, 4096))
    spared = (n for n, (begin, stop) in enumerate(_spans(log)) if stop <= start or begin > end)
    return Damaged(data[:start] + bytes(end - start) + data[end:], frozenset(spared))


def _spans(log: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    begin = 0
    for line in log:
        yield begin, begin + len(line)
        begin += len(line)


def _lines_within(log: Sequence[bytes], size: int) -> Iterator[int]:
    return (number for number, (_, end) in enumerate(_spans(log)) if end <= size)


def _end_of(log: Sequence[bytes], number: int) -> int:
    return sum(map(len, log[: number + 1])) - 1


ACCIDENTS: tuple[Callable[[Sequence[bytes], random.Random], Damaged], ...] = (
    killed,
    torn_and_resumed,
    bits_flipped,
    zeroed,
)


def read_texts(home: Path, agent: str) -> set[str]:
    """Every text that the sessions of a home hold, by the public client."""
    sessions = create_client(home=home).sessions
    everything = SessionListOptions(include_children=True, include_archived=True, limit=None)
    found: set[str] = set()
    for summary in sessions.list(agent, everything):
        found.update(_session_texts(sessions.get(agent, summary.session_id)))
    return found


def _session_texts(session: Session) -> Iterator[str]:
    # A session of nothing but injected context is none: such texts may go with the last prompt.
    for message in session.messages:
        if not message.synthetic:
            yield from _message_texts(message)
    for child in session.children:
        yield from _session_texts(child)


def _message_texts(message: SessionMessage) -> Iterator[str]:
    yield message.content
    yield message.thinking or ""
    for call in message.tool_calls:
        yield call.tool_call_id


def _original(agent: str, home: Path, path: Path, place: Path) -> Original:
    """The log alone in a home of its own."""
    relative = path.relative_to(home)
    target = place / relative
    target.parent.mkdir(parents=True)
    target.write_bytes(path.read_bytes())
    lines = path.read_bytes().splitlines(keepends=True)
    holders: dict[str, frozenset[int]] = {}
    for text in read_texts(place, agent):
        held = {number for number, line in enumerate(lines) if _holds(line, text)}
        if held and text.strip():
            holders[text] = frozenset(held | _corrected_by(held, lines))
    return Original(agent, relative, lines, holders)


def _holds(line: bytes, text: str) -> bool:
    """Whether a line says a text: as JSON, or as JSON inside a text."""
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    twice = json.dumps(once, ensure_ascii=False)[1:-1]
    return once.encode() in line or twice.encode() in line


def _corrected_by(held: set[int], lines: Sequence[bytes]) -> set[int]:
    """The lines that corrections are about: a correction alone is no message."""
    payloads: list[Any] = [json.loads(lines[number]).get("payload") for number in held]
    corrections: list[dict[str, Any]] = [each for each in payloads if isinstance(each, dict)]
    targets = {each["target"] for each in corrections if each.get("target") is not None}
    return {n for n, line in enumerate(lines) if targets and json.loads(line).get("id") in targets}


@pytest.fixture(scope="module", params=AGENTS)
def originals(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Original]:
    """Every log of one agent that says something by itself."""
    found: list[Original] = []
    for capture in (capture for capture in CAPTURES if capture.agent == request.param):
        home = capture.copy_to(tmp_path_factory.mktemp("capture"))
        for path in sorted(home.rglob("*.jsonl")):
            if 0 < path.stat().st_size <= LARGEST:
                place = tmp_path_factory.mktemp("alone")
                original = _original(capture.agent, home, path, place)
                if original.holders:
                    found.append(original)
    return found


def recovery(originals: Sequence[Original], place: Path, *, cases: int, seed: int) -> float:
    """The part of the undamaged texts that came back, over so many accidents."""
    chance = random.Random(seed)
    expected = returned = 0
    for case in range(cases):
        original = chance.choice(originals)
        damaged = ACCIDENTS[case % len(ACCIDENTS)](original.lines, chance)
        home = place / str(case)
        target = home / original.relative
        target.parent.mkdir(parents=True)
        target.write_bytes(damaged.data)
        shown = read_texts(home, original.agent)
        wanted = [text for text, held in original.holders.items() if held <= damaged.intact]
        expected += len(wanted)
        returned += sum(_is_shown(text, shown) for text in wanted)
        target.unlink()
    rate = returned / expected
    agent = originals[0].agent
    print(f"{agent}: {rate:.3%} of {expected:,} undamaged texts came back, {cases:,} accidents")
    return rate


def _is_shown(text: str, shown: set[str]) -> bool:
    """Whether a text came back; where the lines between were lost, two may be one now."""
    return text in shown or any(text in longer for longer in shown)


def test_undamaged_records_are_still_read(originals: list[Original], tmp_path: Path) -> None:
    assert recovery(originals, tmp_path, cases=120, seed=1) >= TARGET


@pytest.mark.slow
def test_undamaged_records_are_still_read_after_thousands_of_faults(
    originals: list[Original], tmp_path: Path
) -> None:
    assert recovery(originals, tmp_path, cases=5_000, seed=2) >= TARGET


@pytest.mark.parametrize(
    ("capture", "pattern"),
    [
        ("droid-0.225.2", ".factory/sessions/*/*.jsonl"),
        ("opencode-0.5.29", ".local/share/opencode/project/*/storage/session/info/*.json"),
    ],
)
def test_a_file_without_usable_records_is_an_unknown_format(
    capture: str, pattern: str, copy_capture: Callable[[str], Path]
) -> None:
    home = copy_capture(capture)
    victim = min(home.glob(pattern))
    victim.write_bytes(b"noise\nmore noise\n")
    report = create_client(home=home).list_report(None, SessionListOptions())
    assert ("unknown-format", str(victim)) in {(each.code, each.path) for each in report.problems}
