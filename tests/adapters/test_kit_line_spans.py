"""`object_lines`: the spans of lines that are one JSON object each."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from amux.adapters._kit.jsonl import object_lines

pieces = st.sampled_from([b"{", b"}", b"{}", b"\n", b"}\n{", b"{}\n", b" ", b"x"])
data = st.lists(pieces, max_size=12).map(b"".join)


def looks_whole(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}")


@given(before=data, inner=data)
@example(before=b"", inner=b"{}\n{}")
@example(before=b"{", inner=b"")
@example(before=b"}", inner=b"{")
def test_lines_are_found_if_each_begins_and_ends_like_an_object(
    before: bytes, inner: bytes
) -> None:
    lines = inner.split(b"\n")
    text = before + inner + b"\n"
    spans = object_lines(text, len(before), len(text))
    if not all(map(looks_whole, lines)):
        assert spans is None
    else:
        assert spans is not None
        assert [text[start:end] for start, end in spans] == lines
