"""Writes sessions in the formats of three eras of Claude Code.

    old  1.0  a summary line in front; sub-agents inside the file; one usage on every line
    mid  2.0  one line per block of an answer, and only the last of them has the final number of
              output tokens; sub-agents in files beside the session
    new  2.1  attachments, requests and queues beside the messages; sub-agents in a folder of their
              session

A fork repeats the first turns of its session including their ids, and continues from there.
"""

from __future__ import annotations

import random
from typing import Final

from corpus_session import Bill, Job, Json, Written, line, moment, token, uuid4
from corpus_texts import Texts, ToolText

_MODELS: Final = (
    "claude-opus-4-5-20251101",
    "claude-sonnet-4-5-20250929",
    "claude-haiku-4-5-20251001",
)
_VERSIONS: Final = {"old": "1.0.83", "mid": "2.0.77", "new": "2.1.325"}
_LARGE: Final = 3_000_000
_FULL_CONTEXT: Final = 165_000
_MOST_CHILDREN: Final = 6


def write_claude(chance: random.Random, texts: Texts, job: Job) -> Written:
    """Return a session with its sub-agents, and for a few sessions a fork."""
    session = _Session(chance, texts, job)
    session.run()
    folder = ".claude/projects/" + "".join(c if c.isalnum() else "-" for c in job.folder)
    files = {f"{folder}/{job.id}.jsonl": session.lines}
    bill, sessions = session.bill, 1
    for child in session.children:
        place = folder if job.era == "mid" else f"{folder}/{job.id}/subagents"
        files[f"{place}/agent-{child.agent_id}.jsonl"] = child.lines
        bill.include(child.bill)
    if job.is_forked and len(session.turn_ends) > 1:
        fork = session.fork()
        files[f"{folder}/{fork.job.id}.jsonl"] = fork.lines
        bill.include(fork.bill)
        sessions += 1
    return Written(files, bill, sessions)


