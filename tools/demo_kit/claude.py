"""Writes a story in the format of Claude Code 2.0.77 or 2.1.325, as in the captures."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

from demo_kit.chance import Clock, Meter, iso, letters, number, random_uuid
from demo_kit.claude_tools import ToolUse, use_tool
from demo_kit.home import Home
from demo_kit.ledger import NANO, Account, Billed, Usage
from demo_kit.story import (
    Compaction,
    Delegate,
    Interruption,
    Pause,
    Prompt,
    Reply,
    Report,
    Step,
    Story,
)

HELPER_MODEL = "claude-haiku-4-5-20251001"
_INSTRUCTIONS = 24_600
_PLACEHOLDER = 3  # output tokens at the beginning of the stream
_COPIED = {"user", "assistant", "system", "attachment"}
_CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation.\n\n"
)
_COMPACT_COMMAND = (
    "<command-name>/compact</command-name>\n<command-message>compact</command-message>\n"
    "<command-args></command-args>"
)


class Transcript:
    """One file of a session: its own conversation or that of a sub-agent."""

    def __init__(self, story: Story, session_id: str, clock: Clock, agent: str = "") -> None:
        self.lines: list[dict[str, Any]] = []
        self.clock = clock
        self.leaf: str | None = None
        self.modern = story.version.startswith("2.1")
        self.session_id = session_id
        self._story = story
        self._agent = agent
        self._count = 0
        self.meter = Meter(story.key + agent, instructions=_INSTRUCTIONS, writes_cache=True)
        self._prompt_id = ""

    def add(self, fields: dict[str, Any]) -> str:
        """Append a line to the chain of messages; return its id."""
        story, self._count = self._story, self._count + 1
        uuid = random_uuid(f"{story.key}/{self._agent}/{self._count}")
        link: dict[str, Any] = {"parentUuid": self.leaf}
        link["isSidechain"] = bool(self._agent)
        if self._agent:
            link["agentId"] = self._agent
        place = {"userType": "external", "cwd": story.cwd, "sessionId": self.session_id}
        place |= {"version": story.version, "gitBranch": story.branch}
        stamp = {"uuid": uuid, "timestamp": iso(self.clock.now)}
        if self.modern:
            self.lines.append(link | fields | stamp | {"entrypoint": "cli"} | place)
        else:
            self.lines.append(link | place | fields | stamp)
        self.leaf = uuid
        return uuid

    def aside(self, fields: dict[str, Any]) -> None:
        """Append a line that is not a message."""
        self.lines.append(fields | {"sessionId": self.session_id})

    def user(self, content: Any, **more: Any) -> str:
        """Append a line of the role user."""
        prompt = {"promptId": self._prompt_id} if self.modern else {}
        message = {"role": "user", "content": content}
        return self.add({**prompt, "type": "user", "message": message, **more})

    def prompt(self, text: str) -> None:
        """Write a prompt of the user or of the parent of a sub-agent."""
        self.clock.tick()
        self._prompt_id = random_uuid(f"{self._story.key}/{self._agent}/prompt{self._count}")
        self.meter.hear(text)
        if self._agent or not self.modern:
            self.user(text)
        else:
            origin = {"origin": {"kind": "human"}, "promptSource": "typed", "turnOrigin": "human"}
            self.user(text, permissionMode="acceptEdits", **origin)
            self.aside({"type": "last-prompt", "lastPrompt": text[:200], "leafUuid": self.leaf})

    def reply(self, step: Reply, model: str) -> Usage:
        """Write one model call, block by block, and the results of its tools."""
        uses = [use_tool(tool, self._story.cwd, modern=self.modern) for tool in step.tools]
        said = step.text + "".join(str(use.input) for use in uses)
        usage = self.meter.bill(said, step.thinking)
        self.clock.tick(2 + usage.output / 60)
        places = self._blocks(step, uses, model, usage)
        for use, (call_id, uuid) in zip(uses, places, strict=True):
            self._result(use, call_id, uuid)
        return usage

    def _blocks(
        self, step: Reply, uses: list[ToolUse], model: str, usage: Usage
    ) -> list[tuple[str, str]]:
        seed = f"{self._story.key}/{self._agent}/call{self._count}"
        blocks: list[dict[str, Any]] = []
        if step.thinking:
            signature = base64.b64encode(letters(seed, 30).encode()).decode()
            blocks.append({"type": "thinking", "thinking": step.thinking, "signature": signature})
        if step.text:
            blocks.append({"type": "text", "text": step.text})
        calls = [f"toolu_01{letters(f'{seed}/{index}', 22)}" for index in range(len(uses))]
        blocks += [
            {"type": "tool_use", "id": call, "name": use.name, "input": use.input}
            for call, use in zip(calls, uses, strict=True)
        ]
        stop = "tool_use" if uses else "end_turn"
        uuids: list[str] = []
        for block in blocks:
            done = self.modern or block is blocks[-1]
            shown = usage if done else replace(usage, output=_PLACEHOLDER)
            uuids.append(self._assistant(seed, block, model, shown, stop if done else None))
            self.clock.tick()
        return list(zip(calls, uuids[len(blocks) - len(uses) :], strict=True))

    def _assistant(
        self, seed: str, block: dict[str, Any], model: str, usage: Usage, stop: str | None
    ) -> str:
        message = {
            "id": f"msg_01{letters(seed, 22)}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": self._usage(usage),
        }
        request = {"requestId": f"req_011C{letters(seed + 'r', 20)}", "type": "assistant"}
        if self.modern:
            request |= {"requestedModel": model, "promptCacheRequested": "5m", "madeBy": "model"}
        aborted = {} if stop or not self.modern else {"isAbortedMidStream": True}
        return self.add({"message": message, **request, **aborted})

    def _usage(self, usage: Usage) -> dict[str, Any]:
        kept = {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": usage.cache_write}
        fields: dict[str, Any] = {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation": kept,
            "output_tokens": usage.output,
            "service_tier": "standard",
        }
        if self.modern and usage.output > _PLACEHOLDER:
            fields["output_tokens_details"] = {"thinking_tokens": usage.thinking}
            fields["server_tool_use"] = {"web_search_requests": 0, "web_fetch_requests": 0}
            fields["speed"] = "standard"
        return fields

    def _result(self, use: ToolUse, call_id: str, uuid: str) -> None:
        self.clock.tick(0.3)
        self.meter.hear(use.output)
        block: dict[str, Any] = {"tool_use_id": call_id, "type": "tool_result"}
        launched = use.name == "Agent"
        block["content"] = [{"type": "text", "text": use.output}] if launched else use.output
        if use.is_error is not None:
            block["is_error"] = use.is_error
        self.user([block], toolUseResult=use.record, sourceToolAssistantUUID=uuid)

    def interrupt(self, text: str, model: str) -> Usage:
        """Write an interrupted call: its text so far, without its final output tokens."""
        usage = replace(self.meter.bill(text, ""), output=_PLACEHOLDER, thinking=0)
        self.clock.tick(6)
        seed = f"{self._story.key}/{self._agent}/call{self._count}"
        self._assistant(seed, {"type": "text", "text": text}, model, usage, None)
        self.clock.tick()
        notice = [{"type": "text", "text": "[Request interrupted by user]"}]
        self.user(notice, interruptedMessageId=self.lines[-1]["message"]["id"])
        return usage

    def compact(self, summary: str) -> Usage:
        """Replace the conversation by its summary; return the usage of the call that wrote it."""
        usage = self.meter.bill(summary, "")
        self.clock.tick(usage.output / 50)
        before, self.leaf, old_leaf = usage.context, None, self.leaf
        self.meter.shrink(summary)
        metadata = {"trigger": "manual", "preTokens": before, "postTokens": usage.output}
        boundary: dict[str, Any] = {
            "type": "system",
            "subtype": "compact_boundary",
            "level": "info",
        }
        boundary |= {"content": "Conversation compacted", "isMeta": False}
        self.add({"logicalParentUuid": old_leaf, **boundary, "compactMetadata": metadata})
        told = _CONTINUED + summary
        self.user(told, isVisibleInTranscriptOnly=True, isCompactSummary=True)
        self.user(_COMPACT_COMMAND)
        self.user("<local-command-stdout>Compacted</local-command-stdout>")
        return usage

    def report(self, task: Delegate, result: str) -> None:
        """Write a notice to the model that a background task is done."""
        self.clock.tick()
        told = (
            f"<task-notification>\n<task-id>{task.key}</task-id>\n<status>completed</status>\n"
            f"<summary>{task.purpose}</summary>\n<result>{result}</result>\n</task-notification>"
        )
        self.meter.hear(told)
        origin = {"kind": "task-notification", "producer": "session-task"}
        self.user(told, origin=origin, promptSource="system", turnOrigin="task_notification")


class ClaudeWriter:
    """Writes one story to a home."""

    def __init__(self, story: Story, home: Home) -> None:
        self._story = story
        self._home = home
        self._id = random_uuid(story.key)
        self._folder = f".claude/projects/{re.sub('[^A-Za-z0-9]', '-', story.cwd)}"
        self._account = Account("claude", self._id, "session", story.cwd, tags=story.tags)
        self._account.records_thinking = story.version.startswith("2.1")
        self._main = Transcript(story, self._id, Clock(story.key, story.start))
        self._children: list[tuple[Delegate, str]] = []
        self._has_title = False

    def write(self) -> None:
        """Write all files of the session and enter its account."""
        story, account = self._story, self._account
        self._home.accounts[story.key] = account
        if story.fork_of is not None:
            self._copy(self._home.accounts[story.fork_of])
        if self._main.modern:
            self._main.aside({"type": "mode", "mode": "normal"})
            self._main.aside({"type": "permission-mode", "permissionMode": "acceptEdits"})
        for step in story.steps:
            self._tell(step)
            account.note(step)
        account.title = story.name or story.ai_title or account.prompts[0]
        self._close()
        self._home.put_lines(f"{self._folder}/{self._id}.jsonl", self._main.lines)

    def _copy(self, parent: Account) -> None:
        """Write a fork (`/branch`): the new file begins with the messages of the other one."""
        account, main = self._account, self._main
        account.kind, account.parent = "fork", parent.session_id
        account.inherit(parent)
        for line in self._home.lines_of(f"{self._folder}/{parent.session_id}.jsonl"):
            if line["type"] in _COPIED:
                origin = {"sessionId": parent.session_id, "messageUuid": line["uuid"]}
                main.lines.append(line | {"sessionId": self._id, "forkedFrom": origin})
                main.leaf = line["uuid"]
                main.meter.hear(str(line.get("message", {}).get("content", "")))

    def _tell(self, step: Step) -> None:
        main, account, model = self._main, self._account, self._story.model
        match step:
            case Prompt(text):
                account.prompts.append(text)
                main.prompt(text)
            case Reply():
                account.calls.append(Billed(model, main.reply(step, model)))
                for tool in step.tools:
                    if isinstance(tool, Delegate):
                        self._delegate(tool)
            case Report():
                main.report(*self._children[-1])
            case Compaction(summary):
                account.calls.append(Billed(model, main.compact(summary), on_disk=False))
                account.incomplete.append("compaction-call-not-recorded")
            case Interruption(text):
                account.calls.append(Billed(model, main.interrupt(text, model)))
                account.incomplete.append("call-interrupted")
            case Pause(length):
                self._leave(length)

    def _leave(self, length: timedelta) -> None:
        self._close()
        self._main.clock.skip(length)
        self._main.meter.cool_down()

    def _delegate(self, task: Delegate) -> None:
        """Write the separate file of a sub-agent."""
        story, parent = self._story, self._account
        child = Account("claude", task.key, "subagent", story.cwd, parent=self._id)
        child.title = task.task
        child.prompts.append(task.task)
        clock = Clock(task.key, self._main.clock.now)
        transcript = Transcript(story, self._id, clock, task.key)
        transcript.prompt(task.task)
        for step in task.steps:
            if isinstance(step, Reply):
                child.calls.append(Billed(task.model, transcript.reply(step, task.model)))
                child.note(step)
        self._main.clock.skip(clock.now - self._main.clock.now)
        self._children.append((task, child.replies[-1]))
        self._home.accounts[f"{story.key}/{task.key}"] = child
        parent.calls += [replace(call, on_disk=False) for call in child.calls]
        path = f"{self._folder}/{self._id}/subagents/agent-{task.key}"
        self._home.put_lines(f"{path}.jsonl", transcript.lines)
        meta = {"agentType": "Explore", "isBuiltIn": True, "description": task.purpose}
        meta |= {"toolUseId": _last_call(self._main.lines), "spawnDepth": 1, "finished": True}
        self._home.put_object(f"{path}.meta.json", meta)

    def _close(self) -> None:
        """Write the last lines of Claude Code: names and, since 2.1, the total."""
        story, main = self._story, self._main
        if story.name is not None:
            main.aside({"type": "custom-title", "customTitle": story.name})
            title = {"customTitle": story.name}
            self._home.put_object(f"{self._folder}/{self._id}/custom-title.json", title)
        if story.ai_title is not None:
            main.aside({"type": "ai-title", "aiTitle": story.ai_title})
            self._bill_title()
        if main.modern and "call-interrupted" not in self._account.incomplete:
            self._total()

    def _bill_title(self) -> None:
        """Count the call of a small model that generates the title; no line records it."""
        if not self._has_title:
            self._has_title = True
            prompt = number(self._story.key + "/title", 380, 720)
            usage = Usage(input=prompt, output=number(self._story.key + "/words", 12, 24))
            self._account.calls.append(Billed(HELPER_MODEL, usage, on_disk=False))

    def _total(self) -> None:
        """Write the total so far, including calls of sub-agents and helpers."""
        account = self._account
        total = sum(call.nano_usd for call in account.calls)
        fields = {
            "type": "cost-state",
            "totalCostUSD": total / NANO,
            "modelUsage": _model_usage(account.calls),
            "hasUnknownModelCost": False,
        }
        self._main.aside(fields)
        if account.kind == "session":
            account.recorded_nano_usd = total


def _model_usage(calls: list[Billed]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for model in dict.fromkeys(call.model for call in calls):
        own = [call for call in calls if call.model == model]
        usage = sum((call.usage for call in own), Usage())
        found[model] = {
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "thinkingTokens": usage.thinking,
            "cacheReadInputTokens": usage.cache_read,
            "cacheCreationInputTokens": usage.cache_write,
            "webSearchRequests": 0,
            "costUSD": sum(call.nano_usd for call in own) / NANO,
        }
    return found


def _last_call(lines: list[dict[str, Any]]) -> str:
    """Return the id of the newest tool call."""
    blocks = (
        block
        for line in reversed(lines)
        if line["type"] == "assistant"
        for block in line["message"]["content"]
    )
    return next(str(block["id"]) for block in blocks if block["type"] == "tool_use")
