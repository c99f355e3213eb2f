"""An adapter written in the names before 0.2 works like the same adapter in the new names.

docs/adr/0013-promises.md lists the old names and the new ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from builders import START
from following import ScriptedClock, append, client_at

import amux
from amux.adapters import kit
from amux.adapters._base import Resumable
from amux.adapters.plugin import as_adapter

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

AGENT = "diary"
USER, ANSWER, LATER = b"user|Why is the sky blue?\n", b"assistant|It scatters.\n", b"user|Thanks\n"


class Diary:
    """The part of the adapter that is spelled alike in both versions.

    A log has one line `role|text` per message, and its name is in a file of its own. A file `.old`
    is the copy that an upgrade of the agent has left.
    """

    info: amux.AgentInfo

    def __init__(self) -> None:
        self.resumed_at: list[int] = []

    def roots(self, host: amux.Host) -> Sequence[Path]:
        return [host.home / ".diary"]

    def read(
        self,
        source: amux.SourceRef,
        *,
        want: amux.Want,
        only: str | None = None,
        until: int | None = None,
    ) -> Iterator[amux.Item]:
        del only, until
        yield from self.items(source, source.path.read_bytes(), want)

    def items(self, source: amux.SourceRef, data: bytes, want: amux.Want) -> Iterator[amux.Item]:
        session_id, fold = source.path.stem, kit.Fold()
        yield amux.Head(session_id=session_id)
        for number, line in enumerate(data.decode().splitlines()):
            role, _, text = line.partition("|")
            message = amux.SessionMessage(
                role="user" if role == "user" else "assistant",
                content=text,
                timestamp=START,
                id=f"{session_id}-{number}",
            )
            fold.message(message)
            if want == "all":
                yield message
            if role == "assistant":
                tokens = amux.Tokens(input=1000, output=len(text))
                call = amux.Call(key=f"{session_id}-{number}", tokens=tokens, model="m-small")
                fold.call(call)
                yield call
        yield fold.facts(session_id, name=self.title(source))

    def title(self, source: amux.SourceRef) -> str:
        raise NotImplementedError

    def facts(self, source: amux.SourceRef, data: bytes) -> tuple[amux.Facts, ...]:
        items = self.items(source, data, "facts")
        return tuple(item for item in items if isinstance(item, amux.Facts))

    def data_after(self, source: amux.SourceRef, offset: int, state: bytes) -> bytes:
        """Return the whole log; the state of a checkpoint is all that comes before it."""
        self.resumed_at.append(offset)
        with source.path.open("rb") as file:
            file.seek(offset)
            return state + file.read()

    def command(
        self,
        action: Literal["new", "resume", "fork"],
        *,
        session_id: str | None = None,
        prompt: str | None = None,
        cwd: str | None = None,
        version: str | None = None,
    ) -> amux.Command | None:
        del session_id, prompt, cwd, version
        return amux.Command(argv=("diary",)) if action == "new" else None


class OldDiary(Diary):
    """Has only names that were promised before 0.2."""

    def __init__(self) -> None:
        super().__init__()
        self.info = amux.AgentInfo(
            name=AGENT,
            label="Diary",
            cli_command="diary",
            capabilities=amux.Capabilities(session_persistence="file"),
            bystanders=(amux.Bystander("*.lock", "a lock"),),
        )

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[amux.SourceRef]:
        del cwd
        for path in sorted([*root.glob("*.log"), *root.glob("*.old")]):
            yield amux.SourceRef(
                agent=AGENT,
                path=path,
                root=root,
                session_id=path.stem,
                beside=(path.with_suffix(".title"),),
                fallback=path.suffix == ".old",
            )

    def title(self, source: amux.SourceRef) -> str:
        assert source.place == str(source.path)
        assert source.fallback == source.place.endswith(".old")
        (path,) = source.beside
        return str(path.read_text())

    def read_on(self, source: amux.SourceRef, *, want: str, progress: Any) -> kit.Reading:
        assert want == "facts"
        offset, state = (0, b"") if progress is None else (progress.offset, progress.state)
        data = self.data_after(source, offset, state)
        progress_type: Any = kit.Progress
        reached = progress_type(offset=len(data), state=data)
        return kit.Reading(facts=self.facts(source, data), progress=reached)


class NewDiary(Diary):
    """Has only names that are promised now."""

    def __init__(self) -> None:
        super().__init__()
        self.info = amux.AgentInfo(
            name=AGENT,
            label="Diary",
            cli_command="diary",
            capabilities=amux.Capabilities(session_persistence="file"),
            ignored_files=(kit.IgnoredFiles("*.lock", "a lock"),),
        )

    def discover(self, root: Path, *, cwd: str | None = None) -> Iterator[amux.SourceRef]:
        del cwd
        for path in sorted([*root.glob("*.log"), *root.glob("*.old")]):
            yield amux.SourceRef(
                agent=AGENT,
                path=path,
                root=root,
                session_id=path.stem,
                companions=(path.with_suffix(".title"),),
                superseded=path.suffix == ".old",
            )

    def title(self, source: amux.SourceRef) -> str:
        assert source.location == str(source.path)
        assert source.superseded == source.location.endswith(".old")
        (path,) = source.companions
        return path.read_text()

    def resume_read(
        self, source: amux.SourceRef, *, checkpoint: kit.Checkpoint | None
    ) -> kit.Reading:
        offset, state = (0, b"") if checkpoint is None else (checkpoint.offset, checkpoint.state)
        data = self.data_after(source, offset, state)
        reached = kit.Checkpoint(offset=len(data), state=data)
        return kit.Reading(facts=self.facts(source, data), checkpoint=reached)


class Answers(msgspec.Struct):
    """Everything that a client says about the sessions of one adapter."""

    listed: object
    shown: object
    found: object
    cost: object
    doctor: object
    changes: object
    resumed_at: list[int]


@pytest.fixture
def root(home: Path) -> Path:
    """The files of two sessions; of the first there is an older copy, of the second only that."""
    root = home / ".diary"
    root.mkdir()
    (root / "one.log").write_bytes(USER + ANSWER)
    (root / "one.old").write_bytes(USER)
    (root / "two.old").write_bytes(USER)
    (root / "one.title").write_text("About the sky")
    (root / "two.title").write_text("Asked before")
    (root / "one.lock").touch()
    return root


def answers(root: Path, adapter: Diary) -> Answers:
    log = root / "one.log"
    clock = ScriptedClock([(1.0, lambda: append(log, LATER)), (3.0, lambda: append(log, ANSWER))])
    client = client_at(root.parent, clock)
    client.adapters.register(adapter)
    listed = client.sessions.list(AGENT)
    assert [(each.session_id, each.title) for each in listed] == [
        ("one", "About the sky"),
        ("two", "Asked before"),
    ]
    before = Answers(
        listed=listed,
        shown=[client.sessions.get(AGENT, each.session_id) for each in listed],
        found=client.sessions.search("scatters"),
        cost=client.sessions.total_cost(agent=AGENT),
        doctor=client.doctor(AGENT),
        changes=None,
        resumed_at=[],
    )
    with client.follow(AGENT, "one") as changes:
        before.changes = [*changes]
    log.write_bytes(USER + ANSWER)
    before.resumed_at = adapter.resumed_at
    return before


def test_an_adapter_in_the_old_names_gives_the_answers_of_one_in_the_new_names(root: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        new = answers(root, NewDiary())
    assert [str(each.message) for each in caught] == []
    old = answers(root, OldDiary())
    assert msgspec.to_builtins(old) == msgspec.to_builtins(new)
    size = len(USER + ANSWER)
    assert {0, size, size + len(LATER)} <= set(old.resumed_at), "it went on where it had stopped"


def test_doctor_accounts_for_every_file_of_an_adapter_in_the_old_names(root: Path) -> None:
    client = client_at(root.parent, ScriptedClock())
    client.adapters.register(OldDiary())
    (report,) = client.doctor(AGENT)
    assert report.problems == ()
    assert {file.path: file.status for file in report.files}["one.lock"] == "bystander"


def test_read_on_makes_an_adapter_resumable(root: Path) -> None:
    guarded = as_adapter(OldDiary())
    assert isinstance(guarded, Resumable)
    source = next(iter(guarded.discover(root)))
    reading = guarded.resume_read(source, checkpoint=None)
    data = USER + ANSWER
    assert (reading.checkpoint, reading.problems) == (
        kit.Checkpoint(offset=len(data), state=data),
        (),
    )
    assert guarded.resume_read(source, checkpoint=reading.checkpoint) == reading


def source_ref(**fields: Any) -> amux.SourceRef:
    return amux.SourceRef(agent=AGENT, path=Path("/a.log"), root=Path("/"), **fields)


def agent_info() -> amux.AgentInfo:
    can = amux.Capabilities(session_persistence="file")
    return amux.AgentInfo(
        name="x", label="X", cli_command="x", capabilities=can, bystanders=IGNORED
    )


HERE = kit.Checkpoint(offset=0, state=b"")
IGNORED = (kit.IgnoredFiles("*.tmp", "leftovers"),)
PLAIN = source_ref()
OLD_NAMES: dict[str, tuple[Callable[[], object], object]] = {
    "SourceRef(beside=)": (lambda: source_ref(beside=(Path("/b"),)).companions, (Path("/b"),)),
    "SourceRef(fallback=)": (lambda: source_ref(fallback=True).superseded, True),
    "SourceRef.place": (lambda: PLAIN.place, PLAIN.location),
    "SourceRef.beside": (lambda: PLAIN.beside, ()),
    "SourceRef.fallback": (lambda: PLAIN.fallback, False),
    "Reading(progress=)": (lambda: kit.Reading(facts=(), progress=HERE).progress, HERE),
    "AgentInfo(bystanders=)": (lambda: agent_info().bystanders, IGNORED),
    "kit.Progress": (lambda: getattr(kit, "Progress"), kit.Checkpoint),  # noqa: B009 - no type
}
"""How each old name is used, and the value that it gives."""


@pytest.mark.parametrize("name", OLD_NAMES)
def test_an_old_name_gives_a_warning_that_points_to_its_user(name: str) -> None:
    use, expected = OLD_NAMES[name]
    with pytest.warns(DeprecationWarning, match="is now") as caught:
        assert use() == expected
    (warning,) = caught
    assert warning.filename.endswith(Path(__file__).name)


def test_a_name_that_never_existed_is_an_error() -> None:
    with pytest.raises(TypeError, match="no field `behind`"):
        source_ref(behind=())
    assert not hasattr(PLAIN, "behind")
    assert not hasattr(kit, "Regress")
    assert amux.Bystander is kit.IgnoredFiles
