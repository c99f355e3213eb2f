"""Google's content parts: text, thoughts, calls, results and images.

A content is a string, a part or a list of both. Parts of an unexpected shape are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from amux.adapters._kit.values import is_mapping, items, mapping, plain_text, text
from amux.model.message import SessionToolCall

_IMAGE_TYPE: Final = re.compile(r"image/[\w.+-]{1,40}")
_EXIT_CODE: Final = re.compile(
    r"(?:^|\n)Exit Code: (-?\d{1,10})"
    r"(?:\n[A-Z][A-Za-z ]{0,40}: [^\n]{0,200})*\s*(?:</[a-z_]{1,40}>)?\s*\Z"
)
_TAIL: Final = 2000  # the exit code of a command stands behind its output
_SHELL_TOOLS: Final = frozenset({"run_shell_command", "shell", "bash"})
_FAILED: Final = frozenset({"error", "cancelled", "canceled", "failed"})


class ResultPart(msgspec.Struct, frozen=True):
    """What a tool gave back."""

    id: str | None
    name: str
    response: Any


class CallPart(msgspec.Struct, frozen=True):
    """What a model asked for."""

    id: str | None
    name: str
    args: Any


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """A content taken apart, each kind in its order."""

    texts: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    calls: tuple[CallPart, ...] = ()
    results: tuple[ResultPart, ...] = ()
    images: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text a person would read."""
        return "".join(self.texts)


def part_list(content: object) -> list[Any]:
    """A content as a list of parts."""
    if isinstance(content, str):
        return [content]
    if is_mapping(content):
        return part_list(content["parts"]) if "parts" in content else [content]
    return items(content)


def split_parts(content: object) -> Parts:
    """Take a content apart."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[CallPart] = []
    results: list[ResultPart] = []
    images: list[str] = []
    for part in part_list(content):
        if isinstance(part, str):
            texts.append(part)
            continue
        fields = mapping(part)
        words = fields.get("text")
        if isinstance(words, str):
            (thoughts if fields.get("thought") is True else texts).append(words)
        if call := mapping(fields.get("functionCall")):
            calls.append(_call(call))
        if result := mapping(fields.get("functionResponse")):
            results.append(_result(result))
        if url := _data_url(mapping(fields.get("inlineData"))):
            images.append(url)
    return Parts(
        texts=tuple(texts),
        thoughts=tuple(thoughts),
        calls=tuple(calls),
        results=tuple(results),
        images=tuple(images),
    )


def _call(call: dict[str, Any]) -> CallPart:
    return CallPart(text(call.get("id")), text(call.get("name")) or "", call.get("args"))


def _result(result: dict[str, Any]) -> ResultPart:
    return ResultPart(
        text(result.get("id")), text(result.get("name")) or "", result.get("response")
    )


def _data_url(data: dict[str, Any]) -> str | None:
    kind, body = data.get("mimeType"), data.get("data")
    if isinstance(kind, str) and isinstance(body, str) and _IMAGE_TYPE.fullmatch(kind):
        return f"data:{kind};base64,{body}"
    return None


def tool_call(part: CallPart, call_id: str) -> SessionToolCall:
    """A call as the model shows it."""
    return SessionToolCall(tool_call_id=call_id, tool_name=part.name, input=part.args)


def response_text(response: object) -> str:
    """The readable part of a tool's response."""
    fields = mapping(response)
    for name in ("output", "error", "content", "result"):
        if isinstance(fields.get(name), str):
            return str(fields[name])
    return plain_text(response)


def has_failed(name: str, status: object, responses: Iterable[object]) -> bool | None:
    """Whether a tool call failed; None when nothing says so either way.

    A command with an exit code other than 0 is recorded as a success: only its text tells.
    """
    if isinstance(status, str) and status.lower() in _FAILED:
        return True
    given = list(responses)
    for response in given:
        fields = mapping(response)
        if fields.get("error") is not None and "output" not in fields:
            return True
        if name in _SHELL_TOOLS and _exit_code(response_text(response)):
            return True
    return False if given or status == "success" else None


def _exit_code(output: str) -> int:
    found = _EXIT_CODE.search(output[-_TAIL:])
    return int(found[1]) if found else 0
