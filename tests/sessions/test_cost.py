"""`total_cost`: sums, groups and sources, against sums done by hand.

One input token of the small model is 1000 nano-USD, one output token 10000; of the large five times
as much (builders.PRICES).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from zoneinfo import ZoneInfo

import msgspec
import pytest
from builders import (
    CAPTURES,
    LARGE,
    SMALL,
    START,
    UNKNOWN,
    ClaudeSession,
    SharedHome,
    open_client,
    uuid_of,
    write_claude,
    write_codex,
    write_runs,
)

from amux.errors import ValidationError
from amux.model.cost import CostSummary
from amux.model.options import CostAggregationOptions, GroupBy, SessionListOptions
from amux.model.usage import NANO, Tokens
from amux.testing import Capture, token_counts

ZERO = CostSummary(
    total_usd=0,
    input_tokens=0,
    output_tokens=0,
    thinking_tokens=0,
    cached_tokens=0,
    session_count=0,
    run_count=0,
)


def nano(usd: float) -> int:
    return round(usd * NANO)


# Completeness


def test_every_session_is_summed_however_many_there_are(home: Path) -> None:
    for number in range(500):
        write_claude(home, number, tokens=Tokens(input=number))
    total = open_client(home).sessions.total_cost()
    assert total.session_count == 500
    assert total.input_tokens == 499 * 500 // 2
    assert nano(total.total_usd) == 1000 * 499 * 500 // 2


@pytest.mark.parametrize("agent", [None, "claude", "nope"])
def test_nothing_found_is_zero_and_no_error(agent: str | None, home: Path) -> None:
    assert open_client(home).sessions.total_cost(agent=agent) == ZERO
    grouped = open_client(home).sessions.total_cost(agent=agent, group_by="day")
    assert grouped.breakdowns == {}


def test_an_unknown_model_is_counted_and_named_but_never_free(home: Path) -> None:
    write_claude(home, 1, model=UNKNOWN, tokens=Tokens(input=100, output=10))
    write_claude(home, 2, tokens=Tokens(input=1000))
    sessions = open_client(home).sessions
    (alone,) = [s for s in sessions.list("claude") if s.model == UNKNOWN]
    written = msgspec.json.decode(alone.to_json())["cost"]
    assert (written["totalUsd"], written["incomplete"]) == (0, ["unpriced-model"])
    total = sessions.total_cost(group_by="model")
    assert nano(total.total_usd) == 1_000_000
    assert total.incomplete == ("unpriced-model",)
    (unpriced,) = total.unpriced
    assert (unpriced.model, unpriced.input_tokens, unpriced.output_tokens, unpriced.calls) == (
        UNKNOWN,
        100,
        10,
        1,
    )
    assert total.breakdowns is not None
    assert total.breakdowns[UNKNOWN].incomplete == ("unpriced-model",)
    assert total.breakdowns[SMALL].incomplete == ()


def test_a_session_without_any_usage_is_counted_as_a_session(home: Path) -> None:
    ClaudeSession(home, uuid_of(1)).prompt("only asked").write()
    client = open_client(home)
    assert client.sessions.get("claude", uuid_of(1)).cost is None
    total = client.sessions.total_cost(group_by="agent")
    assert (total.session_count, total.total_usd) == (1, 0)
    assert (total.breakdowns or {})["claude"].session_count == 1


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_sessions_of_a_capture_and_the_unattributed_calls_make_the_total(
    capture: Capture, shared_home: SharedHome
) -> None:
    client = open_client(shared_home(capture))
    options = SessionListOptions(limit=None, include_archived=True)
    total = client.sessions.total_cost(agent=capture.agent)
    records = [s.cost for s in client.list_report((capture.agent,), options).sessions]
    counts = [token_counts(record) for record in (*records, total.unattributed)]
    summed = {name: sum(count[name] for count in counts) for name in counts[0]}
    assert summed["input"] == total.input_tokens
    assert summed["cache_read"] == total.cached_tokens
    assert summed["cache_write"] == total.cache_write_tokens
    assert summed["output"] == total.output_tokens
    assert summed["thinking"] == total.thinking_tokens
    dollars = [record.total_usd for record in (*records, total.unattributed) if record]
    assert nano(sum(dollars)) == pytest.approx(nano(total.total_usd), abs=len(dollars))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_groups_of_a_capture_make_its_total(capture: Capture, shared_home: SharedHome) -> None:
    sessions = open_client(shared_home(capture)).sessions
    for group_by in ("agent", "model", "day", "week", "month", "project", "session"):
        total = sessions.total_cost(agent=capture.agent, group_by=group_by)
        groups = (total.breakdowns or {}).values()
        assert nano(sum(one.total_usd for one in groups)) == pytest.approx(
            nano(total.total_usd), abs=len(groups)
        )
        for field in ("input", "output", "thinking", "cached", "cache_write"):
            name = f"{field}_tokens"
            assert sum(getattr(one, name) for one in groups) == getattr(total, name)


# Filters and groups, in full


@dataclass(frozen=True)
class Spent:
    """One call as the test wrote it."""

    agent: str
    session: int
    model: str
    at: datetime
    created: datetime
    tags: tuple[str, ...]
    tokens: Tokens

    @property
    def nusd(self) -> int:
        factor = {SMALL: 1, LARGE: 5}[self.model]
        return factor * (
            1000 * self.tokens.input + 100 * self.tokens.cache_read + 10000 * self.tokens.output
        )


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Spent]]:
    """Thirty sessions over ten days, with all models and tags, and every call in them."""
    home, chance, spent = tmp_path_factory.mktemp("ledger"), random.Random(20260301), list[Spent]()
    runs: list[dict[str, Any]] = []
    for number in range(30):
        at = START + timedelta(hours=chance.randrange(240))
        tags = tuple(chance.sample(["a", "b", "c"], chance.randrange(3)))
        if number % 3 == 0:
            model = chance.choice([SMALL, LARGE])
            tokens = Tokens(input=chance.randrange(5000), output=chance.randrange(500))
            written = write_codex(home, number, at=at, model=model, tokens=tokens)
            spent.append(Spent("codex", number, model, written.at, at, tags, tokens))
            runs.append({"agent": "codex", "sessionId": uuid_of(number), "tags": tags})
            continue
        session = ClaudeSession(home, uuid_of(number), at=at)
        for _ in range(chance.randrange(1, 5)):
            model = chance.choice([SMALL, LARGE])
            tokens = Tokens(
                input=chance.randrange(5000),
                cache_read=chance.randrange(9000),
                output=chance.randrange(500),
            )
            session.prompt("go")
            spent.append(Spent("claude", number, model, session.at, at, tags, tokens))
            session.reply(tokens=tokens, model=model)
            session.at += timedelta(hours=chance.randrange(20))
        session.write()
        runs.append({"sessionId": uuid_of(number), "tags": tags})
    write_runs(home, *runs)
    return home, spent


FILTERS: dict[str, tuple[dict[str, Any], Callable[[Spent], bool]]] = {
    "none": ({}, lambda _: True),
    "agent": ({"agent": "codex"}, lambda one: one.agent == "codex"),
    "since": (
        {"since": START + timedelta(days=3)},
        lambda one: one.created >= START + timedelta(days=3),
    ),
    "until": (
        {"until": START + timedelta(days=7)},
        lambda one: one.created <= START + timedelta(days=7),
    ),
    "model": ({"model": LARGE}, lambda one: one.model == LARGE),
    "tags": ({"tags": ["a", "c"]}, lambda one: bool({"a", "c"} & set(one.tags))),
}
KEYS: dict[str, Callable[[Spent, ZoneInfo], tuple[str, ...]]] = {
    "agent": lambda one, _: (one.agent,),
    "model": lambda one, _: (one.model,),
    "day": lambda one, zone: (one.at.astimezone(zone).strftime("%Y-%m-%d"),),
    "week": lambda one, zone: (one.at.astimezone(zone).strftime("%G-W%V"),),
    "month": lambda one, zone: (one.at.astimezone(zone).strftime("%Y-%m"),),
    "project": lambda _, __: ("/src/app",),
    "session": lambda one, _: (f"{one.agent}:{uuid_of(one.session)}",),
    "tag": lambda one, _: one.tags or ("untagged",),
}


def figures(calls: list[Spent]) -> tuple[int, int, int, int, int]:
    return (
        sum(one.nusd for one in calls),
        sum(one.tokens.input for one in calls),
        sum(one.tokens.cache_read for one in calls),
        sum(one.tokens.output for one in calls),
        len({(one.agent, one.session) for one in calls}),
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("timezone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
@pytest.mark.parametrize("group_by", get_args(GroupBy))
def test_every_filter_and_group_equals_the_sum_by_hand(
    group_by: GroupBy, timezone: str, ledger: tuple[Path, list[Spent]]
) -> None:
    home, spent = ledger
    sessions = open_client(home, timezone=timezone).sessions
    zone = ZoneInfo(timezone)
    for one, other in itertools.combinations(FILTERS.values(), 2):
        total = sessions.total_cost(group_by=group_by, **one[0], **other[0])
        fitting = [call for call in spent if one[1](call) and other[1](call)]
        assert (
            nano(total.total_usd),
            total.input_tokens,
            total.cached_tokens,
            total.output_tokens,
            total.session_count,
        ) == figures(fitting)
        assert total.breakdowns is not None
        keys = {key for call in fitting for key in KEYS[group_by](call, zone)}
        assert list(total.breakdowns) == sorted(keys)
        for key, found in total.breakdowns.items():
            inside = [call for call in fitting if key in KEYS[group_by](call, zone)]
            assert found.key == key
            assert (
                nano(found.total_usd),
                found.input_tokens,
                found.cached_tokens,
                found.output_tokens,
                found.session_count,
            ) == figures(inside)


def test_the_groups_of_tags_overlap_where_a_session_has_several(home: Path) -> None:
    write_claude(home, 1, tokens=Tokens(input=1000))
    write_claude(home, 2, tokens=Tokens(input=10))
    write_runs(home, {"sessionId": uuid_of(1), "tags": ["a", "b"]})
    total = open_client(home).sessions.total_cost(group_by="tag")
    found = {key: nano(one.total_usd) for key, one in (total.breakdowns or {}).items()}
    assert found == {"a": 1_000_000, "b": 1_000_000, "untagged": 10_000}
    assert nano(total.total_usd) == 1_010_000


def test_without_grouping_there_are_no_groups(ledger: tuple[Path, list[Spent]]) -> None:
    sessions = open_client(ledger[0]).sessions
    assert "breakdowns" not in sessions.total_cost().to_dict()
    grouped = sessions.total_cost(group_by="agent").to_dict()
    assert "runCount" in grouped
    for group in grouped["breakdowns"].values():
        assert "runCount" not in group
        assert {
            "key",
            "totalUsd",
            "inputTokens",
            "outputTokens",
            "thinkingTokens",
            "cachedTokens",
            "sessionCount",
        } <= group.keys()


def test_an_unknown_group_is_refused_and_options_equal_keywords(
    ledger: tuple[Path, list[Spent]],
) -> None:
    sessions = open_client(ledger[0]).sessions
    wrong: Any = "hour"
    with pytest.raises(ValidationError, match="hour"):
        sessions.total_cost(group_by=wrong)
    options = CostAggregationOptions(agent="codex", group_by="day", since=START)
    assert sessions.total_cost(options) == sessions.total_cost(
        agent="codex", group_by="day", since=START
    )
    defaults = CostAggregationOptions()
    assert (defaults.agent, defaults.since, defaults.until) == (None, None, None)
    assert (defaults.model, defaults.tags, defaults.group_by) == (None, None, None)
