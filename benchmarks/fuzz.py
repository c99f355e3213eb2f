"""Coverage-guided fuzzing of the parsers: `python benchmarks/fuzz.py FAMILY [SECONDS]`.

Needs the dependency group `fuzz`. Each input is a mutated capture, which is written to a temporary
home and read for facts, for texts and for everything. A finding is an exception, facts that depend
on the depth of reading, or an item that cannot be written as JSON. Findings do not end a run: the
smallest input of each is stored below build/fuzz/FAMILY, and the exit code is not 0.
"""

from __future__ import annotations

import os
import pkgutil
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from itertools import takewhile
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import atheris  # type: ignore[import-untyped]
import msgspec

if TYPE_CHECKING:
    from fuzz_mutation import Mutator
    from fuzz_seeds import Slot

    from amux.adapters._base import Adapter, SourceRef, Want

SOURCES = Path(__file__).parents[1] / "src"
OUT = Path(__file__).parents[1] / "build" / "fuzz"
MAX_LENGTH = 48 * 1024
SLOWEST_SECONDS = 20
MEMORY_MB = 3072


class DisagreementError(Exception):
    """The facts depend on the depth of reading; `field` is the first that differs."""

    def __init__(self, without_bodies: bytes, facts: bytes) -> None:
        pairs = zip(without_bodies, facts, strict=False)
        equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        fields = re.findall(rb'"(\w+)":', facts[: equal + 1])
        self.field = fields[-1].decode() if fields else "session"
        some, other = (text[max(0, equal - 60) : equal + 100] for text in (without_bodies, facts))
        super().__init__(f"{some!r} but with bodies {other!r}")


class Findings:
    """The findings, one per location in the code, each with its smallest input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}
        self._executions = RawValue("Q", 0)  # shared: counted in the child, reported by the parent
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def count(self) -> None:
        """Count one input."""
        self._executions.value += 1

    def add(self, error: Exception, slot: Slot, data: bytes) -> None:
        """Store an input unless a smaller one for the same location is stored."""
        name = f"{slot.adapter.info.name}-{type(error).__name__}-{place_of(error)}"
        known = self._sizes.get(name)
        if known is not None and known <= len(data):
            return
        self._sizes[name] = len(data)
        (self._folder / f"{name}.input").write_bytes(data)
        text = "".join(traceback.format_exception(error))
        (self._folder / f"{name}.txt").write_text(f"{slot.path}\n{text}", errors="replace")
        if known is None:
            print(f"finding: {name}: {str(error)[:300]}", flush=True)

    def report(self, family: str) -> int:
        """Report the findings of a run, including crashes of libFuzzer; return their number."""
        found = sorted(path.name for path in self._folder.iterdir() if path.suffix != ".txt")
        print(f"{family}: {self._executions.value} executions, {len(found)} findings", *found)
        return len(found)


def place_of(error: Exception) -> str:
    """Return what identifies a mistake: the field, or the line of amux that raised."""
    if isinstance(error, DisagreementError):
        return error.field
    frames = traceback.extract_tb(error.__traceback__)
    last = next((f for f in reversed(frames) if SOURCES in Path(f.filename).parents), frames[-1])
    return f"{Path(last.filename).stem}-{last.lineno}"


def check(slot: Slot) -> None:
    """Read the sources of a slot in every way; raise whatever is wrong."""
    for source in slot.sources:
        without_bodies = facts_of(slot.adapter, source, "facts")
        for want in ("texts", "all"):
            facts = facts_of(slot.adapter, source, want)
            if facts != without_bodies:
                raise DisagreementError(without_bodies, facts)
        if hasattr(slot.adapter, "resume_read"):
            again = slot.adapter.resume_read(source, checkpoint=None)
            if again.checkpoint is not None:
                again = slot.adapter.resume_read(source, checkpoint=again.checkpoint)
            continued = b"\n".join(msgspec.json.encode(each) for each in again.facts)
            if continued != without_bodies:
                raise DisagreementError(without_bodies, continued)


def facts_of(adapter: Adapter, source: SourceRef, want: Want) -> bytes:
    """Return the facts of a source as JSON; every other item must be writable as well."""
    written = [(item, msgspec.json.encode(item)) for item in adapter.read(source, want=want)]
    return b"\n".join(line for item, line in written if type(item).__name__ == "Facts")


def target(slots: list[Slot], findings: Findings) -> Callable[[bytes], None]:
    """Read one input; libFuzzer calls this. The first byte identifies the slot."""

    def read(data: bytes) -> None:
        if not data:
            return
        findings.count()
        slot = slots[data[0] % len(slots)]
        slot.fill(data[1:])
        try:
            check(slot)
        except Exception as error:  # noqa: BLE001 - any exception is what we are looking for
            findings.add(error, slot, data[1:])
        finally:
            slot.restore()

    return read


def mutate_bytes(data: bytes, max_size: int) -> bytes:
    """LibFuzzer's own mutations; `Setup` replaces the function, so it is looked up late."""
    mutated: bytes = atheris.Mutate(data, max_size)
    return mutated


