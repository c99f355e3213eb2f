from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

import pytest
from cli_process import Cli

from amux.errors import EXIT_CODES, ErrorCode, ValidationError
from amux.faces.cli.commands import COMMANDS
from amux.faces.cli.commands.help import TOPICS, topic_text
from amux.faces.cli.parser import build_parser, parse
from amux.faces.cli.plain_lines import PLAIN_LINES, plain_arguments


@pytest.mark.parametrize(
    ("words", "module"),
    [
        ("", "overview"),
        ("demo", "overview"),
        ("sessions", "list"),
        ("sessions --json", "list"),
        ("sessions --since 7d", "list"),
        ("sessions list claude", "list"),
        ("list", "list"),
        ("cost", "cost_report"),
        ("cost --agent claude --group-by day", "cost_report"),
        ("cost --json explain abc", "cost_explain"),
        ("--json cost --home=/tmp explain abc", "cost_explain"),
        ("adapters", "agents"),
        ("adapters list", "agents"),
        ("config", "config_show"),
    ],
)
def test_every_command_line_selects_its_module(words: str, module: str) -> None:
    args, extra = build_parser().parse_known_args(words.split())
    assert (args.module, extra) == (module, [])


@pytest.mark.parametrize(
    "words",
    [
        "--json --agent codex -m gpt-5 -q list --limit 5",
        "list --json --agent codex -m gpt-5 -q --limit 5",
        "--json -a codex sessions -m gpt-5 list --limit 5 --quiet",
    ],
)
def test_global_options_may_stand_before_and_after_the_command(words: str) -> None:
    args, _ = build_parser().parse_known_args(words.split())
    given = (args.json, args.agent, args.model, args.quiet, args.limit, args.debug)
    assert given == (True, "codex", "gpt-5", True, 5, False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("search one two", ["one", "two"]),
        ("search one --json two", ["one", "two"]),
        ("search -- --json", ["--json"]),
        ("search one --json -- -x", ["one", "-x"]),
    ],
)
def test_words_of_a_query_may_surround_options(words: str, expected: list[str]) -> None:
    args, extra = build_parser().parse_known_args(words.split())
    assert (args.query, extra) == (expected, [])


@pytest.mark.parametrize(
    ("with_dashes", "without"),
    [
        ("--", ""),
        ("-- list", "list"),
        ("-a claude -- list --json", "-a claude list --json"),
        ("--json -- search one -- -x", "--json search one -- -x"),
        ("sessions -- search one", "sessions search one"),
        ("cost --", "cost"),
    ],
)
def test_two_dashes_before_a_command_only_end_the_options(with_dashes: str, without: str) -> None:
    assert said(parse(with_dashes.split())) == said(parse(without.split()))


def test_a_failure_after_two_dashes_is_json_with_the_json_option(empty: Cli) -> None:
    assert empty("--", "list", "nobody", "--json").json()["error"]["code"] == "AGENT_NOT_FOUND"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("lst", "unknown command `lst`", "did you mean `list`?"),
        ("sessions serach x", "unknown command `serach`", "did you mean `search`?"),
        ("list --sort dat", "did you mean `date`?", "`amux list --help`"),
        ("list --limit -1", "neither a number nor `all`", "`amux list --help`"),
        ("list --limit many", "neither a number nor `all`", "`amux list --help`"),
        ("list --since soon", "`soon` is not a time", "`amux list --help`"),
        ("list --sinc 7d", "unknown option `--sinc`", "did you mean `--since`?"),
        ("list claude codex", "unknown argument `codex`", "`amux list --help`"),
        ("show", "SESSION", "`amux show --help`"),
        ("show a b c", "expected one session", "AGENT:ID"),
        ("show claude x --agent codex", "two agents are given", ""),
        ("help lsit", "no help on `lsit`", "did you mean `list`?"),
        ("--completions tcsh", "not one of bash, zsh, fish", ""),
        ("list --home /no/such/home", "`/no/such/home` is not a directory", ""),
    ],
)
def test_wrong_usage_is_one_sentence_and_a_hint(
    empty: Cli, words: str, message: str, hint: str
) -> None:
    result = empty(*words.split())
    assert (result.code, result.out) == (2, "")
    error, *hints = result.err.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert hint in "".join(hints)
    assert all(line.startswith("hint: ") for line in hints)


def test_wrong_usage_is_json_when_json_was_asked_for(empty: Cli) -> None:
    result = empty("list", "--json", "--sort", "size")
    assert result.code == 2
    error = result.json()["error"]
    assert (result.json()["ok"], error["code"], error["recoverable"]) == (
        False,
        "VALIDATION_ERROR",
        False,
    )


