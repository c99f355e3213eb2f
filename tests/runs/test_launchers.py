"""The command of a run without a terminal, word for word: by agent, action and version."""

from __future__ import annotations

from typing import Final, Literal

import pytest

from amux.launchers import (
    LAUNCHERS,
    LONGEST_ARGUMENT,
    LaunchRequest,
    UnsupportedError,
    is_since,
    parse_version,
)

ID: Final = "a1"
ACTIONS: Final[tuple[Literal["new", "resume", "fork"], ...]] = ("new", "resume", "fork")

RUNS: Final = {
    "claude": (
        "claude -p --model M --output-format stream-json --verbose go",
        "claude -p --model M --output-format stream-json --verbose --resume a1 go",
        "claude -p --model M --output-format stream-json --verbose --resume a1 --fork-session go",
    ),
    "codex": (
        "codex exec -m M --json go",
        "codex exec -m M --json resume a1 go",
        "codex exec -m M --json fork a1 go",
    ),
    "gemini": (
        "gemini -m M -o stream-json --prompt=go",
        "gemini -m M -o stream-json --resume a1 --prompt=go",
        None,
    ),
    "qwen": (
        "qwen -m M -o stream-json --prompt=go",
        "qwen -m M -o stream-json --resume a1 --prompt=go",
        "qwen -m M -o stream-json --resume a1 --fork-session --prompt=go",
    ),
    "copilot": (
        "copilot --model M --output-format json --prompt=go",
        "copilot --model M --output-format json --resume=a1 --prompt=go",
        None,
    ),
    "cursor": (
        "cursor-agent --model M --output-format stream-json -p go",
        "cursor-agent --model M --output-format stream-json --resume a1 -p go",
        None,
    ),
    "opencode": (
        "opencode run --model M --format json",  # the prompt goes to standard input
        "opencode run --model M --format json --session a1",
        "opencode run --model M --format json --session a1 --fork",
    ),
    "pi": (
        "pi --model M --mode json -p go",
        "pi --model M --mode json --session a1 -p go",
        "pi --model M --mode json --fork a1 -p go",
    ),
    "omp": (
        "omp --model M --mode json -p go",
        "omp --model M --mode json --resume a1 -p go",
        "omp --model M --mode json --fork a1 -p go",
    ),
    "hermes": (
        "hermes chat --model M --quiet --query=go",
        "hermes chat --model M --quiet --resume=a1 --query=go",
        None,
    ),
    "droid": (
        "droid exec --model M -o stream-json go",
        "droid exec --model M -o stream-json -s a1 go",
        "droid exec --model M -o stream-json --fork a1 go",
    ),
    "openclaw": (
        "openclaw agent --local --json --agent main --message go",
        "openclaw agent --local --json --session-id a1 --message go",
        None,
    ),
}

EPHEMERAL: Final = {
    "claude": "--no-session-persistence",
    "codex": "--ephemeral",
    "pi": "--no-session",
    "omp": "--no-session",
}


def words(agent: str, request: LaunchRequest, version: str | None = None) -> str | None:
    try:
        return " ".join(LAUNCHERS[agent].plan(request, version).argv)
    except UnsupportedError:
        return None


def test_every_launcher_is_in_the_table() -> None:
    assert set(RUNS) == set(LAUNCHERS)


@pytest.mark.parametrize("agent", LAUNCHERS)
def test_every_run_has_this_command(agent: str) -> None:
    model = None if agent == "openclaw" else "M"
    for action, expected in zip(ACTIONS, RUNS[agent], strict=True):
        request = LaunchRequest(action, session_id=ID, prompt="go", model=model, is_structured=True)
        assert words(agent, request) == expected


@pytest.mark.parametrize("agent", LAUNCHERS)
def test_a_run_without_a_session_is_refused_where_the_agent_always_keeps_one(agent: str) -> None:
    found = words(agent, LaunchRequest(prompt="go", no_session=True))
    assert (found is None) == (agent not in EPHEMERAL)
    assert found is None or EPHEMERAL[agent] in found.split()


