"""Programs as hooks: started without a shell, given JSON, bounded in time and output."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child_processes import child_env
from live_sessions import event_for, memory_session, plain_lifecycle, start_live

from amux.errors import AmuxError, ErrorCode, ValidationError
from amux.host import Host
from amux.lifecycle import command_hooks
from amux.lifecycle.command_hooks import (
    CommandHook,
    CommandSettings,
    event_fields,
    read_hooks,
    run_command,
)
from amux.lifecycle.hooks import LifecycleSource
from amux.lifecycle.live_session import LiveSession
from amux.store.session_store import SessionStore

LONG = 60.0
PATH = os.environ["PATH"]


@pytest.fixture
def session(tmp_path: Path) -> LiveSession:
    live = memory_session(cwd=str(tmp_path))
    live.state.cwd = str(tmp_path)
    return live


def python(code: str, *arguments: str, **settings: Any) -> CommandHook:
    """Return a hook that runs Python code."""
    given: dict[str, Any] = {"name": "python", "timeout": LONG, **settings}
    command = (sys.executable, "-S", "-E", "-c", code, *arguments)
    return CommandHook(CommandSettings(command=command, **given), env={"PATH": PATH})


def error_of(hook: CommandHook, session: LiveSession) -> AmuxError:
    with pytest.raises(AmuxError) as caught:
        hook.execute(event_for(session))
    assert caught.value.code is ErrorCode.PLUGIN_ERROR
    return caught.value


# input and output


def test_a_program_gets_the_event_as_json(store: SessionStore, tmp_path: Path) -> None:
    session = start_live(store, cwd=str(tmp_path))
    session.state.cwd = str(tmp_path)
    session.state.model = "opus"
    session.state.git_sha, session.state.git_branch = "a" * 40, "main"
    copy = tmp_path / "event.json"
    hook = python("import sys; open(sys.argv[1], 'w').write(sys.stdin.read())", str(copy))
    messages = ({"role": "user", "content": "</x>\n\u202e"},)
    event = event_for(session, "resume", initial_messages=messages, previous="t1")
    assert hook.execute(event) is None
    assert json.loads(copy.read_text()) == {
        "version": 1,
        "hook": "python",
        "source": "resume",
        "at": "2026-03-02T12:00:00Z",
        "thread_id": session.thread_id,
        "session_id": session.run_session_id,
        "cwd": str(tmp_path),
        "model": "opus",
        "git_sha": "a" * 40,
        "git_branch": "main",
        "initial_messages": [{"role": "user", "content": "</x>\n\u202e"}],
        "previous": "t1",
    }


def test_only_the_id_of_a_previous_session_is_passed_on(session: LiveSession) -> None:
    assert event_fields(event_for(session, previous=session), "h")["previous"] is None
    session.state.model_override = "haiku"
    assert event_fields(event_for(session), "h")["model"] == "haiku"


def test_a_program_answers_with_a_json_object(session: LiveSession) -> None:
    answer = {"context": "from a program", "watch_paths": ["/w"], "messages": [{"content": "m"}]}
    lifecycle = plain_lifecycle()
    lifecycle.register(python("import sys; print(sys.argv[1])", json.dumps(answer)))
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.warnings == ()
    assert outcome.context == ("from a program",)
    assert outcome.watch_paths == ("/w",)
    assert outcome.messages[0]["content"] == "m"


@pytest.mark.parametrize("printed", ["", "\n", "  \n\t"])
def test_a_program_may_say_nothing(printed: str, session: LiveSession) -> None:
    hook = python("import sys; sys.stdout.write(sys.argv[1])", printed)
    assert hook.execute(event_for(session)) is None


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("hello", "the program printed something that is no JSON"),
        ('{"context": "a"} trailing', "the program printed something that is no JSON"),
        ('["a"]', "the program printed JSON that is no object"),
        ('"text"', "the program printed JSON that is no object"),
        ("3", "the program printed JSON that is no object"),
    ],
)
def test_another_output_is_a_failure(printed: str, reason: str, session: LiveSession) -> None:
    hook = python("import sys; sys.stdout.write(sys.argv[1])", printed)
    assert error_of(hook, session).message == reason


def test_an_unknown_field_of_the_output_is_a_failure(session: LiveSession) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(python("""print('{"contxt": "a"}')"""))
    (report,) = lifecycle.process("startup", session, sync=True).reports
    assert report.error == "failed: the result of the hook has an unknown field `contxt`"


def test_the_exit_code_says_whether_a_program_succeeded(session: LiveSession) -> None:
    said = python("import sys; sys.stderr.write('two\\nlines \\u202e'); print('{}'); sys.exit(2)")
    message = "the program ended with exit code 2: two lines \\u202e"
    assert error_of(said, session).message == message
    silent = python("import sys; sys.exit(1)")
    assert error_of(silent, session).message == "the program ended with exit code 1"
    binary = python("import sys; sys.stderr.buffer.write(b'\\xff'); sys.exit(1)")
    assert error_of(binary, session).message == "the program ended with exit code 1: \ufffd"
    killed = python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert error_of(killed, session).message == "the program ended with signal 15"


def test_a_failing_program_does_not_stop_the_session(session: LiveSession) -> None:
    lifecycle = plain_lifecycle()
    lifecycle.register(python("import sys; sys.exit(2)"), name="blocks")
    lifecycle.register(python("""print('{"context": "next"}')"""), name="next")
    outcome = lifecycle.process("startup", session, sync=True)
    assert [each.status for each in outcome.reports] == ["failed", "ok"]
    assert outcome.context == ("next",)


def test_a_program_that_cannot_be_started_is_a_failure(
    session: LiveSession, tmp_path: Path
) -> None:
    settings = CommandSettings(name="x", command=("amux-no-such-program",))
    hook = CommandHook(settings, env={"PATH": str(tmp_path)})
    assert error_of(hook, session).message == (
        "the program `amux-no-such-program` cannot be started (No such file or directory)"
    )


def test_a_program_need_not_read_its_input(session: LiveSession) -> None:
    session.state.model = "m" * 1_000_000  # more than a pipe holds
    assert python("print('{}')").execute(event_for(session)) == {}


def test_a_program_may_print_before_it_reads(session: LiveSession) -> None:
    session.state.model = "m" * 1_000_000
    code = (
        "import json, sys; text = 'x' * 1_000_000\n"
        "sys.stderr.write(text); sys.stderr.flush()\n"
        "print(json.dumps({'context': text}), flush=True); sys.stdin.read()"
    )
    assert python(code).execute(event_for(session)) == {"context": "x" * 1_000_000}


def test_endless_output_ends_the_program(session: LiveSession) -> None:
    for stream in ("stdout", "stderr"):
        code = f"import sys\nwhile True: sys.{stream}.write('x' * 65536)"
        message = "the program printed more than 4194304 bytes"
        assert error_of(python(code), session).message == message


def test_the_output_may_have_four_mebibytes(session: LiveSession) -> None:
    code = "import sys; sys.stdout.write('{}' + ' ' * (int(sys.argv[1]) - 2))"
    assert python(code, "4194304").execute(event_for(session)) == {}
    assert "more than" in error_of(python(code, "4194305"), session).message


# no shell, a small environment


def test_no_shell_reads_the_words_of_a_command(session: LiveSession, tmp_path: Path) -> None:
    words = ["$HOME", "`id`", "; touch pwned", "*", "a b", "$(touch pwned)", "| cat", "\n"]
    code = "import json, sys; print(json.dumps({'context': sys.argv[1:]}))"
    assert python(code, *words).execute(event_for(session)) == {"context": words}
    assert not (tmp_path / "pwned").exists()


def test_a_program_sees_only_its_environment(
    session: LiveSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    settings = CommandSettings(
        name="x",
        command=(sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"),
        env={"MODE": "test"},
    )
    printed = CommandHook(settings, env={"PATH": PATH, "MODE": "x"}).execute(event_for(session))
    assert isinstance(printed, dict)
    seen_by_program: dict[str, str] = dict(printed)  # pyright: ignore[reportUnknownArgumentType]
    seen_by_program.pop("LC_CTYPE", None)  # Python sets it itself
    assert seen_by_program == {"PATH": PATH, "MODE": "test"}


def test_a_program_runs_in_the_directory_of_the_session(
    session: LiveSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import json, os; print(json.dumps({'context': os.getcwd()}))"
    project = tmp_path / "project"
    project.mkdir()
    session.state.cwd = str(project)
    assert python(code).execute(event_for(session)) == {"context": str(project)}
    monkeypatch.chdir(tmp_path)
    for missing in (str(tmp_path / "missing"), None):
        session.state.cwd = missing
        assert python(code).execute(event_for(session)) == {"context": str(tmp_path)}


# time


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Return a function that waits until a process has ended."""

    def gone(pid: int) -> bool:
        pause = threading.Event()
        for _ in range(600):
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                return True
            if state in {"Z", "X"}:
                return True
            pause.wait(0.05)
        return False

    return gone


