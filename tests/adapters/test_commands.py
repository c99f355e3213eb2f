"""The command line of every agent, action, kind of prompt and version, word for word."""

from __future__ import annotations

from itertools import product
from typing import Final, Literal

import pytest

from amux.adapters import BUILTIN, load_builtin
from amux.reading.registry import AdapterRegistry

Action = Literal["new", "resume", "fork"]
Argv = tuple[str, ...] | None

ID: Final = "a1"
ACTIONS: Final[tuple[Action, ...]] = ("new", "resume", "fork")
PROMPTS: Final = (None, "go on", "-x", "--", "two\n-lines {id}")
NO_COMMAND: Final[list[Argv]] = [None] * len(PROMPTS)

COMMANDS: Final[dict[str, dict[Action, list[Argv]]]] = {
    "claude": {
        "new": [
            ("claude",),
            ("claude", "-p", "go on"),
            ("claude", "-p", "--", "-x"),
            ("claude", "-p", "--", "--"),
            ("claude", "-p", "two\n-lines {id}"),
        ],
        "resume": [
            ("claude", "--resume", ID),
            ("claude", "-p", "--resume", ID, "go on"),
            ("claude", "-p", "--resume", ID, "--", "-x"),
            ("claude", "-p", "--resume", ID, "--", "--"),
            ("claude", "-p", "--resume", ID, "two\n-lines {id}"),
        ],
        "fork": [
            ("claude", "--resume", ID, "--fork-session"),
            ("claude", "-p", "--resume", ID, "--fork-session", "go on"),
            ("claude", "-p", "--resume", ID, "--fork-session", "--", "-x"),
            ("claude", "-p", "--resume", ID, "--fork-session", "--", "--"),
            ("claude", "-p", "--resume", ID, "--fork-session", "two\n-lines {id}"),
        ],
    },
    "codex": {
        "new": [
            ("codex",),
            ("codex", "exec", "go on"),
            ("codex", "exec", "--", "-x"),
            ("codex", "exec", "--", "--"),
            ("codex", "exec", "two\n-lines {id}"),
        ],
        "resume": [
            ("codex", "resume", ID),
            ("codex", "exec", "resume", ID, "go on"),
            ("codex", "exec", "resume", "--", ID, "-x"),
            ("codex", "exec", "resume", "--", ID, "--"),
            ("codex", "exec", "resume", ID, "two\n-lines {id}"),
        ],
        "fork": [
            ("codex", "fork", ID),
            ("codex", "exec", "fork", ID, "go on"),
            ("codex", "exec", "fork", "--", ID, "-x"),
            ("codex", "exec", "fork", "--", ID, "--"),
            ("codex", "exec", "fork", ID, "two\n-lines {id}"),
        ],
    },
    "gemini": {
        "new": [
            ("gemini",),
            ("gemini", "--prompt=go on"),
            ("gemini", "--prompt=-x"),
            ("gemini", "--prompt=--"),
            ("gemini", "--prompt=two\n-lines {id}"),
        ],
        "resume": [
            ("gemini", "--resume", ID),
            ("gemini", "--resume", ID, "--prompt=go on"),
            ("gemini", "--resume", ID, "--prompt=-x"),
            ("gemini", "--resume", ID, "--prompt=--"),
            ("gemini", "--resume", ID, "--prompt=two\n-lines {id}"),
        ],
    },
    "copilot": {
        "new": [
            ("copilot",),
            ("copilot", "--prompt=go on"),
            ("copilot", "--prompt=-x"),
            ("copilot", "--prompt=--"),
            ("copilot", "--prompt=two\n-lines {id}"),
        ],
        "resume": [
            ("copilot", f"--resume={ID}"),
            ("copilot", f"--resume={ID}", "--prompt=go on"),
            ("copilot", f"--resume={ID}", "--prompt=-x"),
            ("copilot", f"--resume={ID}", "--prompt=--"),
            ("copilot", f"--resume={ID}", "--prompt=two\n-lines {id}"),
        ],
    },
    "cursor": {
        "new": [
            ("cursor-agent",),
            ("cursor-agent", "-p", "go on"),
            ("cursor-agent", "-p", "--", "-x"),
            ("cursor-agent", "-p", "--", "--"),
            ("cursor-agent", "-p", "two\n-lines {id}"),
        ],
        "resume": [
            ("cursor-agent", "--resume", ID),
            ("cursor-agent", "--resume", ID, "-p", "go on"),
            ("cursor-agent", "--resume", ID, "-p", "--", "-x"),
            ("cursor-agent", "--resume", ID, "-p", "--", "--"),
            ("cursor-agent", "--resume", ID, "-p", "two\n-lines {id}"),
        ],
    },
    "opencode": {
        "new": [
            ("opencode",),
            ("opencode", "run", "go on"),
            ("opencode", "run", "--", "-x"),
            ("opencode", "run", "--", "--"),
            ("opencode", "run", "two\n-lines {id}"),
        ],
        "resume": [
            ("opencode", "--session", ID),
            ("opencode", "run", "--session", ID, "go on"),
            ("opencode", "run", "--session", ID, "--", "-x"),
            ("opencode", "run", "--session", ID, "--", "--"),
            ("opencode", "run", "--session", ID, "two\n-lines {id}"),
        ],
        "fork": [
            ("opencode", "--session", ID, "--fork"),
            ("opencode", "run", "--session", ID, "--fork", "go on"),
            ("opencode", "run", "--session", ID, "--fork", "--", "-x"),
            ("opencode", "run", "--session", ID, "--fork", "--", "--"),
            ("opencode", "run", "--session", ID, "--fork", "two\n-lines {id}"),
        ],
    },
    "pi": {
        "new": [
            ("pi",),
            ("pi", "-p", "go on"),
            ("pi", "-p", "-x"),
            ("pi", "-p", "--"),
            ("pi", "-p", "two\n-lines {id}"),
        ],
        "resume": [
            ("pi", "--session", ID),
            ("pi", "--session", ID, "-p", "go on"),
            ("pi", "--session", ID, "-p", "-x"),
            ("pi", "--session", ID, "-p", "--"),
            ("pi", "--session", ID, "-p", "two\n-lines {id}"),
        ],
        "fork": [
            ("pi", "--fork", ID),
            ("pi", "--fork", ID, "-p", "go on"),
            ("pi", "--fork", ID, "-p", "-x"),
            ("pi", "--fork", ID, "-p", "--"),
            ("pi", "--fork", ID, "-p", "two\n-lines {id}"),
        ],
    },
    "omp": {
        "new": [
            ("omp",),
            ("omp", "-p", "go on"),
            ("omp", "-p", "-x"),
            ("omp", "-p", "--"),
            ("omp", "-p", "two\n-lines {id}"),
        ],
        "resume": [
            ("omp", "--resume", ID),
            ("omp", "--resume", ID, "-p", "go on"),
            ("omp", "--resume", ID, "-p", "-x"),
            ("omp", "--resume", ID, "-p", "--"),
            ("omp", "--resume", ID, "-p", "two\n-lines {id}"),
        ],
        "fork": [
            ("omp", "--fork", ID),
            ("omp", "--fork", ID, "-p", "go on"),
            ("omp", "--fork", ID, "-p", "-x"),
            ("omp", "--fork", ID, "-p", "--"),
            ("omp", "--fork", ID, "-p", "two\n-lines {id}"),
        ],
    },
    "openclaw": {
        "new": [
            ("openclaw", "tui"),
            ("openclaw", "agent", "--local", "--agent", "main", "--message", "go on"),
            ("openclaw", "agent", "--local", "--agent", "main", "--message", "-x"),
            ("openclaw", "agent", "--local", "--agent", "main", "--message", "--"),
            ("openclaw", "agent", "--local", "--agent", "main", "--message", "two\n-lines {id}"),
        ],
        "resume": [
            None,
            ("openclaw", "agent", "--local", "--session-id", ID, "--message", "go on"),
            ("openclaw", "agent", "--local", "--session-id", ID, "--message", "-x"),
            ("openclaw", "agent", "--local", "--session-id", ID, "--message", "--"),
            ("openclaw", "agent", "--local", "--session-id", ID, "--message", "two\n-lines {id}"),
        ],
    },
    "hermes": {
        "new": [
            ("hermes",),
            ("hermes", "chat", "--query=go on"),
            ("hermes", "chat", "--query=-x"),
            ("hermes", "chat", "--query=--"),
            ("hermes", "chat", "--query=two\n-lines {id}"),
        ],
        "resume": [
            ("hermes", f"--resume={ID}"),
            ("hermes", "chat", f"--resume={ID}", "--query=go on"),
            ("hermes", "chat", f"--resume={ID}", "--query=-x"),
            ("hermes", "chat", f"--resume={ID}", "--query=--"),
            ("hermes", "chat", f"--resume={ID}", "--query=two\n-lines {id}"),
        ],
    },
    "droid": {
        "new": [
            ("droid",),
            ("droid", "exec", "go on"),
            ("droid", "exec", "--", "-x"),
            ("droid", "exec", "--", "--"),
            ("droid", "exec", "two\n-lines {id}"),
        ],
        "resume": [
            ("droid", "-r", ID),
            ("droid", "exec", "-s", ID, "go on"),
            ("droid", "exec", "-s", ID, "--", "-x"),
            ("droid", "exec", "-s", ID, "--", "--"),
            ("droid", "exec", "-s", ID, "two\n-lines {id}"),
        ],
        "fork": [
            ("droid", "--fork", ID),
            ("droid", "exec", "--fork", ID, "go on"),
            ("droid", "exec", "--fork", ID, "--", "-x"),
            ("droid", "exec", "--fork", ID, "--", "--"),
            ("droid", "exec", "--fork", ID, "two\n-lines {id}"),
        ],
    },
    "amux": {},  # the program that writes a thread is not known
    "qwen": {
        "new": [
            ("qwen",),
            ("qwen", "--prompt=go on"),
            ("qwen", "--prompt=-x"),
            ("qwen", "--prompt=--"),
            ("qwen", "--prompt=two\n-lines {id}"),
        ],
        "resume": [
            ("qwen", "--resume", ID),
            ("qwen", "--resume", ID, "--prompt=go on"),
            ("qwen", "--resume", ID, "--prompt=-x"),
            ("qwen", "--resume", ID, "--prompt=--"),
            ("qwen", "--resume", ID, "--prompt=two\n-lines {id}"),
        ],
        "fork": [
            ("qwen", "--resume", ID, "--fork-session"),
            ("qwen", "--resume", ID, "--fork-session", "--prompt=go on"),
            ("qwen", "--resume", ID, "--fork-session", "--prompt=-x"),
            ("qwen", "--resume", ID, "--fork-session", "--prompt=--"),
            ("qwen", "--resume", ID, "--fork-session", "--prompt=two\n-lines {id}"),
        ],
    },
    "agent": {
        "new": [
            ("agent",),
            ("agent", "-prompt=go on"),
            ("agent", "-prompt=-x"),
            ("agent", "-prompt=--"),
            ("agent", "-prompt=two\n-lines {id}"),
        ],
        "resume": [
            ("agent", f"-session={ID}"),
            ("agent", f"-session={ID}", "-prompt=go on"),
            ("agent", f"-session={ID}", "-prompt=-x"),
            ("agent", f"-session={ID}", "-prompt=--"),
            ("agent", f"-session={ID}", "-prompt=two\n-lines {id}"),
        ],
    },
}

