"""The REST interface of an OpenCode server: sessions, messages and the stream of events.

Only the standard library is used. The server is on this machine by default. The password goes over
plain HTTP to this machine only, and never in a URL.
"""

from __future__ import annotations

import http.client
import socket
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from amux.errors import AmuxError, AuthError, ErrorCode, ParseError, ValidationError
from amux.host import Host

CONNECT_TRIES: Final = 3
RETRY_SECONDS: Final = 0.2
PROBE_SECONDS: Final = 5.0
LARGEST_ANSWER: Final = 64 * 2**20
LARGEST_EVENT: Final = 16 * 2**20

_UNAUTHORIZED: Final = (401, 403)
_NOT_FOUND: Final = 404
_OK: Final = range(200, 300)
_BUSY: Final = (502, 503, 504)


class ServerSessionMissingError(AmuxError):
    """The server has no session with the given id."""

    code = ErrorCode.SESSION_NOT_FOUND


class OpencodeServer:
    """One server, with the directory whose project its sessions belong to.

    Raises AuthError if the server refuses the password, and AmuxError with SPAWN_ERROR if it cannot
    be reached, TIMEOUT if it does not answer, AGENT_CRASH if it fails.
    """

    def __init__(self, url: str, host: Host, *, directory: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._parts = urlsplit(self.url)
        self._host = host
        self._directory = directory
        self._headers = self._authorization()
        self._sockets: set[socket.socket] = set()

    def close(self) -> None:
        """End all requests that other threads wait for."""
        for each in tuple(self._sockets):
            _shut_down(each)

    def health(self) -> str:
        """Return the version of the server; retries a few times while nothing answers."""
        answer = self._ask("GET", "/global/health", timeout=PROBE_SECONDS, tries=CONNECT_TRIES)
        known = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        if known.get("healthy") is not True:
            raise ParseError(f"`{self.url}` is not an OpenCode server")
        return str(known.get("version", ""))

    def create(
        self,
        *,
        title: str | None = None,
        parent_id: str | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> dict[str, Any]:
        """Create an empty session and return it; `model` is `provider/model`."""
        body: dict[str, Any] = {"title": title, "parentID": parent_id, "agent": agent}
        if model is not None:
            provider, name = split_model(model)
            body["model"] = {"id": name, "providerID": provider}
        given = {key: value for key, value in body.items() if value is not None}
        return self._object("POST", "/session", given)

    def get(self, session_id: str) -> dict[str, Any]:
        """Return a session."""
        return self._object("GET", f"/session/{_word(session_id)}")

    def send(
        self,
        session_id: str,
        prompt: str,
        *,
        model: str | None = None,
        agent: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send a message and return the answer, `{info, parts}`, when it is complete."""
        body: dict[str, Any] = {"parts": [{"type": "text", "text": prompt}]}
        if agent is not None:
            body["agent"] = agent
        if model is not None:
            provider, name = split_model(model)
            body["model"] = {"providerID": provider, "modelID": name}
        return self._object("POST", f"/session/{_word(session_id)}/message", body, timeout=timeout)

    def fork(self, session_id: str, *, message_id: str | None = None) -> dict[str, Any]:
        """Copy a session, or its messages before one of them; return the copy."""
        body = {} if message_id is None else {"messageID": message_id}
        return self._object("POST", f"/session/{_word(session_id)}/fork", body)

    def abort(self, session_id: str) -> None:
        """Make the agent stop working on a session."""
        self._ask("POST", f"/session/{_word(session_id)}/abort", timeout=PROBE_SECONDS)

    def delete(self, session_id: str) -> None:
        """Delete a session of the agent. Managed sessions never do this."""
        self._ask("DELETE", f"/session/{_word(session_id)}")

    def events(self, *, timeout: float) -> EventStream:
        """Return the stream of events; a read waits for `timeout` seconds at most."""
        connection = self._connect(timeout)
        path = self._path("/event")
        with self._errors("GET", "/event"):
            connection.request("GET", path, headers=self._headers)
            opened = connection.sock  # the connection forgets it when the answer begins
            response = connection.getresponse()
        if response.status not in _OK:
            connection.close()
            raise self._failure(response.status, b"", "/event")
        return EventStream(connection, response, opened)

    def _authorization(self) -> dict[str, str]:
        headers = {"accept": "application/json"}
        password = self._host.env.get("OPENCODE_SERVER_PASSWORD", "")
        if not password:
            return headers
        if self._parts.scheme != "https" and not is_loopback(self._parts.hostname or ""):
            raise ValidationError(
                f"the password is not sent to `{self.url}` without encryption",
                fields=("session_management.agents.opencode.server_url",),
                hint="use https, a server on this machine, or a tunnel to it",
            )
        user = self._host.env.get("OPENCODE_SERVER_USERNAME", "") or "opencode"
        token = b64encode(f"{user}:{password}".encode()).decode()
        return {**headers, "authorization": f"Basic {token}"}

    def _object(
        self, method: str, path: str, body: object = None, *, timeout: float | None = PROBE_SECONDS
    ) -> dict[str, Any]:
        answer = self._ask(method, path, body, timeout=timeout)
        if not isinstance(answer, dict):
            raise ParseError(f"`{self.url}{path}` answered with no JSON object")
        return cast("dict[str, Any]", answer)

    def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        timeout: float | None = PROBE_SECONDS,
        tries: int = 1,
    ) -> object:
        """Return the JSON that the server answers with.

        Only requests that change nothing are repeated: a prompt must not be sent twice.
        """
        for _ in range(tries - 1):
            try:
                return self._ask_once(method, path, body, timeout)
            except AmuxError as error:
                if error.code != ErrorCode.SPAWN_ERROR:
                    raise
            self._pause()
        return self._ask_once(method, path, body, timeout)

    def _pause(self) -> None:
        from threading import Event

        self._host.clock.wait(Event(), RETRY_SECONDS)

    def _ask_once(self, method: str, path: str, body: object, timeout: float | None) -> object:
        content = None if body is None else msgspec.json.encode(body)
        headers = dict(self._headers)
        if content is not None:
            headers["content-type"] = "application/json"
        connection = self._connect(timeout)
        opened: socket.socket | None = None
        try:
            with self._errors(method, path):
                connection.request(method, self._path(path), body=content, headers=headers)
                opened = connection.sock
                if opened is not None:
                    self._sockets.add(opened)
                with connection.getresponse() as response:
                    answer = response.read(LARGEST_ANSWER + 1)
        finally:
            if opened is not None:
                self._sockets.discard(opened)
            connection.close()
        if response.status not in _OK:
            raise self._failure(response.status, answer, path)
        if len(answer) > LARGEST_ANSWER:
            raise ParseError(f"the answer of `{self.url}{path}` is larger than 64 MB")
        try:
            return msgspec.json.decode(answer) if answer else None
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ParseError(
                f"`{self.url}{path}` answered with something that is no JSON",
                hint="is another program using that port?",
            ) from error

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        name = self._parts.hostname or "localhost"
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(name, self._parts.port, timeout=timeout)
        return http.client.HTTPConnection(name, self._parts.port, timeout=timeout)

    def _path(self, path: str) -> str:
        query = "" if self._directory is None else f"?{urlencode({'directory': self._directory})}"
        return f"{self._parts.path}{path}{query}"

    @contextmanager
    def _errors(self, method: str, path: str) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            raise AmuxError(
                f"the OpenCode server at `{self.url}` does not answer {method} `{path}`",
                code=ErrorCode.TIMEOUT,
                recoverable=True,
                hint="look at its log, or restart it",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            reason = said or type(error).__name__
            raise AmuxError(
                f"no OpenCode server answers at `{self.url}` ({reason})",
                code=ErrorCode.SPAWN_ERROR,
                recoverable=True,
                hint="start one with `opencode serve`, or set "
                "`session_management.agents.opencode.server_mode` to false",
            ) from error

    def _failure(self, status: int, answer: bytes, path: str) -> AmuxError:
        if status in _UNAUTHORIZED:
            return AuthError(
                f"the OpenCode server at `{self.url}` refuses the password",
                agent="opencode",
                status=str(status),
                guidance="set OPENCODE_SERVER_PASSWORD to the password of the server",
            )
        reason = _reason(answer) or f"status {status}"
        if status == _NOT_FOUND:
            return ServerSessionMissingError(f"the OpenCode server has no such session: {reason}")
        return AmuxError(
            f"the OpenCode server at `{self.url}` failed at `{path}`: {reason}",
            code=ErrorCode.AGENT_CRASH,
            recoverable=status in _BUSY,
        )


class EventStream:
    """Server-sent events; iterating yields `{id, type, properties}` until the stream is closed."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        opened: socket.socket,
    ) -> None:
        self._connection = connection
        self._response = response
        self._socket = opened

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield events; an event that is no JSON object, or is too long, is skipped."""
        data: list[bytes] = []
        while line := self._read_line():
            line = line.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                data.append(line[5:].lstrip())
            elif not line and data:
                event = _decoded(b"\n".join(data))
                data.clear()
                if event is not None:
                    yield event

    def _read_line(self) -> bytes:
        try:
            line = self._response.readline(LARGEST_EVENT)
            while line and not line.endswith(b"\n"):  # the rest of an overlong line
                line = self._response.readline(LARGEST_EVENT)
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            return b""  # closed by another thread, or the server is gone
        return line

    def close(self) -> None:
        """End the stream, also while another thread reads from it."""
        _shut_down(self._socket)
        self._connection.close()
        with suppress(OSError, ValueError):  # the response holds the socket, too
            self._response.close()


def split_model(model: str) -> tuple[str, str]:
    """Return provider and model of `provider/model`."""
    provider, slash, name = model.partition("/")
    if not (slash and provider and name):
        raise ValidationError(
            f"`{model}` is not a model of OpenCode",
            fields=("model",),
            hint="name it as `provider/model`, such as `anthropic/claude-sonnet-4-5`",
        )
    return provider, name


def is_loopback(name: str) -> bool:
    """Return whether a host name is this machine, without asking for its address."""
    if name.lower() == "localhost" or name.lower().endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _shut_down(opened: socket.socket) -> None:
    """End a connection, also while another thread reads from it."""
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


def _word(text: str) -> str:
    return quote(text, safe="")


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _reason(answer: bytes) -> str | None:
    """Return the message of an error, which has one of three shapes."""
    found: Mapping[str, Any] = _decoded(answer[:LARGEST_EVENT]) or {}
    data = found.get("data")
    inner = cast("Mapping[str, Any]", data).get("message") if isinstance(data, Mapping) else None
    for text in (inner, found.get("message"), found.get("_tag"), found.get("name")):
        if isinstance(text, str) and text:
            return text
    return None
