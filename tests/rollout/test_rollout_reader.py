"""Which lines of a damaged or cut-off rollout are records: both directions and the format agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.model.problems import Problem
from amux.rollout.rollout_reader import read_backward, read_forward


def line(
    seq: int,
    position: int = 1,
    size: int = 1,
    *,
    after_cut: bool = False,
    type: str = "response_item",
    event: str | None = None,
    text: str = "",
) -> bytes:
    """A line as the page about the format describes it."""
    fields: dict[str, Any] = {"type": type, "seq": seq, "id": f"r{seq}"}
    fields |= {"timestamp": "2026-11-18T00:00:00Z", "batch": [position, size]}
    if after_cut:
        fields["after_cut"] = True
    payload = {"n": seq, "text": text, **({} if event is None else {"type": event})}
    return json.dumps({**fields, "payload": payload}).encode()


def read(path: Path) -> tuple[list[int], list[Problem]]:
    """The numbers of the records; both directions agree."""
    problems: list[Problem] = []
    numbers = [record.seq for record in read_forward(str(path), problems=problems)]
    assert [record.seq for record in read_backward(str(path))] == numbers[::-1]
    return numbers, problems


BATCH = [line(2, 1, 3), line(3, 2, 3), line(4, 3, 3)]


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("how", [b"", b"garbage\n"])
def test_a_line_lost_in_a_batch_costs_that_line_and_is_reported(
    tmp_path: Path, lost: int, how: bytes
) -> None:
    path = tmp_path / "rollout"
    damaged = [how if place == lost else each + b"\n" for place, each in enumerate(BATCH)]
    path.write_bytes(b"".join([line(1) + b"\n", *damaged, line(5) + b"\n"]))
    numbers, problems = read(path)
    assert numbers == [each for each in (1, 2, 3, 4, 5) if each != 2 + lost]
    assert "1 of 3 records of a batch" in problems[-1].message
    assert [each.code for each in problems] == ["bad-line"] * bool(how) + ["bad-record"]


@pytest.mark.parametrize("torn", [b"", b'{"type":"respo\n', b"\n", b'{"a\n{"b\n'])
def test_a_batch_before_the_mark_of_a_later_writer_was_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "rollout"
    begun = b"\n".join([line(1), *BATCH[:2], b""])
    path.write_bytes(begun + torn + line(9, after_cut=True) + b"\n" + line(10) + b"\n")
    numbers, problems = read(path)
    assert numbers == [1, 9, 10]
    assert "cut off" in problems[-1].message


def test_a_mark_hides_nothing_but_the_batch_before_it(tmp_path: Path) -> None:
    path = tmp_path / "rollout"
    lines = [line(1), *BATCH, line(7, 1, 2), line(9, 1, 2, after_cut=True), line(10, 2, 2)]
    path.write_bytes(b"\n".join([*lines, b""]))
    assert read(path)[0] == [1, 2, 3, 4, 9, 10]


@pytest.mark.parametrize("whole", [1, 2])
@pytest.mark.parametrize("rest", [b"", b"\n", b'\n{"type":"resp', b"\ngarbage\n"])
def test_a_batch_at_the_very_end_was_cut_off(tmp_path: Path, whole: int, rest: bytes) -> None:
    path = tmp_path / "rollout"
    path.write_bytes(b"\n".join([line(1), *BATCH[:whole]]) + rest)
    assert read(path)[0] == [1]


def test_a_whole_last_line_needs_no_line_break(tmp_path: Path) -> None:
    path = tmp_path / "rollout"
    data = b"\n".join([line(1), *BATCH])
    path.write_bytes(data)
    assert read(path) == ([1, 2, 3, 4], [])
    path.write_bytes(data[:-1])
    numbers, problems = read(path)
    assert numbers == [1]
    assert [each.code for each in problems] == ["torn-tail", "bad-record"]


def test_two_batches_of_one_size_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    """The first lost its end and the second its beginning."""
    path = tmp_path / "rollout"
    path.write_bytes(b"\n".join([line(1), *BATCH[:2], line(7, 3, 3), line(8), b""]))
    numbers, problems = read(path)
    assert numbers == [1, 2, 3, 7, 8]
    assert [each.message.partition(" records")[0] for each in problems] == ["1 of 3", "2 of 3"]


@pytest.mark.parametrize("rest", [b"", b"torn", line(9, after_cut=True)])
def test_what_is_left_of_the_first_batch_counts(tmp_path: Path, rest: bytes) -> None:
    """A file is created with all of it: no crash cuts it off."""
    path = tmp_path / "rollout"
    path.write_bytes(b"\n".join([line(1, 1, 4), line(2, 2, 4), rest]))
    numbers, problems = read(path)
    assert numbers == [1, 2, 9][: 2 + rest.startswith(b"{")]
    assert "2 of 4 records of a batch" in problems[-1].message


def readable(lines: list[bytes]) -> list[int]:
    """The numbers of the records by the rules of the format, told a second time."""
    parsed = [json.loads(each) for each in lines if each.startswith(b"{") and each.endswith(b"}")]
    runs: list[list[dict[str, Any]]] = []
    for each in parsed:
        last = runs[-1][-1] if runs else None
        continues = (
            last is not None
            and each["batch"][1] == last["batch"][1]
            and each["batch"][0] > last["batch"][0]
            and each["seq"] - last["seq"] == each["batch"][0] - last["batch"][0]
        )
        if continues:
            runs[-1].append(each)
        else:
            runs.append([each])
    shown: list[int] = []
    for number, run in enumerate(runs):
        position, size = run[-1]["batch"]
        later = runs[number + 1][0] if number + 1 < len(runs) else None
        is_first = run[-1]["seq"] == position
        if position == size or is_first or (later is not None and "after_cut" not in later):
            shown += [each["seq"] for each in run]
    return shown


@drawn(150)
@given(data=st.data())
def test_any_damage_is_read_alike_in_both_directions(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines, seq = list[bytes](), 0
    for size in data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8)):
        mark = data.draw(st.booleans())
        for position in range(1, size + 1):
            seq += 1
            made = line(seq, position, size, after_cut=mark and position == 1)
            change = data.draw(st.sampled_from(("none", "none", "none", "lost", "torn", "blank")))
            if change != "lost":
                lines.append({"none": made, "torn": made[:-2]}.get(change, b""))
    ended = data.draw(st.booleans())
    path = tmp_path_factory.mktemp("rollouts") / "rollout"
    path.write_bytes(b"\n".join(lines) + (b"\n" if ended else b""))
    assert read(path)[0] == readable(lines)
    path.unlink()


@drawn(150)
@given(data=st.data())
def test_records_of_some_kinds_are_those_of_a_reader_of_everything(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Batches lie in one block of the file or across several; some were cut off."""
    lines, seq, wanted = list[bytes](), 0, set[int]()
    for size in data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8)):
        mark = data.draw(st.booleans())
        for position in range(1, size + 1):
            seq += 1
            after_cut = mark and position == 1
            type = data.draw(st.sampled_from(("response_item", "event_msg", "turn_context")))
            event = "register" if type == "event_msg" else None
            text = "x" * data.draw(st.sampled_from((0, 30_000, 70_000)))
            if event is not None:
                wanted.add(seq)
            if data.draw(st.sampled_from((True, True, True, False))):
                made = line(
                    seq, position, size, after_cut=after_cut, type=type, event=event, text=text
                )
                lines.append(made)
    path = tmp_path_factory.mktemp("rollouts") / "rollout"
    path.write_bytes(b"\n".join(lines))
    expected = [number for number in readable(lines) if number in wanted]
    found = [record.seq for record in read_backward(str(path), kinds=("register",))]
    assert found == expected[::-1]
    assert list(read_backward(str(path), kinds=())) == []
    path.unlink()
