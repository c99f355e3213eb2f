"""Writes sessions in the formats of two eras of Codex.

    old  0.58   prompts and answers twice, as items and as events; a first count of tokens that is
                null; counts written twice now and then
    new  0.166  numbered lines, completed items instead of events, a record of tokens per response

Counts are cumulative. A fork repeats the first turns of its session with new timestamps and
continues the counts from there.
"""

from __future__ import annotations

import json
import random
import re
from typing import Final

from corpus_session import Bill, Job, Json, Written, line, moment, token, uuid7
from corpus_texts import Texts

_MODELS: Final = ("gpt-5.1-codex", "gpt-5-codex", "gpt-5.1-codex-mini")
_VERSIONS: Final = {"old": "0.58.0", "new": "0.166.0"}
_LARGE: Final = 3_000_000
_FULL_CONTEXT: Final = 190_000
_TIMESTAMP: Final = re.compile(rb'"timestamp":"[^"]*"')
_COUNTS: Final = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)


def write_codex(chance: random.Random, texts: Texts, job: Job) -> Written:
    """Return a session, and for a few sessions a fork."""
    session = _Session(chance, texts, job)
    session.begin()
    while not session.turn_ends or session.size < job.size:
        session.turn()
    files = {_path(job): session.lines}
    bill, sessions = session.bill, 1
    if job.is_forked and len(session.turn_ends) > 1:
        fork = session.fork()
        files[_path(fork.job)] = fork.lines
        bill.include(fork.bill)
        sessions += 1
    return Written(files, bill, sessions)


def _path(job: Job) -> str:
    stamp = moment(job.begun)[:19].replace(":", "-")
    return f".codex/sessions/{stamp[:10].replace('-', '/')}/rollout-{stamp}-{job.id}.jsonl"