def test_a_parser_raises_and_never_ends_the_process() -> None:
    with pytest.raises(ValidationError):
        build_parser().parse_known_args(["nonsense"])


@pytest.mark.parametrize("command", [command.words for command in COMMANDS])
def test_every_command_has_help(empty: Cli, command: str) -> None:
    by_option, by_word = empty(*command.split(), "--help"), empty("help", *command.split())
    assert by_option.code == by_word.code == 0
    assert by_option.out == by_word.out
    assert by_option.out.startswith(f"usage: amux {command}")
    assert by_option.err == ""


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_has_a_text(empty: Cli, topic: str) -> None:
    result = empty("help", topic)
    assert (result.code, result.err) == (0, "")
    assert result.out == topic_text(topic)


def test_the_topic_on_exit_codes_names_every_code() -> None:
    lines = topic_text("exit-codes").splitlines()
    for code, number in EXIT_CODES.items():
        assert any(line.split()[:1] == [str(number)] and code in line for line in lines), code


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ErrorCode.PARSE_ERROR, 1),
        (ErrorCode.VALIDATION_ERROR, 2),
        (ErrorCode.AGENT_NOT_FOUND, 3),
        (ErrorCode.AGENT_NOT_INSTALLED, 4),
        (ErrorCode.AUTH_ERROR, 5),
        (ErrorCode.CAPABILITY_ERROR, 6),
        (ErrorCode.CONFIG_ERROR, 7),
        (ErrorCode.SESSION_NOT_FOUND, 8),
        (ErrorCode.PROFILE_NOT_FOUND, 9),
        (ErrorCode.PLUGIN_ERROR, 10),
        (ErrorCode.TIMEOUT, 11),
        (ErrorCode.AGENT_CRASH, 12),
        (ErrorCode.ABORTED, 13),
        (ErrorCode.RATE_LIMITED, 14),
        (ErrorCode.CONTEXT_EXCEEDED, 15),
    ],
)
def test_exit_codes_are_those_of_the_contract(code: ErrorCode, number: int) -> None:
    assert EXIT_CODES.get(code, 1) == number


LINES = (
    "",
    "--json",
    "list",
    "-a list show x",
    "--agent sessions cost --by day",
    "sessions -q",
    "sessions list --limit 3",
    "sessions --json search a b -- --list",
    "cost",
    "cost --since 7d",
    "cost explain x",
    "index",
    "search list show",
    "search one --json two",
    "show -qacodex x",
    "tag x list",
    "--demo list --no-color",
    "-- list",
    "-- search one two",
    "--json -a claude -- list",
)
WRONG = ("lst", "serch list", "sessions serach list", "list --sotr cost", "list a b c", "show")


def said(parsed: tuple[Namespace, list[str]]) -> tuple[dict[str, object], list[str]]:
    return {name: value for name, value in vars(parsed[0]).items() if name != "parser"}, parsed[1]


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_parses_equally_with_the_needed_and_with_all_parsers(line: str) -> None:
    words = line.split()
    assert said(parse(words)) == said(build_parser().parse_known_args(words))


@pytest.mark.parametrize("end", ["", " --json"])
@pytest.mark.parametrize("line", PLAIN_LINES)
def test_a_simple_command_line_parses_equally_without_argparse(line: str, end: str) -> None:
    words = f"{line}{end}".split()
    found = plain_arguments(words)
    assert found is not None
    assert (vars(found), []) == said(parse(words))


@pytest.mark.parametrize("line", [line for line in LINES if line not in PLAIN_LINES])
def test_other_command_lines_need_a_parser(line: str) -> None:
    assert plain_arguments(line.split()) is None


@pytest.mark.parametrize("line", WRONG)
def test_usage_errors_equal_those_of_the_full_parser(line: str) -> None:
    def ask(read: Callable[[list[str]], tuple[Namespace, list[str]]]) -> None:
        args, extra = read(line.split())
        args.parser.refuse(extra)

    def complaint(read: Callable[[list[str]], tuple[Namespace, list[str]]]) -> tuple[str, object]:
        with pytest.raises(ValidationError) as caught:
            ask(read)
        return str(caught.value), caught.value.hint

    assert complaint(parse) == complaint(build_parser().parse_known_args)


@pytest.mark.parametrize("line", ["-h list", "-qh list", "list -h", "cost -qh"])
def test_help_knows_every_command(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    def help_of(read: Callable[[list[str]], tuple[Namespace, list[str]]]) -> str:
        with pytest.raises(SystemExit):
            read(line.split())
        return capsys.readouterr().out

    assert help_of(parse) == help_of(build_parser().parse_known_args)
