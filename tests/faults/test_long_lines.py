"""Truncating the texts of a very long line changes nothing but their length."""

from __future__ import annotations

import json
import re
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from amux.adapters._kit.jsonl import iter_lines
from amux.adapters._kit.long_lines import (
    KEPT_TEXT,
    LONG_LINE,
    OVERLAP,
    decoded,
    iter_long_texts,
    safe_cut,
)
from amux.adapters._kit.streams import CHUNK

AWKWARD = ["plain ", "\u65e5\u5fd7", "\U0001f642", '"', "\\", "\n", "\x01", "/", "\u00e9"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def kept(line: bytes) -> list[bytes]:
    return [bytes(found) for found, _ in iter_lines(BytesIO(line), cut_texts=True)]


@drawn(40)
@given(
    value=VALUES,
    units=st.lists(st.lists(st.sampled_from(AWKWARD), min_size=1, max_size=4), min_size=1),
    ascii_only=st.booleans(),
    offset=st.integers(min_value=0, max_value=30),
)
def test_a_cut_line_is_the_same_json_with_shorter_texts(
    value: Any, units: list[list[str]], ascii_only: bool, offset: int
) -> None:
    texts = ["x" * offset + "".join(unit) * (KEPT_TEXT // len(unit) + 1) for unit in units[:3]]
    filler = "y" * LONG_LINE
    record = {"before": value, "long": [*texts, filler], "after": value}
    line = json.dumps(record, ensure_ascii=ascii_only).encode()
    (cut,) = kept(line)
    found = json.loads(cut.decode("utf-8", "replace"))
    assert len(cut) < (len(texts) + 2) * KEPT_TEXT + len(line) - len(filler) - KEPT_TEXT
    assert found["before"] == found["after"] == json.loads(json.dumps(value))
    assert found["long"][-1] == filler[:KEPT_TEXT]
    for whole, part in zip(texts, found["long"], strict=False):
        assert whole.startswith(re.sub("[\ufffd\ud83d]*$", "", part))


@pytest.mark.parametrize("broken", ["\\", "\\u12", "\\u12G4 ", "\\x", "\x00"])
def test_a_long_line_that_is_not_json_stays_invalid_when_it_is_cut(broken: str) -> None:
    text = "z" * LONG_LINE
    cut = kept(f'{{"a": "{text}", "b": "{broken}{text}'.encode())
    assert sum(map(len, cut)) < 3 * KEPT_TEXT
    for line in cut:
        with pytest.raises(ValueError, match=r".+"):
            json.loads(line)


@pytest.mark.parametrize("shift", range(-7, 8))
def test_an_escape_sequence_across_two_reads_stays_whole(shift: int) -> None:
    prefix = '{"long": "'
    text = "a" * (CHUNK - len(prefix) + shift) + "\\u00e9\\\\\\n\\ud83d\\ude42" * 9
    line = f'{prefix}{text}", "more": "{"b" * LONG_LINE}", "end": 1}}'
    (cut,) = kept(line.encode())
    assert json.loads(cut)["end"] == 1


def test_short_lines_are_not_cut() -> None:
    lines = [b'{"a": "' + b"x" * (LONG_LINE - 100) + b'"}', b"{}", b""]
    assert kept(b"\n".join(lines) + b"\n") == lines


@drawn(10)
@given(
    unit=st.lists(st.sampled_from(AWKWARD), min_size=1, max_size=4),
    ascii_only=st.booleans(),
    offset=st.integers(min_value=0, max_value=30),
)
def test_the_windows_of_a_cut_text_cover_it_and_overlap(
    unit: list[str], ascii_only: bool, offset: int
) -> None:
    mark = "needle in the hay"
    body = "".join(unit)
    long = "x" * offset + body * (LONG_LINE // len(body.encode()) + 1)
    text = long[: len(long) // 2] + mark + long[len(long) // 2 :]
    record = {"short": "s", "long": text, "other": "o" * (KEPT_TEXT - 1)}
    line = json.dumps(record, ensure_ascii=ascii_only).encode() + b"\n"
    another = json.dumps({"long": "y" * LONG_LINE}).encode() + b"\n"
    found = list(iter_long_texts(BytesIO(b'{"a": 1}\n' + line + another)))
    windows = [window for number, window in found if number == found[0][0]]
    assert len({number for number, _ in found}) == 2
    assert any(mark in window for window in windows)
    assert text.startswith(windows[0])
    assert text.endswith(windows[-1])
    for one, following in pairwise(windows):
        assert following[: OVERLAP // 12] in one[-OVERLAP - 12 :]


def test_a_log_without_long_lines_has_no_cut_texts() -> None:
    line = json.dumps({"text": "x" * (2 * KEPT_TEXT)}).encode() + b"\n"
    assert list(iter_long_texts(BytesIO(line * 12))) == []


@given(
    text=st.text(st.sampled_from([*'ab\\"\nu', "\u00e9", "\u65e5", "\U0001f642"]), max_size=20),
    ascii_only=st.booleans(),
    data=st.data(),
)
def test_a_safe_cut_splits_a_text_and_loses_nothing(
    text: str, ascii_only: bool, data: st.DataObject
) -> None:
    raw = bytearray(json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode())
    wanted = data.draw(st.integers(0, len(raw)))
    cut = safe_cut(raw, wanted)
    assert cut <= wanted
    assert decoded(bytes(raw[:cut])) + decoded(bytes(raw[cut:])) == text