@pytest.mark.parametrize(
    ("agent", "version", "format"),
    [
        ("gemini", "0.5.9", "text"),
        ("gemini", "0.6.0", "gemini-document"),
        ("gemini", "0.10.9", "gemini-document"),
        ("gemini", "0.11.0", "gemini"),
        ("copilot", "0.0.343", "text"),
        ("copilot", "0.0.420", "copilot"),
        ("copilot", "1.0.102", "copilot"),
        ("opencode", "0.5.29", "text"),
        ("opencode", "1.0.61", "opencode"),
        ("qwen", "0.3.9", "text"),
        ("qwen", "0.5.2", "qwen"),
    ],
)
def test_the_output_is_the_best_that_a_version_has(agent: str, version: str, format: str) -> None:
    request = LaunchRequest(prompt="go", is_structured=True)
    assert LAUNCHERS[agent].plan(request, version).format == format


@pytest.mark.parametrize(
    ("agent", "version", "able"),
    [("claude", "2.0.77", False), ("claude", "2.1.0", True), ("codex", "0.119.0", False)],
)
def test_a_flag_is_used_since_its_version(agent: str, version: str, able: bool) -> None:
    request = LaunchRequest(prompt="go", no_session=True)
    assert (words(agent, request, version) is not None) == able


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("claude", "claude hello"),
        ("codex", "codex hello"),
        ("gemini", "gemini --prompt-interactive=hello"),
        ("copilot", "copilot --interactive=hello"),
        ("opencode", "opencode --prompt=hello"),
        ("pi", "pi hello"),
        ("hermes", None),
        ("openclaw", None),
    ],
)
def test_a_terminal_session_may_begin_with_a_prompt(agent: str, expected: str | None) -> None:
    assert words(agent, LaunchRequest(prompt="hello", is_interactive=True)) == expected


@pytest.mark.parametrize("size", [LONGEST_ARGUMENT, LONGEST_ARGUMENT + 1])
def test_the_longest_argument_is_what_linux_accepts(size: int) -> None:
    import subprocess
    import sys

    plan = LAUNCHERS["claude"].plan(LaunchRequest(prompt="x" * size))
    assert (plan.stdin is None) == (size == LONGEST_ARGUMENT)
    command = [sys.executable, "-c", "import sys; sys.exit(len(sys.argv[1]) % 251)", "x" * size]
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError:
        code = None
    assert code == (size % 251 if plan.stdin is None else None)


def test_a_version_is_asked_for_only_if_commands_differ() -> None:
    plain = LaunchRequest(prompt="go", is_structured=True)
    resumed = LaunchRequest("resume", session_id=ID, prompt="go", is_structured=True)
    forked = LaunchRequest("fork", session_id=ID, prompt="go", is_structured=True)
    asked = [LAUNCHERS["claude"].depends_on_version(each) for each in (plain, resumed, forked)]
    assert asked == [False, False, True]
    asked = [LAUNCHERS["codex"].depends_on_version(each) for each in (plain, resumed, forked)]
    assert asked == [False, True, True]
    assert LAUNCHERS["gemini"].depends_on_version(plain)


def test_further_arguments_stand_before_the_prompt() -> None:
    request = LaunchRequest(prompt="-x", args=("--verbose", "a b"))
    plan = LAUNCHERS["codex"].plan(request)
    assert plan.argv == ("codex", "exec", "--verbose", "a b", "--", "-x")


def test_a_further_argument_that_takes_many_words_does_not_take_the_prompt() -> None:
    request = LaunchRequest(prompt="hello", args=("--allowedTools", "Bash"))
    plan = LAUNCHERS["claude"].plan(request)
    assert plan.argv == ("claude", "-p", "--allowedTools", "Bash", "--", "hello")


@pytest.mark.parametrize(
    ("text", "version"),
    [("codex-cli 0.20.0", (0, 20, 0)), ("2.1", (2, 1, 0)), ("none", None), (None, None)],
)
def test_a_version_is_read_from_any_text(text: str | None, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version
    assert is_since(text, (0, 20)) is True
