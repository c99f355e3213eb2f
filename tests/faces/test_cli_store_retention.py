"""`amux store retention` and `erase`, for people and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_process import Cli, copied_home

from amux import SessionStore

USER = "ann-4f1c"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A home whose store has two threads of one user, and one of another."""
    home = copied_home(tmp_path, "amux/0.2")
    cli = Cli(home)
    with SessionStore(cli.env.get("AMUX_STORE") or home / ".local/share/amux/store") as store:
        for user in (USER, USER, "bob"):
            thread = store.start(cwd="/shop", user_id=user, namespace="chats", source="chats")
            thread.message("user", f"the word of {user}")
    return cli


def test_limits_are_set_shown_and_removed(cli: Cli) -> None:
    assert cli("store", "retention").out == ""
    assert cli("store", "retention", "chats", "30").code == 0
    assert cli("store", "retention", "notes", "0.5d").code == 0
    assert cli("store", "retention").out == "chats\t30\nnotes\t0.5\n"
    assert cli("store", "retention", "--json").json() == {"chats": 30, "notes": 0.5}
    assert cli("store", "retention", "chats", "--remove").code == 0
    assert cli("store", "retention", "--json").json() == {"notes": 0.5}


@pytest.mark.parametrize(
    "words", [("chats",), ("chats", "30", "--remove"), ("chats", "soon"), ("chats", "0")]
)
def test_a_limit_needs_a_number_of_days(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("store", "retention", *words).code == 2
    assert cli("store", "retention", "--json").json() == {}


def test_a_user_is_erased_from_the_store_and_from_the_index(cli: Cli) -> None:
    assert len(cli("search", USER, "--json").json()) == 2  # makes the index
    plan = cli("store", "erase", "--user", USER, "--dry-run", "--json").json()
    assert len(plan["threads"]) == 2
    assert cli("store", "erase", "--user", USER).code == 2  # nobody can be asked
    assert len(cli("store", "list", "--source", "chats", "--json").json()) == 3
    done = cli("store", "erase", "--user", USER, "--yes")
    assert done.code == 0
    assert "2 threads, 0 values and 0 blobs erased" in done.err
    assert [each["userId"] for each in cli("store", "list", "--source", "chats", "--json").json()]
    holding = [
        path
        for path in cli.home.parent.rglob("*")
        if path.is_file() and USER.encode() in path.read_bytes()
    ]
    assert holding == []
    again = cli("store", "erase", "--user", USER, "--yes", "--json").json()
    assert again["threads"] == []
