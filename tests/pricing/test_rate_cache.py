"""Cached rates equal those of the catalogue, and are never required."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from stat import S_IMODE

import pytest

from amux.pricing.registry import ModelRegistry
from amux.pricing.remembered import StoredRates

EARLY, LATE = date(2025, 6, 1), date(2026, 3, 1)
MODELS = ["claude-opus-4-1-20250805", "gpt-5", "nobody-knows-this", "", "a\nb", "\ud800"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "rates.json"


def registry(path: Path, mark: str = "one") -> ModelRegistry:
    return ModelRegistry(remembered=StoredRates(path, mark))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_stored_rates_equal_those_of_the_catalogue(path: Path, agent: str, model: str) -> None:
    said = ModelRegistry().rates(agent, model, LATE)
    assert registry(path).rates(agent, model, LATE) == said
    assert registry(path).rates(agent, model, LATE) == said


def test_a_price_that_changed_is_looked_up_every_time(path: Path) -> None:
    for _ in range(2):
        known = registry(path)
        early, late = known.rates("codex", "o3", EARLY), known.rates("codex", "o3", LATE)
        assert early is not None
        assert late is not None
        assert early.input == 5 * late.input


def test_a_configured_price_takes_precedence_and_is_not_stored(path: Path) -> None:
    registry(path).rates("claude", "claude-opus-4-1", LATE)
    own = path.parent / "prices.json"
    own.write_text('{"claude-opus-4-1": {"input": 1, "output": 2}}')
    known = registry(path)
    known.load(own)
    mine = known.rates("claude", "claude-opus-4-1", LATE)
    assert mine is not None
    assert mine.origin == "override"
    theirs = registry(path).rates("claude", "claude-opus-4-1", LATE)
    assert theirs is not None
    assert theirs.origin.startswith("genai-prices")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"mark": "one", "rates": {"claude gpt-5": 7}}', b"\xff"]
)
def test_a_damaged_file_changes_no_answer_and_is_replaced(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    said = ModelRegistry().rates("codex", "gpt-5", LATE)
    assert registry(path).rates("codex", "gpt-5", LATE) == said
    assert StoredRates(path, "one").find("codex", "gpt-5") == (True, said)


def test_another_catalogue_version_discards_the_stored_rates(path: Path) -> None:
    registry(path).rates("codex", "gpt-5", LATE)
    assert StoredRates(path, "two").find("codex", "gpt-5") == (False, None)


def test_a_model_name_that_is_not_valid_text_does_not_prevent_storing_others(path: Path) -> None:
    known = registry(path)
    for model in ("\ud800", "gpt-5"):
        known.rates("codex", model, LATE)
    assert StoredRates(path, "one").find("codex", "gpt-5")[0]


def test_the_file_is_private_and_no_draft_stays_behind(path: Path) -> None:
    registry(path).rates("codex", "gpt-5", LATE)
    assert S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_without_a_writable_cache_the_catalogue_is_used(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the place of the folder")
    said = ModelRegistry().rates("codex", "gpt-5", LATE)
    assert registry(tmp_path / "cache" / "rates.json").rates("codex", "gpt-5", LATE) == said


def test_the_second_process_does_not_load_the_catalogue(path: Path) -> None:
    script = (
        "import sys; from datetime import date; from pathlib import Path;"
        "from amux.pricing.registry import ModelRegistry;"
        "from amux.pricing.remembered import StoredRates;"
        "known = ModelRegistry(remembered=StoredRates(Path(sys.argv[1]), 'one'));"
        "known.rates('codex', 'kimi-k2', date(2026, 3, 1));"  # whose rates do not come with amux
        "print('genai_prices' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", script, str(path)],
            check=True, capture_output=True, text=True, env=environment,
        ).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert said == ["True", "False"]
