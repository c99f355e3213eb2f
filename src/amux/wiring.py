"""A host with its settings, and the parts that work on it: each is made when it is first needed.

Nothing is imported before: most commands need few of the parts. Each is made once, however many
threads ask for it at the same moment: an adapter registered with one of two registries would be
unknown to the other. Making a part asks no questions, so nobody waits here for an answer.
"""

from __future__ import annotations

from _thread import RLock
from datetime import UTC, tzinfo
from functools import wraps

TYPE_CHECKING = False  # `typing` would be a tenth of a quick list
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, TypeVar

    from amux.annotations.file import AnnotationFile
    from amux.config import Color, Config
    from amux.host import Host
    from amux.index.database import IndexDatabase
    from amux.index.environment import InputFiles, StoredEnvironment
    from amux.index.fast_list import FastList
    from amux.index.updater import IndexUpdater
    from amux.pricing.registry import ModelRegistry
    from amux.pricing.remembered import StoredRates
    from amux.reading.registry import AdapterRegistry
    from amux.reading.sources import SourceCatalog
    from amux.run_index import RunIndex
    from amux.sessions.service import SessionService

    Part = TypeVar("Part")

_OFF = frozenset({"0", "off", "no", "false"})


def _made_once(make: Callable[[Wiring], Part]) -> Callable[[Wiring], Part]:
    """Keep what is made; `cached_property` lets two threads make two since Python 3.12."""
    name = make.__name__

    @wraps(make)
    def made_once(workspace: Wiring) -> Part:
        made = workspace.made
        if name not in made:
            with workspace.making:
                if name not in made:
                    made[name] = make(workspace)
        part: Part = made[name]
        return part

    return made_once


class Wiring:
    """What a client is made of.

    `given` are settings that stand for all others, `profile` is one of those in the settings.
    """

    def __init__(
        self,
        host: Host,
        *,
        project_dir: Path | None,
        given: Config | None,
        profile: str | None = None,
        keeps_index: bool,
        max_age: float = 0.0,
    ) -> None:
        self.host = host
        self.project_dir = project_dir
        self._given = given
        self._profile = profile
        self._keeps_index = keeps_index
        self._max_age = max_age
        self.making = RLock()  # one part may need another
        self.made: dict[str, Any] = {}

    @property
    @_made_once
    def config(self) -> Config:
        """The settings, layer over layer."""
        from amux.config import Config

        if self._given is not None:
            return self._given
        _ = self.files  # before they are read, so that no later change goes unnoticed
        return Config.load(self.host, project_dir=self.project_dir, profile=self._profile)

    @property
    @_made_once
    def models(self) -> ModelRegistry:
        """Prices, with the user's overrides."""
        from amux.pricing.registry import ModelRegistry

        return ModelRegistry(
            self.config.prices,
            today=lambda: self.host.now().date(),
            remembered=self._remembered_rates(),
        )

    @property
    @_made_once
    def run_index(self) -> RunIndex:
        """Every run that was recorded."""
        from amux.run_index import read_run_index

        _ = self.files
        return read_run_index(self.host, self.project_dir)

    @property
    @_made_once
    def annotation_file(self) -> AnnotationFile:
        """Tags, stars and notes as they lie on the disk."""
        from amux.annotations.file import AnnotationFile

        return AnnotationFile(self.host.data_dir())

    @property
    @_made_once
    def registry(self) -> AdapterRegistry:
        """All adapters."""
        from amux.reading.registry import AdapterRegistry

        return AdapterRegistry()

    @property
    @_made_once
    def catalog(self) -> SourceCatalog:
        """The sources of all agents."""
        from amux.reading.sources import SourceCatalog

        return SourceCatalog(self.host, self.registry, self.config.agents)

    @property
    @_made_once
    def service(self) -> SessionService:
        """The service that answers all questions about sessions."""
        from amux.assembly.cost import CostCalculator
        from amux.sessions.service import SessionService

        return SessionService(
            self.registry,
            self.catalog,
            CostCalculator(self.models, self.run_index),
            updater=self._updater(),
            annotations=self.annotation_file.current,
            zone=_zone(self.config.timezone),
            now=self.host.now,
        )

    def _updater(self) -> IndexUpdater | None:
        if self.database is None:
            return None
        from amux.index.result_environment import ResultEnvironment
        from amux.index.updater import IndexUpdater

        environment = ResultEnvironment(
            self.config,
            self.run_index,
            files=self.files if self._given is None else None,
            changes=lambda: self.models.changes,
        )
        return IndexUpdater(self.catalog, self.database, environment, max_age=self._max_age)

    @property
    @_made_once
    def database(self) -> IndexDatabase | None:
        """The index; None when it is switched off, or when the home is not ours to write into.

        Nor is one kept in a home that is not there: a cache is no reason to make it.
        """
        if self.host.env.get("AMUX_INDEX", "").strip().lower() in _OFF or not self._keeps_index:
            return None
        from amux.index.database import IndexDatabase, index_path

        folder, home = self.host.cache_dir(), self.host.home
        if folder.is_relative_to(home) and not home.is_dir():
            return None
        return IndexDatabase(index_path(folder, home))

    @property
    @_made_once
    def files(self) -> InputFiles:
        """The settings files and run indexes as they were before they were read."""
        from amux.index.environment import InputFiles

        return InputFiles(self.host, self.project_dir, self._profile)

    @property
    def has_settings(self) -> bool:
        """Whether there is a settings file, or settings or a profile were passed."""
        return self._given is not None or self.files.has_settings

    @property
    def zone(self) -> tzinfo:
        """The time zone of the settings, which are parsed only if the index does not know it."""
        if not self.has_settings:
            return UTC
        return _zone((self._stored_environment() or self.config).timezone)

    @property
    def display_settings(self) -> tuple[Color, tuple[str, ...]]:
        """When to use colours, and the warnings about the settings."""
        stored = self._stored_environment()  # never if there are warnings
        return (self.config.color, self.config.warnings) if stored is None else (stored.color, ())

    @property
    def fast_list(self) -> FastList | None:
        """Lists without any other part; None if the index does not know the settings or runs."""
        stored, database = self._stored_environment(), self.database
        if stored is None or database is None or stored.annotations != self.files.annotations():
            return None
        from amux.index.fast_list import FastList

        return FastList(database, stored, self.host.env)

    def _stored_environment(self) -> StoredEnvironment | None:
        """Return what the settings and runs say, if the index has it; waits for other answers."""
        if self._given is not None or self.database is None:
            return None
        from amux.index.environment import StoredEnvironment

        return StoredEnvironment.load(self.database, self.files)

    @property
    def index_was_written(self) -> bool:
        """Whether anything was written into the index; makes no part for it."""
        database: IndexDatabase | None = self.made.get("database")
        return database is not None and database.has_grown

    def close(self) -> None:
        """Free what is held open: the index, if it was used."""
        if "database" in self.made and self.database is not None:
            self.database.close()

    def _remembered_rates(self) -> StoredRates | None:
        """Beside the index, and only where there is one."""
        if self.database is None:
            return None
        from amux.index.environment import digest, installation
        from amux.pricing.remembered import StoredRates

        mark = digest(installation()).hex()
        return StoredRates(self.host.cache_dir() / "rates.json", mark)


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
