"""The published conformance suite: the rules for every adapter, built-in or third-party.

    from amux.testing import AdapterSuite, find_captures

    class TestExample(AdapterSuite):
        adapter = ADAPTER
        captures = find_captures(Path(__file__).parent / "captures", "example")

Needs pytest: `pip install "agent-mux[testing]"`.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(  # must come before the modules are imported
    "amux.testing.adapter_suite", "amux.testing.backend_suite", "amux.testing.index_rules"
)

from amux.testing.adapter_suite import AdapterSuite  # noqa: E402
from amux.testing.backend_suite import BackendSuite  # noqa: E402
from amux.testing.captures import Capture, find_captures, fingerprint  # noqa: E402
from amux.testing.truth import (  # noqa: E402
    injected_openings,
    listing_mismatches,
    same_title,
    session_mismatches,
    token_counts,
)

__all__ = [
    "AdapterSuite",
    "BackendSuite",
    "Capture",
    "find_captures",
    "fingerprint",
    "injected_openings",
    "listing_mismatches",
    "same_title",
    "session_mismatches",
    "token_counts",
]
