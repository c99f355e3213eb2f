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
    CommandGroup("cost", "report", "report and explain the cost of sessions"),
    CommandGroup("index", "status", "show, update and check the index that makes amux fast"),
    CommandGroup("store", "list", "keep the sessions of your own programs"),
    CommandGroup("managed", "list", "start, resume, save and recover sessions of agents"),
    CommandGroup("adapters", "list", "list the supported agents"),
    CommandGroup("hooks", "list", "list the hooks that run for sessions of the store"),
    CommandGroup("config", "show", "show the settings and where they come from"),
)

COMMANDS = (
    CommandEntry("list", "list", "list sessions, newest first"),
    CommandEntry("show", "show", "print one session"),
    CommandEntry("follow", "follow", "print the messages of a session as they are written"),
    CommandEntry("search", "search", "find sessions by their text"),
    CommandEntry("export", "export", "write one session as JSON, JSONL, Markdown or HTML"),
    CommandEntry("diff", "diff", "compare two sessions message by message"),
    CommandEntry("run", "run", "run an agent, with a prompt or in the terminal"),
    CommandEntry("resume", "resume", "continue a session in its agent; without an id, choose one"),
    CommandEntry("tag", "tag", "add tags to a session, or list all tags"),
    CommandEntry("star", "star", "mark a session with a star"),
    CommandEntry("unstar", "star:unstar", "remove the star from a session"),
    CommandEntry("note", "note", "add a note to a session, or show its notes"),
    CommandEntry("cost report", "cost_report", "show the total cost of sessions"),
    CommandEntry("cost blocks", "cost_blocks", "show spending in windows of five hours"),
    CommandEntry("cost explain", "cost_explain", "show how the cost of a session is calculated"),
    CommandEntry("agents", "agents", "list the supported agents and their sessions found here"),
    CommandEntry("doctor", "doctor", "check every file, and show what will be deleted next"),
    CommandEntry("index status", "index:status", "show the path, contents and state of the index"),
    CommandEntry("index update", "index:update", "read new and changed sources"),
    CommandEntry("index rebuild", "index:rebuild", "delete the index and read all sources again"),
    CommandEntry("index check", "index:check", "compare a sample of sources with the index"),
    CommandEntry("store list", "store_list:list", "list the threads of the session store"),
    CommandEntry("store show", "store_list:show", "print one thread"),
    CommandEntry("store new", "store_write:new", "start a thread and print its id"),
    CommandEntry("store append", "store_write:append", "append a message to a thread"),
    CommandEntry("store resume", "store_write:resume", "continue a thread in a new run"),
    CommandEntry("store fork", "store_write:fork", "copy a conversation into a new thread"),
    CommandEntry("store clear", "store_manage:clear", "empty the conversation of a thread"),
    CommandEntry(
        "store compact",
        "store_write:compact",
        "replace the older part of a conversation by a summary",
    ),
    CommandEntry("store title", "store_write:title", "set, remove or show the title of a thread"),
    CommandEntry("store tag", "store_write:tag", "add tags to a thread, remove or show them"),
    CommandEntry("store search", "store_list:search", "find messages of threads"),
    CommandEntry(
        "store lineage", "store_list:lineage", "show the ancestors and descendants of a thread"
    ),
    CommandEntry("store archive", "store_manage:archive", "move threads to the archive"),
    CommandEntry(
        "store unarchive", "store_manage:unarchive", "bring threads back from the archive"
    ),
    CommandEntry("store export", "store_transfer:export", "write one thread, or all"),
    CommandEntry(
        "store import", "store_transfer:import", "store exported threads, or a session of any agent"
    ),
    CommandEntry(
        "store pack", "store_transfer:pack", "write a thread with its blobs into one file"
    ),
    CommandEntry("store unpack", "store_transfer:unpack", "store a packed thread"),
    CommandEntry("store delete", "store_manage:delete", "delete threads for good"),
    CommandEntry("store prune", "store_manage:prune", "delete ended threads that are old"),
    CommandEntry(
        "store retention",
        "store_retention:retention",
        "show or set how long threads of a namespace are kept",
    ),
    CommandEntry("store erase", "store_retention:erase", "erase everything of one user"),
    CommandEntry(
        "store vacuum",
        "store_manage:vacuum",
        "remove rewound and replaced records of a thread for good",
    ),
    CommandEntry("store stats", "store_list:stats", "show counts over all threads"),
    CommandEntry(
        "store doctor", "store_maintain:doctor", "read threads completely and show what is wrong"
    ),
    CommandEntry("store rebuild", "store_maintain:rebuild", "derive the index of the store again"),
    CommandEntry(
        "store optimize", "store_maintain:optimize", "make the index of the store small and fast"
    ),
    CommandEntry("managed list", "managed:list", "list managed sessions, newest first"),
    CommandEntry("managed start", "managed:start", "start a managed session of an agent"),
    CommandEntry("managed resume", "managed:resume", "continue a managed session"),
    CommandEntry(
        "managed recover", "managed:recover", "show and recover managed sessions that crashed"
    ),
    CommandEntry("managed stop", "managed:stop", "stop the agent and end managed sessions"),
    CommandEntry("managed cleanup", "managed:cleanup", "put away ended managed sessions"),
    CommandEntry(
        "managed delete", "managed:delete", "delete managed sessions; the agents' data stay"
    ),
    CommandEntry("demo", "overview", "show an overview of the built-in sample sessions"),
    CommandEntry("sessions list", "list", "list sessions, newest first"),
    CommandEntry("sessions show", "show", "print one session"),
    CommandEntry("sessions search", "search", "find sessions by their text"),
    CommandEntry("sessions export", "export", "write one session as JSON, JSONL, Markdown or HTML"),
    CommandEntry("sessions diff", "diff", "compare two sessions message by message"),
    CommandEntry("sessions resume", "resume", "continue a session in its agent"),
    CommandEntry("sessions fork", "resume:fork", "continue a copy of a session in its agent"),
    CommandEntry(
        "adapters list", "agents", "list the supported agents and their sessions found here"
    ),
    CommandEntry("hooks list", "hooks", "list hooks with their origin, trust and order"),
    CommandEntry("config show", "config_show", "show every setting with its origin"),
    CommandEntry("completion", "completion", "print a completion script for your shell"),
    CommandEntry("help", "help", "show help on a command or a topic"),
)

OVERVIEW = "overview"
"""The module that runs if no command is typed."""


def load_command(
    name: str,
) -> tuple[Callable[[CommandParser], None], Callable[[Context], None]]:
    """Import the module of a command; return the functions that add its arguments and run it.

    `index:update` names the functions `configure_update` and `run_update` of the module `index`.
    """
    module, _, verb = name.partition(":")
    suffix = f"_{verb}" if verb else ""
    loaded: Any = import_module(f"amux.faces.cli.commands.{module}")
    return getattr(loaded, f"configure{suffix}"), getattr(loaded, f"run{suffix}")
