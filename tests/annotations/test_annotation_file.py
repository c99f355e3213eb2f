"""The annotation file: any bytes can be read, and no acknowledged change is ever lost."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from notebook import ONE, OTHER, TWO, file_of, furnish, line, write_file

from amux import SessionListOptions
from amux.annotations.events import AnnotationLog
from amux.annotations.file import LARGE, AnnotationFile
from amux.model.problems import Problem

WRITER = """
import sys
from pathlib import Path
from amux import create_client
client = create_client(home=Path(sys.argv[1]))
client.annotations.of(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for count in range(int(sys.argv[3])):
    number = client.annotations.add_note(sys.argv[2], f"{sys.argv[4]}-{count}")
    print(number, f"{sys.argv[4]}-{count}", flush=True)
"""


class Writer:
    """A process that writes notes and says so after each; it begins when it is told to."""

    def __init__(self, home: Path, *, count: int, name: str) -> None:
        words = [sys.executable, "-c", WRITER, str(home), ONE, str(count), name]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.orders, self.says = self.process.stdin, self.process.stdout

    def __enter__(self) -> Self:
        assert self.says.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.orders.close()
        self.says.close()
        self.process.wait()

    def begin(self) -> None:
        self.orders.write("\n")
        self.orders.flush()


def acknowledged(lines: list[str]) -> set[tuple[int, str]]:
    """What the process said; a last line without its end was cut off by the kill."""
    pairs = (text.split() for text in lines if text.endswith("\n"))
    return {(int(number), name) for number, name in pairs}


def written(home: Path) -> list[tuple[int, str]]:
    found = AnnotationFile(file_of(home).parent).current().of(ONE)
    return [(note.number, note.text) for note in found.notes]


def problems(home: Path) -> tuple[Problem, ...]:
    return AnnotationFile(file_of(home).parent).current().problems


def test_concurrent_writers_lose_nothing_and_share_no_note_number(home: Path) -> None:
    furnish(home)
    said: list[tuple[int, str]] = []
    with ExitStack() as stack:
        names = ("a", "b", "c")
        writers = [stack.enter_context(Writer(home, count=25, name=name)) for name in names]
        for writer in writers:
            writer.begin()
        for writer in writers:
            said += acknowledged(writer.says.readlines())
    assert len(said) == 75
    assert sorted(written(home)) == sorted(said)
    assert [number for number, _ in written(home)] == list(range(1, 76))
    assert problems(home) == ()


def test_a_killed_writer_has_lost_nothing_it_acknowledged(home: Path) -> None:
    furnish(home)
    chance = random.Random(20)
    said: set[tuple[int, str]] = set()
    for turn in range(6):
        with Writer(home, count=10_000, name=f"t{turn}") as writer:
            writer.begin()
            lines = [writer.says.readline() for _ in range(chance.randrange(1, 12))]
            writer.process.kill()
            lines += writer.says.readlines()
        said |= acknowledged(lines)
        assert said <= set(written(home))
        assert {problem.code for problem in problems(home)} <= {"torn-tail", "bad-line"}
    numbers = [number for number, _ in written(home)]
    assert len(numbers) == len(set(numbers))


def dead_lines() -> bytes:
    """More than a file may hold of lines that mean nothing any more."""
    pair = line("tag", value="x" * 80) + line("untag", value="x" * 80)
    return pair * (LARGE // len(pair) + 1)


def test_concurrent_writers_lose_nothing_while_the_file_is_rewritten(home: Path) -> None:
    client = furnish(home)
    kept = [line("note", value="old", number=7), line("pinned-by-a-newer-version", value=[1])]
    write_file(home, *kept, dead_lines(), line("star"))
    with Writer(home, count=15, name="a") as one, Writer(home, count=15, name="b") as other:
        one.begin()
        other.begin()
        while one.process.poll() is None or other.process.poll() is None:
            seen = client.annotations.of(ONE)  # readers take no lock and see no half
            assert seen.starred
            assert seen.notes[0].text == "old"
        assert (one.process.returncode, other.process.returncode) == (0, 0)
    assert len(written(home)) == 31
    assert file_of(home).stat().st_size < 10_000
    assert file_of(home).read_bytes().startswith(b"".join(kept))
    assert not list(file_of(home).parent.glob("*.new"))


def test_a_large_file_without_obsolete_lines_is_not_rewritten(home: Path) -> None:
    client = furnish(home)
    notes = [line("note", value="x" * 1000, number=number) for number in range(1, 1200)]
    path = write_file(home, *notes)
    assert path.stat().st_size > LARGE
    place = path.stat().st_ino
    client.annotations.star(ONE)
    assert path.stat().st_ino == place
    assert path.read_bytes().startswith(b"".join(notes))


def test_a_link_stays_a_link(home: Path) -> None:
    client = furnish(home)
    elsewhere = home / "dotfiles.jsonl"
    elsewhere.write_bytes(dead_lines())
    path = write_file(home)
    path.unlink()
    path.symlink_to(elsewhere)
    client.annotations.star(ONE)
    assert path.is_symlink()
    assert elsewhere.stat().st_size < 1000


def test_a_rewritten_file_remembers_the_numbers_of_removed_notes(
    home: Path,
) -> None:
    client = furnish(home)
    removed = [line("note", value="a", number=5), line("unnote", number=5)]
    write_file(home, *removed, dead_lines())
    client.annotations.star(ONE)
    assert file_of(home).stat().st_size < 1000
    assert client.annotations.add_note(ONE, "next") == 6


def test_only_the_owner_may_read(home: Path) -> None:
    client = furnish(home)
    before = os.umask(0)
    try:
        client.annotations.star(ONE)
    finally:
        os.umask(before)
    folder = file_of(home).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_torn_line_is_terminated_and_skipped(home: Path) -> None:
    client = furnish(home)
    client.annotations.tag(ONE, "a")
    with file_of(home).open("ab") as stream:
        stream.write(line("tag", value="b")[:-20])
    [torn] = client.annotations.problems()
    assert (torn.code, torn.line, torn.path) == ("torn-tail", 2, str(file_of(home)))
    assert client.annotations.tag(ONE, "c").tags == ("a", "c")
    assert [(each.code, each.line) for each in client.annotations.problems()] == [("bad-line", 2)]


def test_a_complete_last_line_without_a_line_break_counts(home: Path) -> None:
    client = furnish(home)
    write_file(home, line("tag", value="a"), line("tag", value="b").rstrip())
    assert client.annotations.tag(ONE, "c").tags == ("a", "b", "c")
    assert client.annotations.problems() == ()


FULL = """
import resource, sys
from pathlib import Path
from amux import AmuxError, create_client
client = create_client(home=Path(sys.argv[1]))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), hard))
try:
    client.annotations.add_note(sys.argv[2], "does not fit")
