"""The table of commands: the words, the module that runs them and one line of help.

A command is imported only when its words are typed; `amux --help` imports none.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` would double the imports of a help text
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from amux.faces.cli.context import Context
    from amux.faces.cli.parser import CommandParser


class LoadedCommand:
    """The two functions of a command: one adds its arguments, the other runs it."""

    __slots__ = ("configure", "run")

    def __init__(
        self, configure: Callable[[CommandParser], None], run: Callable[[Context], None]
    ) -> None:
        self.configure = configure
        self.run = run


class CommandEntry:
    """A command; its `module` is imported when its `words` are typed."""

    __slots__ = ("module", "summary", "words")

    def __init__(self, words: str, module: str, summary: str) -> None:
        self.words = words
        self.module = module
        self.summary = summary


class CommandGroup:
    """A noun with several verbs; `default` is the verb if none is typed."""

    __slots__ = ("default", "summary", "word")

    def __init__(self, word: str, default: str, summary: str) -> None:
        self.word = word
        self.default = default
        self.summary = summary


GROUPS = (
    CommandGroup("sessions", "list", "list, show, search, export, compare and resume sessions"),
    CommandGroup("cost", "report", "what sessions cost, and why"),
    CommandGroup("index", "status", "what amux keeps to be quick, and keeping it up to date"),
    CommandGroup("adapters", "list", "the agents amux can read"),
    CommandGroup("config", "show", "settings and where they come from"),
)

COMMANDS = (
    CommandEntry("list", "list", "list sessions, newest first"),
    CommandEntry("show", "show", "print one session"),
    CommandEntry("follow", "follow", "print the messages of a session as they are written"),
    CommandEntry("search", "search", "find sessions by their words"),
    CommandEntry("export", "export", "write one session as JSON, JSONL, Markdown or HTML"),
    CommandEntry("diff", "diff", "compare two sessions message by message"),
    CommandEntry("tag", "tag", "give a session tags, or see which tags there are"),
    CommandEntry("star", "star", "mark a session with a star"),
    CommandEntry("unstar", "star:unstar", "take the star from a session"),
    CommandEntry("note", "note", "write a note on a session, or read its notes"),
    CommandEntry("cost report", "cost_report", "sum the cost of sessions"),
    CommandEntry("cost blocks", "cost_blocks", "show spending in windows of five hours"),
    CommandEntry("cost explain", "cost_explain", "show how the cost of one session comes about"),
    CommandEntry("agents", "agents", "the agents amux can read and what they left here"),
    CommandEntry("doctor", "doctor", "account for every file, and see what will be deleted next"),
    CommandEntry(
        "index status", "index:status", "where the index is, what it holds, what is stale"
    ),
    CommandEntry("index update", "index:update", "read what is new or has changed"),
    CommandEntry(
        "index rebuild", "index:rebuild", "throw the index away and read everything again"
    ),
    CommandEntry("index check", "index:check", "read a sample of sources again and compare"),
    CommandEntry("demo", "overview", "look around in built-in sample sessions"),
    CommandEntry("sessions list", "list", "list sessions, newest first"),
    CommandEntry("sessions show", "show", "print one session"),
    CommandEntry("sessions search", "search", "find sessions by their words"),
    CommandEntry("sessions export", "export", "write one session as JSON, JSONL, Markdown or HTML"),
    CommandEntry("sessions diff", "diff", "compare two sessions message by message"),
    CommandEntry("sessions resume", "resume", "go on with a session in the agent itself"),
    CommandEntry(
        "sessions fork", "resume:fork", "begin a new session with the history of an old one"
    ),
    CommandEntry("adapters list", "agents", "the agents amux can read and what they left here"),
    CommandEntry("config show", "config_show", "every setting with its origin"),
    CommandEntry("completion", "completion", "print a completion script for your shell"),
    CommandEntry("help", "help", "help on a command or a topic"),
)

OVERVIEW = "overview"
"""The module that runs if no command is typed."""


def load_command(name: str) -> LoadedCommand:
    """Import a module of this package and return the functions of the command.

    `index:update` names the functions `configure_update` and `run_update` of the module `index`.
    """
    module, _, verb = name.partition(":")
    suffix = f"_{verb}" if verb else ""
    loaded: Any = import_module(f"amux.faces.cli.commands.{module}")
    return LoadedCommand(getattr(loaded, f"configure{suffix}"), getattr(loaded, f"run{suffix}"))
