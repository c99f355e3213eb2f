"""Codex: reading of a grown rollout continues where it stopped."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import cast

import msgspec
import pytest
from codex_any import CAPTURES, logs, read_whole, source_of, write
from codex_lines import OWN, Writer, history
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._base import Checkpoint, Reading, Resumable, SourceRef
from amux.adapters.codex import ADAPTER

ROLLOUTS = sorted(CAPTURES.glob("*/home/.codex/sessions/**/rollout-*.jsonl"))


def resume_read(source: SourceRef, checkpoint: Checkpoint | None = None) -> Reading:
    return ADAPTER.resume_read(source, checkpoint=checkpoint)


def read_in_steps(source: SourceRef, data: bytes, cuts: list[int]) -> Reading:
    """Write a file piece by piece, and resume reading after each."""
    reading: Reading | None = None
    for cut in [*sorted(cuts), len(data)]:
        source.path.write_bytes(data[:cut])
        reading = resume_read(source, None if reading is None else reading.checkpoint)
        if reading.checkpoint is not None:
            offset = reading.checkpoint.offset
            assert offset == data.rfind(b"\n", 0, cut) + 1, "the end of the last whole line"
    assert reading is not None
    return reading


def told(reading: Reading) -> Reading:
    return msgspec.structs.replace(reading, checkpoint=None)


def test_the_adapter_can_read_on() -> None:
    assert isinstance(ADAPTER, Resumable)


@drawn(100)
@given(path=st.sampled_from(ROLLOUTS), data=st.data())
def test_continued_reading_of_a_capture_from_any_offset_equals_reading_it_whole(
    path: Path, data: st.DataObject
) -> None:
    content = path.read_bytes()
    cuts = data.draw(st.lists(st.integers(0, len(content)), min_size=1, max_size=5))
    with tempfile.TemporaryDirectory() as folder:
        source = source_of(Path(folder) / path.name)
        in_steps = read_in_steps(source, content, cuts)
        assert in_steps.checkpoint is not None
        assert told(in_steps) == read_whole(source)


@drawn(100)
@given(content=logs(), data=st.data())
def test_continued_reading_of_a_log_from_any_offset_equals_reading_it_whole(
    content: bytes, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(content)), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder), b"")
        assert told(read_in_steps(source, content, cuts)) == read_whole(source)


class _CountedFile(io.FileIO):
    """A file that counts the bytes read from it."""

    def __init__(self, path: Path, sizes: list[int]) -> None:
        super().__init__(path)
        self._sizes = sizes

    def read(self, size: int | None = -1, /) -> bytes:
        data = cast("bytes", super().read(-1 if size is None else size))
        self._sizes.append(len(data))
        return data


def test_one_more_line_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = Writer(tmp_path).meta()
    for _ in range(100):
        history(rollout)
    before = "".join(line + "\n" for line in rollout.lines)
    line = rollout.count(77, 7).lines[-1] + "\n"
    source = write(tmp_path, before.encode())
    first = resume_read(source)
    write(tmp_path, (before + line).encode())
    sizes: list[int] = []

    def counted(path: Path, mode: str, buffering: int) -> io.FileIO:
        assert (mode, buffering) == ("rb", 0)
        return _CountedFile(path, sizes)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", counted)
        second = resume_read(source, first.checkpoint)
    assert sum(sizes) == len(line)
    assert len(second.facts[0].calls) == len(first.facts[0].calls) + 1
    assert told(second) == read_whole(source)


def test_a_line_that_is_still_being_written_is_read_again(tmp_path: Path) -> None:
    whole = "".join(line + "\n" for line in history(Writer(tmp_path).meta()).lines).encode()
    source = write(tmp_path, whole[:-20])
    torn = resume_read(source)
    assert [problem.code for problem in torn.facts[0].problems] == ["torn-tail"]
    write(tmp_path, whole)
    assert told(resume_read(source, torn.checkpoint)) == read_whole(source)


def test_a_file_that_became_shorter_is_read_from_its_start(tmp_path: Path) -> None:
    rollout = history(Writer(tmp_path).meta())
    whole = "".join(line + "\n" for line in rollout.lines).encode()
    source = write(tmp_path, whole)
    checkpoint = resume_read(source).checkpoint
    write(tmp_path, whole[: len(whole) // 2])
    assert told(resume_read(source, checkpoint)) == read_whole(source)


@pytest.mark.parametrize("state", [b"", b"\xc1", b"\x80", b"nonsense"])
def test_a_state_of_another_kind_is_as_good_as_none(tmp_path: Path, state: bytes) -> None:
    whole = "".join(line + "\n" for line in history(Writer(tmp_path).meta()).lines).encode()
    source = write(tmp_path, whole)
    checkpoint = Checkpoint(offset=10, state=state)
    assert told(resume_read(source, checkpoint)) == read_whole(source)


def test_what_is_no_plain_log_is_read_whole_every_time() -> None:
    found = [
        source
        for home in sorted(CAPTURES.glob("*/home/.codex"))
        for source in ADAPTER.discover(home)
        if source.role == "names" or source.path.suffix != ".jsonl"
    ]
    assert {source.path.suffix for source in found} == {".json", ".jsonl", ".zst"}
    for source in found:
        assert resume_read(source) == read_whole(source)


def test_a_file_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    source = source_of(tmp_path / f"rollout-2026-01-02T03-04-05-{OWN}.jsonl")
    reading = resume_read(source)
    assert [problem.code for problem in reading.problems] == ["unreadable"]
    assert (reading.facts, reading.checkpoint) == ((), None)
