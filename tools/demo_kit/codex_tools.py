"""Tools of Codex: the call, its output, and the item that 0.166 shows for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from demo_kit.chance import hexadecimal, letters, number
from demo_kit.story import Command, Delegate, Edit, Read, Story, Write


@dataclass(frozen=True)
class Outcome:
    """One call and its output."""

    call: dict[str, Any]
    output: dict[str, Any]
    shown: dict[str, Any] | None = None
    seconds: float = 0.2


def use_tool(tool: Command | Read | Edit | Write, story: Story, seed: str) -> Outcome:
    """Return what Codex writes for a tool. It reads files with shell commands."""
    match tool:
        case Command():
            return _run(tool, story, seed)
        case Read():
            last = tool.first_line + len(tool.text.splitlines()) - 1
            line = f"sed -n '{tool.first_line},{last}p' {tool.path}"
            return _run(Command(line, tool.text), story, seed)
        case Edit():
            hunk = _prefixed("-", tool.old) + _prefixed("+", tool.new)
            head = f"@@ -{tool.line} +{tool.line} @@\n"
            change = {"type": "update", "unified_diff": head + hunk, "move_path": None}
            return _patch(f"Update File: {tool.path}\n@@\n{hunk}", tool.path, change, story, seed)
        case Write():
            change = {"type": "add", "content": tool.text}
            body = f"Add File: {tool.path}\n{_prefixed('+', tool.text)}"
            return _patch(body, tool.path, change, story, seed)


def spawn_agent(task: Delegate, child: str, seed: str) -> Outcome:
    """Return the call that starts a sub-agent."""
    started = json.dumps({"agent_id": child, "nickname": task.purpose}, separators=(",", ":"))
    call = _function(seed, "spawn_agent", {"message": task.task})
    return Outcome(call, _function_output(seed, started))


def wait_for_agent(child: str, answer: str, seed: str) -> Outcome:
    """Return the call that gets the answer of a sub-agent."""
    status = {"status": {child: {"completed": answer}}, "timed_out": False}
    ended = json.dumps(status, ensure_ascii=False, separators=(",", ":"))
    call = _function(seed, "wait_agent", {"targets": [child], "timeout_ms": 60_000})
    return Outcome(call, _function_output(seed, ended))


def _prefixed(sign: str, text: str) -> str:
    return "".join(f"{sign}{line}\n" for line in text.splitlines())


def _call_id(seed: str) -> str:
    return f"call_{letters(seed, 24)}"


def _function(seed: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(arguments, ensure_ascii=False)
    return {"type": "function_call", "name": name, "arguments": text, "call_id": _call_id(seed)}


def _function_output(seed: str, output: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": _call_id(seed), "output": output}


def _run(tool: Command, story: Story, seed: str) -> Outcome:
    printed = tool.output if tool.output.endswith("\n") else tool.output + "\n"
    said = (
        f"Chunk ID: {hexadecimal(seed, 6)}\nWall time: {tool.seconds:.4f} seconds\n"
        f"Process exited with code {tool.exit_code}\n"
        f"Original token count: {len(printed) // 4}\nOutput:\n{printed}"
    )
    shown = {
        "type": "CommandExecution",
        "id": _call_id(seed),
        "process_id": str(number(seed, 10_000, 99_999)),
        "command": ["/bin/bash", "-lc", tool.line],
        "cwd": f"file://{story.cwd}",
        "parsed_cmd": [{"type": "unknown", "cmd": tool.line}],
        "source": "unified_exec_startup",
        "status": "failed" if tool.exit_code else "completed",
        "aggregated_output": printed,
        "exit_code": tool.exit_code,
        "duration": {"secs": int(tool.seconds), "nanos": int(tool.seconds % 1 * 1e9)},
    }
    call = _function(seed, "exec_command", {"cmd": tool.line})
    return Outcome(call, _function_output(seed, said), shown, tool.seconds)


def _patch(body: str, path: str, change: dict[str, Any], story: Story, seed: str) -> Outcome:
    letter = "A" if change["type"] == "add" else "M"
    done = f"Success. Updated the following files:\n{letter} {path}\n"
    call = {
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": _call_id(seed),
        "name": "apply_patch",
        "input": f"*** Begin Patch\n*** {body}*** End Patch\n",
    }
    said = f"Exit code: 0\nWall time: 0 seconds\nOutput:\n{done}"
    if not story.version.startswith("0.166"):
        metadata = {"exit_code": 0, "duration_seconds": 0.1}
        said = json.dumps({"output": done, "metadata": metadata}, separators=(",", ":"))
    output = {"type": "custom_tool_call_output", "call_id": _call_id(seed), "output": said}
    shown: dict[str, Any] = {
        "type": "FileChange",
        "id": _call_id(seed),
        "status": "completed",
        "stderr": "",
    }
    shown |= {"changes": {f"{story.cwd}/{path}": change}, "stdout": done}
    return Outcome(call, output, shown)
