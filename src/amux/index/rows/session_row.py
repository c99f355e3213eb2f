"""Builds rows of the index from assembled sessions, and summaries from rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final

import msgspec

from amux.assembly.assemble import Assembly
from amux.assembly.cost import CachedCosts, CostCalculator
from amux.assembly.ledger import hourly_spending, spending_of
from amux.assembly.session import AssembledSession
from amux.assembly.summary import summarize
from amux.index.codec import ODD, pack, storable, unpack
from amux.index.errors import IndexDecodeError
from amux.index.rows.query import ARCHIVED, SUBAGENT, HiddenCounts, Row, RowFilter
from amux.index.rows.results import ClusterResult, SessionRow
from amux.index.rows.stored_session import annotated, encode_message_sources
from amux.model.directories import plain_directory
from amux.model.options import SessionListOptions
from amux.model.problems import Problem
from amux.model.reports import ListReport
from amux.model.session import SessionSummary

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND: Final = timedelta(microseconds=1)
_SUMMARIES: Final = msgspec.json.Decoder(SessionSummary)
_PACKED: Final = msgspec.msgpack.Decoder(SessionSummary)
_PROBLEMS: Final = msgspec.msgpack.Decoder(tuple[Problem, ...])


def microseconds(moment: datetime) -> int:
    """Return a datetime as microseconds of the Unix time, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_at(microseconds: int) -> datetime:
    """Return the datetime of a Unix time in microseconds."""
    return _EPOCH + microseconds * _MICROSECOND


def make_result(assembly: Assembly, costs: CostCalculator, zone: tzinfo) -> ClusterResult:
    """Return the rows of all sessions of a cluster that a list may show, and what they spent."""
    searchable = {id(session) for session in assembly.sessions}
    costs = CachedCosts(costs)
    payloads = {
        "spending": pack(spending_of(assembly, costs, zone)),
        "hours": pack(hourly_spending(assembly, costs)),
    }
    if assembly.problems:
        payloads["sessions"] = pack(assembly.problems)
    return ClusterResult(
        sessions=[
            _row(
                s,
                costs,
                encode_message_sources(assembly, s) if id(s) in searchable else (b"", b""),
            )
            for s in assembly.all_sessions()
            if s.listed
        ],
        payloads=payloads,
    )


def _row(
    session: AssembledSession, costs: CostCalculator, sources_and_keys: tuple[bytes, bytes]
) -> SessionRow:
    summary = summarize(session, costs.cost_of(session), ())
    message_sources, keys = sources_and_keys
    hidden = SUBAGENT * (session.kind == "subagent") + ARCHIVED * session.archived
    return SessionRow(
        id=storable(summary.session_id),
        sort_key=session.sort_key,
        names=storable("\n".join(session.names())),
        created=microseconds(summary.created_at),
        updated=microseconds(summary.updated_at),
        turns=summary.turn_count,
        usd=-1.0 if summary.cost is None else summary.cost.total_usd,
        incomplete=storable(
            " ".join(summary.unrecorded if summary.cost is None else summary.cost.incomplete)
        ),
        hidden=hidden,
        kind=summary.kind,
        cwd=None if summary.cwd is None else storable(plain_directory(summary.cwd)),
        model=None if summary.model is None else storable(summary.model),
        models=storable("".join(f"\n{model}\n" for model in summary.models)),
        title=storable(summary.title),
        version=None if session.facts.version is None else storable(session.facts.version),
        body=_body(summary),
        message_sources=message_sources,
        keys=keys,
    )


def _body(summary: SessionSummary) -> bytes:
    try:  # indented as it is printed, so that printing it needs no parser
        return msgspec.json.format(msgspec.json.encode(summary), indent=2)
    except UnicodeEncodeError:
        return pack(summary)


def wanted_rows(agents: Sequence[str], options: SessionListOptions) -> RowFilter:
    """Return the row filter for the options of a list."""
    return RowFilter(
        agents=agents,
        since=None if options.since is None else microseconds(options.since),
        until=None if options.until is None else microseconds(options.until),
        cwd=None if options.cwd is None else storable(plain_directory(options.cwd)),
        model=None if options.model is None else storable(options.model),
        sort=options.sort,
        descending=options.sort_direction == "desc",
        limit=options.limit,
        children=options.include_children,
        archived=options.include_archived,
    )


def decode_problems(payloads: Sequence[bytes]) -> Iterator[Problem]:
    """Yield the problems that were stored with rows."""
    return (problem for some in payloads for problem in unpack(some, _PROBLEMS))


def report_of(
    rows: Sequence[Row], hidden: HiddenCounts, problems: Sequence[bytes], costs: CostCalculator
) -> ListReport:
    """Return rows as a report, with the current tags, which change independently of sessions."""
    hidden_children, hidden_archived, truncated = hidden
    return ListReport(
        sessions=tuple(
            annotated(decode_summary(body), names.split("\n"), costs) for names, body, _ in rows
        ),
        hidden_children=hidden_children,
        hidden_archived=hidden_archived,
        truncated=truncated,
        problems=(*decode_problems(problems), *costs.annotations.problems),
    )


def decode_summary(body: bytes) -> SessionSummary:
    """Return a stored summary."""
    if body.startswith(ODD):
        return unpack(body, _PACKED)
    try:
        return _SUMMARIES.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise IndexDecodeError(str(error)) from error
