"""Results of hooks: data from code that may be hostile, checked, cut to size and quoted.

A hook returns messages, context for the model, and paths to watch. All of it is text that amux
never interprets. Texts are cut to `MAX_TEXT` characters, lists to `MAX_ITEMS` items, and context is
quoted line by line when it becomes part of a prompt, so that it cannot end its own quotation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from amux.errors import ValidationError

MAX_TEXT: Final = 10_000
"""The number of characters of a text that are kept."""

MAX_ITEMS: Final = 50
"""The number of messages, texts or paths of one hook that are kept."""

MAX_PATH: Final = 4096
"""The length of the longest path that is kept."""

ROLES: Final = frozenset({"user", "assistant"})
"""The roles that a hook may speak in. Text for the system prompt is context, which is quoted."""

_HIDDEN: Final = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control characters except tab and newline, and characters that change the order of others."""

_FIELDS: Final = ("messages", "context", "watch_paths")


class HookResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one hook.

    `messages` have a role and a content; the caller decides whether they enter the conversation.
    `context` are texts for the prompt. `watch_paths` are paths that the caller may watch for
    changes. Only the built-in hooks set `restored`, the report of a restore, and `compacted`, the
    id of the record with a summary.
    """

    messages: tuple[Mapping[str, Any], ...] = ()
    context: tuple[str, ...] = ()
    watch_paths: tuple[str, ...] = ()
    restored: Any = None
    compacted: str | None = None


def clean_result(returned: object, *, hook: str) -> HookResult:
    """Return the result of a hook with nothing in it but texts of bounded size.

    A hook may return a `HookResult`, a mapping with its fields, a text (context), or None.

    Raises:
        ValidationError: The hook returned something else.
    """
    fields = _fields_of(returned)
    unknown = sorted(str(name) for name in fields if name not in _FIELDS)
    if unknown:
        raise _invalid(f"has an unknown field `{one_line(unknown[0])}`")
    messages = [_message(each, hook) for each in _items(fields, "messages")]
    context = [_text(each, "context") for each in _items(fields, "context")]
    paths = [_text(each, "watch_paths") for each in _items(fields, "watch_paths")]
    return HookResult(
        messages=tuple(messages),
        context=tuple(cut(text) for text in context if text.strip()),
        watch_paths=tuple(path for path in paths if is_path(path)),
    )


def cut(text: str) -> str:
    """Return at most `MAX_TEXT` characters of a text, with a note if it was longer."""
    storable = text[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")
    return storable if len(text) <= MAX_TEXT else f"{storable}\n[cut: {len(text)} characters]"


def visible(text: str) -> str:
    """Return a text in which control and bidi characters are written as escapes."""
    return re.sub(_HIDDEN, lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str, limit: int = 200) -> str:
    """Return the beginning of a text on one line, for messages and reports."""
    line = visible(" ".join(text[: limit * 4].split()))
    return line if len(line) <= limit else f"{line[:limit]}..."


def quote_context(text: str, *, hook: str, trust: str) -> str:
    """Return a text of a hook as a quotation for a prompt.

    Every line begins with `> `, and the characters of tags are written as entities, so that neither
    a newline nor a tag ends the quotation.
    """
    escaped = visible(cut(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    lines = "\n".join(f"> {line}" for line in escaped.split("\n"))
    name = one_line(hook).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return f'<hook-context hook="{name}" trust="{trust}">\n{lines}\n</hook-context>'


def is_path(text: str) -> bool:
    """Return whether a text can be a path."""
    return bool(text.strip()) and len(text) <= MAX_PATH and "\0" not in text


def _fields_of(returned: object) -> Mapping[Any, Any]:
    if returned is None:
        return {}
    if isinstance(returned, str):
        return {"context": returned}
    if isinstance(returned, HookResult):
        return {name: getattr(returned, name) for name in _FIELDS}
    if isinstance(returned, Mapping):
        given: Mapping[Any, Any] = cast("Any", returned)
        return given
    raise _invalid(f"is a `{type(returned).__name__}`")


def _items(fields: Mapping[Any, Any], name: str) -> list[object]:
    """Return the first items of a field; a single text or mapping counts as a list of one."""
    value: object = fields.get(name)
    if value is None:
        return []
    if isinstance(value, str | Mapping):
        return [cast("object", value)]
    if isinstance(value, list | tuple):
        return list(cast("Iterable[object]", value))[:MAX_ITEMS]
    raise _invalid(f"has `{name}` that is no list")


def _message(given: object, hook: str) -> Mapping[str, Any]:
    """Return a message with a role, a content and its origin; other fields are dropped."""
    if not isinstance(given, Mapping):
        raise _invalid("has a message that is no object")
    message = cast("Any", given)
    role = message.get("role", "user")
    if role not in ROLES:
        raise _invalid(f"has a message with the role `{one_line(str(role))}`")
    content = cut(_text(message.get("content"), "content"))
    return {"role": role, "content": content, "synthetic": True, "hook": hook}


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _invalid(f"has `{name}` that is no text")
    return value


def _invalid(reason: str) -> ValidationError:
    return ValidationError(
        f"the result of the hook {reason}",
        fields=("result",),
        hint="return a `HookResult`, a mapping with its fields, a text, or None",
    )
