"""Measure searches after everything is indexed: `search_rounds.py HOME CACHE [URL]`.

Eight queries of every kind (four of some) are sent to several programs in turn: amux as a library
in a long-lived process that answers from a recent snapshot of the files (`max_age`), over messages
as the server does, with one passage per result; amux with tool text and three passages; that with a
new snapshot before every answer; the text index of amux for messages alone (which documents contain
the words); and the server of agentsview at URL. Prints medians in milliseconds as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

from corpus import IDEOGRAPHS, PHRASE

from amux.client import create_client
from amux.index.text.plan import TermKind
from amux.index.text.update import TextDatabase

LIMIT: Final = 20
_ROUNDS: Final = {"messages": 6, "search": 6, "with a look": 2, "engine": 6, "server": 6}
_MAX_AGE: Final = 600.0
"""Seconds; longer than all rounds together."""

_FREQUENT: Final = (
    "error", "function", "database", "request", "session", "token", "config", "server",
)  # fmt: skip
_LESS_FREQUENT: Final = (
    "migration", "endpoint", "refactor", "deadlock", "latency", "snapshot", "rollback", "coverage",
)  # fmt: skip


class Query(NamedTuple):
    """One query in the syntax of every program."""

    search: str
    engine: tuple[tuple[TermKind, str], ...]  # all of them, in one document
    server: tuple[str, str]  # its mode and the pattern


def _words(*words: str) -> Query:
    text = " ".join(words)
    return Query(text, tuple(("word", word) for word in words), ("fts", text))


def _phrase(text: str) -> Query:
    return Query(f'"{text}"', (("phrase", text),), ("fts", f'"{text}"'))


def _prefix(text: str) -> Query:
    return Query(f"{text}*", (("prefix", text),), ("fts", f'"{text}"*'))


def _inside(text: str) -> Query:
    return Query(text, (("word", text),), ("substring", text))


QUERIES: Final[dict[str, list[Query]]] = {
    "rare word": [_words(f"zqneedle{number:03}x") for number in range(8)],
    "common word": [_words(word) for word in _FREQUENT],
    "two words": [_words(*pair) for pair in zip(_FREQUENT, _LESS_FREQUENT, strict=True)],
    "phrase": [_phrase(PHRASE), *(_phrase(f"the {word}") for word in _FREQUENT[1:])],
    "prefix": [_prefix(word[:5]) for word in _LESS_FREQUENT],
    "ideographs": [_inside(IDEOGRAPHS[start : start + 3]) for start in range(4)],
    "part of a word": [_inside("needle01"), *(_inside(word[1:7]) for word in _LESS_FREQUENT[:3])],
}


class Answer(NamedTuple):
    """Return the median time of many searches in milliseconds, and the number of results."""

    milliseconds: float
    results: int


def main() -> None:
    home, cache, *urls = sys.argv[1:]
    env = {"HOME": home, "AMUX_CACHE_DIR": cache}
    client, looking = create_client(env=env, max_age=_MAX_AGE), create_client(env=env)
    client.sessions.search("zqneedle000x", limit=1)  # from here on the index is up to date
    first = min(Path(cache).glob("texts-*.db"), key=lambda path: len(path.name))
    index = TextDatabase(first)  # with the shards beside it
    parties: dict[str, Callable[[Query], int]] = {
        "messages": lambda query: len(
            client.sessions.search(query.search, limit=LIMIT, said_only=True, hits=1)
        ),
        "search": lambda query: len(client.sessions.search(query.search, limit=LIMIT)),
        "with a look": lambda query: len(looking.sessions.search(query.search, limit=LIMIT)),
        "engine": lambda query: _documents(index, query),
    }
    if urls:
        parties["server"] = lambda query: _ask_server(urls[0], query)
    medians = {name: _medians(queries, parties) for name, queries in QUERIES.items()}
    json.dump(medians, sys.stdout, indent=1)


def _medians(queries: list[Query], parties: dict[str, Callable[[Query], int]]) -> dict[str, Answer]:
    """Run all queries with one program after the other, several times."""
    times: dict[str, list[float]] = {name: [] for name in parties}
    found: dict[str, int] = {}
    for number in range(max(_ROUNDS.values())):
        for name, ask in parties.items():
            if number < _ROUNDS[name]:
                runs = [_timed(ask, query) for query in queries]
                times[name] += [milliseconds for milliseconds, _ in runs]
                found[name] = sum(results for _, results in runs)
    return {name: Answer(median(own), found[name]) for name, own in times.items()}


def _timed(ask: Callable[[Query], int], query: Query) -> tuple[float, int]:
    """Return milliseconds and the number of results."""
    start = time.perf_counter()
    results = ask(query)
    return 1000 * (time.perf_counter() - start), results


def _documents(index: TextDatabase, query: Query) -> int:
    found = [index.documents(kind, text, tables=("spoken",)).ids for kind, text in query.engine]
    known = [ids for ids in found if ids is not None]
    return len(set(known[0]).intersection(*known[1:]))


def _ask_server(url: str, query: Query) -> int:
    mode, pattern = query.server
    wanted = {"pattern": pattern, "mode": mode, "limit": LIMIT, "include_one_shot": "true"}
    words = urlencode(wanted)
    with urlopen(f"{url}/api/v1/search/content?{words}", timeout=60) as response:
        return len(json.load(response)["matches"])


if __name__ == "__main__":
    main()
