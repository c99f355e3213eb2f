"""Programs that stand in for claude, droid and opencode, and a stub of OpenCode's server.

They are real processes which print what the documented programs print, keep their sessions in the
agents' own formats below HOME, and append their arguments to a log. Words in the prompt control
them: HANG (print nothing for ever), DIE (a signal kills the program in the middle of its answer),
CHILD (start a child that outlives the program), FAIL (report an error).
"""

from __future__ import annotations

import sys
from pathlib import Path

_KIT = '''
import json, os, signal, subprocess, sys, time, uuid
from datetime import datetime, timezone
from pathlib import Path

HOME = Path(os.environ["HOME"])
LOG = HOME / "argv.log"

def record():
    with LOG.open("a") as log:
        log.write(json.dumps({"program": Path(sys.argv[0]).name, "argv": sys.argv[1:],
            "pid": os.getpid(), "cwd": os.getcwd(),
            "session": os.environ.get("AMUX_MANAGED_SESSION")}) + "\\n")

def say(**event):
    print(json.dumps(event), flush=True)

def now():
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")

def obey(prompt, half=None):
    """Do what the prompt says to a program under test."""
    with (HOME / "prompts.log").open("a") as log:
        log.write(json.dumps([Path(sys.argv[0]).name, prompt]) + "\\n")
    if "CHILD" in prompt:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if "HANG" in prompt:
        time.sleep(600)
    if "DIE" in prompt:
        if half is not None:
            half()
        os.kill(os.getpid(), signal.SIGKILL)

def option(name, *others):
    for number, word in enumerate(sys.argv):
        if word in (name, *others):
            return sys.argv[number + 1]
        flag, equals, value = word.partition("=")
        if equals and flag in (name, *others):
            return value
    return None

def prompt_in(*valued):
    """The operand of the command line, else the standard input."""
    words = iter(sys.argv[1:])
    found = []
    for word in words:
        if word == "--":
            found += words
        elif word in valued:
            next(words)
        elif not word.startswith("-"):
            found.append(word)
    found = [word for word in found if word not in ("exec", "run")]
    return found[-1] if found else sys.stdin.read()

if sys.argv[1:] in (["--version"], ["-v"]):
    print(f"{VERSION} ({Path(sys.argv[0]).name})")
    sys.exit()
record()
'''

_CLAUDE = """
VERSION = "2.1.326"
KIT

def transcript(session):
    return HOME / ".claude" / "projects" / os.getcwd().replace("/", "-") / f"{session}.jsonl"

def add(session, *entries):
    path = transcript(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    parent = json.loads(lines[-1])["uuid"] if lines else None
    with path.open("a") as file:
        for role, text in entries:
            id = str(uuid.uuid4())
            message = {"role": role, "content": text}
            if role == "assistant":
                message = {"id": "msg_" + id, "type": "message", "role": role,
                    "model": "claude-opus-5-5", "content": [{"type": "text", "text": text}],
                    "usage": {"input_tokens": 7, "output_tokens": 5}}
            file.write(json.dumps({"type": role, "uuid": id, "parentUuid": parent,
                "sessionId": session, "timestamp": now(), "cwd": os.getcwd(),
                "version": VERSION, "isSidechain": False, "message": message}) + "\\n")
            parent = id

def answer(prompt):
    resume = option("--resume", "-r")
    session = resume or option("--session-id") or str(uuid.uuid4())
    if resume and not transcript(resume).exists():
        message = f"No conversation found with session ID: {resume}"
        print(message, file=sys.stderr, flush=True)
        say(type="result", subtype="error_during_execution", is_error=True, num_turns=0,
            duration_ms=1, duration_api_ms=0, session_id=str(uuid.uuid4()), total_cost_usd=0,
            usage={}, errors=[message])
        sys.exit(1)
    if resume and "--fork-session" in sys.argv:
        session = str(uuid.uuid4())
        transcript(session).write_text(
            transcript(resume).read_text().replace(resume, session))
    say(type="system", subtype="init", session_id=session, cwd=os.getcwd(), tools=[],
        mcp_servers=[], model="claude-opus-5-5", permissionMode="default", slash_commands=[],
        apiKeySource="none", uuid=str(uuid.uuid4()), claude_code_version=VERSION)
    text = f"Answer to: {prompt}"
    def half(said="Half an answer"):
        say(type="assistant", session_id=session, parent_tool_use_id=None,
            uuid=str(uuid.uuid4()), message={"id": "msg_1", "type": "message",
            "role": "assistant", "model": "claude-opus-5-5",
            "content": [{"type": "text", "text": said}], "stop_reason": None,
            "usage": {"input_tokens": 7, "output_tokens": 5}})
    add(session, ("user", prompt))
    obey(prompt, half)
    add(session, ("assistant", text))
    half(text)
    say(type="result", subtype="success", is_error=False, result=text, session_id=session,
        num_turns=1, duration_ms=3, duration_api_ms=2, total_cost_usd=0.01,
        usage={"input_tokens": 7, "output_tokens": 5}, uuid=str(uuid.uuid4()))

if option("--input-format") == "stream-json":
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            say(type="control_response", response={"subtype": "success",
                "request_id": message["request_id"], "response": {"commands": []}})
        elif message["type"] == "user":
            content = message["message"]["content"]
            answer(content if isinstance(content, str) else content[0]["text"])
else:
    answer(prompt_in("--output-format", "--model", "--resume", "-r", "--session-id"))
"""