class _Session:
    """Writes one file; a sub-agent's when it has an agent id."""

    def __init__(
        self, chance: random.Random, texts: Texts, job: Job, *, agent_id: str | None = None
    ) -> None:
        self.job, self.agent_id = job, agent_id
        self.bill, self.lines = Bill(), list[bytes]()
        self.children: list[_Session] = []
        self.turn_ends: list[tuple[int, str | None]] = []
        self._chance, self._texts = chance, texts
        self._model = chance.choices(_MODELS, (5, 4, 1))[0]
        self._branch = chance.choice(("main", "main", f"feat/{chance.choice(texts.paths)}"))
        self._in_ideographs = chance.random() < 0.06
        self._now, self._size = job.begun, 0
        self._parent: str | None = None
        self._context = chance.randint(12_000, 22_000)
        self._is_sidechain = agent_id is not None

    def run(self) -> None:
        """Write turns until the file is large enough."""
        if self.job.era == "old" and self._chance.random() < 0.6:
            summary = self._texts.prose(self._chance, 40).strip()[:60]
            self._put({"type": "summary", "summary": summary, "leafUuid": uuid4(self._chance)})
        while not self.turn_ends or self._size < self.job.size:
            self._turn()

    def fork(self) -> _Session:
        """Return a fork: another session with the same beginning and one further turn."""
        cut, parent = self._chance.choice(self.turn_ends[:-1])
        job = Job(
            uuid4(self._chance), self._now + 60_000, self.job.folder, self.job.era, self.job.size
        )
        fork = _Session(self._chance, self._texts, job)
        old, new = self.job.id.encode(), job.id.encode()
        fork.lines = [record.replace(old, new) for record in self.lines[:cut]]
        fork.turn_ends, fork._parent = self.turn_ends[:1], parent
        fork._turn()
        return fork

    def _turn(self) -> None:
        chance, is_first = self._chance, not self.turn_ends
        prompt = self._texts.prompt(chance, in_ideographs=self._in_ideographs)
        if self.job.needle and is_first:
            prompt += f" {self.job.needle}"
        self._before_prompt(prompt, is_first=is_first)
        self._message("user", {"role": "user", "content": prompt})
        if self.job.era == "new" and is_first:
            self._attachments()
        calls = min(60, 1 + int(chance.expovariate(1 / (25 if self.job.size > _LARGE else 9))))
        for number in range(1, calls + 1):
            is_last = number == calls or (number > 2 and self._size > self.job.size)
            self._call(is_last=is_last)
            if is_last:
                break
        if self.job.era == "mid" and not self._is_sidechain:
            more = {"subtype": "turn_duration", "durationMs": chance.randint(1000, 900_000)}
            self._record("system", more)
        self._now += int(min(4 * 3_600_000, chance.lognormvariate(11.0, 1.3)))
        self.turn_ends.append((len(self.lines), self._parent))

    def _before_prompt(self, prompt: str, *, is_first: bool) -> None:
        if self._is_sidechain:
            return
        if self.job.era == "new":
            queued = {"type": "queue-operation", "sessionId": self.job.id}
            at = moment(self._now)
            self._put({**queued, "operation": "enqueue", "timestamp": at, "content": prompt})
            self._put({**queued, "operation": "dequeue", "timestamp": at})
        elif not is_first:
            snapshot: Json = {"trackedFileBackups": {}, "timestamp": moment(self._now)}
            more: Json = {"messageId": uuid4(self._chance), "snapshot": snapshot}
            self._put({"type": "file-history-snapshot", **more, "isSnapshotUpdate": False})

    def _attachments(self) -> None:
        skills, prompt = self._texts.attachments
        for kind, content in (("skill_listing", skills), ("prompt_snapshot", prompt)):
            self._record("attachment", {"attachment": {"type": kind, "content": content}})
        shape = {"system": [{"type": "text", "text": self._texts.request}]}
        named = {"sessionId": self.job.id, "shapeHash": f"{self._chance.getrandbits(256):064x}"}
        at = {"timestamp": moment(self._now), "version": _VERSIONS[self.job.era]}
        self._put({"type": "api-request-shape", **named, **at, "shape": shape})

    def _call(self, *, is_last: bool) -> None:
        """Write an answer, one line per block, and the results of its tools."""
        chance = self._chance
        self._now += chance.randint(1500, 30_000)
        usage = self._usage()
        blocks, results = self._blocks(is_last=is_last)
        message_id, request = token(chance, "msg_01"), token(chance, "req_011C")
        for number, block in enumerate(blocks, 1):
            self._now += chance.randint(30, 900)
            is_final = number == len(blocks)
            shown = usage
            if self.job.era == "mid" and not is_final:
                shown = {**usage, "output_tokens": chance.randint(1, 8)}
            reason = "end_turn" if is_last else "tool_use"
            message = {
                "model": self._model,
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": reason if is_final and self.job.era != "old" else None,
                "stop_sequence": None,
                "usage": shown,
            }
            self._message("assistant", message, requestId=request)
        for result, more in results:
            self._now += chance.randint(50, 4000)
            handed_over = {"message": {"role": "user", "content": [result]}}
            self._record("user", handed_over, behind={"toolUseResult": more})

    def _usage(self) -> Json:
        chance = self._chance
        fresh, added = chance.randint(2, 12), chance.randint(200, 6000)
        said = int(min(12_000, max(20, chance.lognormvariate(5.3, 1.1))))
        self.bill.add(input=fresh, output=said, cache_read=self._context, cache_write=added)
        is_new = self.job.era == "new"
        usage: Json = {
            "input_tokens": fresh,
            "cache_creation_input_tokens": added,
            "cache_read_input_tokens": self._context,
            "cache_creation": {
                "ephemeral_5m_input_tokens": 0 if is_new else added,
                "ephemeral_1h_input_tokens": added if is_new else 0,
            },
            "output_tokens": said,
            "service_tier": "standard",
        }
        self._context += added
        if self._context > _FULL_CONTEXT:
            self._context = chance.randint(15_000, 30_000)
        return usage

    def _blocks(self, *, is_last: bool) -> tuple[list[Json], list[tuple[Json, Json | str]]]:
        chance, texts = self._chance, self._texts
        blocks: list[Json] = []
        results: list[tuple[Json, Json | str]] = []
        if chance.random() < 0.45:
            thought = texts.prose(chance, int(chance.lognormvariate(6, 0.9)))
            signature = texts.noise(chance, chance.randint(200, 1400))
            blocks.append({"type": "thinking", "thinking": thought, "signature": signature})
        if is_last or chance.random() < 0.4:
            text = texts.answer(chance, is_last=is_last)
            if self._in_ideographs and chance.random() < 0.3:
                text += texts.ideographs(chance)
            blocks.append({"type": "text", "text": text})
        if not is_last:
            for _ in range(1 if chance.random() < 0.8 else 2):
                use, result, more = self._child() if self._has_child() else self._tool()
                blocks.append(use)
                results.append((result, more))
        return blocks, results

    def _tool(self) -> tuple[Json, Json, Json | str]:
        chance, use_id = self._chance, token(self._chance, "toolu_01")
        done = self._texts.tool_text(chance, is_large=self.job.size > _LARGE)
        name, given, content, more = self._tool_fields(done)
        if chance.random() < 0.004:
            data = self._texts.noise(chance, chance.randint(40_000, 400_000))
            source = {"type": "base64", "media_type": "image/png", "data": data}
            content, more = [{"type": "image", "source": source}], {"stdout": "", "isImage": True}
        failed = chance.random() < 0.05
        if failed and isinstance(content, str):
            more = f"Error: {content}"
        use = {"type": "tool_use", "id": use_id, "name": name, "input": given}
        result = {"tool_use_id": use_id, "type": "tool_result", "content": content}
        return use, {**result, "is_error": failed}, more

    def _tool_fields(self, done: ToolText) -> tuple[str, Json, str | list[Json], Json | str]:
        """The name of a tool, its input, its result, and the same again for the agent's own use."""
        chance, texts = self._chance, self._texts
        path = f"{self.job.folder}/{chance.choice(texts.paths)}"
        if done.tool == "read":
            file = {"filePath": path, "content": done.text, "startLine": 1}
            return "Read", {"file_path": path}, done.text, {"type": "text", "file": file}
        if done.tool == "shell":
            command = f"cd {self.job.folder} && rg -n {chance.choice(texts.words)} | head -200"
            more: Json = {"stdout": done.text, "stderr": "", "interrupted": False, "isImage": False}
            return "Bash", {"command": command}, done.text, more
        before, whole = texts.code(chance, 6), texts.code(chance, chance.randint(40, 600))
        strings = {"oldString": before, "newString": done.text, "originalFile": whole}
        given = {"file_path": path, "old_string": before, "new_string": done.text}
        return "Edit", given, f"The file {path} has been updated.", {"filePath": path, **strings}

    def _has_child(self) -> bool:
        return (
            not self._is_sidechain
            and len(self.children) < _MOST_CHILDREN
            and self._chance.random() < 0.015
        )

    def _child(self) -> tuple[Json, Json, Json | str]:
        """Write the call of a sub-agent, and its whole session."""
        chance, use_id = self._chance, token(self._chance, "toolu_01")
        prompt, answer = self._texts.prose(chance, 240), self._texts.prose(chance, 300)
        agent_id = f"a{chance.getrandbits(24):06x}"
        if self.job.era == "old":
            self._inside()
        else:
            size = int(min(self.job.size * 0.15, chance.lognormvariate(10.5, 0.8)))
            job = Job(self.job.id, self._now, self.job.folder, self.job.era, size)
            child = _Session(chance, self._texts, job, agent_id=agent_id)
            child.run()
            self.children.append(child)
        given = {"description": prompt[:30], "prompt": prompt, "subagent_type": "general-purpose"}
        use = {"type": "tool_use", "id": use_id, "name": "Task", "input": given}
        said = [{"type": "text", "text": answer}]
        result = {"tool_use_id": use_id, "type": "tool_result", "content": said}
        return use, result, {"status": "completed", "agentId": agent_id, "content": said}

    def _inside(self) -> None:
        """Write a sub-agent of the old era: a side chain among the lines of its session."""
        before, self._parent, self._is_sidechain = self._parent, None, True
        task = self._texts.prose(self._chance, 200)
        self._message("user", {"role": "user", "content": task})
        for number in range(self._chance.randint(1, 4)):
            self._call(is_last=number == 3)
        self._call(is_last=True)
        self._parent, self._is_sidechain = before, False

    def _message(self, kind: str, message: Json, **more: object) -> None:
        self._record(kind, {"message": message, **more})

    def _record(self, kind: str, more: Json, *, behind: Json | None = None) -> None:
        """Append one line with its fields in the order of the version."""
        begin: Json = {"parentUuid": self._parent, "isSidechain": self._is_sidechain}
        envelope: Json = {
            "userType": "external",
            "cwd": self.job.folder,
            "sessionId": self.job.id,
            "version": _VERSIONS[self.job.era],
            "gitBranch": self._branch,
        }
        if self.agent_id is not None:
            envelope["agentId"] = self.agent_id
        names_type_last = kind in {"assistant", "attachment"}
        body: Json = {**more, "type": kind} if names_type_last else {"type": kind, **more}
        self._parent = uuid4(self._chance)
        end: Json = {"uuid": self._parent, "timestamp": moment(self._now), **(behind or {})}
        if self.job.era == "new":
            self._put({**begin, **body, **end, **envelope})
        else:
            self._put({**begin, **envelope, **body, **end})

    def _put(self, record: Json) -> None:
        self.lines.append(line(record))
        self._size += len(self.lines[-1]) + 1