SPAWNS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
with open(sys.argv[1], "w") as file:
    file.write(str(child.pid))
{then}
"""


@pytest.fixture
def pid_file(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def test_a_timeout_ends_the_whole_process_group(
    session: LiveSession, pid_file: Path, is_gone: Callable[[int], bool]
) -> None:
    hook = python(SPAWNS.format(then="child.wait()"), str(pid_file), timeout=2.0)
    with pytest.raises(TimeoutError, match="the program did not end within 2 s"):
        hook.execute(event_for(session))
    assert is_gone(int(pid_file.read_text()))


def test_a_program_leaves_no_processes_behind(
    session: LiveSession, pid_file: Path, is_gone: Callable[[int], bool]
) -> None:
    hook = python(SPAWNS.format(then="print('{}')"), str(pid_file))
    assert hook.execute(event_for(session)) == {}
    assert is_gone(int(pid_file.read_text()))


def test_a_process_that_left_the_group_holds_nothing_up(
    session: LiveSession, pid_file: Path
) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'],\n"
        "    start_new_session=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n"
        "print('{}')"
    )
    hook = python(code, str(pid_file))
    try:
        assert hook.execute(event_for(session)) == {}
        readers = [each for each in threading.enumerate() if each.name == "hook-pipe"]
        assert [each.daemon for each in readers] == [True]
    finally:
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
    readers[0].join(LONG)


def test_a_program_that_hangs_is_reported_as_a_timeout(session: LiveSession) -> None:
    lifecycle = plain_lifecycle(budget_seconds=LONG)
    lifecycle.register(python("import time; time.sleep(600)", timeout=0.2))
    (report,) = lifecycle.process("startup", session, sync=True).reports
    assert report.status == "timeout"
    assert report.error == "timed out: the program did not end within 0.2 s"


ENDS_WHILE_A_HOOK_RUNS = """
import atexit
import sys
import amux
from amux.lifecycle.command_hooks import CommandHook, CommandSettings, run_command

