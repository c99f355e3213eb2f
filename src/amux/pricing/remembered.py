"""Rates that were looked up before, in a file of the cache directory.

The catalogue takes longer to load than a list takes to make, and most homes name a dozen models.
Only rates that are the same on every day are kept. The file is disposable: one that is missing,
damaged, foreign or made from another catalogue only costs time, and so does one that cannot be
written.
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
_MOST: Final = 1000
"""A hostile log could name a new model in every line."""


class _Kept(msgspec.Struct):
    mark: str
    rates: dict[str, Rates | None] = {}  # by agent and model; None: the catalogue has no price


_KEPT: Final = msgspec.json.Decoder(_Kept)


class RememberedRates:
    """`mark` says what the rates were made from: those of another one do not count."""

    def __init__(self, path: Path, mark: str) -> None:
        self._path = path
        self._mark = mark
        self._loaded: _Kept | None = None

    def find(self, agent: str, model: str) -> tuple[bool, Rates | None]:
        """Whether a model was looked up before, and its rates."""
        key = _key(agent, model)
        rates = self._kept().rates
        return key in rates, rates.get(key)

    def add(self, agent: str, model: str, rates: Rates | None) -> None:
        """Remember what the catalogue says of a model."""
        kept, key = self._kept(), _key(agent, model)
        if len(kept.rates) < _MOST and key.isprintable():  # others are nobody's models
            kept.rates[key] = rates
            self._write(kept)

    def _kept(self) -> _Kept:
        if self._loaded is None:
            self._loaded = self._read()
        return self._loaded

    def _read(self) -> _Kept:
        try:
            kept = _KEPT.decode(self._path.read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return _Kept(self._mark)
        return kept if kept.mark == self._mark else _Kept(self._mark)

    def _write(self, kept: _Kept) -> None:
        """Put a whole new file into the place of the old one."""
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.{get_ident()}")
        try:
            data = msgspec.json.encode(kept)
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(draft, "wb", opener=_open_private) as file:
                file.write(data)
            draft.replace(self._path)
        except OSError:
            with suppress(OSError):
                draft.unlink()


def _key(agent: str, model: str) -> str:
    return f"{agent} {model}"


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)
