"""The rules about stored facts detect the mistakes that they exist for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest
from pi_logs import header, user, write

from amux.adapters._base import (
    AgentInfo,
    Capabilities,
    Checkpoint,
    Command,
    Head,
    Item,
    Reading,
    SourceRef,
    Want,
)
from amux.adapters.pi import ADAPTER as PI
from amux.host import Host
from amux.model.facts import Facts
from amux.testing.index_rules import IndexRules

Mistake = Literal["none", "reads all again", "forgets", "offset inside a line", "loses usage"]


class Lines:
    """A log of one session: each line is one compaction, a note beside it is the name."""

    info = AgentInfo(
        name="lines",
        label="Lines",
        cli_command="lines",
        capabilities=Capabilities(session_persistence="file"),
    )

    def __init__(self, mistake: Mistake = "none", *, names_note: bool = True) -> None:
        self._mistake = mistake
        self._names_note = names_note

    def roots(self, host: Host) -> Sequence[Path]:
        return [host.home]

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[SourceRef]:
        del cwd
        for path in root.glob("*.jsonl"):
            beside = (path.with_suffix(".note"),) if self._names_note else ()
            yield SourceRef(agent="lines", path=path, root=root, companions=beside)

    def read(
        self, source: SourceRef, *, want: Want, only: str | None = None, until: int | None = None
    ) -> Iterator[Item]:
        del want, only, until
        facts = _facts(source, source.path.read_bytes().count(b"\n"))
        yield Head(session_id=facts.session_id)
        yield facts

    def resume_read(self, source: SourceRef, *, checkpoint: Checkpoint | None) -> Reading:
        start = 0 if checkpoint is None else checkpoint.offset
        before = 0 if checkpoint is None else int(checkpoint.state)
        with source.path.open("rb") as stream:
            stream.seek(0 if self._mistake == "reads all again" else start)
            found = stream.read()
        if self._mistake in {"forgets", "reads all again"}:
            before = 0
        end = len(found) if self._mistake == "offset inside a line" else found.rfind(b"\n") + 1
        count = before + found.count(b"\n")
        state = Checkpoint(offset=start + end, state=str(count).encode())
        return Reading(facts=(_facts(source, count),), checkpoint=state)

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> Command | None:
        del action, session_id, prompt, cwd, version
        return None


def _facts(source: SourceRef, count: int) -> Facts:
    note = source.path.with_suffix(".note")
    name = note.read_text() if note.exists() else None
    lines = tuple(f"line-{number}" for number in range(count))
    return Facts(session_id="s", name=name, gaps=lines, compactions=count)


def rules_for(adapter: Lines) -> IndexRules:
    class Rules(IndexRules):
        pass

    Rules.adapter = adapter
    Rules.captures = []
    return Rules()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "s.jsonl").write_text('{"a":1}\n{"b":2}\n{"c":3}\n')
    (home / "s.note").write_text("a name")
    return home


def check_reading_on(adapter: Lines, home: Path) -> None:
    rules_for(adapter).test_a23_reading_on_equals_reading_at_once([*adapter.discover(home)])


def test_reading_on_as_it_should_be_passes(home: Path) -> None:
    check_reading_on(Lines(), home)


@pytest.mark.parametrize("mistake", ["reads all again", "forgets", "offset inside a line"])
def test_reading_on_that_is_not_the_same_is_found(mistake: Mistake, home: Path) -> None:
    with pytest.raises(AssertionError):
        check_reading_on(Lines(mistake), home)


def test_a_file_that_is_needed_but_not_named_is_found(home: Path, tmp_path: Path) -> None:
    def check(adapter: Lines, place: Path) -> None:
        place.mkdir()
        rules_for(adapter).test_a22_facts_depend_on_nothing_but_the_source_and_what_it_names(
            home, [*adapter.discover(home)], place
        )

    check(Lines(), tmp_path / "named")
    with pytest.raises(AssertionError):
        check(Lines(names_note=False), tmp_path / "unnamed")


def test_a_folder_that_is_a_session_names_its_logs(tmp_path: Path) -> None:
    folder = tmp_path / "s1"
    logs = [write(folder / f"{number}.jsonl", [header()]) for number in range(2)]
    (source,) = PI.discover(tmp_path)
    assert (source.path, source.companions) == (folder, tuple(logs))
    write(folder / "2.jsonl", [user("a", None, 1, "More.")])
    (changed,) = PI.discover(tmp_path)
    assert len(changed.companions) == 3, "a new log is a change of the source"
