"""`amux doctor` and `amux demo`, end to end."""

from __future__ import annotations

from pathlib import Path

from cli_process import Cli
from pseudo_terminal import on_terminal


def test_doctor_shows_only_what_was_not_read_unless_asked(claude: Cli) -> None:
    stray = claude.home / ".claude" / "projects" / "stray.bin"
    stray.write_bytes(b"?")
    shown = claude("doctor", "--agent", "claude").rows()
    assert [row[2:4] for row in shown] == [["stray.bin", "unknown"]]
    everything = claude("doctor", "--agent", "claude", "--files").rows()
    assert len(everything) > len(shown)
    assert {row[3] for row in everything} >= {"session", "unknown"}


def test_doctor_warns_of_the_next_loss(claude: Cli) -> None:
    assert "deletes old sessions" in claude("doctor").err


def test_doctor_as_json_is_a_list_of_roots(claude: Cli) -> None:
    roots = claude("doctor", "--json", "--agent", "claude").json()
    assert [root["agent"] for root in roots] == ["claude"]
    assert roots[0]["nextLoss"]["path"].endswith(".jsonl")


def test_what_is_unknown_is_printed_for_a_bug_report(claude: Cli) -> None:
    assert claude("doctor", "--unknown").out == ""
    project = next(path for path in (claude.home / ".claude" / "projects").iterdir())
    (project / "acme.zzz").write_bytes(b"?")
    log = next(path for path in sorted(project.glob("*.jsonl")) if path.stat().st_size)
    with log.open("a") as stream:
        stream.write('{"type": "zz_new", "sessionId": "x"}\n')
    result = claude("doctor", "--unknown")
    assert result.rows() == [
        ["claude", "type", "zz_new", "", "1"],
        ["claude", "file", "<name>/<name>.zzz", "up to 1 KB", "1"],
    ]
    (report,) = claude("doctor", "--unknown", "--json").json()
    assert (report["agent"], report["types"]) == ("claude", [{"name": "zz_new", "count": 1}])
    shown = on_terminal(claude, "doctor", "--unknown")
    assert "zz_new" in shown
    assert ".zzz" in shown


def test_an_agent_without_a_table_of_fields_is_named(empty: Cli) -> None:
    folder = empty.home / ".agent" / "sessions"
    folder.mkdir(parents=True)
    (folder / "acme.zzz").write_bytes(b"?")
    result = empty("doctor", "--unknown")
    assert result.rows() == [["agent", "file", "sessions/<name>.zzz", "up to 1 KB", "1"]]
    assert result.err == "note: fields are not compared for agent\n"


def test_an_empty_home_gives_an_empty_report(tmp_path: Path) -> None:
    result = Cli(tmp_path)("doctor", "--json")
    assert (result.code, result.json()) == (0, [])


def test_the_demo_shows_sessions_on_any_machine(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert "session\tclaude:" in cli("demo").out
    assert len(cli("--demo", "list", "--archived").rows()) == 12
    assert list(tmp_path.iterdir()) == []
