"""`amux store new`, `append`, `resume`, `fork`, `compact`, `title` and `tag`: write threads."""

from __future__ import annotations

import os
import sys

from amux.errors import ValidationError
from amux.faces.cli.commands.store_list import ROLES, add_thread
from amux.faces.cli.context import Context, working_directory
from amux.faces.cli.figures import count
from amux.faces.cli.filters import add_examples, whole_number
from amux.faces.cli.parser import CommandParser, one_of

PROTECTED_TURNS = 20


def configure_new(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.add_argument("--title", metavar="TEXT", help="the title; no other thread may have it")
    parser.add_argument("--cwd", metavar="DIR", help="the working directory (the current one)")
    parser.add_argument(
        "--source", metavar="NAME", default="cli", help="where the thread comes from (cli)"
    )
    parser.add_argument("--message", metavar="TEXT", help="the first message of the user")
    add_examples(
        parser,
        'amux store new --title "Release notes" --model opus',
        'thread=$(amux store new) && amux store append "$thread" "Hello"',
    )


def run_new(context: Context) -> None:
    """Start a thread and print its id."""
    args = context.args
    first = [] if args.message is None else [{"role": "user", "content": args.message}]
    thread = context.client.store.start(
        cwd=_current_directory() if args.cwd is None else working_directory(args.cwd),
        model=args.model,
        agent=args.agent or "amux",
        title=args.title,
        source=args.source,
        initial_messages=first,
    )
    thread.close()
    _print_thread(context, thread.thread_id, runSessionId=thread.run_session_id)


def _current_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a string
    except OSError:  # the directory was removed
        return ""


def _print_thread(context: Context, thread_id: str, **others: object) -> None:
    """Print the id of a new thread, which another command takes."""
    if context.is_json:
        context.output.json({"threadId": thread_id, **others})
    else:
        context.output.text(thread_id)


def configure_append(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument(
        "text",
        metavar="TEXT",
        nargs="*",
        default=[],  # without it argparse reports the argument as required
        help="the message; if omitted or `-`, it is read from stdin",
    )
    parser.words = "text"
    parser.add_argument(
        "--role", **one_of(*ROLES), default="user", help="the role of the message (user)"
    )
    parser.add_argument(
        "--json-payload",
        action="store_true",
        help="the text is the JSON of a whole record, which is stored unchanged",
    )
    add_examples(
        parser,
        'amux store append 29c5cee3 "How many files are there?"',
        "git log -1 | amux store append 29c5cee3 --role tool",
    )


def run_append(context: Context) -> None:
    """Append a message and print the id of its record."""
    args = context.args
    thread = context.client.store.thread(args.thread)
    text = text_or_stdin(args.text, "message")
    if not text.strip():
        raise ValidationError("the message is empty", fields=("text",))
    if args.json_payload:
        record_id = thread.append_json(text.strip())
    else:
        model = {} if args.model is None else {"model": args.model}
        record_id = thread.message(args.role, text, **model)
    thread.close()
    if context.is_json:
        context.output.json({"threadId": thread.thread_id, "recordId": record_id})
    else:
        context.output.text(record_id)


def text_or_stdin(words: list[str], noun: str) -> str:
    """Return the words as one text, or all of stdin without its last line break."""
    if words and words != ["-"]:
        return " ".join(words)
    if not words and (sys.stdin is None or sys.stdin.isatty()):
        raise ValidationError(f"no {noun} is given", hint="type it, or `-` to read it from stdin")
    return sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n")


def configure_resume(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    add_examples(parser, "amux store resume 29c5cee3 --json")


def run_resume(context: Context) -> None:
    """Continue a thread in a new run, and print what a program needs for it."""
    thread = context.client.store.resume(context.args.thread)
    thread.close()
    conversation = thread.conversation()
    if context.is_json:
        import msgspec

        environment = msgspec.to_builtins(thread.environment)
        context.output.json(
            {
                "threadId": thread.thread_id,
                "runSessionId": thread.run_session_id,
                "environment": {name: each for name, each in environment.items() if each},
                "conversation": conversation,
            }
        )
        return
    context.output.text(thread.thread_id)
    context.output.note(
        f"run `{thread.run_session_id}` continues `{thread.summary.label}`"
        f" after {count(len(conversation), 'message')}"
    )


def configure_fork(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument("--last", metavar="N", type=whole_number, help="copy the last N messages")
    parser.add_argument("--first", metavar="N", type=whole_number, help="copy the first N messages")
    parser.add_argument("--until", metavar="RECORD", help="copy the messages up to this record")
    parser.add_argument("--summary", metavar="TEXT", help="begin with a summary of what is left")
    parser.add_argument("--title", metavar="TEXT", help="title of the fork (the next free number)")
    add_examples(parser, "amux store fork 29c5cee3", "amux store fork 29c5cee3 --last 20")


def run_fork(context: Context) -> None:
    """Copy a conversation into a new thread and print its id."""
    args = context.args
    title = {} if args.title is None else {"title": args.title}
    fork = context.client.store.fork(
        args.thread,
        keep_last=args.last,
        keep_first=args.first,
        until=args.until,
        summary=args.summary,
        **title,
    )
    fork.close()
    meta = fork.meta
    _print_thread(context, fork.thread_id, forkedFrom=meta.forked_from, copied=meta.copied)


def configure_compact(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument(
        "--summary", metavar="TEXT", help="the summary; if omitted or `-`, it is read from stdin"
    )
    parser.add_argument(
        "--keep-turns",
        metavar="N",
        type=whole_number,
        default=PROTECTED_TURNS,
        help=f"keep the last N turns as they are ({PROTECTED_TURNS})",
    )
    parser.add_argument("--first-kept", metavar="RECORD", help="keep everything from this record")
    add_examples(
        parser,
        'amux store compact 29c5cee3 --keep-turns 5 --summary "We chose SQLite."',
        "my-summarizer | amux store compact 29c5cee3",
    )


def run_compact(context: Context) -> None:
    """Replace the older part of a conversation by a summary; print the id of its record."""
    args = context.args
    thread = context.client.store.thread(args.thread)
    summary = text_or_stdin([] if args.summary is None else [args.summary], "summary")
    if not summary.strip():
        raise ValidationError("the summary is empty", fields=("summary",))
    record_id = thread.compact(summary, first_kept=args.first_kept, keep_turns=args.keep_turns)
    thread.close()
    if context.is_json:
        context.output.json({"threadId": thread.thread_id, "recordId": record_id})
    elif record_id is not None:
        context.output.text(record_id)
    if record_id is None:
        context.output.note(
            f"nothing was compacted: the conversation has no more than"
            f" {count(args.keep_turns, 'turn')}"
        )


def configure_title(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument(
        "title",
        metavar="TITLE",
        nargs="*",
        default=[],
        help="the new title; if omitted, the title is shown",
    )
    parser.words = "title"
    parser.add_argument("--remove", action="store_true", help="remove the title")
    add_examples(
        parser, 'amux store title 29c5cee3 "Release notes"', "amux store title 29c5cee3 --remove"
    )


def run_title(context: Context) -> None:
    """Set, remove or show the title of a thread."""
    args, store = context.args, context.client.store
    thread = store.thread(args.thread)
    if args.title and args.remove:
        raise ValidationError("TITLE and `--remove` cannot be combined", fields=("title",))
    is_change = bool(args.title or args.remove)
    if is_change:
        store.set_title(thread.thread_id, " ".join(args.title) or None)
    title = thread.summary.title
    if is_change or context.is_json:
        found = f"`{title}`" if title else "no title"
        result = {"threadId": thread.thread_id, **({"title": title} if title else {})}
        context.confirm(result, f"amux:{thread.thread_id}: {found}")
    elif title:
        context.output.text(title)
    else:
        context.output.note(f"amux:{thread.thread_id} has no title")


def configure_tag(parser: CommandParser) -> None:
    """Add the arguments."""
    add_thread(parser)
    parser.add_argument(
        "tags", metavar="TAG", nargs="*", default=[], help="a tag; if omitted, the tags are shown"
    )
    parser.words = "tags"
    parser.add_argument("--remove", action="store_true", help="remove these tags")
    add_examples(
        parser, "amux store tag 29c5cee3 release", "amux store tag 29c5cee3 release --remove"
    )


def run_tag(context: Context) -> None:
    """Add, remove or show the tags of a thread."""
    args = context.args
    thread = context.client.store.thread(args.thread)
    if args.remove and not args.tags:
        raise ValidationError("no tag is given", fields=("tags",), hint="name the tags to remove")
    if args.tags:
        change = {"remove": args.tags} if args.remove else {"add": args.tags}
        tags = thread.change_tags(**change)
    else:
        tags = thread.summary.tags
    result = {"threadId": thread.thread_id, "tags": list(tags)}
    if args.tags or context.is_json:
        context.confirm(result, f"amux:{thread.thread_id}: {', '.join(tags) or 'no tags'}")
        return
    context.output.rows((tag,) for tag in tags)
    if not tags:
        context.output.note(f"amux:{thread.thread_id} has no tags")