_DROID = """
VERSION = "0.225.2"
KIT

def file_of(session):
    folder = HOME / ".factory" / "sessions" / os.getcwd().replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{session}.jsonl"

def add(session, role, text):
    path = file_of(session)
    if not path.exists():
        path.write_text(json.dumps({"type": "session_start", "id": session, "title": text[:50],
            "owner": "dev", "version": 2, "cwd": os.getcwd()}) + "\\n")
    with path.open("a") as file:
        file.write(json.dumps({"type": "message", "id": str(uuid.uuid4()), "timestamp": now(),
            "message": {"role": role, "content": [{"type": "text", "text": text}]}}) + "\\n")

def answer(session, prompt):
    say(type="message", role="user", id="1", text=prompt, session_id=session)
    add(session, "user", prompt)
    obey(prompt, lambda: say(type="message", role="assistant", id="2", text="Half an answer",
        session_id=session))
    text = f"Answer to: {prompt}"
    add(session, "assistant", text)
    say(type="message", role="assistant", id="2", text=text, session_id=session)
    say(type="completion", finalText=text, numTurns=1, durationMs=3, session_id=session)

resumed = option("-s", "--session-id")
if resumed and not file_of(resumed).exists():
    print(f"Error: session {resumed} not found", file=sys.stderr, flush=True)
    sys.exit(1)
session = resumed or str(uuid.uuid4())
say(type="system", subtype="init", cwd=os.getcwd(), session_id=session, tools=[], model="m")
if option("--input-format") == "stream-json":
    for line in sys.stdin:
        answer(session, json.loads(line)["content"])
else:
    answer(session, prompt_in("-o", "--output-format", "-s", "-m", "--model", "--auto"))
"""

