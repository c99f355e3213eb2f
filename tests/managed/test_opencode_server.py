"""OpenCode by its server: the real routes, and every way in which a server can fail."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from managed_home import ManagedHome, ServerProcess

from amux.errors import AmuxError, AuthError, ErrorCode, ValidationError
from amux.host import Host
from amux.managed.agents.opencode_api import OpencodeServer, is_loopback
from amux.managed.state import SessionStatus

Serve = Callable[..., ServerProcess]


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_session_is_probed_created_and_then_gets_its_first_message(
    managed_home: ManagedHome, opencode_server: ServerProcess
) -> None:
    info = managed_home.managed.create_session(
        "opencode", "hello", cwd=str(managed_home.project), model="fakeanth/fake-large", title="T"
    )
    assert info.text == "Answer to: hello"
    asked = opencode_server.requests()
    assert [(r["method"], r["path"].replace(str(info.agent_session_id), "ID")) for r in asked] == [
        ("GET", "/global/health"),
        ("POST", "/session"),
        ("GET", "/event"),
        ("POST", "/session/ID/message"),
    ]
    model = {"id": "fake-large", "providerID": "fakeanth"}
    assert asked[1]["body"] == {"title": "T", "model": model}
    assert asked[3]["body"] == {
        "parts": [{"type": "text", "text": "hello"}],
        "model": {"providerID": "fakeanth", "modelID": "fake-large"},
    }
    assert {tuple(r["directory"]) for r in asked} == {(str(managed_home.project),)}
    assert [r["authorization"] for r in asked] == [None] * 4


def test_a_session_without_a_prompt_exists_in_the_server(
    managed_home: ManagedHome, opencode_server: ServerProcess
) -> None:
    managed = managed_home.managed
    info = managed.create_session("opencode", cwd=str(managed_home.project))
    assert (info.status, str(info.agent_session_id)[:4]) == (SessionStatus.IDLE, "ses_")
    assert managed.resume_session(info.id).resume_count == 1
    assert opencode_server.requests()[-1]["path"] == f"/session/{info.agent_session_id}"


def test_the_password_opens_the_server_and_a_wrong_one_is_an_auth_error(
    managed_home: ManagedHome, serve: Serve
) -> None:
    server = serve(password="s3cret")
    managed_home.configure(opencode={"server_url": server.url})
    managed_home.env["OPENCODE_SERVER_PASSWORD"] = "wrong"
    with pytest.raises(AuthError) as caught:
        managed_home.managed.create_session("opencode", "hello")
    assert (caught.value.exit_code, "s3cret" in str(caught.value)) == (5, False)
    managed_home.env["OPENCODE_SERVER_PASSWORD"] = "s3cret"
    managed = managed_home.managed
    assert managed.create_session("opencode", "hello").text == "Answer to: hello"
    assert managed.health("opencode").detail == "1.18.33"
    stored = b"".join(p.read_bytes() for p in managed_home.base.rglob("*") if p.is_file())
    assert b"s3cret" not in stored


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("http://192.0.2.7:4096", True),
        ("http://opencode.example:4096", True),
        ("http://127.0.0.1.example:4096", True),
        ("https://opencode.example", False),
        ("http://127.0.0.1:4096", False),
        ("http://[::1]:4096", False),
        ("http://localhost:4096", False),
    ],
)
def test_the_password_is_not_sent_in_the_clear_to_another_machine(
    tmp_path: Path, url: str, is_refused: bool
) -> None:
    host = Host(tmp_path, env={"OPENCODE_SERVER_PASSWORD": "x"})
    if is_refused:
        with pytest.raises(ValidationError):
            OpencodeServer(url, host)
    else:
        OpencodeServer(url, host)


def test_names_that_only_look_like_this_machine_are_not() -> None:
    assert not any(map(is_loopback, ("localhost.example", "127.0.0.1.nip.io", "10.0.0.1", "")))
    assert all(map(is_loopback, ("localhost", "127.9.9.9", "::1", "LOCALHOST")))


def test_a_server_that_is_down_is_named_with_what_to_do(managed_home: ManagedHome) -> None:
    managed_home.configure(opencode={"server_url": f"http://127.0.0.1:{free_port()}"})
    begun = time.monotonic()
    with pytest.raises(AmuxError) as caught:
        managed_home.managed.create_session("opencode", "hello")
    assert time.monotonic() - begun < 5
    assert (caught.value.code, caught.value.recoverable) == (ErrorCode.SPAWN_ERROR, True)
    assert "opencode serve" in str(caught.value.hint)


def test_a_server_that_is_down_starts_no_new_session_on_resume(
    managed_home: ManagedHome, opencode_server: ServerProcess
) -> None:
    managed = managed_home.managed
    info = managed.create_session("opencode", "hello")
    opencode_server.stop()
    with pytest.raises(AmuxError) as caught:
        managed.resume_session(info.id, "again", strategy="resume_or_new")
    assert caught.value.code == ErrorCode.SPAWN_ERROR
    assert managed.get(info.id).agent_session_id == info.agent_session_id


def test_a_server_that_starts_a_moment_later_is_found_by_a_retry(
    managed_home: ManagedHome, serve: Serve
) -> None:
    port = free_port()
    managed_home.configure(opencode={"server_url": f"http://127.0.0.1:{port}"})
    starter = threading.Thread(target=lambda: serve(port=port))
    starter.start()
    try:
        managed = managed_home.managed
        for _ in range(20):
            if managed.health("opencode").is_healthy:
                break
        assert managed.create_session("opencode", "hello").text == "Answer to: hello"
    finally:
        starter.join()


def test_a_port_that_never_answers_is_a_timeout(
    managed_home: ManagedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amux.managed.agents.opencode_api.PROBE_SECONDS", 0.2)
    with closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = OpencodeServer(
            f"http://127.0.0.1:{silent.getsockname()[1]}", Host(managed_home.home)
        )
        with pytest.raises(AmuxError) as caught:
            server.health()
    assert (caught.value.code, caught.value.exit_code) == (ErrorCode.TIMEOUT, 11)


def test_a_prompt_without_a_sign_of_life_is_aborted(
    managed_home: ManagedHome, opencode_server: ServerProcess
) -> None:
    managed_home.configure(opencode={"server_url": opencode_server.url, "timeout": 0.5})
    managed = managed_home.managed
    before = threading.active_count()
    with pytest.raises(AmuxError) as caught:
        managed.create_session("opencode", "HANG")
    assert (caught.value.code, caught.value.exit_code) == (ErrorCode.INACTIVITY_TIMEOUT, 11)
    assert opencode_server.requests()[-1]["path"].endswith("/abort")
    (offer,) = managed.recover()
    assert (offer.partial, offer.choices[0]) == ("Half an answer", "resume")
    assert threading.active_count() <= before + 1  # the thread that saves sessions may end later
    assert managed.resume_session(offer.session.id, "now").text == "Answer to: now"


def test_a_server_that_dies_in_the_middle_is_a_crash_that_can_be_recovered(
    managed_home: ManagedHome, opencode_server: ServerProcess, serve: Serve
) -> None:
    managed = managed_home.managed
    with pytest.raises(AmuxError):
        managed.create_session("opencode", "DIE")
    (offer,) = managed.recover()
    assert offer.session.agent_session_id is not None
    serve(port=opencode_server.port)
    report = managed.recover_session(offer.session.id, "resume", "again")
    assert report.session is not None
    assert (report.session.text, report.session.is_new) == ("Answer to: again", False)


def test_an_error_of_the_model_is_told(
    managed_home: ManagedHome, opencode_server: ServerProcess
) -> None:
    with pytest.raises(AmuxError, match="overloaded") as caught:
        managed_home.managed.create_session("opencode", "FAIL")
    assert caught.value.code == ErrorCode.AGENT_CRASH


def test_the_other_calls_of_the_interface(
    managed_home: ManagedHome, opencode_server: ServerProcess
) -> None:
    server = OpencodeServer(opencode_server.url, Host(managed_home.home))
    made = server.create(title="A")
    copy = server.fork(made["id"], message_id="msg_1")
    assert copy["id"] != made["id"]
    server.delete(copy["id"])
    with pytest.raises(AmuxError) as caught:
        server.get(copy["id"])
    assert caught.value.code == ErrorCode.SESSION_NOT_FOUND
    with pytest.raises(ValidationError):
        server.create(model="no-provider")
