"""Texts that nobody typed: how injected context is told from a prompt.

Only what several agents share lives here; each adapter names its own phrases.
"""

from __future__ import annotations

import re

_LOWER_CASE_TAG = re.compile(r"\s*<[a-z][\w-]*[\s>/]")


def opens_with_tag(text: str) -> bool:
    """Whether a text begins with a lower-case tag such as `<system-reminder>`."""
    return _LOWER_CASE_TAG.match(text) is not None


def starts_with_any(text: str, phrases: tuple[str, ...]) -> bool:
    """Whether a text begins with one of the phrases, leading white space aside."""
    return text.lstrip().startswith(phrases)
