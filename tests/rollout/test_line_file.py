"""Lines are appended whole, in order, for their owner alone, and are synced as the policy says."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.errors import StoreError
from amux.rollout.line_file import Fsync, LineFile


@contextmanager
def no_umask() -> Generator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of files that the operating system was asked to sync."""
    kinds: list[str] = []
    for name in ("fsync", "fdatasync"):
        original = getattr(os, name)

        def counted(descriptor: int, original: Callable[[int], None] = original) -> None:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            kinds.append("folder" if is_folder else "file")
            original(descriptor)

        monkeypatch.setattr(os, name, counted)
    return kinds


def test_a_new_file_holds_its_first_lines(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a.jsonl")
    assert file.create(b"one\ntwo\n")
    assert file.path.read_bytes() == b"one\ntwo\n"


def test_a_taken_path_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"old\n")
    assert not LineFile(path).create(b"new\n")
    assert path.read_bytes() == b"old\n"


def test_files_and_directories_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.jsonl"
    with no_umask():
        LineFile(path).create(b"x\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    modes = {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)}
    assert modes == {0o700}


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    LineFile(folder / "a.jsonl").create(b"x\n")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_an_append_says_where_its_lines_begin(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a.jsonl")
    file.create(b"one\n")
    assert file.append(b"two\nthree\n") == 4
    assert file.append(b"four\n") == 14
    assert file.path.read_bytes() == b"one\ntwo\nthree\nfour\n"


def test_a_torn_line_is_terminated_and_the_next_lines_begin_after_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\nto")
    assert LineFile(path).append(b"three\n") == 7
    assert path.read_bytes() == b"one\nto\nthree\n"


def test_nothing_is_appended_for_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\nto")
    LineFile(path).append(b"")
    assert path.read_bytes() == b"one\nto"


def test_a_batch_that_does_not_end_a_line_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a.jsonl")
    file.create(b"one\n")
    with pytest.raises(ValueError, match="line break"):
        file.append(b"two")
    assert file.path.read_bytes() == b"one\n"


def test_a_missing_file_is_an_error_unless_it_may_be_created(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "folder" / "a.jsonl")
    with pytest.raises(StoreError) as caught:
        file.append(b"x\n")
    assert str(file.path) in caught.value.message
    assert caught.value.hint is not None
    assert not file.path.parent.exists()
    assert file.append(b"x\n", create=True) == 0
    assert file.append(b"y\n", create=True) == 2
    assert file.path.read_bytes() == b"x\ny\n"


def test_a_moved_file_is_not_created_anew(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a.jsonl")
    file.create(b"x\n")
    file.path.rename(tmp_path / "archived.jsonl")
    with pytest.raises(StoreError, match="cannot append"):
        file.append(b"y\n")
    assert [path.name for path in tmp_path.iterdir()] == ["archived.jsonl"]


def test_a_file_replaced_while_a_writer_waits_gets_the_lines(tmp_path: Path) -> None:
    """A writer that waits for the lock of the old file must not write to it any more."""
    file = LineFile(tmp_path / "a.jsonl")
    file.create(b"old\n")
    writer = threading.Thread(target=lambda: file.append(b"appended\n"))
    with file.exclusive() as locked:
        writer.start()
        fresh = tmp_path / "a.new"
        fresh.write_bytes(b"new\n")
        fresh.replace(file.path)
        assert locked.read() == b"old\n"
    writer.join()
    assert file.path.read_bytes() == b"new\nappended\n"


def test_a_write_can_depend_on_the_content(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a.jsonl")
    file.create(b"1\n")

    def count_on() -> None:
        for _ in range(50):
            with file.exclusive() as locked:
                last = int(locked.read().splitlines()[-1])
                locked.write(b"%d\n" % (last + 1))

    threads = [threading.Thread(target=count_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(line) for line in file.path.read_bytes().splitlines()] == list(range(1, 202))


def test_the_bytes_after_an_offset_can_be_read(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a.jsonl")
    file.create(b"one\ntwo\n")
    with file.exclusive() as locked:
        assert (locked.size, locked.read(4), locked.read(8)) == (8, b"two\n", b"")
        locked.write(b"three\n")
        assert (locked.size, locked.read(8)) == (14, b"three\n")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("never", ("", "", "")),
        ("turn", ("file folder", "", "file")),
        ("always", ("file folder", "file", "file")),
    ],
)
def test_the_policy_says_when_lines_are_synced(
    policy: Fsync, expected: tuple[str, ...], tmp_path: Path, synced: list[str]
) -> None:
    file = LineFile(tmp_path / "a.jsonl", fsync=policy)
    found: list[str] = []
    for step in (
        lambda: file.create(b"x\n"),
        lambda: file.append(b"y\n"),
        lambda: file.append(b"z\n", turn_end=True),
    ):
        step()
        found.append(" ".join(synced))
        synced.clear()
    assert tuple(found) == expected


def test_every_new_directory_is_synced_with_the_file(tmp_path: Path, synced: list[str]) -> None:
    LineFile(tmp_path / "a" / "b" / "c.jsonl").create(b"x\n")
    assert sorted(synced) == ["file", "folder", "folder", "folder"]


def test_a_file_can_be_synced_whatever_the_policy_is(tmp_path: Path, synced: list[str]) -> None:
    file = LineFile(tmp_path / "a.jsonl", fsync="never")
    file.create(b"x\n")
    file.sync()
    assert synced == ["file", "folder"]


LINE = st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"") + b"\n")


@drawn(80)
@given(
    steps=st.lists(
        st.lists(LINE, min_size=1, max_size=3) | st.binary(min_size=1, max_size=9), max_size=12
    )
)
def test_old_bytes_are_always_the_beginning_of_the_file(
    steps: list[list[bytes] | bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Batches of lines, and parts of lines that killed writers left behind."""
    file = LineFile(tmp_path_factory.mktemp("lines") / "a.jsonl", fsync="never")
    file.create(b"")
    expected = b""
    for step in steps:
        if isinstance(step, bytes):
            with file.path.open("ab") as stream:
                stream.write(step)
            expected += step
        else:
            if expected and not expected.endswith(b"\n"):
                expected += b"\n"
            start = file.append(b"".join(step))
            assert start == len(expected)
            expected += b"".join(step)
        assert file.path.read_bytes() == expected
