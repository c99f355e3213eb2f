"""Facts that hold after every resume, whatever kind of session it is, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from clocks import Clock
from fixture_sessions import BUILDERS, Facts

import amux
from amux import LiveSession, RestoreReport, SessionFramework, SessionStore, is_valid_session_id
from amux.rollout.records import Record
from amux.rollout.threads import ThreadSummary

SEVEN = ("cost", "attribution", "file_history", "todos", "model", "worktree", "system_prompt")
ROLES = {"user", "assistant", "system", "tool"}


class Case:
    """A session before, during and after a resume."""

    def __init__(self, sm: SessionFramework, facts: Facts, folder: Path) -> None:
        self.sm, self.facts = sm, facts
        view = sm.store.open(facts.thread_id)
        self.other = sm.start_session(cwd="", title="Another thread")
        self.other_head = self.other.summary.head
        self.records = _texts(view.items(raw=True))
        self.meta = view.meta
        self.before: ThreadSummary = view.summary
        self.files = _files(folder)
        self.examined = sm.restore.examine(self._fresh())
        self.events: list[str] = []
        sm.lifecycle.register(lambda event: self.events.append(event.source))
        self.session: LiveSession = sm.resume(facts.thread_id)
        assert self.session.report is not None
        self.report: RestoreReport = self.session.report
        self.state = msgspec.to_builtins(self.session.state)
        self.after = self.session.summary
        self.records_after = _texts(view.items(raw=True))
        self.conversation = self.session.conversation()
        self.cost = self.session.cost
        self.files_after = _files(folder)
        self.again: LiveSession = sm.resume(facts.thread_id)
        self._continue()

    def _fresh(self) -> LiveSession:
        return LiveSession(self.sm.store.log, self.facts.thread_id, "")

    def _continue(self) -> None:
        """Run a turn, save the state and resume once more."""
        session = self.again
        turn = session.begin_turn()
        self.owner_holds_the_turn = turn.is_running
        self.taken = [each.message["content"] for each in turn.pending]
        turn.message("user", "one more")
        turn.message("assistant", "done", usage={"input_tokens": 1}, cost_usd=0.125)
        turn.end()
        self.environment = session.environment
        self.continued_cost = session.cost
        session.state.todos.append({"text": "new"})
        self.sm.checkpoint(session)
        head = session.summary.head
        self.sm.checkpoint(session)
        self.repeated_checkpoint_is_free = session.summary.head == head
        self.third: LiveSession = self.sm.resume(self.facts.thread_id)
        self.sm.end(self.third)
        self.ended = self.third.summary

    def expected_of(self, premise: str) -> Any:
        return next((e.expected for e in self.report.premises if e.name == premise), None)

    def status(self, name: str) -> str:
        return self.report.subsystem(name).status


def _texts(records: Any) -> list[tuple[int, str, str]]:
    found: list[Record] = list(records)
    return [(each.seq, each.id, each.text) for each in found]


def _files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


Invariant = Callable[[Case], bool]

IDENTITY: dict[str, Invariant] = {
    "the thread keeps its id": lambda c: c.session.thread_id == c.facts.thread_id,
    "the report names the thread": lambda c: c.report.thread_id == c.facts.thread_id,
    "the run has a valid id": lambda c: is_valid_session_id(c.session.run_session_id),
    "the run is not the thread": lambda c: c.session.run_session_id != c.session.thread_id,
    "the run is not the first one": lambda c: c.session.run_session_id != c.meta.session_id,
    "every resume is another run": lambda c: (
        len({c.session.run_session_id, c.again.run_session_id, c.third.run_session_id}) == 3
    ),
    "the thread knows its new run": lambda c: c.session.run_session_id in c.records_after[-1][2],
    "the meta data stay": lambda c: c.session.meta == c.meta,
    "the time of the start stays": lambda c: c.after.created_at == c.before.created_at,
    "the title stays": lambda c: c.after.title == c.facts.title,
    "the tags stay": lambda c: c.after.tags == c.facts.tags,
    "the source stays": lambda c: c.after.source == c.facts.source,
    "the key stays": lambda c: c.after.key == c.facts.key,
    "the origin of a fork stays": lambda c: c.after.forked_from == c.facts.forked_from,
    "the archive stays": lambda c: c.after.archived is c.facts.archived,
    "the session is open": lambda c: c.after.ended_at is None and c.after.end_reason is None,
    "the label is not empty": lambda c: bool(c.after.label),
    "the run does not appear in a list": lambda c: (
        c.session.run_session_id not in msgspec.json.encode(c.after).decode()
    ),
    "a prefix finds the thread": lambda c: (
        c.sm.store.resolve(c.facts.thread_id[:13]) == c.facts.thread_id
    ),
    "the unified id finds the thread": lambda c: (
        c.sm.store.resolve(f"amux:{c.facts.thread_id}") == c.facts.thread_id
    ),
}

RECORDS: dict[str, Invariant] = {
    "earlier records are untouched": lambda c: c.records_after[: len(c.records)] == c.records,
    "a resume appends one record": lambda c: len(c.records_after) == len(c.records) + 1,
    "the head counts that record": lambda c: c.after.head == c.before.head + 1,
    "numbers increase": lambda c: (
        [each[0] for each in c.records_after] == sorted({each[0] for each in c.records_after})
    ),
    "ids are unique": lambda c: len({each[1] for each in c.records_after}) == len(c.records_after),
    "messages are counted alike": lambda c: c.after.message_count == c.before.message_count,
    "turns are counted alike": lambda c: c.after.turn_count == c.before.turn_count,
    "the last message keeps its time": lambda c: (
        c.after.last_message_at == c.before.last_message_at
    ),
    "the preview stays": lambda c: c.after.preview == c.before.preview,
    "the store finds nothing wrong": lambda c: c.sm.store.doctor(c.facts.thread_id).is_healthy,
    "another thread is untouched": lambda c: c.other.summary.head == c.other_head,
    "no file of the project changes": lambda c: c.files_after == c.files,
}

MESSAGES: dict[str, Invariant] = {
    "the texts come back in order": lambda c: (
        [each["content"] for each in c.conversation] == c.facts.texts
    ),
    "a second resume has the same conversation": lambda c: (
        c.again.conversation()[: len(c.conversation)] == c.conversation
    ),
    "every message has a role": lambda c: all(each["role"] in ROLES for each in c.conversation),
    "no record type leaks": lambda c: all("type" not in each for each in c.conversation),
    "no meta data leak": lambda c: all("thread_id" not in each for each in c.conversation),
    "no snapshot leaks": lambda c: "amux.snapshot" not in str(c.conversation),
    "hidden messages are not replayed": lambda c: (
        not set(c.facts.hidden) & {each["content"] for each in c.conversation}
    ),
    "hidden messages stay in the thread": lambda c: all(
        any(text in each[2] for each in c.records_after) for text in c.facts.hidden
    ),
    "hidden messages are found by a search": lambda c: all(
        c.facts.thread_id in {hit.thread_id for hit in c.sm.store.search(f'"{text}"')}
        for text in c.facts.hidden
    ),
    "a summary stands for its originals once": lambda c: (
        sum("<summary>" in str(each["content"]) for each in c.conversation)
        == sum("<summary>" in text for text in c.facts.texts)
    ),
    "a result has its call": lambda c: (
        {each["tool_call_id"] for each in c.conversation if "tool_call_id" in each}
        <= {call["id"] for each in c.conversation for call in each.get("tool_calls", ())}
    ),
    "the report counts the messages": lambda c: c.report.messages == len(c.facts.texts),
    "the report counts what was skipped": lambda c: c.report.skipped_messages == c.facts.skipped,
    "waiting input is handed to the next turn": lambda c: c.taken == c.facts.pending,
    "waiting input is handed over once": lambda c: c.third.pending() == [],
    "the next message follows the last": lambda c: (
        [each["content"] for each in c.third.conversation()] == [*c.facts.texts, "one more", "done"]
    ),
}


def comes_back(name: str) -> Invariant:
    return lambda c: c.state[name] == getattr(c.facts, name)


def is_reported(name: str) -> Invariant:
    return lambda c: c.expected_of(name) == getattr(c.facts, name)


def comes_back_again(name: str) -> Invariant:
    return lambda c: getattr(c.third.state, name) == getattr(c.facts, name)


def is_restored(name: str) -> Invariant:
    return lambda c: c.status(name) == ("restored" if c.facts.snapshots else "absent")


RECORDED = (
    *("cwd", "model", "approval_mode", "sandbox_policy", "git_sha", "git_branch"),
    *("agent_role", "send_policy"),
)
PREMISES: dict[str, Invariant] = {
    **{f"{name} comes back": comes_back(name) for name in RECORDED},
    **{f"{name} is reported as recorded": is_reported(name) for name in RECORDED},
    **{f"{name} comes back the next time": comes_back_again(name) for name in RECORDED},
    "the state of plugins comes back": lambda c: c.state["plugins"] == c.facts.plugins,
    "the version is the recorded one": lambda c: (
        c.state["cli_version"] == (c.expected_of("cli_version") or c.meta.cli_version)
    ),
    "the version is known": lambda c: bool(c.state["cli_version"]),
    "no premise differs": lambda c: all(each.is_equal for each in c.report.premises),
    "premises are reported once": lambda c: (
        len({each.name for each in c.report.premises}) == len(c.report.premises)
    ),
}

SUBSYSTEMS: dict[str, Invariant] = {
    **{f"the state of {name} is restored if there is one": is_restored(name) for name in SEVEN},
    "subsystems are reported in their order": lambda c: (
        tuple(each.name for each in c.report.subsystems) == SEVEN
    ),
    "no subsystem fails": lambda c: c.report.failed == (),
    "no recorded value differs": lambda c: c.report.differences == (),
    "to-do lists come back": lambda c: c.state["todos"] == c.facts.todos,
    "file histories come back": lambda c: c.state["file_history"] == c.facts.file_history,
    "attributions come back": lambda c: c.state["attribution"] == c.facts.attribution,
    "worktrees come back": lambda c: c.state["worktree"] == c.facts.worktree,
    "levels come back": lambda c: c.state["level"] == c.facts.level,
    "budgets come back": lambda c: c.state["budget_usd"] == c.facts.budget_usd,
    "every prompt section comes back": lambda c: (
        [(each["origin"], each["text"]) for each in c.state["prompt_sections"]] == c.facts.sections
    ),
    "the chosen model comes back": lambda c: c.session.state.effective_model == c.facts.next_model,
    "the version of the snapshot is reported": lambda c: (
        c.report.schema_version == c.facts.schema_version
    ),
    "later changes are kept": lambda c: c.third.state.todos == [*c.facts.todos, {"text": "new"}],
    "the next snapshot has the newest version": lambda c: (
        c.third.report is not None and c.third.report.schema_version == 1
    ),
}

COSTS: dict[str, Invariant] = {
    "the bill comes back": lambda c: c.cost.billing.cost_usd == c.facts.billing_usd,
    "the cost of the context comes back": lambda c: c.cost.context.cost_usd == c.facts.context_usd,
    "the cost of summaries comes back": lambda c: (
        c.cost.compaction.cost_usd == c.facts.compaction_usd
    ),
    "calls are counted": lambda c: c.cost.billing.calls == c.facts.calls,
    "input is counted": lambda c: c.cost.billing.tokens.input == c.facts.input_tokens,
    "output is counted": lambda c: c.cost.billing.tokens.output == c.facts.output_tokens,
    "the list has the same cost": lambda c: (
        c.after.cost_nusd == round(c.facts.billing_usd * 1_000_000_000)
    ),
    "summaries are part of the bill": lambda c: (
        c.cost.billing.cost_nusd >= c.cost.compaction.cost_nusd
    ),
    "the bill goes on": lambda c: c.continued_cost.billing.cost_usd == c.facts.billing_usd + 0.125,
    "the context goes on": lambda c: (
        c.continued_cost.context.cost_usd == c.facts.context_usd + 0.125
    ),
    "summaries are not billed again": lambda c: c.continued_cost.compaction == c.cost.compaction,
    "another reader counts alike": lambda c: (
        c.sm.store.open(c.facts.thread_id).cost == c.third.cost
    ),
}

COURSE: dict[str, Invariant] = {
    "the resume hooks run once per resume": lambda c: c.events == ["resume"] * 3,
    "the outcome has the report": lambda c: (
        c.session.outcome is not None and c.session.outcome.restored is c.report
    ),
    "nothing is left to decide": lambda c: c.report.undecided == (),
    "nobody is warned": lambda c: c.report.warnings == (),
    "the restore is complete unless something was skipped": lambda c: (
        c.report.is_complete is (c.facts.skipped == 0)
    ),
    "an examination reports the same": lambda c: (
        c.examined.premises == c.report.premises and c.examined.subsystems == c.report.subsystems
    ),
    "a second resume brings back the same state": lambda c: (
        msgspec.json.decode(msgspec.json.encode(c.again.report))["subsystems"]
        == msgspec.json.decode(msgspec.json.encode(c.report))["subsystems"]
    ),
    "a report is JSON": lambda c: bool(msgspec.json.encode(c.report)),
    "sessions share no state": lambda c: c.session.state.todos is not c.again.state.todos,
    "the turn of a resumed session runs": lambda c: c.owner_holds_the_turn,
    "a turn has the model of the session": lambda c: c.environment.model == c.facts.next_model,
    "a turn has the directory of the session": lambda c: (
        (c.environment.cwd or None) == (c.facts.cwd or None)
    ),
    "a turn has the permissions of the session": lambda c: (
        c.environment.approval_mode == c.facts.approval_mode
    ),
    "a turn has the level of the session": lambda c: c.environment.effort == c.facts.level,
    "a checkpoint without a change stores nothing": lambda c: c.repeated_checkpoint_is_free,
    "an end is recorded": lambda c: c.ended.end_reason == "user_exit",
    "resumes are counted": lambda c: c.sm.store.stats().resumes.attempts == 3,
}

INVARIANTS = {**IDENTITY, **RECORDS, **MESSAGES, **PREMISES, **SUBSYSTEMS, **COSTS, **COURSE}


def test_there_are_about_a_hundred_invariants() -> None:
    parts = (IDENTITY, RECORDS, MESSAGES, PREMISES, SUBSYSTEMS, COSTS, COURSE)
    assert sum(map(len, parts)) == len(INVARIANTS) >= 100


@pytest.mark.parametrize("name", BUILDERS)
def test_every_invariant_holds_after_a_resume(
    store: SessionStore, clock: Clock, tmp_path: Path, name: str
) -> None:
    sm = amux.framework(store, now=clock)
    folder = tmp_path / "project"
    folder.mkdir()
    case = Case(sm, BUILDERS[name](sm, folder), folder)
    broken = [text for text, holds in INVARIANTS.items() if not holds(case)]
    assert broken == []