def at_exit():
    pass

code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
command = (sys.executable, "-S", "-c", code, sys.argv[1])
sm = amux.framework("memory:")
sm.lifecycle.budget_seconds = 0
sm.lifecycle._log = lambda message: None if "budget" in message else print(message, file=sys.stderr)
sm.lifecycle.register(CommandHook(CommandSettings(name="x", command=command, timeout=60), env={}))
atexit.register(lambda: at_exit())  # runs after that of amux, which is registered later
session = sm.start_session(cwd="/")
with open(sys.argv[1]) as pipe:
    pid = pipe.read()
print(pid, flush=True)
"""


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [("", 0, ""), ("sys.exit(3)", 3, ""), ("raise OSError('own')", 1, "OSError: own\n")],
)
def test_a_program_does_not_outlive_the_python_that_started_it(
    ending: str, code: int, said: str, pid_file: Path, is_gone: Callable[[int], bool]
) -> None:
    os.mkfifo(pid_file)
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_A_HOOK_RUNS + ending, str(pid_file)],
        env=child_env(),
        capture_output=True,
        timeout=LONG,
        check=False,
    )
    errors = done.stderr.decode()
    assert done.returncode == code, errors
    assert errors.endswith(said), errors
    assert "hook" not in errors.removesuffix(said), "an end of Python is no failure of a hook"
    assert is_gone(int(done.stdout))


LATE_WORK = """
def at_exit():
    print(session.outcome.wait(0.5))
    try:
        run_command(["true"], b"", env={}, cwd=None, timeout=60)
    except amux.AmuxError as error:
        print(error.message)
