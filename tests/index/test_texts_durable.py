"""The file of the text index: readers during a write, interruptions, damage."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path

import pytest

from amux.index.errors import TextIndexBusyError, TextIndexDamagedError, TextIndexError
from amux.index.text.engine import TextIndex, units_of
from amux.index.text.plan import TermKind
from amux.model.texts import TextDoc

TERMS: tuple[tuple[TermKind, str], ...] = (
    ("word", "needle"), ("word", "eedl"), ("prefix", "need"), ("phrase", "a needle"),
    ("literal", "a-needle"), ("regex", "n..dle"), ("word", "e"),
)  # fmt: skip


def messages(count: int) -> list[TextDoc]:
    return [
        TextDoc(number, (f"message {number} with a needle{number % 7}",), (f"output of {number}",))
        for number in range(count)
    ]


def units_with(index: TextIndex, kind: TermKind, term: str) -> dict[int, int]:
    """The units that hold a term, and in how many messages."""
    return units_of(index.documents(kind, term).ids or ())


def build(path: Path, *, units: int = 40) -> None:
    index = TextIndex.open(path)
    index.begin_bulk()
    for unit in range(1, units + 1):
        index.add(unit, messages(50))
    index.finish_bulk()
    index.close()


def test_an_index_answers_the_same_when_it_is_opened_again(tmp_path: Path) -> None:
    build(tmp_path / "texts.db", units=3)
    index = TextIndex.open(tmp_path / "texts.db")
    index.add(4, [TextDoc(0, ("a newneedle",), ())])
    index.close()
    index = TextIndex.open(tmp_path / "texts.db")
    assert units_with(index, "word", "needle") == {1: 50, 2: 50, 3: 50, 4: 1}
    index.close()


def test_a_reader_during_a_bulk_load_sees_the_previous_state(tmp_path: Path) -> None:
    build(tmp_path / "texts.db", units=1)
    reader, writer = (TextIndex.open(tmp_path / "texts.db") for _ in range(2))
    assert units_with(reader, "word", "eedle") == {1: 50}
    writer.begin_bulk()
    writer.add(2, messages(50))
    assert units_with(reader, "word", "eedle") == {1: 50}
    writer.save()
    assert units_with(reader, "word", "eedle") == {1: 50, 2: 50}
    writer.add(3, [TextDoc(0, ("another wheedle",), ())])
    writer.finish_bulk()
    assert units_with(reader, "word", "eedle") == {1: 50, 2: 50, 3: 1}
    reader.close()
    writer.close()


def test_an_interrupted_bulk_load_preserves_saved_batches(tmp_path: Path) -> None:
    writer = TextIndex.open(tmp_path / "texts.db")
    writer.begin_bulk()
    writer.add(1, [TextDoc(0, ("saved words",), ())])
    writer.save()
    writer.add(2, [TextDoc(0, ("lost words",), ())])
    writer.close()
    index = TextIndex.open(tmp_path / "texts.db")
    assert index.documents("word", "ord").exact
    assert units_with(index, "word", "ord") == {1: 1}
    index.add(3, [TextDoc(0, ("cordial",), ())])
    assert units_with(index, "word", "ord") == {1: 1, 3: 1}
    index.close()


def test_a_second_writer_gets_an_error_that_the_index_is_busy(tmp_path: Path) -> None:
    build(tmp_path / "texts.db", units=1)
    first = TextIndex.open(tmp_path / "texts.db")
    first.begin_bulk()
    impatient = sqlite3.connect(tmp_path / "texts.db", timeout=0, isolation_level=None)
    second = TextIndex(impatient)
    with pytest.raises(TextIndexBusyError):
        second.add(2, messages(1))
    first.finish_bulk()
    second.add(2, messages(1))
    assert second.units() == {1: 50, 2: 1}
    first.close()
    second.close()


def test_changes_belong_to_the_transaction_of_the_caller(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "texts.db", isolation_level=None)
    index = TextIndex(connection)
    connection.execute("BEGIN")
    index.add(1, messages(2))
    connection.rollback()
    assert units_with(index, "word", "needle") == {}
    index.close()


def test_a_file_that_is_not_a_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "texts.db"
    path.write_bytes(b"no database at all\n" * 1000)
    with pytest.raises(TextIndexDamagedError):
        TextIndex.open(path)


def test_an_unwritable_location_does_not_count_as_damage(tmp_path: Path) -> None:
    with pytest.raises(TextIndexError) as caught:
        TextIndex.open(tmp_path / "nowhere" / "texts.db")
    assert not isinstance(caught.value, TextIndexDamagedError)


def test_a_closed_index_does_not_count_as_damage(tmp_path: Path) -> None:
    index = TextIndex.open(tmp_path / "texts.db")
    index.close()
    with pytest.raises(TextIndexError) as caught:
        index.documents("word", "needle")
    assert not isinstance(caught.value, TextIndexDamagedError)


def test_an_index_of_another_version_asks_to_be_rebuilt(tmp_path: Path) -> None:
    build(tmp_path / "texts.db", units=1)
    connection = sqlite3.connect(tmp_path / "texts.db")
    with connection:
        connection.execute("UPDATE text_state SET value = 999 WHERE key = 'schema'")
    connection.close()
    with pytest.raises(TextIndexDamagedError):
        TextIndex.open(tmp_path / "texts.db")


def use(path: Path) -> None:
    """Everything a search or an update does."""
    index = TextIndex.open(path)
    try:
        for kind, term in TERMS:
            index.documents(kind, term)
        list(index.vocabulary())
        index.add(999, messages(3))
        index.drop(1)
        index.begin_bulk()
        index.add(1000, messages(3))
        index.finish_bulk()
        index.document_counts()
    finally:
        index.close()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "texts.db"
    build(path)
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(60))
def test_damage_is_either_harmless_or_one_kind_of_error(
    tmp_path: Path, sound: bytes, seed: int
) -> None:
    path = tmp_path / "texts.db"
    chance = random.Random(seed)
    data = bytearray(sound)
    if seed % 4 == 0:
        del data[chance.randrange(len(data)) :]
    else:
        for _ in range(seed % 4 * 40):
            data[chance.randrange(100, len(data))] = chance.randrange(256)
    path.write_bytes(data)
    with contextlib.suppress(TextIndexDamagedError):
        use(path)
