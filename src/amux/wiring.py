"""Creates the parts of a client on first use.

Nothing is imported earlier: most commands need few of the parts. Each part is created once, even if
several threads ask for it at the same time: an adapter registered with one of two registries would
be missing in the other. Creating a part answers no question, so no thread waits long here.
"""

from __future__ import annotations

from _thread import RLock
from datetime import UTC, tzinfo
from functools import wraps

TYPE_CHECKING = False  # importing `typing` takes a tenth of a fast list
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, TypeVar

    from amux.annotations.file import AnnotationFile
    from amux.config import Color, Config
    from amux.host import Host
    from amux.index.database import IndexDatabase
    from amux.index.fast_list import FastList
    from amux.index.freshness import InputFiles, StoredEnvironment
    from amux.index.updater import IndexUpdater
    from amux.lifecycle.framework import SessionFramework
    from amux.pricing.registry import ModelRegistry
    from amux.pricing.remembered import StoredRates
    from amux.reading.registry import AdapterRegistry
    from amux.reading.sources import SourceCatalog
    from amux.run_index import RunIndex
    from amux.sessions.service import SessionService
    from amux.store.session_store import SessionStore

    Part = TypeVar("Part")

_OFF = frozenset({"0", "off", "no", "false"})


def _created_once(create: Callable[[Wiring], Part]) -> Callable[[Wiring], Part]:
    """Cache a part; `cached_property` lets two threads create it twice since Python 3.12."""
    name = create.__name__

    @wraps(create)
    def created_once(wiring: Wiring) -> Part:
        if name not in wiring.parts:
            with wiring.lock:
                if name not in wiring.parts:
                    wiring.parts[name] = create(wiring)
        part: Part = wiring.parts[name]
        return part

    return created_once


