"""All that stands before a place in a transcript, written down and taken up again."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from amux.adapters._base import Progress
from amux.adapters.claude.transcript import Transcript

Depth = Literal["usage", "facts"]


class Saved(msgspec.Struct):
    """What a pass without bodies had collected after so many lines."""

    want: Depth
    lines: int
    transcript: Transcript


_SAVED: Final = msgspec.msgpack.Decoder(Saved)


def save(saved: Saved, offset: int) -> Progress | None:
    """Write it down; None when that cannot be done (a sum beyond 64 bits)."""
    saved.transcript.settle()
    try:
        return Progress(offset=offset, state=msgspec.msgpack.encode(saved))
    except (OverflowError, UnicodeEncodeError):
        return None


def restore(progress: Progress, want: Depth) -> Saved | None:
    """Take it up again; None when it was written for another purpose, or in another form."""
    try:
        saved = _SAVED.decode(progress.state)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return saved if saved.want == want else None