def instrument() -> None:
    """Import every module of the adapters with coverage; later imports would have none."""
    quiet = redirect_stderr(StringIO())  # it names every module
    with quiet, atheris.instrument_imports(include=["amux.adapters"]):
        package = import_module("amux.adapters")
        for module in pkgutil.walk_packages(package.__path__, "amux.adapters."):
            import_module(module.name)


def prepare(family: str, place: Path) -> tuple[list[Slot], Mutator]:
    """Write the seeds of a family to a directory."""
    from fuzz_mutation import Mutator
    from fuzz_seeds import collect

    seeded = collect(family, place / "homes")
    (place / "corpus").mkdir()
    for number, (_, seed) in enumerate(seeded):
        (place / "corpus" / f"seed-{number}").write_bytes(bytes([number]) + seed)
    size = sum(len(seed) for _, seed in seeded)
    print(f"{family}: {len(seeded)} seeds of {size} bytes", flush=True)
    return [slot for slot, _ in seeded], Mutator((seed for _, seed in seeded), mutate_bytes)


def fuzz(family: str, seconds: int, place: Path) -> bool:
    """Fuzz in a child, because libFuzzer ends its process; return whether there was no finding."""
    slots, mutator = prepare(family, place)
    findings = Findings(OUT / family)
    options = (
        f"-max_total_time={seconds}",
        f"-max_len={MAX_LENGTH}",
        f"-timeout={SLOWEST_SECONDS}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-artifact_prefix={OUT / family}/",
        "-len_control=0",
        "-keep_seed=1",  # a small file beside a log must not replace it
        "-reduce_inputs=0",
    )
    child = os.fork()
    if child == 0:
        with (OUT / f"{family}.log").open("wb") as log:
            os.dup2(log.fileno(), sys.stderr.fileno())
        arguments = [sys.argv[0], *options, str(place / "corpus")]
        atheris.Setup(arguments, target(slots, findings), custom_mutator=mutator)
        atheris.Fuzz()
    _, status = os.waitpid(child, 0)
    if status:
        print(f"{family}: the fuzzer stopped early, see {OUT / family}.log")
    return findings.report(family) == 0 and status == 0


def main() -> None:
    family = sys.argv[1] if len(sys.argv) > 1 else ""
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 600
    instrument()
    from fuzz_seeds import FAMILIES

    if family not in FAMILIES:
        sys.exit(
            f"usage: python benchmarks/fuzz.py FAMILY [SECONDS]; FAMILY: {', '.join(FAMILIES)}"
        )
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="amux-fuzz-", dir=memory if memory.is_dir() else None) as folder:
        place = Path(folder).resolve()
        tempfile.tempdir = folder  # also the copies of databases that adapters make
        is_well = fuzz(family, seconds, place)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