class Wiring:
    """The parts of a client.

    `given` are settings that replace all others, `profile` selects one of those in the settings.
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
        self.lock = RLock()  # reentrant: one part may need another
        self.parts: dict[str, Any] = {}

    @property
    @_created_once
    def config(self) -> Config:
        """The settings of all layers."""
        from amux.config import Config

        if self._given is not None:
            return self._given
        _ = self.files  # before they are read, so that every later change is noticed
        return Config.load(self.host, project_dir=self.project_dir, profile=self._profile)

    @property
    @_created_once
    def models(self) -> ModelRegistry:
        """The prices, with the user's overrides."""
        from amux.pricing.registry import ModelRegistry

        stored: StoredRates | None = None
        if self.database is not None:  # rates are stored beside the index
            from amux.index.freshness import digest, installation
            from amux.pricing.remembered import StoredRates

            path = self.host.cache_dir() / "rates.json"
            stored = StoredRates(path, digest(installation()).hex())
        return ModelRegistry(
            self.config.prices,
            today=lambda: self.host.now().date(),
            remembered=stored,
        )

    @property
    @_created_once
    def run_index(self) -> RunIndex:
        """All recorded runs."""
        from amux.run_index import read_run_index

        _ = self.files
        return read_run_index(self.host, self.project_dir)

    def renew_runs(self) -> None:
        """Forget the recorded runs and everything made from them: a run was recorded."""
        with self.lock:
            for name in ("run_index", "files", "service"):
                self.parts.pop(name, None)

    @property
    @_created_once
    def annotation_file(self) -> AnnotationFile:
        """The file with tags, stars and notes."""
        from amux.annotations.file import AnnotationFile

        return AnnotationFile(self.host.data_dir())

    @property
    @_created_once
    def registry(self) -> AdapterRegistry:
        """All adapters."""
        from amux.reading.registry import AdapterRegistry

        registry = AdapterRegistry()
        if "://" in self.host.env.get("AMUX_STORE", ""):  # threads in a database, not in files
            from amux.adapters.amux import LogAdapter, store_address

            registry.register(LogAdapter(lambda: self.store.log, store_address(self.host)))
        return registry

    @property
    @_created_once
    def store(self) -> SessionStore:
        """The session store of this host."""
        from amux.adapters.amux import store_address
        from amux.store.session_store import SessionStore

        return SessionStore(store_address(self.host), now=self.host.now)

    @property
    @_created_once
    def framework(self) -> SessionFramework:
        """Hooks, restore, message sources and reset policies over the session store."""
        from amux.lifecycle.framework import SessionFramework

        return SessionFramework(self.store, now=self.host.now, host=self.host)

    @property
    @_created_once
    def catalog(self) -> SourceCatalog:
        """The sources of all agents."""
        from amux.reading.sources import SourceCatalog

        return SourceCatalog(self.host, self.registry, self.config.agents)

    @property
    @_created_once
    def service(self) -> SessionService:
        """The service that answers all questions about sessions."""
        from amux.assembly.cost import CostCalculator
        from amux.sessions.service import SessionService

        zone = _zone(self.config.timezone)
        updater: IndexUpdater | None = None
        if self.database is not None:
            from amux.index.result_environment import ResultEnvironment
            from amux.index.updater import IndexUpdater

            environment = ResultEnvironment(
                self.config,
                self.run_index,
                files=self.files if self._given is None else None,
                changes=lambda: self.models.changes,
            )
            updater = IndexUpdater(
                self.catalog, self.database, environment, zone=zone, max_age=self._max_age
            )
        return SessionService(
            self.registry,
            self.catalog,
            CostCalculator(self.models, self.run_index),
            updater=updater,
            annotations=self.annotation_file.current,
            zone=zone,
            now=self.host.now,
        )

    @property
    @_created_once
    def database(self) -> IndexDatabase | None:
        """The index; None if it is switched off or the home is not ours to write to.

        Nor is there an index in a home that does not exist: a cache is no reason to create it.
        """
        if self.host.env.get("AMUX_INDEX", "").strip().lower() in _OFF or not self._keeps_index:
            return None
        from amux.index.database import IndexDatabase, index_path

        folder, home = self.host.cache_dir(), self.host.home
        if folder.is_relative_to(home) and not home.is_dir():
            return None
        return IndexDatabase(index_path(folder, home))

    @property
    @_created_once
    def files(self) -> InputFiles:
        """The settings files and run indexes as they were before they were read."""
        from amux.index.freshness import InputFiles

        return InputFiles(self.host, self.project_dir, self._profile)

    @property
    def has_settings(self) -> bool:
        """Whether there is a settings file, or settings or a profile were passed."""
        return self._given is not None or self.files.has_settings

    @property
    def zone(self) -> tzinfo:
        """The time zone of the settings, which are parsed only if the index does not store it."""
        if not self.has_settings:
            return UTC
        return _zone((self._stored_environment() or self.config).timezone)

    @property
    def display_settings(self) -> tuple[Color, tuple[str, ...]]:
        """When to use colours, and the warnings about the settings."""
        stored = self._stored_environment()  # None if there are warnings
        return (self.config.color, self.config.warnings) if stored is None else (stored.color, ())

    @property
    def fast_list(self) -> FastList | None:
        """Lists without any other part; None if the index has not stored the settings and runs."""
        stored, database = self._stored_environment(), self.database
        if stored is None or database is None or stored.annotations != self.files.annotations():
            return None
        from amux.index.fast_list import FastList

        return FastList(database, stored, self.host.env)

    def _stored_environment(self) -> StoredEnvironment | None:
        """Return the settings and runs as the index stores them; None if it does not."""
        if self._given is not None or self.database is None:
            return None
        from amux.index.freshness import StoredEnvironment

        return StoredEnvironment.load(self.database, self.files)

    @property
    def index_was_written(self) -> bool:
        """Whether anything was written to the index; creates no part."""
        database: IndexDatabase | None = self.parts.get("database")
        return database is not None and database.has_grown

    @property
    def needs_indexer(self) -> bool:
        """Whether the answers so far have left much to the background indexer; creates no part."""
        service: SessionService | None = self.parts.get("service")
        return service is not None and service.needs_indexer

    def close(self) -> None:
        """Close the index and the store if they were used."""
        if "store" in self.parts:
            self.store.close()
        if "database" in self.parts and self.database is not None:
            self.database.close()


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
