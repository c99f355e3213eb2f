"""`AdapterSuite`: a subclass with an adapter and captures runs every rule for adapters.

The name of a test contains the id of its rule (A01...), so that a failure names the broken rule.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from amux.adapters._base import Adapter, Head, SourceRef
from amux.adapters._kit.fold import line_kind
from amux.client import create_client
from amux.host import Host
from amux.model.facts import Facts
from amux.model.message import SessionMessage
from amux.model.trace import LineKind
from amux.testing.captures import Capture, fingerprint
from amux.testing.index_rules import IndexRules
from amux.testing.reading import opened_files, read_source, smallest_log, sources_of
from amux.testing.truth import injected_openings, listing_mismatches, session_mismatches

_ALLOWED_IMPORTS = ("amux", "msgspec")


class AdapterSuite(IndexRules):
    """The rules for an adapter, tested on every capture of its agent."""

    adapter: ClassVar[Adapter]
    captures: ClassVar[list[Capture]]
    relocation: ClassVar[dict[str, str]] = {}
    """Environment variables that relocate the agent's files, each with a value to test."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test once per capture if it uses captures."""
        if "capture" in metafunc.fixturenames:
            metafunc.parametrize("capture", self.captures, ids=[c.name for c in self.captures])

    @pytest.fixture
    def home(self, capture: Capture, tmp_path: Path) -> Path:
        """Return a copy of the capture's home."""
        return capture.copy_to(tmp_path)

    @pytest.fixture
    def sources(self, home: Path) -> list[SourceRef]:
        """Return all sources in the copy."""
        return sources_of(self.adapter, home)

    def test_a01_the_agent_introduces_itself(self) -> None:
        info = self.adapter.info
        assert info.name
        assert ":" not in info.name
        assert info.label
        assert info.cli_command
        assert info.evidence, "describe the evidence for the format"
        assert self.captures, "an adapter needs at least one capture"

    @pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
    def test_a02_roots_follow_home_and_environment_and_touch_no_disk(
        self, platform: str, tmp_path: Path
    ) -> None:
        with opened_files() as opened:
            roots = self.adapter.roots(Host(tmp_path / "gone", platform=platform))
            assert roots
            assert all(root.is_absolute() and tmp_path in root.parents for root in roots)
            for variable, value in self.relocation.items():
                moved = str(tmp_path / value)
                host = Host(tmp_path / "gone", env={variable: moved}, platform=platform)
                assert any(str(root).startswith(moved) for root in self.adapter.roots(host))
        assert opened == []

    def test_a03_discovering_an_absent_empty_or_foreign_place_finds_nothing(
        self, tmp_path: Path
    ) -> None:
        foreign = tmp_path / "foreign"
        foreign.mkdir()
        (foreign / "notes.txt").write_text("hello")
        (foreign / "deep").mkdir()
        for root in (tmp_path / "absent", tmp_path / "empty", foreign):
            if root.name == "empty":
                root.mkdir()
            assert list(self.adapter.discover(root)) == []

    def test_a03_discovering_opens_no_file(self, home: Path) -> None:
        with opened_files() as opened:
            sources = sources_of(self.adapter, home)
        known = {str(path) for source in sources for path in (source.path, *source.companions)}
        assert known.isdisjoint(opened)
        paths = [source.path for source in sources]
        assert len(paths) == len(set(paths))

    def test_a04_every_file_of_the_truth_is_discovered(
        self, capture: Capture, home: Path, sources: list[SourceRef]
    ) -> None:
        found = {source.path.relative_to(home).as_posix() for source in sources}
        for expected in capture.sessions:
            for file in expected.get("files") or [expected.get("file")]:
                assert file is None or file in found

    def test_a05_a_head_comes_first_and_facts_close_each_session(
        self, sources: list[SourceRef]
    ) -> None:
        for source in sources:
            open_session: str | None = None
            closed: list[str] = []
            for item in read_source(self.adapter, source).items:
                if isinstance(item, Head):
                    assert open_session is None
                    open_session = item.session_id
                elif isinstance(item, SessionMessage):
                    assert open_session is not None
                elif isinstance(item, Facts):
                    assert open_session in (None, item.session_id)
                    closed.append(item.session_id)
                    open_session = None
            assert open_session is None
            assert len(closed) == len(set(closed))

    def test_a06_reading_twice_is_equal_and_changes_nothing(
        self, home: Path, sources: list[SourceRef]
    ) -> None:
        before = fingerprint(home)
        for source in sources:
            first, second = (read_source(self.adapter, source).items for _ in range(2))
            assert first == second
        assert fingerprint(home) == before

    def test_a07_message_ids_are_unique_and_parents_make_no_cycle(
        self, sources: list[SourceRef]
    ) -> None:
        for source in sources:
            for messages in read_source(self.adapter, source).by_session().values():
                ids = [message.id for message in messages if message.id is not None]
                assert len(ids) == len(set(ids))
                parents = {m.id: m.parent_id for m in messages if m.id is not None}
                for start in parents:
                    seen: set[str] = set()
                    step: str | None = start
                    while step is not None and step in parents:
                        assert step not in seen
                        seen.add(step)
                        step = parents[step]

    def test_a08_times_are_utc_and_facts_span_the_messages(self, sources: list[SourceRef]) -> None:
        for source in sources:
            reading = read_source(self.adapter, source)
            by_session = reading.by_session()
            for facts in reading.facts:
                times = [m.timestamp for m in by_session.get(facts.session_id, []) if m.timestamp]
                assert all(time.utcoffset() is not None for time in times)
                if times:
                    assert facts.updated_at is not None
                    assert facts.updated_at >= max(times)

    def test_a09_a10_a17_every_session_equals_the_truth(self, capture: Capture, home: Path) -> None:
        client = self._client(home)
        wrong: list[str] = []
        for expected in capture.sessions:
            if expected.get("session_id") is None:
                continue
            session = client.sessions.get(capture.agent, expected["session_id"])
            wrong += [
                f"{expected['session_id']} {mismatch}"
                for mismatch in session_mismatches(session, expected)
            ]
        assert wrong == []

    def test_a09_the_list_shows_what_it_must_and_equals_get(
        self, capture: Capture, home: Path
    ) -> None:
        client = self._client(home)
        listed = client.sessions.list(capture.agent, limit=None)
        assert listing_mismatches(listed, capture.sessions) == []
        least, most = capture.expected["home_totals"]["sessions_listed_between"]
        assert least <= len(listed) <= most
        for summary in client.sessions.list(
            capture.agent, limit=None, include_children=True, include_archived=True
        ):
            session = client.sessions.get(capture.agent, summary.session_id)
            assert summary.message_count == len(session.messages)
            for field in set(summary.__struct_fields__) & set(session.__struct_fields__) - {"raw"}:
                assert getattr(summary, field) == getattr(session, field), field

    def test_a10_the_home_total_counts_every_call_once(self, capture: Capture, home: Path) -> None:
        total = self._client(home).sessions.total_cost(agent=capture.agent)
        found = {
            "input": total.input_tokens,
            "cache_read": total.cached_tokens,
            "cache_write": total.cache_write_tokens,
            "output": total.output_tokens,
            "thinking": total.thinking_tokens,
        }
        truth: dict[str, Any] = capture.expected["home_totals"]
        assert found in [truth["tokens_recoverable"], *(truth.get("accept") or [])]

    def test_a11_a_tool_result_points_to_a_call_or_is_a_problem(
        self, sources: list[SourceRef]
    ) -> None:
        for source in sources:
            reading = read_source(self.adapter, source)
            for messages in reading.by_session().values():
                calls = {call.tool_call_id for m in messages for call in m.tool_calls}
                results = [m.tool_result.tool_call_id for m in messages if m.tool_result]
                orphans = [result for result in results if result not in calls]
                known = sum(problem.code == "orphan-result" for problem in reading.problems)
                prefix = any(facts.prefix is not None for facts in reading.facts)
                assert prefix or len(orphans) <= known

    def test_facts_are_equal_in_both_modes_and_count_what_the_messages_say(
        self, sources: list[SourceRef]
    ) -> None:
        for source in sources:
            whole = read_source(self.adapter, source)
            assert read_source(self.adapter, source, "facts").facts == whole.facts
            by_session = whole.by_session()
            for facts in whole.facts:
                kinds = [kind for kind in facts.trace.kinds if kind != LineKind.LINE]
                folded = [line_kind(message) for message in by_session.get(facts.session_id, [])]
                assert kinds == folded

    def test_a12_cut_at_any_byte_what_remains_is_a_prefix(
        self, capture: Capture, sources: list[SourceRef]
    ) -> None:
        source = smallest_log(sources)
        if source is None:
            return  # the rule is about line logs, and the capture has none
        whole = source.path.read_bytes()
        messages = read_source(self.adapter, source).messages
        step = 1 if capture is self.captures[0] else max(1, len(whole) // 200)
        for cut in range(0, len(whole), step):
            source.path.write_bytes(whole[:cut])
            self._check_prefix(source, messages, torn=whole[:cut].rpartition(b"\n")[2])

    def _check_prefix(self, source: SourceRef, whole: list[SessionMessage], *, torn: bytes) -> None:
        reading = read_source(self.adapter, source)
        part = reading.messages
        assert len(part) <= len(whole)
        settled = [m for m in part if any(m == other for other in whole)]
        assert len(settled) >= len(part) - 2, "only the last answer may be incomplete"
        tails = [problem for problem in reading.problems if problem.code == "torn-tail"]
        assert len(tails) == (1 if torn.strip(b" \t\r\0") and not _is_json(torn) else 0)

    def test_a13_a_bad_line_costs_one_line(self, sources: list[SourceRef]) -> None:
        source = smallest_log(sources)
        if source is None:
            return
        lines = source.path.read_bytes().splitlines(keepends=True)
        before = read_source(self.adapter, source).messages
        for number in range(1, len(lines)):
            broken = [*lines]
            broken[number] = b'{"type": nonsense\n'
            source.path.write_bytes(b"".join(broken))
            reading = read_source(self.adapter, source)
            found = [p.code for p in reading.problems if p.code != "orphan-result"]
            assert found == ["bad-line"]
            intact = sum(message in reading.messages for message in before)
            assert intact >= len(before) - 3, "only the messages around the bad line may be missing"

    def test_a13_a_record_of_the_future_changes_nothing(self, sources: list[SourceRef]) -> None:
        source = smallest_log(sources)
        if source is None:
            return
        lines = source.path.read_bytes().splitlines(keepends=True)
        before = read_source(self.adapter, source).messages
        for number in range(1, len(lines) + 1):
            future = b'{"type":"from-the-future","payload":{"type":"unheard-of"},"x":[1]}\n'
            source.path.write_bytes(b"".join([*lines[:number], future, *lines[number:]]))
            contents = [(m.role, m.content) for m in read_source(self.adapter, source).messages]
            assert contents == [(m.role, m.content) for m in before]

    @pytest.mark.parametrize(
        "oddity", ["bom", "crlf", "blank-lines", "nul", "surrogate", "long-line", "latin-1"]
    )
    def test_a14_odd_bytes_hide_nothing(self, oddity: str, tmp_path: Path) -> None:
        home = self.captures[-1].copy_to(tmp_path)
        source = smallest_log(sources_of(self.adapter, home))
        if source is None:
            return
        before = [(m.role, m.content) for m in read_source(self.adapter, source).messages]
        source.path.write_bytes(_make_odd(source.path.read_bytes(), oddity))
        reading = read_source(self.adapter, source)
        assert [(m.role, m.content) for m in reading.messages] == before

    @pytest.mark.parametrize("what", ["empty", "directory", "garbage", "absent"])
    def test_a14_a_source_that_is_none_is_no_exception(self, what: str, tmp_path: Path) -> None:
        home = self.captures[-1].copy_to(tmp_path)
        source = sources_of(self.adapter, home)[-1]
        source.path.unlink()
        if what == "directory":
            source.path.mkdir()
        elif what != "absent":
            source.path.write_bytes(b"" if what == "empty" else bytes(range(256)) * 8)
        reading = read_source(self.adapter, source)
        assert reading.messages == []
        assert what == "empty" or reading.problems

    def test_a15_a_log_that_grows_while_it_is_read_gives_no_half_message(
        self, sources: list[SourceRef]
    ) -> None:
        source = smallest_log(sources)
        if source is None:
            return
        before = read_source(self.adapter, source)
        stream = self.adapter.read(source, want="all")
        items = [next(stream)]
        with source.path.open("ab") as writer:
            writer.write(b'{"type":"us')
        items += list(stream)
        assert [i for i in items if isinstance(i, SessionMessage)] == before.messages

    def test_a18_no_record_type_of_the_captures_is_unknown(self, sources: list[SourceRef]) -> None:
        unknown = {
            name
            for source in sources
            for facts in read_source(self.adapter, source, "facts").facts
            for name in facts.raw.get("unknownTypes", {})
        }
        assert unknown == set()

    def test_a19_items_survive_the_codec(self, sources: list[SourceRef]) -> None:
        for source in sources:
            reading = read_source(self.adapter, source)
            for facts in reading.facts:
                assert msgspec.json.decode(msgspec.json.encode(facts), type=Facts) == facts
            for message in reading.messages:
                encoded = msgspec.json.encode(message)
                again = msgspec.json.decode(encoded, type=SessionMessage)
                assert msgspec.json.encode(again) == encoded

    def test_a20_importing_the_adapter_loads_nothing_heavy(self) -> None:
        module = type(self.adapter).__module__
        script = f"import sys; import {module}; print('\\n'.join(sys.modules))"
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        heavy = {"asyncio", "rich", "sqlite3", "genai_prices", "yaml", "zstandard", "subprocess"}
        assert heavy.isdisjoint(done.stdout.split())

    def test_a25_no_title_and_no_prompt_begins_with_an_injected_text(
        self, capture: Capture, home: Path
    ) -> None:
        assert injected_openings(self._client(home), capture.agent, self.adapter.info) == []

    def _client(self, home: Path) -> Any:
        client = create_client(home=home)
        client.adapters.register(self.adapter)
        return client


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _make_odd(data: bytes, oddity: str) -> bytes:
    lines = data.splitlines()
    match oddity:
        case "bom":
            return b"\xef\xbb\xbf" + data
        case "crlf":
            return b"\r\n".join(lines) + b"\r\n"
        case "blank-lines":
            return b"\n\n".join(lines) + b"\n\n"
        case "nul":
            return b"\n".join([*lines[:-1], b"\0\0\0" + lines[-1]]) + b"\n"
        case "surrogate":
            return data + b'{"type":"x-note","text":"\\ud800 alone"}\n'
        case "latin-1":
            return data + b'{"type":"x-note","text":"caf\xe9"}\n'
        case _:
            return data + b'{"type":"x-note","text":"' + b"x" * 1_000_000 + b'"}\n'
