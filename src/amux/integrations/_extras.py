"""The error for an integration whose framework is not installed."""

from __future__ import annotations


def missing_extra(error: ImportError, framework: str, extra: str) -> ImportError:
    """Return the error that says what to install.

    The names of packages do not tell: the module `agents` is in the package `openai-agents`.
    """
    return ImportError(
        f"{framework} is not installed, or in a version that amux does not know ({error.msg}); "
        f'pip install "agent-mux[{extra}]"',
        name=error.name,
        path=error.path,
    )