_OPENCODE = """
VERSION = "1.18.33"
KIT

STORE = HOME / ".local" / "share" / "opencode" / "storage"

def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))

def milliseconds():
    return int(time.time() * 1000)

def sessions():
    folder = STORE / "session" / "global"
    return sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)

def add(session, role, text):
    id = f"msg_{milliseconds():012x}{uuid.uuid4().hex[:14]}"
    info = {"id": id, "sessionID": session, "role": role, "time": {"created": milliseconds()}}
    if role == "assistant":
        info |= {"modelID": "fake-large", "providerID": "fakeanth", "cost": 0.001,
            "path": {"cwd": os.getcwd(), "root": os.getcwd()}, "parentID": "msg_0",
            "tokens": {"input": 7, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}}
    write(STORE / "message" / session / f"{id}.json", info)
    part = f"prt_{milliseconds():012x}{uuid.uuid4().hex[:14]}"
    write(STORE / "part" / id / f"{part}.json", {"id": part, "messageID": id,
        "sessionID": session, "type": "text", "text": text})

def event(session, kind, **part):
    say(type=kind, timestamp=milliseconds(), sessionID=session,
        part={"sessionID": session, "id": "prt_1", "messageID": "msg_1", **part})

resumed = option("-s", "--session")
if resumed is None and ("-c" in sys.argv or "--continue" in sys.argv):
    resumed = sessions()[-1].stem if sessions() else None
if resumed and not (STORE / "session" / "global" / f"{resumed}.json").exists():
    say(type="error", timestamp=milliseconds(), sessionID=resumed,
        error={"name": "NotFoundError", "data": {"message": f"Session not found: {resumed}"}})
    sys.exit(1)
prompt = prompt_in("--format", "-s", "--session", "-m", "--model", "--attach")
session = resumed or f"ses_{milliseconds():012x}{uuid.uuid4().hex[:14]}"
write(STORE / "session" / "global" / f"{session}.json", {"id": session, "version": VERSION,
    "projectID": "global", "directory": os.getcwd(), "title": prompt[:50],
    "time": {"created": milliseconds(), "updated": milliseconds()}})
event(session, "step_start", type="step-start")
add(session, "user", prompt)
obey(prompt, lambda: event(session, "text", type="text", text="Half an answer"))
text = f"Answer to: {prompt}"
add(session, "assistant", text)
event(session, "text", type="text", text=text)
event(session, "step_finish", type="step-finish", reason="stop", cost=0.001,
    tokens={"total": 12, "input": 7, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}})
"""

