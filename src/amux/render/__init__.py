"""Exporters: a session as json, jsonl, markdown or html.

Every exporter is a generator over a *header* (a `Session` without messages) and the stream of its
messages, so that a session larger than memory can be written piece by piece. The module of a format
is imported when it is first used. `terminal` lays out a session for people, as lines instead of a
document. Rendering is a pure function: equal sessions give equal bytes, and nothing here reads a
clock, a file or the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Final, cast

import msgspec

from amux.errors import ValidationError
from amux.model.message import SessionMessage
from amux.model.session import Session

Exporter = Callable[[Session, Iterable[SessionMessage]], Iterator[str]]

_EXPORTERS: Final = {
    "json": ("amux.render.json", "render_json"),
    "jsonl": ("amux.render.json", "render_jsonl"),
    "markdown": ("amux.render.markdown", "render_markdown"),
    "html": ("amux.render.html", "render_html"),
}

FORMATS: Final = tuple(_EXPORTERS)
"""The names of the formats, in the order in which they are documented."""

_WITH_HEADING: Final = ("markdown", "html")


def exporter(format: str, *, title: str | None = None) -> Exporter:
    """Return the exporter of a format; `title` replaces the title of the session.

    Raises:
        ValidationError: The format does not exist, or it is json or jsonl and has no heading.
    """
    if format not in _EXPORTERS:
        known = ", ".join(f"`{name}`" for name in FORMATS)
        raise ValidationError(
            f"unknown export format `{format}`", fields=("format",), hint=f"use one of {known}"
        )
    module, function = _EXPORTERS[format]
    plain = cast("Exporter", getattr(import_module(module), function))
    if title is None:
        return plain
    if format not in _WITH_HEADING:
        raise ValidationError(
            f"the title of a `{format}` export cannot be changed",
            fields=("title",),
            hint=f"a title can be given for {' and '.join(_WITH_HEADING)}",
        )
    return lambda header, messages: plain(msgspec.structs.replace(header, title=title), messages)


def render(session: Session, format: str) -> str:
    """Return a whole session in one of the formats as one string."""
    header = msgspec.structs.replace(session, messages=())
    return "".join(exporter(format)(header, session.messages))