FIRST_VERSIONS: Final[dict[tuple[str, Action, str | None], tuple[str, str]]] = {
    ("claude", "fork", None): ("1.0.119", "1.0.120"),
    ("claude", "fork", "go on"): ("1.0.119", "1.0.120"),
    ("codex", "resume", None): ("0.38.9", "0.39.0"),
    ("codex", "resume", "go on"): ("0.38.9", "0.39.0"),
    ("codex", "fork", None): ("0.119.9", "0.120.0"),
    ("codex", "fork", "go on"): ("0.165.9", "0.166.0"),
    ("gemini", "resume", None): ("0.15.9", "0.16.0"),
    ("gemini", "resume", "go on"): ("0.15.9", "0.16.0"),
    ("opencode", "fork", None): ("1.1.65", "1.2.0"),
    ("opencode", "fork", "go on"): ("1.1.65", "1.2.0"),
    ("qwen", "resume", None): ("0.3.9", "0.4.0"),
    ("qwen", "resume", "go on"): ("0.3.9", "0.4.0"),
    ("qwen", "fork", None): ("0.15.9", "0.16.0"),
    ("qwen", "fork", "go on"): ("0.15.9", "0.16.0"),
}
"""The last version without an action, and the first one with it; other actions always exist."""

UNKNOWN_VERSIONS: Final = (None, "", "of its own kind", "7", "2026.9.1", "10.0")