SERVER = '''
"""A stub of `opencode serve` 1.18: the routes, bodies and answers of its OpenAPI document."""
import base64, json, os, re, sys, threading, time, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import parse_qs, urlsplit

PASSWORD = os.environ.get("OPENCODE_SERVER_PASSWORD", "")
STORE = Path(sys.argv[1])
CREATE = {"parentID", "title", "agent", "model", "metadata", "permission", "workspaceID"}
MESSAGE = {"messageID", "model", "agent", "noReply", "tools", "format", "system", "variant"}
sessions = json.loads(STORE.read_text()) if STORE.exists() else {}
listeners, aborted = [], set()
lock = threading.Lock()

def milliseconds():
    return int(time.time() * 1000)

def publish(kind, **properties):
    for queue in list(listeners):
        queue.put({"id": "evt_" + uuid.uuid4().hex, "type": kind, "properties": properties})

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        url = urlsplit(self.path)
        size = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(size) or b"null")
        with lock, Path(sys.argv[2]).open("a") as log:
            log.write(json.dumps({"method": self.command, "path": url.path, "body": body,
                "directory": parse_qs(url.query).get("directory"),
                "authorization": self.headers.get("authorization")}) + "\\n")
        if PASSWORD:
            token = base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
            if self.headers.get("authorization") != f"Basic {token}":
                return self.answer(401, {"name": "UnauthorizedError", "data": {}})
        return self.route(url.path, parse_qs(url.query), body)

    do_GET = do_POST = do_DELETE = handle_any

    def route(self, path, query, body):
        if path == "/global/health":
            return self.answer(200, {"healthy": True, "version": "1.18.33"})
        if path == "/event":
            return self.stream()
        if path == "/session" and self.command == "POST":
            if set(body) - CREATE:
                return self.answer(400, {"_tag": "InvalidRequestError", "message": "unknown key"})
            return self.answer(200, self.create(body, query))
        found = re.fullmatch(r"/session/([^/]+)(?:/(message|abort|fork))?", path)
        if not found:
            return self.answer(404, {"name": "NotFoundError", "data": {"message": path}})
        id, verb = found.groups()
        if id not in sessions:
            return self.answer(404, {"name": "NotFoundError",
                "data": {"message": f"Session not found: {id}"}})
        if verb == "message":
            return self.message(id, body)
        if verb == "abort":
            aborted.add(id)
            return self.answer(200, True)
        if verb == "fork":
            return self.answer(200, self.create({"title": "fork"}, query))
        if self.command == "DELETE":
            del sessions[id]
            return self.answer(200, True)
        return self.answer(200, sessions[id])

    def create(self, body, query):
        id = f"ses_{milliseconds():012x}{uuid.uuid4().hex[:14]}"
        directory = query.get("directory", [os.getcwd()])[0]
        sessions[id] = {"id": id, "slug": "jolly-river", "projectID": "global",
            "directory": directory, "path": "", "cost": 0, "title": body.get("title", "New"),
            "version": "1.18.33", "time": {"created": milliseconds(), "updated": milliseconds()}}
        with lock:
            STORE.write_text(json.dumps(sessions))
        publish("session.created", sessionID=id, info=sessions[id])
        return sessions[id]

    def message(self, id, body):
        if set(body) - MESSAGE - {"parts"} or "parts" not in body:
            return self.answer(400, {"_tag": "InvalidRequestError", "message": "unknown key"})
        prompt = body["parts"][0]["text"]
        user, reply, part = (f"{kind}_{uuid.uuid4().hex}" for kind in ("msg", "msg", "prt"))
        publish("message.updated", sessionID=id, info={"id": user, "role": "user"})
        publish("message.part.updated", sessionID=id, part={"id": "prt_u", "messageID": user,
            "sessionID": id, "type": "text", "text": prompt})
        publish("message.updated", sessionID=id, info={"id": reply, "role": "assistant"})
        half = {"id": part, "messageID": reply, "sessionID": id, "type": "text", "text": "Half"}
        publish("message.part.updated", sessionID=id, part=half)
        publish("message.part.delta", sessionID=id, messageID=reply, partID=part, field="text",
            delta=" an answer")
        info = {"id": reply, "sessionID": id, "role": "assistant", "parentID": user, "cost": 0.001,
            "modelID": "fake-large", "providerID": "fakeanth", "time": {"created": milliseconds()}}
        if "DIE" in prompt:
            os._exit(9)
        while "HANG" in prompt and id not in aborted:
            time.sleep(0.02)
        if "HANG" in prompt:
            aborted.discard(id)
            info["error"] = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
            return self.answer(200, {"info": info, "parts": []})
        if "FAIL" in prompt:
            info["error"] = {"name": "APIError", "data": {"message": "overloaded"}}
            return self.answer(200, {"info": info, "parts": []})
        text = {"id": part, "messageID": reply, "sessionID": id, "type": "text",
            "text": f"Answer to: {prompt}"}
        publish("message.part.updated", sessionID=id, part=text)
        publish("session.idle", sessionID=id)
        return self.answer(200, {"info": info, "parts": [text]})

    def stream(self):
        queue = SimpleQueue()
        listeners.append(queue)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        queue.put({"id": "evt_0", "type": "server.connected", "properties": {}})
        try:
            while True:
                self.wfile.write(b"data: " + json.dumps(queue.get()).encode() + b"\\n\\n")
                self.wfile.flush()
        except OSError:
            listeners.remove(queue)

    def answer(self, status, value):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
'''

PROGRAMS = {"claude": _CLAUDE, "droid": _DROID, "opencode": _OPENCODE}


def install(folder: Path, *names: str) -> Path:
    """Write the programs into a folder, which becomes the PATH of a test."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or PROGRAMS:
        program = folder / name
        text = PROGRAMS[name].replace("\nKIT\n", _KIT)
        program.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
        program.chmod(0o755)
    return folder
