"""A cache of rates that were looked up before, in a file of the cache directory.

Loading the catalogue takes longer than listing sessions, and most homes use a dozen models. Only
rates that are equal on every day are stored. The file is disposable: if it is missing, damaged,
built from another catalogue or cannot be written, that only costs time.
"""

from __future__ import annotations

import os
from _thread import get_ident
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from amux.pricing.rates import Rates

_PRIVATE: Final = 0o600
_MAX_ENTRIES: Final = 1000
"""The maximum number of entries: a hostile log could name a new model in every line."""


class _RateFile(msgspec.Struct):
    catalogue: str = msgspec.field(name="mark")
    rates: dict[str, Rates | None] = {}  # by agent and model; None: the catalogue has no price


_DECODER: Final = msgspec.json.Decoder(_RateFile)


class StoredRates:
    """The cached rates. Rates of a catalogue with another fingerprint are ignored."""

    def __init__(self, path: Path, catalogue: str) -> None:
        self._path = path
        self._catalogue = catalogue
        self._loaded: _RateFile | None = None

    def find(self, agent: str, model: str) -> tuple[bool, Rates | None]:
        """Return whether a model was looked up before, and its rates."""
        key = _key(agent, model)
        rates = self._file().rates
        return key in rates, rates.get(key)

    def add(self, agent: str, model: str, rates: Rates | None) -> None:
        """Store the rates of a model; None means that the catalogue has no price."""
        file, key = self._file(), _key(agent, model)
        if len(file.rates) < _MAX_ENTRIES and key.isprintable():  # no model has an unprintable name
            file.rates[key] = rates
            self._write(file)

    def _file(self) -> _RateFile:
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    def _read(self) -> _RateFile:
        try:
            file = _DECODER.decode(self._path.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return _RateFile(self._catalogue)
        return file if file.catalogue == self._catalogue else _RateFile(self._catalogue)

    def _write(self, file: _RateFile) -> None:
        """Replace the file atomically; ignore an error."""
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.{get_ident()}")
        try:
            data = msgspec.json.encode(file)
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(draft, "wb", opener=_open_private) as stream:
                stream.write(data)
            draft.replace(self._path)
        except OSError:
            with suppress(OSError):
                draft.unlink()


def _key(agent: str, model: str) -> str:
    return f"{agent} {model}"


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)