def argv(
    agent: str,
    action: Action,
    session_id: str | None,
    prompt: str | None = None,
    version: str | None = None,
) -> Argv:
    adapter = load_builtin(agent)
    assert adapter is not None
    command = adapter.command(
        action, session_id=session_id, prompt=prompt, cwd="/w", version=version
    )
    assert command is None or command.cwd == "/w"
    return None if command is None else command.argv


def test_every_agent_is_in_the_table() -> None:
    assert set(COMMANDS) == set(BUILTIN)


@pytest.mark.parametrize("agent", BUILTIN)
def test_every_command_is_this_one(agent: str) -> None:
    for action, prompt in product(ACTIONS, PROMPTS):
        session_id = None if action == "new" else ID
        expected = COMMANDS[agent].get(action, NO_COMMAND)[PROMPTS.index(prompt)]
        for version in UNKNOWN_VERSIONS:
            assert argv(agent, action, session_id, prompt, version) == expected
        kind = None if prompt is None else "go on"
        last_without, first_with = FIRST_VERSIONS.get((agent, action, kind), (None, "0.0.1"))
        assert argv(agent, action, session_id, prompt, first_with) == expected
        if last_without is not None:
            assert argv(agent, action, session_id, prompt, last_without) is None
            assert argv(agent, action, session_id, prompt, f"{last_without}-beta.1") is None


