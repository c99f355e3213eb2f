"""Separates the text of the person from the text that Hermes writes around it.

Notes in brackets precede the text of the person; several may follow each other. A slash command is
recorded as the text of its skill with the arguments at the end, and is shown as it was typed. The
prompt of a scheduled job follows a note and the output of scripts and other jobs.

A text is examined as a whole if it begins with one of `WHOLE_READ`, so that the result is the same
whether facts or messages are read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from amux.adapters._kit.injected import InjectedTexts
from amux.adapters.hermes.injected import CRON_NOTE, NOTES, SKILLS, WHOLE_TEXTS

BLANKS: Final = " \t\n\r\v\f"
OPENING_WITHIN: Final = 40
"""An opening is recognised within this many first characters, including blanks."""

WHOLE_READ: Final = (
    "[CONTEXT ",
    "[IMPORTANT: ",
    "[SYSTEM: ",
    "[System note: ",
    "[Note: model ",
    "[USER INITIATED ",
)

_INJECTED: Final = InjectedTexts((*WHOLE_TEXTS, *NOTES, *SKILLS))
_NOTES: Final = InjectedTexts(NOTES)
_SKILLS: Final = InjectedTexts(SKILLS)
_CRON: Final = InjectedTexts((CRON_NOTE,))
_WITHIN: Final = 400  # enough to recognise an opening
_MOST_NOTES: Final = 20  # of a text, and outputs before the prompt of a job
_BRACKET: Final = re.compile(r"[\[\]]")
_CRON_CONTEXT: Final = re.compile(
    r"(?:## (?:Script Output|Script Error|Output from job '[^'\n]*')\n[^\n]*\n\n```\n"
    r"|\[Script ran successfully but produced no output\.\]\n)"
)
_CONTEXT_END: Final = "\n```\n"

_INVOKED: Final = re.compile(
    r'\[(?:IMPORTANT|SYSTEM): The user has invoked the "(?P<name>[^"\n]{1,200})"'
    r" (?P<bundle>(?:stacked )?skill bundle)?"
)
_ARGUMENTS: Final = (
    "The user has provided the following instruction alongside the skill invocation:"
)
_RUNTIME_NOTE: Final = "\n\n[Runtime note:"
_BUNDLE_ARGUMENTS: Final = "\nUser instruction: "
_BUNDLED_SKILL: Final = "\n\n[Loaded as part of the "

_AUTO_LOADED: Final = re.compile(
    r'\[(?:IMPORTANT|SYSTEM): The "[^"\n]{1,200}" skill is auto-loaded'
)
_SKILL_END: Final = re.compile(
    r"with the terminal tool using the absolute path\.\n\n(?!\[)|scripts/foo\.js`\)\.\n\n"
)


class Prompt(NamedTuple):
    """A text in two parts: that of Hermes ("" if it has none) and that of the person ("")."""

    injected: str
    typed: str


def split_prompt(content: str) -> Prompt:
    """Return the parts of a text with the role of the person."""
    if not content[:OPENING_WITHIN].lstrip(BLANKS).startswith("["):
        return Prompt(content, "") if _is_injected(content) else Prompt("", content)
    typed, is_cron = _after_notes(content)
    if _SKILLS.begins(typed[:_WITHIN]):
        typed = _skill_prompt(typed.lstrip())
        return Prompt(content, "" if _is_injected(typed) else typed)
    if is_cron:
        typed = _after_context(typed)
    if _is_injected(typed):
        return Prompt(content, "")
    if typed is content:
        return Prompt("", content)
    typed = typed.strip()
    return Prompt(content[: content.rindex(typed)].rstrip() if typed else content, typed)


def _is_injected(text: str) -> bool:
    return _INJECTED.begins(text[:_WITHIN])


def _after_notes(content: str) -> tuple[str, bool]:
    """Return a text without the notes it begins with, and whether one is of a scheduled job."""
    rest, is_cron = content, False
    for _ in range(_MOST_NOTES):
        if not _NOTES.begins(rest[:_WITHIN]):
            break
        rest = rest.lstrip()
        is_cron |= _CRON.begins(rest)
        rest = rest[_note_end(rest) :].lstrip()
        rest = rest.removeprefix(_ARGUMENTS).lstrip()
    return rest, is_cron


def _note_end(text: str) -> int:
    """Return the end of the bracket that a text begins with; its length if it does not close."""
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] == "[" else -1
        if not depth:
            return bracket.end()
    return len(text)


def _after_context(prompt: str) -> str:
    """Return the prompt of a scheduled job without the outputs before it."""
    for _ in range(_MOST_NOTES):
        opening = _CRON_CONTEXT.match(prompt)
        if opening is None:
            break
        end = opening.end()
        if opening[0].startswith("#"):
            end = prompt.find(_CONTEXT_END, end)
            if end < 0:
                return prompt
            end += len(_CONTEXT_END)
        prompt = prompt[end:].lstrip()
    return prompt


def _skill_prompt(text: str) -> str:
    """Return what the person typed to load the skill of a text; "" if that is unknown."""
    if _AUTO_LOADED.match(text):
        ends = [end.end() for end in _SKILL_END.finditer(text)]
        return text[ends[-1] :].strip() if ends else text.rpartition("\n\n")[2].strip()
    invoked = _INVOKED.match(text)
    if invoked is None:
        return ""
    if invoked["bundle"]:
        arguments = text.partition(_BUNDLE_ARGUMENTS)[2].partition(_BUNDLED_SKILL)[0]
    else:
        _, found, arguments = text.rpartition(_ARGUMENTS)
        arguments = arguments.partition(_RUNTIME_NOTE)[0] if found else ""
    own, is_cron = _after_notes(arguments.strip())
    own = (_after_context(own) if is_cron else own).strip()
    if is_cron and own:  # a job is not a command
        return own
    name = invoked["name"]
    command = name if name.startswith("/") else "/" + re.sub(r"[\s_]+", "-", name.lower())
    return f"{command} {own}".rstrip()
