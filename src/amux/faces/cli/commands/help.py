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
  AGENT ID   the same in two words
  ID         the agent's own id, when only one agent has it
  29c5cee3   any beginning of an id that fits one session; `--agent` narrows it down

An id that fits several sessions is refused, and the sessions it fits are named.
"""

_QUERIES = """\
What `amux search` understands

  rounding coupon      both words, anywhere in one message or in a title
  "dead links"         these whole words in a row: Dead  links, dead-links, dead, links
  "a.b(c)"             with other signs than words: this very text
  cache OR index       one of the two; AND binds tighter than OR
  search NOT regex     the first without the second; search -regex is the same
  (a OR b) -(c d)      parentheses group
  auth*                only where a word begins
  /time(d )?out/       a regular expression
  日本                 scripts without spaces: any part of a text

Filters hold for the whole query. Several of one kind are alternatives, different kinds must all
fit, `-` or NOT turns one round. A query may consist of filters alone.

  agent:codex          sessions of this agent
  project:shop         begun in a folder whose name holds this; project:work/shop: the last two;
                       project:/home/me/shop: there or below
  model:opus           that used a model whose name holds this
  tag:release          with this tag
  since:7d             begun at or after; until:2026-11-01 at or before
  is:starred           that you starred
  tool:Bash            messages that call this tool, or are its result
  file:src/x.py        in which a tool is given a path that holds this
  role:user            user, assistant, tool, system, or thinking
  is:error             a tool that failed, or a notice that the model did

Values may be quoted: project:"my shop". What looks like a filter and is none is looked for as text.

Case and accents do not matter. Prompts, answers, thinking, tool input and tool output are searched,
those of sub-agents too. No query is wrong: what cannot be an operator is looked for as it stands.
A query without a hit is tried again with words that differ by a letter or two; --exact turns that
off. In a shell, put a query with quotes, stars or a dash between single quotes: 'timeout -docker'.
"""

_ENVIRONMENT = """\
Environment variables

  AGENT_MUX_CONFIG_DIR    settings and run index (~/.agent-mux)
  AGENT_MUX_PROJECT_DIR   settings of the project, instead of the nearest .agent-mux
  AMUX_DATA_DIR           your tags, stars and notes (`amux` below the platform's user data)
  AMUX_CACHE_DIR          what amux may keep to be faster; safe to delete
  AMUX_INDEX              off: keep nothing to be faster, and use nothing that was kept
  NO_COLOR                any value: no colour, as with --no-color
  HOME, XDG_*             where agents and amux keep their files

The variables that move an agent's folder are followed too, such as CLAUDE_CONFIG_DIR and
CODEX_HOME; with `--home DIR` they are ignored. amux sends nothing over the network.
"""

_MEANINGS = {
    0: "done; a reader that closed the pipe early included",
    1: "failed: unreadable session, unexpected error",
    2: "wrong usage",
    3: "no agent of that name",
    4: "the agent is not installed",
    5: "the agent is not signed in",
    6: "the agent cannot do that",
    7: "broken settings",
    8: "no session with that id, or several",
    9: "no profile of that name",
    10: "a plugin failed",
    11: "took too long",
    12: "the agent crashed",
    13: "aborted",
    14: "the provider's rate limit",
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

    yield "Exit codes, and the error codes of --json that lead to them"
    yield ""
    for number, meaning in _MEANINGS.items():
        codes = " ".join(code for code, exit_code in EXIT_CODES.items() if exit_code == number)
        yield f"  {number:>3}  {meaning}" + (f"  ({codes})" if codes else "")
