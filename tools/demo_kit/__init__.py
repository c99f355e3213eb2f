"""The parts of `make_demo.py`: the stories, the writers of the agents' formats, the ledger."""

from __future__ import annotations
