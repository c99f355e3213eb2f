"""Lines that are an object each: how many there are, and where."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from amux.adapters._kit.line_spans import count_objects, object_lines

pieces = st.sampled_from([b"{", b"}", b"{}", b"\n", b"}\n{", b"{}\n", b" ", b"x"])
data = st.lists(pieces, max_size=12).map(b"".join)


def looks_whole(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}")


@given(before=data, inner=data)
@example(before=b"", inner=b"{}\n{}")
@example(before=b"{", inner=b"")
@example(before=b"}", inner=b"{")
def test_lines_are_counted_if_each_begins_and_ends_like_an_object(
    before: bytes, inner: bytes
) -> None:
    lines = inner.split(b"\n")
    text = before + inner + b"\n"
    expected = len(lines) if all(map(looks_whole, lines)) else 0
    assert count_objects(text, len(before), len(text)) == expected


@given(before=data, inner=data)
def test_counting_agrees_with_the_places(before: bytes, inner: bytes) -> None:
    text = before + inner + b"\n"
    spans = object_lines(text, len(before), len(text))
    assert count_objects(text, len(before), len(text)) == len(spans or ())
