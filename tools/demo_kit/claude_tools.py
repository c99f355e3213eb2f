"""Tools of Claude Code: the call, the text the model gets back, the record of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demo_kit.story import Command, Delegate, Edit, Read, Tool, Write

_SEEN = " (file state is current in your context — no need to Read it back)"


@dataclass(frozen=True)
class ToolUse:
    """One call and its outcome."""

    name: str
    input: dict[str, Any]
    output: str
    record: Any  # a string if the tool failed
    is_error: bool | None = None  # None: not recorded


def use_tool(tool: Tool, cwd: str, *, modern: bool) -> ToolUse:
    """Return what Claude Code writes for a tool; a sub-agent runs in the background."""
    match tool:
        case Command():
            return _run(tool, modern=modern)
        case Read():
            return _read(tool, cwd, modern=modern)
        case Edit():
            return _edit(tool, cwd, modern=modern)
        case Write():
            return _write(tool, cwd, modern=modern)
        case Delegate():
            return _delegate(tool)


def _run(tool: Command, *, modern: bool) -> ToolUse:
    call = {"command": tool.line, "description": tool.purpose}
    if tool.exit_code:
        said = f"Exit code {tool.exit_code}\n{tool.output}"
        return ToolUse("Bash", call, said, f"Error: {said}", is_error=True)
    record = {"stdout": tool.output, "stderr": "", "interrupted": False, "isImage": False}
    if modern:
        record["noOutputExpected"] = False
    return ToolUse("Bash", call, tool.output, record, is_error=False)


def _read(tool: Read, cwd: str, *, modern: bool) -> ToolUse:
    path, lines = f"{cwd}/{tool.path}", tool.text.splitlines()
    numbered = [
        f"{number}\t{line}" if modern else f"{number:>6}→{line}"
        for number, line in enumerate(lines, start=tool.first_line)
    ]
    last = tool.first_line + len(lines) - 1
    file = {
        "filePath": path,
        "content": tool.text,
        "numLines": len(lines),
        "startLine": tool.first_line,
        "totalLines": last,
    }
    call: dict[str, Any] = {"file_path": path}
    if tool.first_line > 1:
        call |= {"offset": tool.first_line, "limit": len(lines)}
    return ToolUse("Read", call, "\n".join(numbered), {"type": "text", "file": file})


def _edit(tool: Edit, cwd: str, *, modern: bool) -> ToolUse:
    path, old, new = f"{cwd}/{tool.path}", tool.old.splitlines(), tool.new.splitlines()
    hunk = {
        "oldStart": tool.line,
        "oldLines": len(old),
        "newStart": tool.line,
        "newLines": len(new),
        "lines": [f"-{line}" for line in old] + [f"+{line}" for line in new],
    }
    record = {
        "filePath": path,
        "oldString": tool.old,
        "newString": tool.new,
        "originalFile": None,
        "structuredPatch": [hunk],
        "userModified": False,
        "replaceAll": False,
    }
    call = {"file_path": path, "old_string": tool.old, "new_string": tool.new}
    said = f"The file {path} has been updated successfully."
    return ToolUse("Edit", call, said + (_SEEN if modern else ""), record)


def _write(tool: Write, cwd: str, *, modern: bool) -> ToolUse:
    path = f"{cwd}/{tool.path}"
    record: dict[str, Any] = {
        "type": "create",
        "filePath": path,
        "content": tool.text,
        "structuredPatch": [],
        "originalFile": None,
    }
    said = f"File created successfully at: {path}"
    call = {"file_path": path, "content": tool.text}
    return ToolUse("Write", call, said + (_SEEN if modern else ""), record)


def _delegate(tool: Delegate) -> ToolUse:
    call = {"description": tool.purpose, "prompt": tool.task, "subagent_type": "Explore"}
    record = {
        "isAsync": True,
        "status": "async_launched",
        "agentId": tool.key,
        "description": tool.purpose,
        "resolvedModel": tool.model,
        "prompt": tool.task,
    }
    return ToolUse("Agent", call, "Async agent launched successfully.", record)
