"""How long a search takes once everything is indexed: `search_rounds.py HOME CACHE [URL]`.

The same queries to several parties in turn: amux as a library in a process that stays, which
answers from a look at the files that was taken shortly before, as a server does (`max_age`), over
messages as the server does, with one passage per result; the same with tool text and three
passages; that with a look before every answer; amux' text index of messages alone (which documents
have the words); and the server of agentsview at URL. Prints medians in milliseconds as JSON.
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
from amux.index.texts import TextIndex
from amux.index.texts_terms import TermKind

LIMIT: Final = 20
_INSIDE: Final = IDEOGRAPHS[1:5]
_ROUNDS: Final = {"messages": 15, "search": 15, "with a look": 5, "engine": 15, "server": 15}
_MAX_AGE: Final = 600.0
"""Seconds; longer than all rounds together."""


class Query(NamedTuple):
    """One question in the words of every party."""

    search: str
    engine: tuple[tuple[TermKind, str], ...]  # all of them, in one document
    server: tuple[str, str]  # its mode and the pattern


QUERIES: Final = {
    "rare word": Query("zqneedle003x", (("word", "zqneedle003x"),), ("fts", "zqneedle003x")),
    "common word": Query("error", (("word", "error"),), ("fts", "error")),
    "two words": Query(
        "database migration",
        (("word", "database"), ("word", "migration")),
        ("fts", "database migration"),
    ),
    "phrase": Query(f'"{PHRASE}"', (("phrase", PHRASE),), ("fts", f'"{PHRASE}"')),
    "prefix": Query("endpo*", (("prefix", "endpo"),), ("fts", '"endpo"*')),
    "ideographs": Query(_INSIDE, (("word", _INSIDE),), ("substring", _INSIDE)),
    "part of a word": Query("needle01", (("word", "needle01"),), ("substring", "needle01")),
}


class Answer(NamedTuple):
    """Milliseconds of one search, and how many results it had."""

    milliseconds: float
    results: int


def main() -> None:
    home, cache, *urls = sys.argv[1:]
    env = {"HOME": home, "AMUX_CACHE_DIR": cache}
    client, looking = create_client(env=env, max_age=_MAX_AGE), create_client(env=env)
    client.sessions.search("zqneedle000x", limit=1)  # from here on the index is up to date
    index = TextIndex.open(next(Path(cache).glob("texts-*.db")))
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
    medians = {name: _medians(query, parties) for name, query in QUERIES.items()}
    json.dump(medians, sys.stdout, indent=1)


def _medians(query: Query, parties: dict[str, Callable[[Query], int]]) -> dict[str, Answer]:
    runs: dict[str, list[Answer]] = {name: [] for name in parties}
    for number in range(max(_ROUNDS.values())):
        for name, ask in parties.items():
            if number < _ROUNDS[name]:
                start = time.perf_counter()
                results = ask(query)
                runs[name].append(Answer(1000 * (time.perf_counter() - start), results))
    return {
        name: Answer(median(run.milliseconds for run in own), own[0].results)
        for name, own in runs.items()
    }


def _documents(index: TextIndex, query: Query) -> int:
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
