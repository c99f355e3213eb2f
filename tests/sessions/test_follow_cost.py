"""`follow` reads nothing twice without need, and does not read all the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import ClaudeSession, uuid_of
from following import ScriptedClock, client_at, texts

from amux import Facts, Item, SourceRef, Want
from amux.adapters._base import Checkpoint, Reading
from amux.adapters.claude import ClaudeAdapter

ID = uuid_of(1)


class GoesOn(ClaudeAdapter):
    """Claude's adapter, able to go on reading; here it only says how far it has come."""

    def __init__(self) -> None:
        self.asked: list[Checkpoint | None] = []

    def resume_read(self, source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
        self.asked.append(checkpoint)
        facts = [item for item in self.read(source, want="facts") if isinstance(item, Facts)]
        offset = source.path.stat().st_size
        return Reading(facts=tuple(facts), checkpoint=Checkpoint(offset=offset, state=b""))


class TakesTwoSeconds(ClaudeAdapter):
    """Claude's adapter on a machine that needs its time to read messages."""

    def __init__(self, clock: ScriptedClock) -> None:
        self.reads = 0
        self._clock = clock

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        if want == "all":
            self.reads += 1
            self._clock.now += 2
        return super().read(source, want=want, only=only, until=until)


@pytest.fixture
def session(home: Path) -> ClaudeSession:
    session = ClaudeSession(home, ID)
    session.prompt("first").reply("one").write()
    return session


def test_unchanged_files_are_not_read(
    home: Path, session: ClaudeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ScriptedClock(quiet=100)
    changes = client_at(home, clock).follow("claude", ID)
    opened: list[object] = []
    real = Path.open

    def counting(path: Path, *words: object, **more: object) -> object:
        opened.append(path)
        return real(path, *words, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", counting)
    assert list(changes) == []
    assert opened == []
    assert len(clock.waits) == 400
    assert set(clock.waits) == {0.25}


def test_following_continues_reading_from_the_previous_offset(
    home: Path, session: ClaudeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = GoesOn()
    monkeypatch.setattr("amux.adapters.claude.ADAPTER", adapter)
    clock = ScriptedClock([(t, lambda: session.prompt("more").write()) for t in (1, 5)])
    with client_at(home, clock).follow("claude", ID) as changes:
        assert texts(changes) == ["more", "more"]
    size = session.path.stat().st_size
    first, *later = adapter.asked
    assert first is None
    assert [0 < each.offset < size for each in later if each is not None] == [True, True]


def test_reading_a_slow_session_takes_a_fifth_of_the_time(
    home: Path, session: ClaudeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    deeds = [(1 + n / 2, lambda: session.prompt("more").write()) for n in range(120)]
    clock = ScriptedClock(deeds, quiet=30)
    adapter = TakesTwoSeconds(clock)
    monkeypatch.setattr("amux.adapters.claude.ADAPTER", adapter)
    with client_at(home, clock).follow("claude", ID) as changes:
        assert texts(changes) == ["more"] * 120
    assert 5 <= adapter.reads <= 9
