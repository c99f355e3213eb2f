"""`doctor --unknown`: what no adapter knows is listed, and nothing of a conversation is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import SharedHome
from newest_captures import newest_of_each
from notes_adapter import write_notes

from amux.adapters import BUILTIN, known_fields_of
from amux.adapters._kit.values import is_items, is_mapping
from amux.client import create_client
from amux.model.reports import UnknownReport
from amux.sessions.masking import masked_name, masked_path, masked_version, size_bucket
from amux.testing import Capture, find_captures

CAPTURES = find_captures(Path(__file__).parent.parent / "captures")
FIXTURES = find_captures(Path(__file__).parent.parent / "fixtures")
TYPE_FIELDS = {"type", "role", "subtype", "record_type"}
WORD = "swordfish"
CODE = "c4n4ry7f3a"


def unknown(home: Path, agent: str) -> UnknownReport:
    (report,) = create_client(home=home).unknown(agent)
    return report


def printed(home: Path) -> str:
    """Everything that is reported about all agents."""
    return msgspec.json.encode(create_client(home=home).unknown()).decode()


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_nothing_of_a_capture_is_unknown(capture: Capture, shared_home: SharedHome) -> None:
    report = unknown(shared_home(capture), capture.agent)
    assert (report.types, report.fields, report.files) == ((), (), ())
    assert report.fields_compared


@pytest.mark.parametrize("fixture", FIXTURES, ids=[f"{f.folder}-{f.version}" for f in FIXTURES])
def test_nothing_of_a_fixture_is_unknown(fixture: Capture, tmp_path: Path) -> None:
    report = unknown(fixture.copy_to(tmp_path), fixture.agent)
    assert (report.types, report.fields, report.files) == ((), (), ())


def test_every_builtin_agent_with_captures_has_a_table() -> None:
    without = {name for name in BUILTIN if known_fields_of(name) is None}
    assert without == {"agent"}
    assert {capture.agent for capture in CAPTURES} == set(BUILTIN) - without


def has_logs(capture: Capture) -> bool:
    """Whether its sessions are in logs; OpenClaw's folders of logs have no unknown files."""
    is_log = capture.agent not in {"hermes", "openclaw", "opencode"}
    return is_log and capture.version not in {"0.1.2505291658", "0.1.22", "0.15.4"}


def first_log(home: Path, agent: str) -> Path:
    """A log of a session with at least two lines."""
    client = create_client(home=home)
    listed = client.sessions.list(agent, limit=None)
    sources = (
        s for one in listed for s in client.sessions.get(agent, one.session_id).raw["sources"]
    )
    logs = (Path(source) for source in sources if source.endswith(".jsonl"))
    return next(path for path in sorted(logs) if path.read_bytes().count(b"\n") > 1)