@pytest.mark.parametrize("agent", BUILTIN)
def test_an_id_is_required_to_resume_and_to_fork_and_ignored_otherwise(agent: str) -> None:
    for prompt in PROMPTS:
        assert argv(agent, "resume", None, prompt) is None
        assert argv(agent, "fork", None, prompt) is None
        if agent == "openclaw" and prompt is not None:  # a new conversation may be given an id
            turn = ("openclaw", "agent", "--local", "--session-id", ID, "--message", prompt)
            assert argv(agent, "new", ID, prompt) == turn
        else:
            assert argv(agent, "new", ID, prompt) == argv(agent, "new", None, prompt)


def test_an_id_may_look_like_an_option_or_a_placeholder() -> None:
    assert argv("codex", "resume", "-i") == ("codex", "resume", "--", "-i")
    assert argv("codex", "fork", "-i", "go") == ("codex", "exec", "fork", "--", "-i", "go")
    assert argv("cursor", "resume", "-i", "go") == (
        "cursor-agent", "--resume", "-i", "-p", "go",
    )  # fmt: skip
    assert argv("claude", "resume", "{prompt}", "go") == (
        "claude", "-p", "--resume", "{prompt}", "go",
    )  # fmt: skip


def test_an_empty_prompt_is_a_prompt() -> None:
    assert argv("claude", "new", None, "") == ("claude", "-p", "")
    assert argv("codex", "resume", ID, "") == ("codex", "exec", "resume", ID, "")
    assert argv("hermes", "new", None, "") == ("hermes", "chat", "--query=")


def test_text_before_a_version_is_ignored() -> None:
    assert argv("codex", "resume", ID, version="codex-cli 0.20.0") is None
    assert argv("qwen", "fork", ID, version="v0.15.0") is None


@pytest.mark.parametrize(
    ("agent", "version", "able"),
    [
        ("claude", "1.0.119", (True, False)),
        ("claude", "1.0.120", (True, True)),
        ("codex", "0.38.0", (False, False)),
        ("codex", "0.119.0", (True, False)),
        ("codex", "0.120.0", (True, True)),
        ("gemini", "0.15.0", (False, False)),
        ("gemini", "0.16.0", (True, False)),
        ("opencode", "1.1.0", (True, False)),
        ("opencode", "1.2.0", (True, True)),
        ("qwen", "0.3.0", (False, False)),
        ("qwen", "0.4.0", (True, False)),
        ("qwen", "0.16.0", (True, True)),
        ("openclaw", "0.0.1", (True, False)),  # it resumes only with a prompt
        ("agent", "0.0.1", (True, False)),
        ("droid", "0.0.1", (True, True)),
    ],
)
def test_the_capabilities_of_a_version_follow_its_commands(
    agent: str, version: str, able: tuple[bool, bool]
) -> None:
    found = AdapterRegistry().capabilities(agent, version=version)
    assert (found.can_resume, found.can_fork) == able
