"""The demo home, compared with the ledger of its generator, which does not read the files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from amux.client import Client, create_client, create_demo_client
from amux.demo import DEMO_NOW, demo_home
from amux.model.options import SessionListOptions
from amux.model.session import Session, SessionSummary
from amux.model.usage import NANO, Tokens

ROOT = Path(__file__).resolve().parent.parent
GENERATOR = ROOT / "tools" / "make_demo.py"
LOCAL_MODEL = "qwen3-coder:30b"
EVERYTHING = SessionListOptions(limit=None, include_children=True, include_archived=True)


class Usage(msgspec.Struct, frozen=True):
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    thinking: int = 0

    def __add__(self, other: Usage) -> Usage:
        mine, yours = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Usage(*(one + two for one, two in zip(mine, yours, strict=True)))


class Account(msgspec.Struct, frozen=True):
    agent: str
    session_id: str
    kind: str
    cwd: str
    title: str
    parent: str | None
    archived: bool
    tags: tuple[str, ...]
    prompts: list[str]
    replies: list[str]
    commands: int
    failed_commands: int
    compactions: int
    calls: int
    incomplete: list[str]
    records_thinking: bool
    recorded_nano_usd: int | None
    tokens: dict[str, Usage]


Ledger = dict[str, Account]


def run_generator(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, str(GENERATOR), *words], cwd=ROOT, capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    printed = run_generator("--ledger")
    assert printed.returncode == 0, printed.stderr
    accounts = msgspec.json.decode(printed.stdout, type=list[Account])
    return {account.session_id: account for account in accounts}


@pytest.fixture(scope="module")
def client() -> Client:
    return create_client(home=demo_home(), now=DEMO_NOW)


@pytest.fixture(scope="module")
def summaries(client: Client) -> dict[str, SessionSummary]:
    return {one.session_id: one for one in client.list_report(None, EVERYTHING).sessions}


@pytest.fixture(scope="module")
def sessions(client: Client, ledger: Ledger) -> dict[str, Session]:
    return {
        account.session_id: client.sessions.get(account.agent, account.session_id)
        for account in ledger.values()
    }


def usage_of(tokens: Tokens) -> Usage:
    return Usage(
        tokens.input, tokens.cache_read, tokens.cache_write, tokens.output, tokens.thinking or 0
    )


def recorded(account: Account) -> dict[str, Usage]:
    if account.records_thinking:
        return account.tokens
    return {
        model: msgspec.structs.replace(usage, thinking=0) for model, usage in account.tokens.items()
    }


def files() -> dict[str, bytes]:
    home = demo_home()
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


def test_the_generator_writes_the_files_byte_for_byte() -> None:
    checked = run_generator("--check")
    assert (checked.returncode, checked.stderr) == (0, b"")


def test_the_demo_home_is_read_without_a_problem(
    client: Client, sessions: dict[str, Session]
) -> None:
    report = client.list_report(None, EVERYTHING)
    assert report.problems == ()
    assert client.run_index.problems == ()
    assert [session.problems for session in sessions.values() if session.problems] == []


def test_exactly_the_recorded_sessions_of_the_demo_are_found(
    ledger: Ledger, summaries: dict[str, SessionSummary]
) -> None:
    assert summaries.keys() == ledger.keys()
    for key, account in ledger.items():
        found = summaries[key]
        title = " ".join(account.title.split())
        assert (found.agent, found.kind, found.title, found.cwd, found.parent) == (
            account.agent, account.kind, title if len(title) <= 100 else f"{title[:99]}…",
            account.cwd, account.parent,
        )  # fmt: skip
        assert (found.archived, found.tags) == (account.archived, account.tags)


def test_sub_agents_and_archived_sessions_are_listed_only_on_demand(
    client: Client, ledger: Ledger
) -> None:
    listed = {one.session_id for one in client.list_report(None, SessionListOptions()).sessions}
    assert listed == {
        key for key, one in ledger.items() if one.kind != "subagent" and not one.archived
    }


def test_every_prompt_and_every_answer_is_read_as_it_was_written(
    ledger: Ledger, sessions: dict[str, Session]
) -> None:
    for key, account in ledger.items():
        messages = [message for message in sessions[key].messages if not message.synthetic]
        prompts = [message.content for message in messages if message.role == "user"]
        said = "".join(message.content for message in messages if message.role == "assistant")
        assert prompts == account.prompts
        assert said == "".join(account.replies), key
        assert sessions[key].turn_count == len(account.prompts)


def test_every_tool_command_of_the_demo_has_its_result(
    ledger: Ledger, sessions: dict[str, Session]
) -> None:
    for key, account in ledger.items():
        commands = [
            call
            for message in sessions[key].messages
            for call in message.tool_calls
            if call.tool_name in {"Bash", "exec_command"}
        ]
        failed = sum(1 for call in commands if call.is_error)
        assert (len(commands), failed) == (account.commands, account.failed_commands), key
        assert all(call.output is not None for call in commands)


def test_the_calls_of_a_session_are_those_that_were_billed(
    ledger: Ledger, sessions: dict[str, Session]
) -> None:
    for key, account in ledger.items():
        by_model: defaultdict[str, Usage] = defaultdict(Usage)
        for call in sessions[key].calls:
            by_model[call.model or ""] += usage_of(call.tokens)
        assert dict(by_model) == recorded(account), key
        assert len(sessions[key].calls) == account.calls


def test_the_totals_of_the_home_are_the_sum_of_all_accounts(client: Client, ledger: Ledger) -> None:
    billed = sum((usage for one in ledger.values() for usage in recorded(one).values()), Usage())
    total = client.sessions.total_cost()
    assert (billed.input, billed.cache_read, billed.cache_write, billed.output) == (
        total.input_tokens, total.cached_tokens, total.cache_write_tokens, total.output_tokens,
    )  # fmt: skip
    assert total.thinking_tokens == billed.thinking
    assert total.session_count == sum(1 for one in ledger.values() if one.kind != "subagent")


def test_a_session_costs_what_claude_code_says_it_does(
    ledger: Ledger, summaries: dict[str, SessionSummary]
) -> None:
    with_total = [one for one in ledger.values() if one.recorded_nano_usd is not None]
    assert with_total
    for account in with_total:
        cost = summaries[account.session_id].cost
        assert cost is not None
        assert (cost.source, round(cost.total_usd * NANO)) == ("native", account.recorded_nano_usd)


def test_the_demo_marks_missing_usage_as_incomplete(
    ledger: Ledger, summaries: dict[str, SessionSummary]
) -> None:
    for key, account in ledger.items():
        cost = summaries[key].cost
        assert cost is not None
        unpriced = ["unpriced-model"] if LOCAL_MODEL in account.tokens else []
        assert [*cost.incomplete] == account.incomplete + unpriced


def test_only_the_local_model_has_no_price(client: Client) -> None:
    total = client.sessions.total_cost()
    assert [one.model for one in total.unpriced] == [LOCAL_MODEL]
    assert total.total_usd > 1


def test_cached_tokens_dominate_as_they_do_in_real_sessions(client: Client) -> None:
    total = client.sessions.total_cost()
    assert total.cached_tokens > 5 * (total.input_tokens + total.cache_write_tokens)


def test_the_demo_contains_every_kind_of_session(
    ledger: Ledger, sessions: dict[str, Session]
) -> None:
    accounts = [*ledger.values()]
    children = {one.session_id for session in sessions.values() for one in session.children}
    assert {one.agent for one in accounts} == {"claude", "codex"}
    assert len({one.cwd for one in accounts}) == 3
    for kind in ("fork", "subagent"):
        assert {one.agent for one in accounts if one.kind == kind} == {"claude", "codex"}
    assert children == {one.session_id for one in accounts if one.kind == "subagent"}
    assert sum(one.compactions for one in accounts) == 1
    assert sum(1 for one in accounts if one.tags) == 2
    assert sum(1 for one in accounts if one.archived) == 1
    assert "call-interrupted" in [reason for one in accounts for reason in one.incomplete]
    assert any(message.thinking for one in sessions.values() for message in one.messages)
    assert any("🗾" in one.title for one in accounts)


def test_the_sessions_span_three_weeks_and_end_on_the_day_of_the_demo(
    summaries: dict[str, SessionSummary],
) -> None:
    first = min(one.created_at for one in summaries.values())
    last = max(one.updated_at for one in summaries.values())
    assert timedelta(0) < DEMO_NOW - last < timedelta(hours=24)
    assert timedelta(weeks=2) < DEMO_NOW - first < timedelta(weeks=4)


def test_reading_leaves_the_demo_home_as_it_is(ledger: Ledger) -> None:
    before = {name: sha256(content).digest() for name, content in files().items()}
    fresh = create_demo_client()
    fresh.overview()
    fresh.sessions.search("tests")
    for account in ledger.values():
        fresh.sessions.export(account.agent, account.session_id, "markdown")
    assert {name: sha256(content).digest() for name, content in files().items()} == before


def test_the_demo_home_is_small_and_contains_no_personal_names() -> None:
    content = files()
    assert sum(len(data) for data in content.values()) < 300_000
    for name, data in content.items():
        assert not re.search(rb"[\w.]+@[\w-]+\.[a-z]{2,}", data), name
        homes = set(re.findall(rb"/(?:home|Users|root)/?(\w*)", data))
        assert homes <= {b"demo"}, name