class _Session:
    """Writes one file."""

    def __init__(self, chance: random.Random, texts: Texts, job: Job) -> None:
        self.job, self.bill, self.size = job, Bill(), 0
        self.lines: list[bytes] = []
        self.turn_ends: list[tuple[int, Json]] = []
        self._chance, self._texts, self._now = chance, texts, job.begun
        self._model = chance.choices(_MODELS, (6, 3, 1))[0]
        self._in_ideographs = chance.random() < 0.06
        self._is_new = job.era == "new"
        self._total: Json = dict.fromkeys(_COUNTS, 0)
        self._context = 9000

    def begin(self, *, forked_from: str | None = None) -> None:
        """Write the lines before the first prompt."""
        meta: Json = {
            "id": self.job.id,
            "timestamp": moment(self._now),
            "cwd": self.job.folder,
            "originator": "codex_cli_rs",
            "cli_version": _VERSIONS[self.job.era],
            "source": "cli",
            "model_provider": "openai",
        }
        if self._is_new:
            meta["session_id"] = self.job.id
            meta["base_instructions"] = {"text": self._texts.instructions}
        else:
            meta["instructions"] = self._texts.instructions[:3000]
        if forked_from is not None:
            meta["forked_from_id"] = forked_from
            self._put("session_meta", meta)
            return
        self._put("session_meta", meta)
        where = f"<environment_context>\n  <cwd>{self.job.folder}</cwd>\n</environment_context>"
        self._said("user", where)
        if self._is_new:
            skills = {"skills": self._texts.attachments[0]}
            self._put("world_state", {"full": True, "state": skills})
        else:
            self._put("event_msg", {"type": "token_count", "info": None, "rate_limits": None})

    def fork(self) -> _Session:
        """Return a fork: another session with the same beginning and one further turn."""
        cut, total = self._chance.choice(self.turn_ends[:-1])
        begun = self._now + 60_000
        job = Job(uuid7(self._chance, begun), begun, self.job.folder, self.job.era, self.job.size)
        fork = _Session(self._chance, self._texts, job)
        fork._model = self._model
        fork.begin(forked_from=self.job.id)
        stamp = f'"timestamp":"{moment(begun)}"'.encode()
        fork.lines += [_TIMESTAMP.sub(stamp, record, count=1) for record in self.lines[:cut]]
        fork._total = dict(total)
        fork._now += 5000
        fork.turn()
        return fork

    def turn(self) -> None:
        """Write a prompt and everything until the last answer to it."""
        chance, turn_id = self._chance, uuid7(self._chance, self._now)
        prompt = self._texts.prompt(chance, in_ideographs=self._in_ideographs)
        if self.job.needle and not self.turn_ends:
            prompt += f" {self.job.needle}"
        if self._is_new:
            self._event("task_started", turn_id=turn_id, model_context_window=258_400)
        context = {"turn_id": turn_id, "cwd": self.job.folder, "approval_policy": "on-request"}
        self._put("turn_context", {**context, "model": self._model, "summary": "auto"})
        self._said("user", prompt)
        if self._is_new:
            content, item_id = [{"type": "text", "text": prompt}], uuid7(chance, self._now)
            self._completed(turn_id, type="UserMessage", id=item_id, content=content)
        else:
            self._event("user_message", message=prompt, images=[])
        calls = min(60, 1 + int(chance.expovariate(1 / (25 if self.job.size > _LARGE else 9))))
        for number in range(1, calls + 1):
            is_last = number == calls or (number > 2 and self.size > self.job.size)
            self._call(turn_id, is_last=is_last)
            if is_last:
                break
        if self._is_new:
            self._event("task_complete", turn_id=turn_id, duration_ms=chance.randint(1000, 99_999))
        self._now += int(min(4 * 3_600_000, chance.lognormvariate(11.0, 1.3)))
        self.turn_ends.append((len(self.lines), dict(self._total)))

    def _call(self, turn_id: str, *, is_last: bool) -> None:
        chance = self._chance
        self._now += chance.randint(1500, 20_000)
        if chance.random() < 0.8:
            self._reasoning(turn_id)
        if is_last or chance.random() < 0.25:
            self._answer(turn_id, is_last=is_last)
        used = self._usage()
        if self._is_new:
            named = {"thread_id": self.job.id, "turn_id": turn_id, "session_id": self.job.id}
            response = {"response_id": token(chance, "resp_"), "usage": used}
            whole = {"turn_token_usage": used, "thread_token_usage": dict(self._total)}
            self._put("token_usage_record", {**named, **response, **whole})
        if not is_last:
            self._tool(turn_id)
        counts = {"total_token_usage": dict(self._total), "last_token_usage": used}
        for _ in range(2 if chance.random() < 0.08 else 1):
            self._event("token_count", info={**counts, "model_context_window": 258_400})

    def _usage(self) -> Json:
        """Add the tokens of one call to the sum; cached input is part of the input."""
        chance, cached = self._chance, self._context
        fresh = chance.randint(100, 3000)
        said = int(max(20, chance.lognormvariate(5.3, 1.0)))
        thought = said // chance.randint(2, 6)
        self.bill.add(input=fresh, output=said, cache_read=cached, reasoning=thought)
        counts = (cached + fresh, cached, said, thought, cached + fresh + said)
        used: Json = dict(zip(_COUNTS, counts, strict=True))
        for name, count in used.items():
            self._total[name] += count
        self._context = cached + fresh + 200 if cached < _FULL_CONTEXT else 9000
        return used

    def _reasoning(self, turn_id: str) -> None:
        chance, item_id = self._chance, token(self._chance, "rs_")
        text = f"**{self._texts.prose(chance, 40)[:40]}**\n\n{self._texts.prose(chance, 200)}"
        if self._is_new:
            self._completed(turn_id, type="Reasoning", id=item_id, summary_text=[text])
        else:
            self._event("agent_reasoning", text=text)
        secret = "gAAAAAB" + self._texts.noise(chance, chance.randint(600, 3000))
        summary = [{"type": "summary_text", "text": text}]
        self._item("reasoning", id=item_id, summary=summary, encrypted_content=secret)

    def _answer(self, turn_id: str, *, is_last: bool) -> None:
        text = self._texts.answer(self._chance, is_last=is_last)
        if self._is_new:
            content = [{"type": "Text", "text": text}]
            item_id = token(self._chance, "msg_")
            self._completed(turn_id, type="AgentMessage", id=item_id, content=content)
        else:
            self._event("agent_message", message=text)
        self._said("assistant", text)

    def _tool(self, turn_id: str) -> None:
        chance, call_id = self._chance, token(self._chance, "call_")
        done = self._texts.tool_text(chance, is_large=self.job.size > _LARGE)
        if done.tool == "edit":
            added = "\n".join(f"+{text}" for text in done.text.split("\n"))
            file = chance.choice(self._texts.paths)
            patch = f"*** Begin Patch\n*** Update File: {file}\n{added}\n*** End Patch"
            self._item("custom_tool_call", call_id=call_id, name="apply_patch", input=patch)
            self._now += 300
            self._item("custom_tool_call_output", call_id=call_id, output="Success.")
            return
        command = f"rg -n {chance.choice(self._texts.words)} | head -200"
        words = ["bash", "-lc", command]
        given = json.dumps({"cmd": command} if self._is_new else {"command": words})
        name = "exec_command" if self._is_new else "shell"
        self._item("function_call", name=name, arguments=given, call_id=call_id)
        self._now += chance.randint(50, 4000)
        if self._is_new:
            more = {"command": words, "aggregated_output": done.text, "exit_code": 0}
            self._completed(turn_id, type="CommandExecution", id=call_id, **more)
        output = f"Wall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n{done.text}"
        self._item("function_call_output", call_id=call_id, output=output)

    def _said(self, role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self._item("message", role=role, content=[{"type": kind, "text": text}])

    def _completed(self, turn_id: str, **item: object) -> None:
        self._event("item_completed", thread_id=self.job.id, turn_id=turn_id, item=item)

    def _item(self, item_type: str, **fields: object) -> None:
        self._put("response_item", {"type": item_type, **fields})

    def _event(self, event_type: str, **fields: object) -> None:
        self._put("event_msg", {"type": event_type, **fields})

    def _put(self, record_type: str, payload: Json) -> None:
        record: Json = {"timestamp": moment(self._now)}
        if self._is_new:
            record["ordinal"] = len(self.lines)
        record.update(type=record_type, payload=payload)
        self.lines.append(line(record))
        self.size += len(self.lines[-1]) + 1
