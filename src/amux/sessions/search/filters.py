"""Decides whether a session, or one of its messages, passes the filters of a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from amux.model.directories import forward_slashes
from amux.model.message import SessionMessage
from amux.model.words import fold
from amux.sessions.search.match import Passage, passages
from amux.sessions.search.query.filters import Clause, Condition, is_agent
from amux.sessions.search.searchable import SessionFields

_PATH_KEY: Final = re.compile(r"(?:path|file|dir|folder|notebook|cwd)(?:s|name|names|ectory)?$")
_CONTENT_KEYS: Final = frozenset(
    {"content", "contents", "description", "prompt", "query", "text", "thought", "todos"}
)
_WRITTEN: Final = re.compile(r"^(?:new|old|file|insert)_?(?:str|string|text|content)s?$")
_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?|--- (?:a/)?)(.+)$",
    re.MULTILINE,
)
_WORD: Final = re.compile(r"""[^\s"'`|;&<>()=,\[\]{}]+""")
_FILE_NAME: Final = re.compile(r"\w\.[A-Za-z]\w{0,7}$")
_READ: Final = 1 << 16
"""The number of characters of a command that are examined; the rest is text that it writes."""


def normal_path(text: str) -> str:
    """Return the form in which paths are compared: folded, with forward slashes."""
    return fold(text).replace("\\", "/").strip()


def mentioned_paths(value: Any, key: str = "") -> Iterator[str]:
    """Yield every path in the input of a tool, as it is written there."""
    match value:
        case str():
            name = key.lower()
            if _PATH_KEY.search(name):
                yield value
            elif name not in _CONTENT_KEYS and not _WRITTEN.match(name):
                patched = _PATCHED.findall(value)
                yield from patched or filter(_is_path, _WORD.findall(value[:_READ]))
        case dict():
            for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType] - foreign JSON
                yield from mentioned_paths(inner, str(name))  # pyright: ignore[reportUnknownArgumentType]
        case list() | tuple():
            for inner in value:  # pyright: ignore[reportUnknownVariableType] - foreign JSON
                yield from mentioned_paths(inner, key)
        case _:
            return


def _is_path(word: str) -> bool:
    if "://" in word:
        return False
    return "/" in word or "\\" in word or _FILE_NAME.search(word) is not None


def admits_session(clauses: Sequence[Clause], session: SessionFields) -> bool:
    """Return whether a session passes clauses, all of which must select sessions."""
    return all(
        clause.admits(lambda condition: _SESSION_TESTS[condition.kind](session, condition))
        for clause in clauses
    )


def admitted_passages(
    clauses: Sequence[Clause], message: SessionMessage, *, said_only: bool = False
) -> Iterator[Passage] | None:
    """Return the passages of a message that may be searched; None if it cannot be a hit.

    All clauses must select messages.
    """
    if not clauses:
        return passages(message, said_only=said_only)
    roles = [clause for clause in clauses if clause.kind == "role"]
    if not all(
        clause.admits(lambda condition: _MESSAGE_TESTS[condition.kind](message, condition))
        for clause in clauses
        if clause.kind != "role"
    ):
        return None

    def admits(*names: str) -> bool:
        return all(clause.admits(lambda condition: condition.value in names) for clause in roles)

    admits_text = admits(message.role)
    # Thinking has the role of its message and the role `thinking`.
    admits_thinking = bool(message.thinking) and admits(message.role, "thinking")
    if not admits_text and not admits_thinking:
        return None
    found = passages(message, said_only=said_only)
    return (each for each in found if (admits_thinking if each.is_thinking else admits_text))


def _used_model(session: SessionFields, condition: Condition) -> bool:
    if condition.exact:
        return condition.value in session.models
    return any(condition.value in fold(model) for model in session.models)


def _has_tag(session: SessionFields, condition: Condition) -> bool:
    if condition.exact:
        return condition.value in session.tags
    return any(condition.value == fold(tag) for tag in session.tags)


def _is_of_project(session: SessionFields, condition: Condition) -> bool:
    """Return whether the session was started in a project.

    An absolute path means that folder or one below it. Any other value is compared with as many of
    the last folders as it names.
    """
    if session.cwd is None:
        return False
    wanted = forward_slashes(condition.value).rstrip("/")
    directory = fold(session.cwd).rstrip("/")
    if wanted.startswith("/") or wanted[1:3] == ":/":
        return directory == wanted or directory.startswith(f"{wanted}/")
    folders = [folder for folder in directory.split("/") if folder]
    count = wanted.count("/") + 1
    return bool(wanted) and wanted in "/".join(folders[-count:])


_SESSION_TESTS: Final[dict[str, Callable[[SessionFields, Condition], bool]]] = {
    "agent": lambda session, condition: is_agent(session.agent, condition),
    "starred": lambda session, _: session.starred,
    "model": _used_model,
    "tag": _has_tag,
    "project": _is_of_project,
    "since": lambda session, each: each.moment is None or session.created_at >= each.moment,
    "until": lambda session, each: each.moment is None or session.created_at <= each.moment,
}


def _used_tool(message: SessionMessage, condition: Condition) -> bool:
    names = [call.tool_name for call in message.tool_calls]
    if message.tool_result is not None:
        names.append(message.tool_result.tool_name)
    return any(fold(name) == condition.value for name in names)


def _mentions_file(message: SessionMessage, condition: Condition) -> bool:
    wanted = normal_path(condition.value)
    return any(
        wanted in normal_path(path)
        for call in message.tool_calls
        for path in mentioned_paths(call.input)
    )


def _is_error(message: SessionMessage) -> bool:
    """Return whether a tool failed, or the message is a notice that the model call failed."""
    result = message.tool_result
    if result is not None and result.is_error:
        return True
    is_notice = message.synthetic and message.role == "assistant"
    return is_notice or any(call.is_error for call in message.tool_calls)


_MESSAGE_TESTS: Final[dict[str, Callable[[SessionMessage, Condition], bool]]] = {
    "tool": _used_tool,
    "file": _mentions_file,
    "error": lambda message, _: _is_error(message),
}