def change_line(path: Path, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    lines = path.read_text().splitlines()
    record = json.loads(lines[number])
    change(record)
    lines[number] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("capture", newest_of_each([*filter(has_logs, CAPTURES)]))
def test_exactly_a_new_type_a_new_field_and_a_new_file_are_listed(
    capture: Capture, tmp_path: Path
) -> None:
    home = capture.copy_to(tmp_path)
    path = first_log(home, capture.agent)
    change_line(path, 1, lambda record: record.update(zzNewField={"not": "shown"}))
    with path.open("a") as log:
        log.write('{"type": "zz_new_type", "text": "not shown"}\n')
    (path.parent / "index-20260101.zzz").write_bytes(b"x" * 2000)
    report = unknown(home, capture.agent)
    assert [(each.name, each.count) for each in report.types] == [("zz_new_type", 1)]
    assert [(each.name, each.json_types, each.count) for each in report.fields] == [
        ("zzNewField", ("object",), 1)
    ]
    (file,) = report.files
    assert file.pattern.rpartition("/")[2] == "index-<id>.zzz"
    assert (file.why, file.sizes, file.count) == ("unknown", ("up to 10 KB",), 1)


def test_a_file_that_several_sources_depend_on_is_counted_once(tmp_path: Path) -> None:
    (fixture,) = (each for each in FIXTURES if each.version == "directory-by-hash")
    home = fixture.copy_to(tmp_path)
    for path in home.rglob("session-*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "zzNewField": 1}))
    chats = len(fixture.sessions)
    assert [(each.name, each.count) for each in unknown(home, "gemini").fields] == [
        ("zzNewField", chats)
    ]


def test_new_tables_and_columns_of_a_database_are_listed(tmp_path: Path) -> None:
    home = next(each for each in CAPTURES if each.name == "hermes-0.19.0").copy_to(tmp_path)
    with closing(sqlite3.connect(home / ".hermes" / "state.db")) as database:
        database.execute("CREATE TABLE zz_news (id INTEGER)")
        database.execute("ALTER TABLE messages ADD COLUMN zz_mood TEXT")
        database.execute("UPDATE messages SET zz_mood = 'not shown'")
        database.commit()
    report = unknown(home, "hermes")
    assert [each.name for each in report.types] == ["table:zz_news"]
    assert [(each.record_type, each.name, each.json_types) for each in report.fields] == [
        ("table:messages", "zz_mood", ("text",))
    ]


def test_an_unreadable_format_is_listed_with_its_problem(tmp_path: Path) -> None:
    folder = tmp_path / ".hermes" / "sessions"
    folder.mkdir(parents=True)
    (folder / "session_acme.json").write_text('{"not": "a session"}')
    report = unknown(tmp_path, "hermes")
    assert [(each.pattern, each.why) for each in report.files] == [
        ("sessions/<name>.json", "unknown-format")
    ]


def test_an_agent_of_another_package_is_reported_without_fields(tmp_path: Path) -> None:
    client = create_client(home=tmp_path)
    client.adapters.register(write_notes(tmp_path / "notes"))
    (tmp_path / "notes" / "acme.zzz").write_text("?")
    (report,) = client.unknown("notes")
    assert not report.fields_compared
    assert [(each.pattern, each.count) for each in report.files] == [("<name>.zzz", 1)]


# Nothing of a session is printed


def with_canary(value: Any, canary: Callable[[str, str], str], name: str = "") -> Any:
    """Return a JSON value whose strings contain a canary; the names of fields stay."""
    if isinstance(value, str):
        return canary(name, value)
    if is_items(value):
        return [with_canary(each, canary, name) for each in value]
    if is_mapping(value):
        return {key: with_canary(each, canary, key) for key, each in value.items()}
    return value


def taint(home: Path, canary: Callable[[str, str], str]) -> None:
    """Put a canary into every string of every JSON file and of every database."""
    for path in home.rglob("*"):
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
            path.write_text("".join(json.dumps(with_canary(each, canary)) + "\n" for each in lines))
        elif path.suffix == ".json":
            try:
                document = json.loads(path.read_text())
            except ValueError:
                continue
            path.write_text(json.dumps(with_canary(document, canary)))
        elif path.is_file() and path.read_bytes()[:15] == b"SQLite format 3":
            taint_database(path, canary("", ""))


def taint_database(path: Path, canary: str) -> None:
    """Put a canary into every text of the tables that belong to no full-text index."""
    with closing(sqlite3.connect(path)) as database:
        master = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        tables = {str(name): str(sql) for name, sql in master}
        virtual = tuple(name for name, sql in tables.items() if "VIRTUAL" in sql)
        for table in (name for name in tables if not name.startswith(virtual)):
            columns = database.execute(f'PRAGMA table_info("{table}")').fetchall()
            for column in (row[1] for row in columns):
                with suppress(sqlite3.Error):  # a constraint
                    database.execute(
                        f'UPDATE "{table}" SET "{column}" = "{column}" || ?'
                        f" WHERE typeof(\"{column}\") = 'text'",
                        (canary,),
                    )
        database.commit()


def rename_all(folder: Path, canary: str) -> None:
    """Put a canary into the names of all files and of all folders but those of the agents."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            rename_all(path, canary)
            if not path.name.startswith("."):
                path.rename(path.with_name(f"{path.name}-{canary}"))
        else:
            path.rename(path.with_name(f"{canary}-{path.name}"))
            (path.parent / f"{path.stem}{canary}{path.suffix}").write_bytes(b"?")


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_no_value_and_no_name_of_a_file_is_printed(capture: Capture, tmp_path: Path) -> None:
    home = capture.copy_to(tmp_path / "values")
    taint(home, lambda name, value: value if name in TYPE_FIELDS else f"{value} {WORD}")
    assert WORD not in printed(home)
    taint(home, lambda name, value: value + CODE)  # also what makes up the types of records
    found = printed(home)
    assert WORD not in found
    assert CODE not in found
    home = capture.copy_to(tmp_path / "names")
    rename_all(home, WORD)
    found = printed(home)
    assert WORD not in found
    assert str(tmp_path) not in found


@pytest.mark.parametrize("capture", newest_of_each(CAPTURES))
def test_the_names_of_projects_are_not_printed(capture: Capture, tmp_path: Path) -> None:
    home = capture.copy_to(tmp_path)
    folders = {path.parent for path in home.rglob("*") if path.is_file()}
    for folder in folders:
        (folder / "notes.zzz").write_text("?")
    found = printed(home)
    for name in ("webapp", "home-dev", "my-app"):
        assert name not in found


@pytest.mark.parametrize(
    "name",
    [
        *("sessionId", "message.usage.input_tokens", "$set", "event_msg/token_count", "x_v2"),
        *("event_msg/zz.news", "childInclusiveTokenUsageBySessionId", "file-history-snapshot"),
        *("system:notice", "table:messages", "cache_creation_1h"),
    ],
)
def test_the_name_of_a_field_or_type_is_shown(name: str) -> None:
    assert masked_name(name, {"event_msg"}) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "/home/me/app", "C:\\app", "a b", "me@example.org", "x" * 61, "2026-01-02", "été"),
        *("01a1e0c7-8f12-7bb1-b947-19014e8e9e6d", "call_12345", "deadbeef1", "a/b/c/d/e"),
        *("toolu_01AbC9", "a\nb", "fix-the-login-page", "my_boss_says_that_it_is_bad"),
        *("PleaseFixTheLoginPageOfAcmeNow", "src/plan", "src/plan.py", "plan.md", "acme.Org"),
        *("event_msg/src/plan", "event_msg/plan.md", "other/token_count"),
    ],
)
def test_a_name_that_looks_like_data_is_masked(name: str) -> None:
    assert masked_name(name, {"event_msg"}) == "<name>"


def test_every_name_of_the_known_formats_would_be_shown() -> None:
    for known in filter(None, map(known_fields_of, BUILTIN)):
        groups = {name.partition("/")[0] for name in known.seen}
        for record_type, fields in known.seen.items():
            assert masked_name(record_type, groups) == record_type
            assert [field for field in fields if masked_name(field) != field] == []


HOSTILE = (
    f"please fix the {WORD}", f"please-fix-the-{WORD}", f"src/{WORD}", f"{WORD}.md",
    f"src/{WORD}.plan.py", f"we_all_think_that_{WORD}_is_bad",
    f"PleaseFixThePageOfThe{WORD}TodayOk",
    f"/home/{WORD}", f"C:\\{WORD}", f"{WORD}@example.org", f"\u202e{WORD}", f"{WORD}?",
    "x" * 300 + WORD,
)  # fmt: skip


@pytest.mark.parametrize("capture", newest_of_each([*filter(has_logs, CAPTURES)]))
def test_no_type_field_or_file_that_is_a_text_is_printed(capture: Capture, tmp_path: Path) -> None:
    home = capture.copy_to(tmp_path)
    path = first_log(home, capture.agent)
    fields = {name: {name: name} for name in HOSTILE}
    change_line(path, 1, lambda record: record.update(fields))
    with path.open("a") as log:
        log.writelines(json.dumps({"type": name, "text": name}) + "\n" for name in HOSTILE)
    for name in HOSTILE[:4]:
        (path.parent / name.replace("/", " ")).write_text(name)
    assert printed(home).count('"<name>"') >= 1
    assert WORD not in printed(home)


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("history.json", "history.json"),
        ("sessions/acme/history-20260102T030405.jsonl", "sessions/<name>/history-<id>.jsonl"),
        (
            "sessions/history/01a1e0c7-8f12-7bb1-b947-19014e8e9e6d.db-wal",
            "sessions/<name>/<id>.db-wal",
        ),
        ("acme-history.txt", "<name>.txt"),
        ("ACME", "<name>"),
        (".history", ".history"),
        ("history/of acme", "history/<name>"),
        ("history/deadbeef99.acmecorpltd", "history/<name>"),
    ],
)
def test_only_known_words_and_the_ending_of_a_path_are_shown(path: str, pattern: str) -> None:
    assert masked_path(path, {"history", "sessions"}) == pattern


def test_the_folders_of_a_root_of_projects_are_masked() -> None:
    assert masked_path("history/a.json", {"history"}, root="projects") == "<name>/<name>.json"


@pytest.mark.parametrize("version", ["1.0", "2.1.50", "v0.19.0", "1.2.3-beta.4", "2026.9.6"])
def test_a_version_is_shown(version: str) -> None:
    assert masked_version(version) == version


@pytest.mark.parametrize("text", ["", "1.0 of acme", "acme", "1.0-acme", "1.2.3.4.5"])
def test_a_text_that_is_not_a_version_is_masked(text: str) -> None:
    assert masked_version(text) == "<version>"


def test_sizes_are_orders_of_magnitude() -> None:
    sizes = (0, 1, 1024, 1025, 5 << 20, 1 << 40)
    assert [size_bucket(size) for size in sizes] == [
        *("empty", "up to 1 KB", "up to 1 KB", "up to 10 KB", "up to 10 MB", "over 100 MB"),
    ]
