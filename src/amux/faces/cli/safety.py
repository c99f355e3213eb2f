"""Makes text from sessions safe to print: it may contain sequences that control a terminal.

Control characters (C0, DEL, C1), bidirectional overrides and lone surrogates are made visible
instead of dropped, so that the reader sees that they were there. All tables map single characters,
so a text may be split anywhere.
"""

from __future__ import annotations

_BIDI_OVERRIDES = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SURROGATES = range(0xD800, 0xE000)
_LINE_BREAKS = "\t\n\v\f\r\x85\u2028\u2029"
_REPLACEMENT = "\ufffd"


def _visible() -> dict[int, str | None]:
    pictures = {code: chr(0x2400 + code) for code in range(0x20)}  # ESC becomes U+241B
    hidden = (*range(0x80, 0xA0), *_BIDI_OVERRIDES, *_SURROGATES)
    return {**pictures, 0x7F: "\u2421", **dict.fromkeys(hidden, _REPLACEMENT)}


_BLOCK = {**_visible(), ord("\n"): "\n", ord("\t"): "\t", ord("\r"): None}
_LINE = {**_visible(), **{ord(char): " " for char in _LINE_BREAKS}}
_JSON: dict[int, str | None] = {
    **{code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_BIDI_OVERRIDES, 0x2028, 0x2029)},
    **dict.fromkeys(_SURROGATES, _REPLACEMENT),
}


def safe_text(text: str, *, multiline: bool = False) -> str:
    """Return a text that is safe on a terminal, on one line unless `multiline`."""
    return text.translate(_BLOCK if multiline else _LINE)


def safe_json(text: str) -> str:
    """Escape control characters that JSON allows in strings; the encoded value is unchanged."""
    return text.translate(_JSON)
