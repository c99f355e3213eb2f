"""Pasted images: which may be shown in a page, and how they are described where they are not.

Only four formats without scripts or references of their own are shown, and only if the bytes begin
as that format does; anything else (SVG, a remote address, a wrong label) is described in words.
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Final

_DATA_URL: Final = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/]+={0,2})")
_SIGNATURES: Final = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
_MEDIA_TYPE: Final = re.compile(r"data:([a-z]+/[a-z0-9.+-]+)")
_QUANTUM: Final = 4  # base64 comes in groups of four characters
_HEAD: Final = 8 * _QUANTUM  # enough characters to hold every signature


def showable(image: str) -> bool:
    """Whether a data URL holds one of the four formats."""
    match = _DATA_URL.fullmatch(image)
    if match is None or len(match.group(2)) % _QUANTUM:
        return False
    media_type, data = match.groups()
    return _SIGNATURES[media_type].match(b64decode(data[:_HEAD])) is not None


def described(image: str) -> str:
    """An image in words: its type and about how large it is."""
    match = _MEDIA_TYPE.match(image)
    if match is None:
        return "not embedded in the session"
    size = len(image.partition(",")[2]) * 3 // 4
    return f"{match.group(1)}, about {max(1, size // 1000):,} kB"
