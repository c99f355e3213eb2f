"""Sums of ledger entries equal sums of calls, for any sessions and any report."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_args
from zoneinfo import ZoneInfo

import msgspec
import pytest
from builders import CAPTURES, LARGE, PRICES, SMALL, START, UNKNOWN, SharedHome, open_client
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st
from memory_adapter import MemoryAdapter, call
from naive_costs import NO_CALLS, NO_MODEL, slow_report

from amux.adapters._base import SourceRef
from amux.assembly.assemble import Assembly, assemble
from amux.assembly.cost import CostCalculator
from amux.assembly.ledger import LedgerEntry, ledger_entries, session_entries
from amux.assembly.session import SourceSession
from amux.client import Client
from amux.errors import ValidationError
from amux.host import Host
from amux.model.cost import CostRecord, CostSummary
from amux.model.facts import Facts, Kind
from amux.model.options import CostAggregationOptions, GroupBy
from amux.model.usage import Call, Tokens
from amux.pricing.registry import ModelRegistry
from amux.reading.registry import AdapterRegistry
from amux.reading.sources import SourceCatalog
from amux.run_index import RecordedRun, RunIndex
from amux.sessions.cost.report import CostReport
from amux.testing import Capture

ROOT = Path("/src/memory")
IDS = ("one", "two", "three", "four")
ZONES = (UTC, ZoneInfo("America/St_Johns"), ZoneInfo("Asia/Tokyo"))
GROUPS: tuple[GroupBy, ...] = get_args(GroupBy)
MODELS = st.sampled_from([SMALL, LARGE, UNKNOWN, None])
KINDS: st.SearchStrategy[Kind] = st.sampled_from(["session", "session", "subagent"])
COUNTS = st.integers(0, 10**6)
TIMES = st.datetimes(datetime(2009, 10, 31), datetime(2009, 11, 3), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
"""Around a change of the clocks that Newfoundland made one minute after midnight."""

TOKENS = st.builds(
    Tokens,
    input=COUNTS,
    cache_read=COUNTS,
    cache_write=COUNTS,
    cache_write_1h=COUNTS,
    output=COUNTS,
    thinking=st.none() | COUNTS,
)
CALLS = st.builds(
    Call,
    key=st.uuids().map(str),
    model=MODELS,
    at=st.none() | TIMES,
    tokens=TOKENS | st.just(Tokens()),
    native_nusd=st.none() | st.integers(0, 10**12),
    gaps=st.sampled_from([(), ("call-interrupted",)]),
)


@st.composite
def assemblies(draw: st.DrawFn) -> Assembly:
    parts: list[SourceSession] = []
    for number, name in enumerate(draw(st.lists(st.sampled_from(IDS), min_size=1, unique=True))):
        kind = draw(KINDS)
        facts = Facts(
            session_id=name,
            kind=kind,
            parent=draw(st.sampled_from([None, *IDS])) if kind == "subagent" else None,
            attributed=draw(st.sampled_from([True, True, True, False])),
            created_at=draw(TIMES),
            cwd=draw(st.sampled_from([None, "/nowhere/a", "/nowhere/b"])),
            calls=tuple(draw(st.lists(CALLS, max_size=6))),
            models=tuple(draw(st.lists(st.sampled_from([SMALL, "m-named"]), max_size=2))),
            gaps=draw(st.sampled_from([(), ("output-not-recorded",)])),
            native_nusd=draw(st.none() | st.integers(0, 10**12)),
        )
        source = SourceRef(agent="memory", path=ROOT / str(number), root=ROOT)
        parts.append(SourceSession(facts=facts, source=source))
    return assemble("memory", parts)


def runs() -> st.SearchStrategy[list[RecordedRun]]:
    cost = st.builds(
        CostRecord,
        total_usd=st.integers(0, 10**6).map(lambda micro: micro / 10**6),
        input_tokens=COUNTS,
        output_tokens=COUNTS,
    )
    run = st.builds(
        RecordedRun,
        run_id=st.uuids().map(str),
        agent=st.just("memory"),
        at=TIMES,
        session_id=st.sampled_from(IDS),
        cost=st.none() | cost,
        tags=st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2).map(tuple),
    )
    return st.lists(run, max_size=3)


FILTERS = st.builds(
    CostAggregationOptions,
    since=st.sampled_from([None, None, datetime(2009, 11, 1, 12, tzinfo=UTC)]),
    until=st.sampled_from([None, None, datetime(2009, 11, 2, 12, tzinfo=UTC)]),
    model=st.sampled_from([None, None, SMALL, "m-named", NO_MODEL, NO_CALLS]),
    tags=st.sampled_from([None, None, ["a"]]),
)
GROUPINGS: list[tuple[GroupBy, ...]] = [
    *((), ("day", "model"), ("tag", "week", "agent")),
    *((name,) for name in GROUPS),
]


def calculator_with(known: list[RecordedRun]) -> CostCalculator:
    return CostCalculator(ModelRegistry(PRICES), RunIndex(known))


@drawn(100)
@given(assemblies(), runs(), FILTERS, st.sampled_from(ZONES))
def test_a_report_from_entries_equals_the_report_from_calls(
    assembly: Assembly, known: list[RecordedRun], filters: CostAggregationOptions, zone: ZoneInfo
) -> None:
    coster = calculator_with(known)
    for group_by in GROUPINGS:
        options = msgspec.structs.replace(filters, group_by=group_by)
        report = CostReport(coster, options, zone)
        report.add_assembly(assembly)
        assert report.summary() == slow_report([assembly], coster, options, zone)


@drawn(50)
@given(assemblies(), st.lists(st.sampled_from([g for g in GROUPS if g != "tag"]), unique=True))
def test_the_groups_of_any_grouping_add_up_to_the_total(
    assembly: Assembly, group_by: list[GroupBy]
) -> None:
    coster = calculator_with([])
    report = CostReport(coster, CostAggregationOptions(group_by=group_by), UTC)
    report.add_assembly(assembly)
    total = report.summary()
    found = list((total.breakdowns or {}).values())
    assert (total.breakdowns is None) == (not group_by)
    if group_by:
        assert sum(round(one.total_usd * 10**9) for one in found) == round(total.total_usd * 10**9)
        for name in ("input", "output", "thinking", "cached", "cache_write"):
            field = f"{name}_tokens"
            assert sum(getattr(one, field) for one in found) == getattr(total, field)


@drawn(50)
@given(assemblies(), runs(), FILTERS, st.randoms())
def test_entries_may_be_kept_as_bytes_and_come_in_any_order(
    assembly: Assembly, known: list[RecordedRun], filters: CostAggregationOptions, chance: Any
) -> None:
    options = msgspec.structs.replace(filters, group_by=("session", "day"))
    coster = calculator_with(known)
    entries = list(ledger_entries(assembly, coster, UTC))
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(entries), type=list[LedgerEntry])
    assert kept == entries
    chance.shuffle(kept)
    report = CostReport(coster, options, UTC)
    for entry in kept:
        report.add_entry(entry)
    assert report.summary() == slow_report([assembly], coster, options, UTC)


@drawn(50)
@given(assemblies(), TIMES, st.sampled_from(ZONES))
def test_calls_may_be_chosen_by_their_own_day(
    assembly: Assembly, first: datetime, zone: ZoneInfo
) -> None:
    coster = calculator_with([])
    first_day = first.astimezone(zone).date()
    report = CostReport(coster, CostAggregationOptions(), zone, first_day=first_day)
    report.add_assembly(assembly)
    everything = [*assembly.sessions, *assembly.unattributed]
    counted = sum(
        call.tokens.total
        for top in everything
        for member in top.with_children()
        for call in member.calls
        if (call.at or created_at(top.facts)).astimezone(zone).date() >= first_day
    )
    found = report.summary()
    assert counted == sum(
        (found.input_tokens, found.cached_tokens, found.cache_write_tokens, found.output_tokens)
    )


def created_at(facts: Facts) -> datetime:
    assert facts.created_at is not None
    return facts.created_at


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_entries_of_a_capture_hold_every_call_once(
    capture: Capture, shared_home: SharedHome
) -> None:
    host = Host(shared_home(capture), env={})
    assembly = SourceCatalog(host, AdapterRegistry()).assembly(capture.agent)
    coster = calculator_with([])
    entries = list(ledger_entries(assembly, coster, UTC))
    everything = [*assembly.all_sessions(), *assembly.unattributed]
    assert sum(entry.calls for entry in entries) == sum(len(one.calls) for one in everything)
    spent = [entry for entry in entries if entry.session and entry.kind == "spent"]
    assert len({(entry.session, entry.model, entry.day) for entry in spent}) == len(spent)
    for options in (CostAggregationOptions(group_by=("day", "model")), CostAggregationOptions()):
        report = CostReport(coster, options, UTC)
        report.add_assembly(assembly)
        assert report.summary() == slow_report([assembly], coster, options, UTC)


# By example


@pytest.fixture
def memory(tmp_path: Path) -> MemoryAdapter:
    return MemoryAdapter(tmp_path)


def client_of(memory: MemoryAdapter) -> Client:
    client = open_client(memory.root / "home")
    client.adapters.register(memory)
    return client


def entries_of(memory: MemoryAdapter) -> list[LedgerEntry]:
    registry = AdapterRegistry()
    registry.register(memory)
    library = SourceCatalog(Host(memory.root / "home", env={}), registry)
    (session,) = library.assembly("memory").sessions
    return session_entries(session, calculator_with([]), UTC)


def test_an_entry_is_one_session_one_model_one_day(memory: MemoryAdapter) -> None:
    tomorrow = START + timedelta(days=1)
    memory.put(
        "s",
        *(call("a"), call("b", input=7), call("c", model=UNKNOWN), call("d", at=tomorrow)),
        cwd="/src/app",
    )
    entries = {(entry.model, entry.day): entry for entry in entries_of(memory)}
    assert set(entries) == {
        (SMALL, "2026-03-01"),
        (UNKNOWN, "2026-03-01"),
        (SMALL, "2026-03-02"),
    }
    first = entries[SMALL, "2026-03-01"]
    assert (first.agent, first.session, first.cwd) == ("memory", "memory:s", "/src/app")
    assert (first.calls, first.input, first.nusd, first.unpriced_calls) == (2, 1007, 1_007_000, 0)
    unpriced = entries[UNKNOWN, "2026-03-01"]
    assert (unpriced.nusd, unpriced.unpriced_calls, unpriced.unpriced_input) == (0, 1, 1000)


def test_sub_agents_are_in_the_entries_of_their_parent(memory: MemoryAdapter) -> None:
    memory.put("s", call("a"))
    memory.put("child", call("b", model=LARGE), kind="subagent", parent="s")
    entries = entries_of(memory)
    assert {(entry.session, entry.model, entry.calls) for entry in entries} == {
        ("memory:s", SMALL, 1),
        ("memory:s", LARGE, 1),
    }


def test_an_unused_model_counts_only_if_its_spending_is_not_recorded(
    memory: MemoryAdapter,
) -> None:
    memory.put("s", call("a"), models=("m-named",))
    memory.put("t", models=("m-named", "m-later"), gaps=("call-interrupted",))
    memory.put("u", models=("m-named",))
    memory.put("v", call("b", model="Unknown"))
    sessions = client_of(memory).sessions
    everything = sessions.total_cost(agent="memory", group_by="model")
    groups = everything.breakdowns or {}
    assert list(groups) == [NO_MODEL, NO_CALLS, "m-named", SMALL]
    assert groups[NO_CALLS].sessions_without_calls == everything.sessions_without_calls == 1
    assert [each.model for each in everything.unpriced] == [NO_MODEL]
    for model, count in ((SMALL, 1), ("m-named", 1), ("m-later", 0)):
        assert sessions.total_cost(agent="memory", model=model).session_count == count


def test_gaps_of_calls_without_a_session_make_the_total_a_lower_bound(
    memory: MemoryAdapter,
) -> None:
    memory.put("warm-up", call("a", gaps=("call-interrupted",)), attributed=False)
    total = client_of(memory).sessions.total_cost(agent="memory")
    assert total.incomplete == ("call-interrupted",)
    assert total.unattributed is not None
    assert total.unattributed.incomplete == ("call-interrupted",)


def test_absurdly_large_token_sums_are_clamped_and_can_be_stored(memory: MemoryAdapter) -> None:
    memory.put("s", *(call(f"{n}", input=2**53) for n in range(2048)))
    (entry,) = kept = entries_of(memory)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=list[LedgerEntry]) == kept
    assert entry.input == entry.nusd == 2**63 - 1


@pytest.mark.parametrize("year", [1, 9999])
@pytest.mark.parametrize("timezone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_a_call_at_the_latest_possible_time_does_not_break_a_report(
    memory: MemoryAdapter, year: int, timezone: str
) -> None:
    at = datetime(1, 1, 1, tzinfo=UTC) if year == 1 else datetime(9999, 12, 31, 23, tzinfo=UTC)
    memory.put("s", call("a", at=at), call("b"), at=at)
    client = open_client(memory.root / "home", timezone=timezone)
    client.adapters.register(memory)
    for group_by in ("day", "week", "month"):
        total = client.sessions.total_cost(agent="memory", group_by=group_by)
        assert total.input_tokens == 2000
        assert len(total.breakdowns or {}) == 2


# Several groupings at once


def spent(total: CostSummary) -> Iterator[tuple[str, tuple[str, ...], int]]:
    for key, one in (total.breakdowns or {}).items():
        assert one.key == key
        yield key, one.keys, one.input_tokens


def test_several_groupings_make_keys_of_several_parts(memory: MemoryAdapter) -> None:
    memory.put("s", call("a"), call("b", model=LARGE, input=5))
    sessions = client_of(memory).sessions
    both = sessions.total_cost(agent="memory", group_by=("day", "model"))
    assert list(spent(both)) == [
        ("2026-03-01 | m-large", ("2026-03-01", "m-large"), 5),
        ("2026-03-01 | m-small", ("2026-03-01", "m-small"), 1000),
    ]
    one = sessions.total_cost(agent="memory", group_by=["day"])
    assert one == sessions.total_cost(agent="memory", group_by="day")
    assert list(spent(one)) == [("2026-03-01", ("2026-03-01",), 1005)]


def test_names_that_hold_the_separator_are_never_mixed_up(memory: MemoryAdapter) -> None:
    memory.put("s", call("a", model="x | y"), call("b", model="x", input=5), cwd="/p")
    memory.put("t", call("c", model="x \\| y", input=3), cwd="/p")
    total = client_of(memory).sessions.total_cost(agent="memory", group_by=("model", "project"))
    assert sorted(spent(total)) == sorted(
        [
            ("x | /p", ("x", "/p"), 5),
            ("x \\| y | /p", ("x | y", "/p"), 1000),
            ("x \\\\\\| y | /p", ("x \\| y", "/p"), 3),
        ]
    )


def test_no_grouping_twice_and_none_that_is_unknown(memory: MemoryAdapter) -> None:
    sessions = client_of(memory).sessions
    with pytest.raises(ValidationError, match="twice"):
        sessions.total_cost(group_by=("day", "day"))
    wrong: Any = ("day", "hour")
    with pytest.raises(ValidationError, match="hour"):
        sessions.total_cost(group_by=wrong)
    assert sessions.total_cost(group_by=()).breakdowns is None


def test_a_day_that_begins_twice_is_one_day(memory: MemoryAdapter) -> None:
    """In 2009 Newfoundland put its clocks back an hour one minute after midnight."""
    utc = datetime(2009, 11, 1, 2, 30, 30, tzinfo=UTC)
    minutes = (0, 30, 61)  # on Sunday, on Saturday again, on Sunday for good
    calls = [call(f"{n}", at=utc + timedelta(minutes=n), input=n + 1) for n in minutes]
    memory.put("s", *calls, at=utc)
    client = open_client(memory.root / "home", timezone="America/St_Johns")
    client.adapters.register(memory)
    total = client.sessions.total_cost(agent="memory", group_by="day")
    assert [(key, used) for key, _, used in spent(total)] == [
        ("2009-10-31", 31),
        ("2009-11-01", 63),
    ]


def test_weeks_and_months_are_those_of_the_time_zone(memory: MemoryAdapter) -> None:
    at = datetime(2027, 1, 3, 23, 30, tzinfo=UTC)  # a Sunday; in Tokyo already Monday
    memory.put("s", call("a", at=at), at=at)
    for timezone, week, day in (
        ("UTC", "2026-W53", date(2027, 1, 3)),
        ("Asia/Tokyo", "2027-W01", date(2027, 1, 4)),
    ):
        client = open_client(memory.root / "home", timezone=timezone)
        client.adapters.register(memory)
        total = client.sessions.total_cost(agent="memory", group_by=("month", "week", "day"))
        assert [keys for _, keys, _ in spent(total)] == [("2027-01", week, day.isoformat())]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_cost_of_a_model_equals_its_group(
    capture: Capture, shared_home: SharedHome, tmp_path: Path
) -> None:
    env = {"AMUX_CACHE_DIR": str(tmp_path / "cache")}
    for client in (open_client(shared_home(capture)), open_client(shared_home(capture), env=env)):
        groups = client.sessions.total_cost(group_by="model").breakdowns or {}
        for model, group in groups.items():
            alone = client.sessions.total_cost(model=model, group_by="model")
            assert alone.breakdowns == {model: group}
            assert alone.session_count == group.session_count
