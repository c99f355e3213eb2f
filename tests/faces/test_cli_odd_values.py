"""Any value of an option, however large or odd, gives an answer or a sentence that says why not.

No value causes an unexpected error, with an up-to-date index and without one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Cli, copied_home

pytestmark = pytest.mark.no_cover  # the plain tests reach the same lines

SESSION = "claude:0c067a2d"
NUMBERS = (
    *("0", "-1", "1.5", "9" * 20, "9" * 5000, str(2**31), str(2**62), str(2**63 - 1)),
    *("\u0663", "\udcff"),
)
TIMES = (
    *("9999-12-31", "0001-01-01", "10000-01-01", "9" * 20 + "d", "999999w", "\udcff"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"),
)
TEXTS = ("", "\udcff", "x" * 3000, "-1", "\u202e", "[/(", "\0")

TAKING_NUMBERS = (
    *("list --limit", "list --sort=cost --limit", "list hermes --limit", "list opencode --limit"),
    *("search model --limit", "search model --hits", "cost blocks --limit"),
    *("cost blocks --session-length", "index check --sample", f"note {SESSION} --remove"),
)
TAKING_TIMES = tuple(
    f"{command} --{option}"
    for command in ("list", "search model", "cost report", "cost blocks")
    for option in ("since", "until")
)
TAKING_TEXTS = (
    *("list", "list --agent", "list --cwd", "list --tag", "list --model", "show", "show claude"),
    *("export", f"export {SESSION} --output", "diff a", "search", "search model --agent"),
    *("search model --project", "search model --tool", "search model --file"),
    *("search model --role", "search model --model", "search model --tag"),
    *("cost report --group-by", "cost report --agent", "cost report --model", "cost explain"),
    *(f"tag {SESSION}", f"note {SESSION}", "star", "unstar", "agents", "doctor", "help"),
    *("sessions resume --dry-run", f"sessions resume {SESSION} --dry-run --prompt"),
    *("completion", "config show", "list --config-dir", "list --home", "list --project-dir"),
)
ORDERS = (
    *((order, NUMBERS) for order in TAKING_NUMBERS),
    *((order, TIMES) for order in TAKING_TIMES),
    *((order, TEXTS) for order in TAKING_TEXTS),
)


@pytest.fixture(scope="module", params=["indexed", pytest.param("off", marks=pytest.mark.slow)])
def cli(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    captures = ("claude/2.1.50", "hermes/0.19.0", "opencode/0.5.29")
    home = copied_home(tmp_path_factory.mktemp("odd"), *captures)
    if request.param == "off":
        return Cli(home, {"AMUX_INDEX": "off"})
    cli = Cli(home)
    assert cli("index", "update", "--texts").code == 0
    assert cli("list", "--limit", "all").code == 0
    return cli


@pytest.mark.parametrize(("order", "values"), ORDERS, ids=[order for order, _ in ORDERS])
def test_odd_argument_values_cause_no_unexpected_error(
    cli: Cli, order: str, values: tuple[str, ...], tmp_path: Path
) -> None:
    for value in values:
        result = cli(*order.split(), value, cwd=tmp_path)
        assert "error: unexpected" not in result.err, (value[:40], result.err)
        assert "Traceback" not in result.err, (value[:40], result.err)
        assert result.code in {0, 1, 2, 3, 4, 8}, value[:40]


def test_a_huge_limit_means_no_limit(cli: Cli) -> None:
    everything = cli("list", "--limit", "all").out
    assert everything
    assert cli("list", "--limit", "9" * 20).out == everything


def test_until_the_last_possible_day_includes_everything(cli: Cli) -> None:
    everything = cli("list", "--limit", "all").out
    assert cli("list", "--limit", "all", "--until", "9999-12-31").out == everything


def test_an_agent_with_a_name_that_is_no_text_is_unknown(cli: Cli) -> None:
    assert cli("list", "\udcff").code == cli("list", "--agent", "\udcff").code == 3
