"""`amux help`: help on a command, or on a topic that concerns several commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from amux.errors import ValidationError
from amux.faces.cli.context import Context
from amux.faces.cli.parser import CommandParser, build_parser, closest

TOPICS = ("exit-codes", "addresses", "queries", "environment")

_ADDRESSES = """\
How to name a session

  AGENT:ID   the unified id that `amux list --json` shows, such as claude:29c5cee3-3f53-4795-b157
  AGENT ID   the unified id in two words
  ID         the agent's own id, if only one agent has a session with it
  29c5cee3   any beginning of an id that only one session has; `--agent` restricts the choice

If several sessions match, the command fails and names them. The commands `amux store` take a thread
by its id, the beginning of its id, its title, or `amux:ID`.
"""

_QUERIES = """\
The syntax of queries

  rounding coupon      both words, anywhere in one message or in a title
  "dead links"         consecutive whole words: Dead  links, dead-links, dead, links
  "a.b(c)"             with characters other than words: exactly this text
  cache OR index       either of the two; AND binds tighter than OR
  search NOT regex     the first without the second; also: search -regex
  (a OR b) -(c d)      parentheses group
  auth*                words that begin with this
  /time(d )?out/       a regular expression
  日本                 in scripts without spaces: any part of a text

Filters apply to the whole query. Filters of the same kind are alternatives; filters of different
kinds must all match; `-` or NOT excludes what matches. A query may consist of filters alone.

Filters for sessions:

  agent:codex          sessions of this agent
  project:shop         sessions started in a folder whose name contains this
  project:work/shop    likewise, with the last two folder names
  project:/home/me/x   sessions started in this folder or below it
  model:opus           sessions that used a model whose name contains this
  tag:release          sessions with this tag
  since:7d             sessions started at or after this time; until:2026-11-01: at or before
  is:starred           sessions that you starred

Filters for messages:

  tool:Bash            messages that call this tool, or contain its result
  file:src/x.py        messages in which a tool gets a path that contains this
  role:user            messages of this role: user, assistant, tool, system, or thinking
  is:error             messages with a failed tool call or a model error

Values may be quoted: project:"my shop". An unknown filter such as foo:bar is searched as text.

Case and accents are ignored. Prompts, answers, thinking, tool input and tool output are searched,
including those of sub-agents. No query is invalid: an operator in a wrong position is searched as
text. If nothing is found, the query is repeated with words that differ by one or two letters;
--exact turns this off. In a shell, quote queries with quotes, stars or a dash: 'timeout -docker'.
"""

_ENVIRONMENT = """\
Environment variables

  AGENT_MUX_CONFIG_DIR    directory of the settings and the run index (~/.agent-mux)
  AGENT_MUX_PROJECT_DIR   directory of the project settings (the nearest .agent-mux)
  AMUX_DATA_DIR           directory of your tags, stars and notes (`amux` in your data directory)
  AMUX_STORE              the session store: a directory or a postgresql:// URL
  AMUX_CACHE_DIR          directory of the index; safe to delete
  AMUX_INDEX              off: neither use nor write the index
  NO_COLOR                any value: no colour, as with --no-color
  HOME, XDG_*             base directories of the files of agents and amux

Variables that move an agent's folder, such as CLAUDE_CONFIG_DIR and CODEX_HOME, are respected;
with `--home DIR` they are ignored. amux sends nothing over the network.
"""

_MEANINGS = {
    0: "success, also if the output was closed early",
    1: "failure: unreadable session, a store that cannot do it, unexpected error",
    2: "wrong usage",
    3: "unknown agent",
    4: "the agent is not installed",
    5: "the agent is not signed in",
    6: "the agent does not support the action",
    7: "invalid settings",
    8: "no session with this id, or several",
    9: "unknown profile",
    10: "a plugin failed",
    11: "timeout",
    12: "the agent crashed",
    13: "aborted",
    14: "the provider's rate limit is reached",
    15: "the context window is full",
    130: "interrupted with Ctrl-C",
}


def configure(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "about", metavar="WORD", nargs="*", help=f"a command, or one of {', '.join(TOPICS)}"
    )


def run(context: Context) -> None:
    """Print a help text."""
    about: list[str] = context.args.about
    if len(about) == 1 and about[0] in TOPICS:
        sys.stdout.write(topic_text(about[0]))
        return
    parser = build_parser()
    for word in about:
        if word not in parser.children:
            raise ValidationError(
                f"there is no help on `{' '.join(about)}`",
                hint=closest(word, [*parser.children, *TOPICS]) or f"topics: {', '.join(TOPICS)}",
            )
        parser = parser.children[word]
    parser.load()
    sys.stdout.write(parser.format_help())


def topic_text(topic: str) -> str:
    """Return the text of a topic."""
    written = {"addresses": _ADDRESSES, "queries": _QUERIES, "environment": _ENVIRONMENT}
    return written.get(topic) or "\n".join(_exit_code_lines()) + "\n"


def _exit_code_lines() -> Iterator[str]:
    from amux.errors import EXIT_CODES

    yield "Exit codes, each with the error codes of --json"
    yield ""
    for number, meaning in _MEANINGS.items():
        codes = " ".join(code for code, exit_code in EXIT_CODES.items() if exit_code == number)
        yield f"  {number:>3}  {meaning}" + (f"  ({codes})" if codes else "")
