"""The environment in which this process computes rows and spending; see `index.freshness`.

Recorded runs are not a part of its fingerprint: the cost of a run affects one cluster only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from amux.assembly.cost import CostCalculator
from amux.config import Config
from amux.index.codec import pack
from amux.index.database import IndexDatabase
from amux.index.freshness import InputFiles, StoredEnvironment, digest, installation
from amux.run_index import RunIndex


class ResultEnvironment:
    """Settings, prices and recorded runs of one client.

    `files` is None if the settings were passed by the caller: then nothing is stored. `changes` are
    the prices that were changed since the client was created.
    """

    def __init__(
        self,
        config: Config,
        runs: RunIndex,
        *,
        files: InputFiles | None,
        changes: Callable[[], bytes],
    ) -> None:
        self._config = config
        self._files = files
        self._changes = changes
        settings = (config.prices, config.agents, config.timezone)
        self._fingerprint = digest([*installation(), *map(repr, settings)])
        costs: dict[str, dict[str, bytes]] = {}
        for run in runs.runs:
            if run.cost is not None and run.session_id is not None:
                of_agent = costs.setdefault(run.agent, {})
                of_agent[run.session_id] = of_agent.get(run.session_id, b"") + pack(run.cost)
        self._runs = {
            agent: {name: digest([of_agent[name].hex()]) for name in sorted(of_agent)}
            for agent, of_agent in costs.items()
        }

    def fingerprint(self) -> bytes:
        """Return the fingerprint of everything that all results depend on."""
        return self._fingerprint + self._changes()

    def runs_of(self, agent: str) -> Mapping[str, bytes]:
        """Return fingerprints of the costs that runs of an agent recorded, by session id."""
        return self._runs.get(agent, {})

    def fingerprint_for(self, agent: str) -> bytes:
        """Return the fingerprint of everything that the results of one agent depend on."""
        return self.fingerprint() + self._runs_digest(agent).encode()

    def save(self, database: IndexDatabase, agents: Sequence[str], costs: CostCalculator) -> None:
        """Store the environment for the fast list, unless something has to be reported with it."""
        files, config = self._files, self._config
        annotations = costs.annotations.annotations
        if files is None or not files.state or self._changes():
            return
        if config.warnings or costs.annotations.problems:
            return
        StoredEnvironment(
            state=files.state,
            annotations=annotations.state,
            fingerprint=self._fingerprint,
            agents=_lines((agent,) for agent in agents),
            runs=_lines((agent, self._runs_digest(agent)) for agent in self._runs),
            color=config.color,
            timezone=config.timezone,
            stars=_lines((each.unified_id,) for each in annotations if each.starred),
            run_tags=_tag_lines(costs.runs.tags_by_session()),
            tags=_tag_lines((each.unified_id, each.tags) for each in annotations),
        ).save(database, files.scope)

    def _runs_digest(self, agent: str) -> str:
        runs = self.runs_of(agent)
        return digest(f"{name} {found.hex()}" for name, found in runs.items()).hex() if runs else ""


def _tag_lines(tags: Iterable[tuple[str, Sequence[str]]]) -> str:
    return _lines(
        (name, *(msgspec.json.encode(tag).decode() for tag in some)) for name, some in tags if some
    )


def _lines(entries: Iterable[Sequence[str]]) -> str:
    """Return one line per entry; no stored name contains a line end or NUL."""
    return "\n".join("\0".join(entry) for entry in entries if not {"\n", "\0"} & set(entry[0]))