"""


def test_no_hook_is_reported_or_started_while_python_exits(pid_file: Path) -> None:
    os.mkfifo(pid_file)
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_A_HOOK_RUNS + LATE_WORK, str(pid_file)],
        env=child_env(),
        capture_output=True,
        timeout=LONG,
        check=True,
    )
    assert done.stdout.decode().splitlines()[1:] == [
        "False",
        "the program is not started while Python exits",
    ]
    assert done.stderr == b""


FORKS = """
import os
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
with open(f"/proc/{pid}/stat") as file:
    print(file.read().rpartition(")")[2].split()[0])
"""


def test_the_end_of_a_fork_does_not_kill_the_programs_of_its_parent(
    pid_file: Path, is_gone: Callable[[int], bool]
) -> None:
    os.mkfifo(pid_file)
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_A_HOOK_RUNS + FORKS, str(pid_file)],
        env=child_env(),
        capture_output=True,
        timeout=LONG,
        check=True,
    )
    pid, state = done.stdout.split()
    assert state == b"S", "it sleeps, and was not killed"
    assert is_gone(int(pid))


def test_a_program_is_not_part_of_our_process_group(session: LiveSession) -> None:
    code = "import json, os; print(json.dumps({'context': str(os.getsid(0))}))"
    printed = python(code).execute(event_for(session))
    assert printed != {"context": str(os.getsid(0))}


def test_the_output_of_a_program_is_kept_apart(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('out'); sys.stderr.write('err'); sys.exit(7)"
    done = run_command(
        [sys.executable, "-c", code], b"", env={"PATH": PATH}, cwd=None, timeout=LONG
    )
    assert (done.code, done.output, done.errors, done.overflowed) == (7, b"out", b"err", False)


# settings and files


@pytest.mark.parametrize("command", [(), ("",), ("a", "b\0c")])
def test_a_command_begins_with_a_program(command: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        CommandHook(CommandSettings(name="x", command=command), env={})
    assert caught.value.message == (
        "the command of a hook is a list of words that begins with a program"
    )
    assert caught.value.fields == ("command",)


def test_the_settings_of_a_command_are_those_of_the_hook() -> None:
    hook = CommandHook(CommandSettings(name="x", command=("a",)), env={})
    assert (hook.name, hook.command, hook.priority, hook.timeout) == ("x", ("a",), 100, 10.0)
    assert hook.applies_to == tuple(LifecycleSource)
    assert hook.cleanup_seconds == 5.0
    assert hook.env == {}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    env = {"PATH": "/bin", "HOME": str(tmp_path), "LANG": "C", "API_KEY": "secret", "TZ": "UTC"}
    return Host(tmp_path, env=env)


def write(folder: Path, *hooks: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hooks.json"
    path.write_text(json.dumps({"hooks": list(hooks)}))
    path.chmod(0o600)
    return path


def entry(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": ["true"], **fields}


def read(host: Host, project: Path | None = None) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    hooks = read_hooks(host, warnings.append, project=project)
    assert [each.name for each in hooks.values()] == list(hooks)
    return list(hooks), warnings


def test_without_files_there_are_no_hooks(host: Host) -> None:
    assert read(host) == ([], [])


def test_the_files_of_the_user_are_read(host: Host, tmp_path: Path) -> None:
    write(
        tmp_path / ".agent-mux",
        entry("a", applies_to=["clear"], priority=5, timeout=2, env={"X": "1"}),
        entry("off", enabled=False),
    )
    other = write(tmp_path / ".amux", entry("b"), entry("a"))
    warnings: list[str] = []
    hooks = read_hooks(host, warnings.append)
    assert [(name, hook.enabled) for name, hook in hooks.items()] == [
        ("a", True), ("off", False), ("b", True)
    ]  # fmt: skip
    assert warnings == [f"hook 2 of `{other}` is not used: `a` exists already"]
    first = hooks["a"]
    assert isinstance(first, CommandHook)
    assert (first.applies_to, first.priority, first.timeout) == (("clear",), 5, 2.0)
    assert first.command == ("true",)
    assert first.env == {
        "PATH": "/bin", "HOME": str(tmp_path), "LANG": "C", "TZ": "UTC", "X": "1"
    }  # fmt: skip


def test_the_configuration_directory_can_be_elsewhere(tmp_path: Path) -> None:
    write(tmp_path / "config", entry("a"))
    host = Host(tmp_path / "home", env={"AGENT_MUX_CONFIG_DIR": str(tmp_path / "config")})
    assert read(host) == (["a"], [])


def test_the_hooks_of_a_project_need_the_consent_of_the_caller(host: Host, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(project / ".agent-mux", entry("one"))
    write(project / ".amux", entry("two"))
    assert read(host) == ([], [])
    assert read(host, project) == (["one", "two"], [])
    write(tmp_path / ".agent-mux", entry("mine"))
    assert read(host, project) == (["mine", "one", "two"], [])
    assert read(host, tmp_path) == (["mine"], [])


def test_a_file_is_read_once(host: Host, tmp_path: Path) -> None:
    write(tmp_path / ".agent-mux", entry("a"))
    assert read(host, tmp_path) == (["a"], [])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry("x", command="rm -rf /"), "Expected `array`, got `str`"),
        (entry("x", command=[]), "begins with a program"),
        (entry("x", applies_to=["fork"]), "`fork` is no lifecycle source"),
        (entry("x", shell=True), "unknown field `shell`"),
        ({"name": "x"}, "missing required field `command`"),
        (3, "Expected `object`, got `int`"),
    ],
)
def test_a_bad_entry_is_reported_and_the_others_are_used(
    bad: object, reason: str, host: Host, tmp_path: Path
) -> None:
    path = write(tmp_path / ".agent-mux", entry("a"), bad, entry("b"))
    names, warnings = read(host)
    assert names == ["a", "b"]
    (warning,) = warnings
    assert warning.startswith(f"hook 2 of `{path}` is not used: ")
    assert reason in warning


@pytest.mark.parametrize("content", ["", "[]", "{", '{"hook": []}', '{"hooks": {}}', "\x00"])
def test_a_bad_file_is_reported_and_the_others_are_read(
    content: str, host: Host, tmp_path: Path
) -> None:
    path = write(tmp_path / ".agent-mux")
    path.write_text(content)
    write(tmp_path / ".amux", entry("b"))
    assert read(host) == (
        ["b"],
        [f"`{path}` is not used: it is no JSON object with a list `hooks`"],
    )


def test_a_file_that_everybody_can_write_is_not_used(host: Host, tmp_path: Path) -> None:
    path = write(tmp_path / ".agent-mux", entry("a"))
    path.chmod(0o602)
    assert read(host) == (
        [],
        [f"`{path}` is not used: every user of this machine can write to it"],
    )
    path.chmod(0o664)
    assert read(host) == (["a"], [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o664


def test_a_huge_file_is_not_used(host: Host, tmp_path: Path) -> None:
    path = write(tmp_path / ".agent-mux", entry("a"))
    content = path.read_text()
    path.write_text(content + " " * (1_048_576 - len(content)))
    assert read(host) == (["a"], [])
    path.write_text(content + " " * (1_048_577 - len(content)))
    assert read(host) == ([], [f"`{path}` is not used: it has more than 1048576 bytes"])


def test_a_file_that_cannot_be_read_is_reported(host: Host, tmp_path: Path) -> None:
    path = tmp_path / ".agent-mux" / "hooks.json"
    path.mkdir(parents=True)
    assert read(host) == ([], [f"`{path}` cannot be read (Is a directory)"])


def test_the_hooks_of_a_file_are_loaded_when_hooks_first_run(
    host: Host, tmp_path: Path, session: LiveSession
) -> None:
    code = """print('{"context": "from the file"}')"""
    write(
        tmp_path / ".agent-mux",
        entry("file", command=[sys.executable, "-S", "-c", code], timeout=LONG),
    )
    lifecycle = plain_lifecycle(budget_seconds=LONG)
    lifecycle.add_loader("hooks.json", lambda warn: read_hooks(host, warn))
    assert not lifecycle.hooks
    assert lifecycle.process("startup", session, managed_only=True).reports == ()
    outcome = lifecycle.process("startup", session, sync=True)
    assert outcome.context == ("from the file",)
    assert [(each.name, each.trust) for each in lifecycle.hooks] == [("file", "user")]


def test_the_environment_of_programs_is_a_short_list() -> None:
    names: tuple[str, ...] = vars(command_hooks)["_ENVIRONMENT"]
    assert names == (
        "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PATHEXT", "SYSTEMROOT", "TEMP", "TMP",
        "TMPDIR", "TZ", "USER", "USERPROFILE",
    )  # fmt: skip
