"""The version, in a file of its own so that `amux --version` reads nothing else."""

from __future__ import annotations

__version__ = "0.1.0"
