"""Writes a story as Codex would have: 0.120.0 and 0.166.0 as captured.

Up to 0.120 every message is written twice, as an item of the API and as an event for the screen,
and usage is a running total. In 0.166 lines are numbered, events are completed items, every call
has its own record of usage, and a fork refers to its parent's lines instead of repeating them.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from demo_kit.chance import Clock, Meter, hexadecimal, iso, letters, timed_uuid
from demo_kit.codex_tools import Outcome, spawn_agent, use_tool, wait_for_agent
from demo_kit.home import Home
from demo_kit.ledger import Account, Billed, Usage
from demo_kit.story import Delegate, Pause, Prompt, Reply, Report, Step, Story

_INSTRUCTIONS = 12_700
_WINDOW = 258_400
_LIMITS = {"limit_id": "codex", "limit_name": None, "primary": None, "secondary": None}
_RULES = "Sandbox: workspace-write. Network access is off. Ask before leaving the workspace."


class Rollout:
    """One file: a thread in the format of its version."""

    def __init__(self, story: Story, clock: Clock, origin: dict[str, Any], first: int = 0) -> None:
        self.id = timed_uuid(story.key, clock.now)
        self.lines: list[dict[str, Any]] = []
        self.clock = clock
        self.started = clock.now
        self.meter = Meter(story.key, instructions=_INSTRUCTIONS, writes_cache=False)
        self.total = Usage()
        self._last = Usage()
        self._story = story
        self._numbered = story.version.startswith("0.166")
        self._first = first
        self._turn = ""
        self._turn_started = clock.now
        self._begin(origin)

    @property
    def end(self) -> int:
        """Return the number of the next line."""
        return self._first + len(self.lines)

    def take_over(self, parent: Rollout) -> None:
        """Continue the conversation and the totals of another thread, some time later."""
        self.total = parent.total
        self.meter = copy(parent.meter)
        self.meter.cool_down()

    def _line(self, kind: str, payload: dict[str, Any]) -> None:
        number = {"ordinal": self.end} if self._numbered else {}
        stamp = {"timestamp": iso(self.clock.now)}
        self.lines.append({**stamp, **number, "type": kind, "payload": payload})

    def _item(self, payload: dict[str, Any], kind: str | None = None) -> None:
        if self._numbered:
            passed: dict[str, Any] = {"turn_id": self._turn}
            if kind is not None:
                passed["content_item_kinds"] = [kind]
            payload = {**payload, "internal_chat_message_metadata_passthrough": passed}
        self._line("response_item", payload)

    def _event(self, kind: str, **fields: Any) -> None:
        self._line("event_msg", {"type": kind, **fields})

    def _completed(self, item: dict[str, Any]) -> None:
        at = round(self.clock.now.timestamp() * 1000)
        times = {"started_at_ms": at, "completed_at_ms": at}
        owner = {"thread_id": self.id, "turn_id": self._turn}
        self._event("item_completed", **owner, item=item, **times)

    def _begin(self, origin: dict[str, Any]) -> None:
        story = self._story
        meta: dict[str, Any] = {"id": self.id, "timestamp": iso(self.clock.now), "cwd": story.cwd}
        meta |= {"originator": "codex-tui", "cli_version": story.version, "source": "cli"}
        meta |= {"model_provider": story.provider}
        meta |= {"base_instructions": {"text": "You are a coding agent in a terminal."}}
        commit = hexadecimal(f"{story.project}{story.start.date()}", 40)
        meta |= {"git": {"commit_hash": commit, "branch": story.branch}}
        if self._numbered:
            meta |= {"session_id": self.id, "thread_source": "user", "history_mode": "paginated"}
        self._line("session_meta", meta | origin)

    def _start_turn(self) -> None:
        is_first = not self._turn and not self._first
        self._turn = timed_uuid(f"{self.id}/turn{len(self.lines)}", self.clock.now)
        self._turn_started = self.clock.tick()
        started = {"started_at": round(self.clock.now.timestamp())}
        window = {"model_context_window": _WINDOW, "collaboration_mode_kind": "default"}
        self._event("task_started", turn_id=self._turn, **started, **window)
        if is_first:
            self._add_context()
        story = self._story
        context: dict[str, Any] = {"turn_id": self._turn, "cwd": story.cwd, "model": story.model}
        context |= {"approval_policy": "on-request", "effort": "medium", "summary": "auto"}
        context |= {"sandbox_policy": {"type": "workspace-write", "network_access": False}}
        self._line("turn_context", context)

    def _add_context(self) -> None:
        """Write injected texts: the rules of the sandbox and the working directory."""
        where = f"<environment_context>\n  <cwd>{self._story.cwd}</cwd>\n  <shell>bash</shell>\n"
        rules = f"<permissions instructions>\n{_RULES}\n</permissions instructions>"
        for role, text, kind in (
            ("developer", rules, "permissions.instructions"),
            ("user", f"{where}</environment_context>", "environments.environment_context"),
        ):
            content = [{"type": "input_text", "text": text}]
            self._item({"type": "message", "role": role, "content": content}, kind)

    def prompt(self, text: str) -> None:
        """Write a prompt of the user or of the parent of a sub-agent."""
        self._start_turn()
        self.meter.hear(text)
        content = [{"type": "input_text", "text": text}]
        self._item({"type": "message", "role": "user", "content": content}, "user.text")
        if self._numbered:
            parts: list[dict[str, Any]] = [{"type": "text", "text": text, "text_elements": []}]
            key = timed_uuid(f"{self._turn}/prompt", self.clock.now)
            self._completed({"type": "UserMessage", "id": key, "content": parts})
        else:
            self._event("user_message", message=text, images=[], local_images=[], text_elements=[])

    def reply(self, step: Reply, outcomes: list[Outcome]) -> Usage:
        """Write one model call and the output of its tools."""
        said = step.text + "".join(str(outcome.call) for outcome in outcomes)
        usage = self.meter.bill(said, step.thinking)
        self.clock.tick(2 + usage.output / 70)
        seed = f"{self.id}/call{len(self.lines)}"
        if step.thinking:
            self._think(step.thinking, seed)
        if step.text:
            self._speak(step.text, seed)
        for outcome in outcomes:
            self._item(outcome.call)
        self._bill(usage, seed)
        for outcome in outcomes:
            self._return(outcome)
        if not outcomes:
            self._finish_turn(step.text)
        return usage

    def _think(self, text: str, seed: str) -> None:
        key = {"id": f"rs_{hexadecimal(seed, 48)}"} if self._numbered else {}
        if self._numbered:
            self._completed({"type": "Reasoning", **key, "summary_text": [text], "raw_content": []})
        else:
            self._event("agent_reasoning", text=text)
        summary = [{"type": "summary_text", "text": text}]
        hidden = {"content": None, "encrypted_content": f"gAAAAAB{letters(seed + 'e', 40)}"}
        self._item({"type": "reasoning", **key, "summary": summary, **hidden})

    def _speak(self, text: str, seed: str) -> None:
        key = {"id": f"msg_{hexadecimal(seed + 'm', 48)}"} if self._numbered else {}
        if self._numbered:
            parts = [{"type": "Text", "text": text}]
            self._completed({"type": "AgentMessage", **key, "content": parts})
        else:
            self._event("agent_message", message=text, phase=None, memory_citation=None)
        content = [{"type": "output_text", "text": text}]
        self._item({"type": "message", **key, "role": "assistant", "content": content})

    def _return(self, outcome: Outcome) -> None:
        self.clock.tick(outcome.seconds)
        self.meter.hear(str(outcome.output))
        if self._numbered and outcome.shown is not None:
            self._completed(outcome.shown)
        self._item(outcome.output)
        self._count_tokens()  # repeated with every request

    def _bill(self, usage: Usage, seed: str) -> None:
        self.total, self._last = self.total + usage, usage
        if self._numbered:
            record = {"thread_id": self.id, "turn_id": self._turn, "session_id": self.id}
            record |= {"response_id": f"resp_{hexadecimal(seed + 'u', 48)}"}
            figures = {"usage": self._figures(usage)}
            figures |= {"thread_token_usage": self._figures(self.total)}
            self._line("token_usage_record", record | figures)
        self._count_tokens()

    def _count_tokens(self) -> None:
        info = {
            "total_token_usage": self._figures(self.total),
            "last_token_usage": self._figures(self._last),
            "model_context_window": _WINDOW,
        }
        self._event("token_count", info=info, rate_limits=_LIMITS)

    def _figures(self, usage: Usage) -> dict[str, int]:
        """Return usage as Codex records it: cached tokens are input, reasoning is output."""
        written = {"cache_write_input_tokens": usage.cache_write} if self._numbered else {}
        return {
            "input_tokens": usage.context,
            "cached_input_tokens": usage.cache_read,
            **written,
            "output_tokens": usage.output,
            "reasoning_output_tokens": usage.thinking,
            "total_tokens": usage.context + usage.output,
        }

    def _finish_turn(self, last: str) -> None:
        took = round((self.clock.now - self._turn_started).total_seconds() * 1000)
        done = {"completed_at": round(self.clock.now.timestamp()), "duration_ms": took}
        self._event("task_complete", turn_id=self._turn, last_agent_message=last, **done)

    def notify(self, child: str, result: str) -> None:
        """Write the injected notice that a sub-agent is done."""
        told = f'{{"agent_path":"{child}","status":{{"completed":"{result}"}}}}'
        content = [
            {
                "type": "input_text",
                "text": f"<subagent_notification>\n{told}\n</subagent_notification>",
            }
        ]
        self._item({"type": "message", "role": "user", "content": content})

    def rename(self, name: str) -> None:
        """Write the name given by the user; before 0.166 the rollout contains it as well."""
        if not self._numbered:
            self._event("thread_name_updated", thread_id=self.id, thread_name=name)


class CodexWriter:
    """Writes one story to a home."""

    def __init__(self, story: Story, home: Home, rollouts: dict[str, Rollout]) -> None:
        self._story = story
        self._home = home
        self._rollouts = rollouts
        clock = Clock(story.key, story.start)
        origin, first = self._origin()
        self._main = Rollout(story, clock, origin, first)
        self._account = Account("codex", self._main.id, "session", story.cwd)
        self._account.archived, self._account.tags = story.archived, story.tags
        self._children: list[tuple[str, str]] = []

    def _origin(self) -> tuple[dict[str, Any], int]:
        if self._story.fork_of is None:
            return {}, 0
        parent = self._rollouts[self._story.fork_of]
        size = len(self._home.files[_path(parent, archived=False)])
        base = {"thread_id": parent.id, "end_ordinal_exclusive": parent.end}
        origin = {"forked_from_id": parent.id, "forked_from_ordinal_exclusive": parent.end}
        return origin | {"history_base": base | {"end_byte_offset": size}}, parent.end

    def write(self) -> None:
        """Write all files of the session and enter its account."""
        story, account = self._story, self._account
        self._rollouts[story.key] = self._main
        self._home.accounts[story.key] = account
        if story.fork_of is not None:
            parent = self._home.accounts[story.fork_of]
            account.kind, account.parent = "fork", parent.session_id
            account.inherit(parent)
            self._main.take_over(self._rollouts[story.fork_of])
        for step in story.steps:
            self._tell(step)
            account.note(step)
        account.title = story.name or account.prompts[0]
        if story.name is not None:
            self._main.rename(story.name)
        self._save(self._main)

    def _tell(self, step: Step) -> None:
        match step:
            case Prompt(text):
                self._account.prompts.append(text)
                self._main.prompt(text)
            case Reply():
                self._reply(step)
            case Report():
                self._wait()
            case Pause(length):
                self._main.clock.skip(length)
                self._main.meter.cool_down()
            case _:
                raise ValueError(f"codex has no {step}")

    def _reply(self, step: Reply) -> None:
        seed = f"{self._story.key}/{len(self._main.lines)}"
        outcomes: list[Outcome] = []
        for index, tool in enumerate(step.tools):
            if isinstance(tool, Delegate):
                outcomes.append(spawn_agent(tool, self._delegate(tool), seed))
            else:
                outcomes.append(use_tool(tool, self._story, f"{seed}/{index}"))
        self._account.calls.append(Billed(self._story.model, self._main.reply(step, outcomes)))

    def _wait(self) -> None:
        """Write a further call of the parent, which gets the answer of its sub-agent."""
        child, answer = self._children[-1]
        outcome = wait_for_agent(child, answer, f"{child}/wait")
        usage = self._main.reply(Reply(), [outcome])
        self._account.calls.append(Billed(self._story.model, usage))
        self._main.notify(child, answer)

    def _delegate(self, task: Delegate) -> str:
        """Write the file of a sub-agent; return its id."""
        story, parent = self._story, self._main.id
        spawn = {"parent_thread_id": parent, "depth": 1, "agent_path": None}
        spawn |= {"agent_nickname": task.purpose, "agent_role": None}
        origin = {"source": {"subagent": {"thread_spawn": spawn}}, "agent_nickname": task.purpose}
        key = f"{story.key}/{task.key}"
        part = Story(key, "codex", story.version, story.project, story.start, task.model, ())
        rollout = Rollout(part, Clock(key, self._main.clock.tick(4)), origin)
        child = Account("codex", rollout.id, "subagent", story.cwd, task.task, parent)
        child.prompts.append(task.task)
        rollout.prompt(task.task)
        _work(part, task, rollout, child)
        self._main.clock.skip(rollout.clock.now - self._main.clock.now)
        self._home.accounts[key] = child
        self._children.append((rollout.id, child.replies[-1]))
        self._save(rollout)
        return rollout.id

    def _save(self, rollout: Rollout) -> None:
        archived = self._account.archived
        self._home.put_lines(_path(rollout, archived=archived), rollout.lines)


def _work(story: Story, task: Delegate, rollout: Rollout, account: Account) -> None:
    """Write the events of a sub-agent, which has no sub-agents itself."""
    for step in task.steps:
        if isinstance(step, Reply):
            seed = f"{story.key}/{len(rollout.lines)}"
            outcomes = [
                use_tool(tool, story, f"{seed}/{index}")
                for index, tool in enumerate(step.tools)
                if not isinstance(tool, Delegate)
            ]
            account.calls.append(Billed(task.model, rollout.reply(step, outcomes)))
            account.note(step)


def _path(rollout: Rollout, *, archived: bool) -> str:
    at = rollout.started
    folder = "archived_sessions" if archived else f"sessions/{at:%Y/%m/%d}"
    return f".codex/{folder}/rollout-{at:%Y-%m-%dT%H-%M-%S}-{rollout.id}.jsonl"
