"""`amux store export`, `import`, `pack` and `unpack`: threads in and out of the session store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amux.errors import AmuxError, ValidationError
from amux.faces.cli.commands.export import write_pieces
from amux.faces.cli.commands.store_list import THREAD_HELP, add_thread
from amux.faces.cli.context import Context, usable_path
from amux.faces.cli.figures import count
from amux.faces.cli.filters import add_examples
from amux.faces.cli.parser import CommandParser, one_of
from amux.faces.cli.thread_rows import as_json

if TYPE_CHECKING:
    from amux.model.options import ExportFormat
    from amux.store.reports import ImportReport

_ZIP = b"PK\x03\x04"
_SQLITE = b"SQLite format 3\0"
_POSTGRES = ("postgresql://", "postgres://")


def configure_export(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("thread", metavar="THREAD", nargs="?", help=THREAD_HELP)
    parser.add_argument("--all", action="store_true", help="all threads, one JSON document a line")
    parser.add_argument("--source", metavar="NAME", help="with --all: only threads of this source")
    parser.add_argument(
        "--format",
        **one_of("jsonl", "json", "markdown", "html"),
        default="jsonl",
        help="output format (jsonl: the records as they are stored)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file; `-` is stdout")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    add_examples(
        parser,
        "amux store export 29c5cee3 > thread.jsonl",
        "amux store export --all -o threads.jsonl",
    )


def run_export(context: Context) -> None:
    """Export one thread, or all."""
    args = context.args
    if args.all == (args.thread is not None):
        raise ValidationError("name one thread or use `--all`", fields=("thread", "all"))
    if args.all and args.format != "jsonl":
        raise ValidationError("`--all` writes jsonl only", fields=("format",))
    pieces = _all_threads(context) if args.all else _one_thread(context)
    write_pieces(
        context,
        pieces,
        output=args.output,
        force=args.force,
        is_json=args.format in ("json", "jsonl"),
    )


def _all_threads(context: Context) -> Iterator[str]:
    import msgspec

    for document in context.client.store.export_all(source=context.args.source):
        yield msgspec.json.encode(document).decode() + "\n"


def _one_thread(context: Context) -> Iterable[str]:
    store, args = context.client.store, context.args
    thread = store.thread(args.thread)
    if args.format in ("jsonl", "json"):
        text = store.export(thread.thread_id, args.format)
        return [text if text.endswith("\n") else f"{text}\n"]
    format: ExportFormat = args.format
    return context.client.stream_export("amux", thread.thread_id, format)


def configure_import(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "origin",
        metavar="ORIGIN",
        nargs="+",
        help="an exported or packed file, `-` for stdin, a session of any agent (`AGENT:ID`), a "
        "SQLite file of openai-agents, LangGraph or Google ADK, or the `postgresql://` URL of a "
        "database of LangGraph or Google ADK",
    )
    add_examples(
        parser,
        "amux store import threads.jsonl",
        "amux store import claude:29c5cee3",
        "amux store import conversations.db",
        "amux store export --all | AMUX_STORE=/backup amux store import -",
    )


def run_import(context: Context) -> None:
    """Store threads of another store, or a session of any agent."""
    words: list[str] = context.args.origin
    if words == ["-"]:
        _finish(context, context.client.store.import_lines(sys.stdin.buffer))
        return
    if len(words) == 1 and words[0].startswith(_POSTGRES):
        _import_database(context, words[0])
        return
    path = usable_path(words[0])
    if len(words) == 1 and os.path.isfile(path):  # noqa: PTH113 - an id may be no valid path
        _import_file(context, path)
        return
    if len(words) == 1 and not context.args.agent and _looks_like_path(words[0]):
        raise AmuxError(f"cannot read `{path}`: there is no such file")
    ref = context.find(words)
    with context.reading("reading the session"):
        session = context.client.sessions.get(ref.agent, ref.native_session_id)
    thread = context.client.store.import_session(session)
    thread.close()
    _confirm_imported(context, [thread.thread_id], [], [])


def _looks_like_path(word: str) -> bool:
    return "/" in word or word.endswith((".jsonl", ".json", ".zip"))


def _import_file(context: Context, path: Path) -> None:
    store = context.client.store
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_SQLITE))
            if not beginning.startswith((_ZIP, _SQLITE)):
                file.seek(0)
                _finish(context, store.import_lines(file))
                return
    except OSError as error:
        raise AmuxError(f"cannot read `{path}`: {error.strerror}") from error
    if beginning == _SQLITE:
        _import_database(context, path)
        return
    thread = store.unpack(path)
    _confirm_imported(context, [thread.thread_id], [], [])


def _import_database(context: Context, origin: Path | str) -> None:
    """Store the sessions of an agent framework, and report what was found."""
    from amux.integrations.migration import import_database

    with context.working("reading the database"):
        reports = import_database(context.client.store, origin)
    if context.is_json:
        context.output.json(as_json(reports))
    else:
        context.output.rows((each,) for report in reports for each in report.imported)
    for report in reports:
        sessions, records = count(len(report.imported), "session"), count(report.records, "record")
        old = f", {len(report.skipped):,} skipped: the store has them" if report.skipped else ""
        context.output.note(f"{report.framework}: {sessions} with {records} imported{old}")
        context.report_problems(report.problems)


def _finish(context: Context, report: ImportReport) -> None:
    _confirm_imported(context, report.imported, report.skipped, report.problems)


def _confirm_imported(
    context: Context, imported: Iterable[str], skipped: Iterable[str], problems: Iterable[Any]
) -> None:
    """Print the ids of the new threads, and say what was not imported."""
    new, old, bad = list(imported), list(skipped), list(problems)
    if context.is_json:
        context.output.json({"imported": new, "skipped": old, "problems": as_json(bad)})
    else:
        context.output.rows((each,) for each in new)
    if old:
        context.output.note(f"{count(len(old), 'thread')} skipped: the store has their ids")
    context.report_problems(bad)


def configure_pack(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument("file", metavar="FILE", help="the file to write; it must not exist")
    add_examples(parser, "amux store pack 29c5cee3 thread.zip")


def run_pack(context: Context) -> None:
    """Write a thread with its blobs into one file."""
    store = context.client.store
    thread = store.thread(context.args.thread)
    path = store.pack(thread.thread_id, usable_path(context.args.file))
    result = {"threadId": thread.thread_id, "path": str(path)}
    context.confirm(result, f"wrote `{path}`")


def configure_unpack(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("file", metavar="FILE", help="a file that `amux store pack` wrote")
    parser.add_argument(
        "--map",
        metavar="OLD=NEW",
        action="append",
        default=[],
        dest="maps",
        help="replace the beginning of working directories; may be repeated",
    )
    add_examples(parser, "amux store unpack thread.zip --map /home/ann=/Users/ann")


def run_unpack(context: Context) -> None:
    """Store a packed thread and print its id."""
    args = context.args
    wrong = [each for each in args.maps if "=" not in each.strip("=")]
    if wrong:
        raise ValidationError(f"`{wrong[0]}` is not OLD=NEW", fields=("map",))
    cwd_map = dict(each.split("=", 1) for each in args.maps)
    thread = context.client.store.unpack(usable_path(args.file), cwd_map=cwd_map)
    if context.is_json:
        context.output.json({"threadId": thread.thread_id})
    else:
        context.output.text(thread.thread_id)