except AmuxError as error:
    print(error.code)
"""


def test_a_full_disk_leaves_no_half_line(home: Path) -> None:
    """A limit on the size of files stops a write in the middle, as a full disk would."""
    furnish(home).annotations.star(ONE)
    before = file_of(home).read_bytes()
    words = [sys.executable, "-c", FULL, str(home), ONE, str(len(before) + 10)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "STORE_ERROR\n"
    assert file_of(home).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"not json\n", "bad-line"),
        (b"[1]\n", "bad-record"),
        (b'{"kind": "tag"}\n', "bad-record"),
        (line("tag"), "bad-record"),
        (line("note", value="without a number"), "bad-record"),
        (line("note", value="x", number=0), "bad-record"),
        (line("tag", value=3), "bad-record"),
        (b"\xff\xfe\n", "bad-line"),
        (b'{"extra":' + b"[" * 100_000 + b"\n", "bad-line"),
    ],
)
def test_an_unusable_line_is_a_problem_and_the_others_count(
    home: Path, text: bytes, code: str
) -> None:
    client = furnish(home)
    write_file(home, line("tag", value="a"), text, line("tag", value="b"))
    assert client.annotations.of(ONE).tags == ("a", "b")
    assert [(each.code, each.line) for each in client.annotations.problems()] == [(code, 2)]
    report = client.list_report(["claude"], SessionListOptions())
    assert [each.code for each in report.problems] == [code]


def test_blank_lines_and_a_byte_order_mark_are_ignored(home: Path) -> None:
    client = furnish(home)
    write_file(home, b"\xef\xbb\xbf" + line("star"), b"\n\r\n", b"\x00" * 9 + b"\n")
    assert client.annotations.of(ONE).starred
    assert client.annotations.problems() == ()


def test_a_directory_instead_of_the_annotations_file_is_a_problem(home: Path) -> None:
    client = furnish(home)
    file_of(home).mkdir(parents=True)
    assert client.annotations.of(ONE).tags == ()
    assert [each.code for each in client.annotations.problems()] == ["unreadable"]


@given(
    st.binary(max_size=300)
    | st.lists(
        st.sampled_from(
            [
                b'{"at":"2026-03-01T10:00:00Z","session":"a:b","kind":"',
                b"tag",
                b'"}',
                b"\n",
                b'","value":"',
            ]
        ),
        max_size=12,
    ).map(b"".join)
)
def test_any_bytes_in_the_annotations_file_survive_a_rewrite(data: bytes) -> None:
    ledger = AnnotationLog(data)
    again = AnnotationLog(ledger.compacted())
    assert list(again.annotations()) == list(ledger.annotations())


SESSIONS = st.sampled_from([ONE, TWO, OTHER])
STEPS = st.lists(
    st.tuples(
        SESSIONS,
        st.sampled_from(["tag", "untag", "star", "unstar", "note", "unnote"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(min_value=1, max_value=4),
    ),
    max_size=40,
)


def expected_after(steps: list[tuple[str, str, str, int]]) -> dict[str, Any]:
    """A second implementation, on plain sets."""
    state: dict[str, Any] = {}
    for session, kind, word, number in steps:
        tags, stars, notes = state.setdefault(session, ([], set(), []))
        match kind:
            case "tag":
                tags += [] if word in tags else [word]
            case "untag":
                tags[:] = [each for each in tags if each != word]
            case "star":
                stars.add(session)
            case "unstar":
                stars.clear()
            case "note":
                notes.append((number, word))
            case _:
                notes[:] = [each for each in notes if each[0] != number]
    return {name: parts for name, parts in state.items() if any(parts)}


def as_found(path: Path) -> dict[str, Any]:
    return {
        each.unified_id: (
            list(each.tags),
            {each.unified_id} if each.starred else set[str](),
            [(note.number, note.text) for note in each.notes],
        )
        for each in AnnotationFile(path.parent).current()
    }


@given(STEPS)
@drawn(60)
def test_later_events_win_and_a_rewritten_file_gives_the_same_annotations(
    steps: list[tuple[str, str, str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.jsonl"
        path.write_bytes(
            b"".join(line(kind, session=s, value=word, number=n) for s, kind, word, n in steps)
        )
        assert as_found(path) == expected_after(steps)
        log = AnnotationLog(path.read_bytes())
        last = {session: log.state_of(session).last_number for session in (ONE, TWO, OTHER)}
        path.write_bytes(log.compacted())
        assert as_found(path) == expected_after(steps)
        again = AnnotationLog(path.read_bytes())
        assert {session: again.state_of(session).last_number for session in last} == last
