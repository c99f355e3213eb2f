"""The HTML export in a real browser runs no script, requests nothing and is visible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest
from builders import ClaudeSession, open_client, uuid_of
from chromium import Browser, Proxy, recording_proxy
from png import count_colours

from amux import EntryLog, export_html
from amux.render.html import POLICY
from amux.render.html_style import STYLE

pytestmark = pytest.mark.slow

HOST = "attacker.invalid"
OWNED = "owned"
RUN = f"document.title='{OWNED}';document.documentElement.className='{OWNED}'"

TITLE = "Fix </title><script>document.title='owned'</script>"

RUNS = (
    f"<script>{RUN}</script>",
    f'<img src=x onerror="{RUN}">',
    f'<svg onload="{RUN}"><animate onbegin="{RUN}" attributeName=x dur=1s></svg>',
    f'<body onload="{RUN}">',
    f'<details open ontoggle="{RUN}">',
    f'<input autofocus onfocus="{RUN}">',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f'<iframe src="javascript:parent.{RUN}"></iframe>',
    f'<object data="javascript:{RUN}"></object>',
    f'<script src="data:text/javascript,{RUN}"></script>',
    f'<script nonce="" integrity="">{RUN}</script>',
    f'<math><mtext><style><img src=x onerror="{RUN}"></style></mtext></math>',
)
FETCHES = (
    f'<img src="http://{HOST}/pixel.png">',
    f'<link rel="stylesheet" href="http://{HOST}/sheet.css">',
    f'<link rel="prefetch" href="http://{HOST}/ahead">',
    f"<style>@import url(http://{HOST}/sheet.css); body {{ background: url(//{HOST}/b) }}</style>",
    f'<iframe src="http://{HOST}/frame"></iframe>',
    f'<object data="http://{HOST}/object"></object>',
    f'<video autoplay src="http://{HOST}/video" poster="http://{HOST}/poster"></video>',
    f'<svg><image href="http://{HOST}/svg"/><use href="http://{HOST}/use#x"/></svg>',
    f'<base href="http://{HOST}/"><img src="relative.png">',
    f'<script>fetch("http://{HOST}/fetch"); new WebSocket("ws://{HOST}/socket")</script>',
)
BREAK_OUTS = (
    "</style>",
    "</script>",
    "</title>",
    "</textarea>",
    "<!--",
    "-->",
    "]]>",
    '">',
    "'>",
    "</pre></div></article></main>",
    "```html\n",
    "`",
    "&lt;script&gt;",
)
ESCAPING_ONLY = (
    f'<a href="javascript:{RUN}">click</a>',
    f"[click](javascript:{RUN})",
    f'<meta http-equiv="refresh" content="0;url=http://{HOST}/moved">',
    f'<link rel="dns-prefetch preconnect" href="http://{HOST}/">',
    '<meta http-equiv="Content-Security-Policy" content="script-src \'unsafe-inline\'">',
    f'<form action="http://{HOST}/form"><button autofocus>go</button></form>',
)
"""Against these there is no policy: they must not become elements at all."""

SAFE_ELEMENTS = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer"} | {
    *("article", "section", "details", "summary", "dl", "dt", "dd", "div", "ul", "li", "p"),
    *("h1", "h2", "h4", "span", "time", "a", "pre", "code", "strong", "img"),
}
TONES = ("green", "blue", "amber", "grey", "purple", "orange")


SIZE = (700, 1600)
LIGHT = "@media print, (prefers-color-scheme: light) {"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with recording_proxy() as server:
        yield server


@pytest.fixture
def browser(tmp_path: Path, proxy: Proxy) -> Browser:
    proxy.requests.clear()
    return Browser(tmp_path, proxy)


def export(session: ClaudeSession) -> str:
    session.write()
    return open_client(session.home).sessions.export("claude", session.session_id, "html")


def hostile_texts() -> list[str]:
    attacks = [*RUNS, *FETCHES, *ESCAPING_ONLY]
    return [*attacks, *(f"{end}{RUNS[0]}{FETCHES[0]}" for end in BREAK_OUTS)]


def hostile_page(home: Path) -> str:
    """Every attack in every place that content can reach."""
    session = ClaudeSession(home, uuid_of(1), cwd=f"/tmp/{RUNS[1]}").prompt(TITLE)
    for number, text in enumerate(hostile_texts()):
        call = {"type": "tool_use", "id": f"{text}{number}", "name": text, "input": {text: text}}
        thought = {"type": "thinking", "thinking": text}
        session.prompt(text).reply(text, blocks=[thought, call], model=text)
        session.tool_result(f"{text}{number}", text)
    return export(session)


class Elements(HTMLParser):
    """The elements and attributes of a document, in order, and its title."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[tuple[str, str], ...]]] = []
        self.title = ""
        self._in_title = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(sorted((name, value or "") for name, value in attrs))))
        self._in_title = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data


def test_hostile_content_runs_nothing_and_fetches_nothing(
    home: Path, browser: Browser, proxy: Proxy
) -> None:
    page = hostile_page(home)
    written, seen = Elements(page), Elements(browser.dom(page))
    assert seen.title == written.title == TITLE
    assert seen.found == written.found, "the browser made something else of the page"
    assert {tag for tag, _ in seen.found} <= SAFE_ELEMENTS
    names = {name for _, attributes in seen.found for name, _ in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert proxy.requests_to(HOST) == []


def test_the_policy_holds_even_where_escaping_would_fail(
    home: Path, browser: Browser, proxy: Proxy
) -> None:
    page = _with_raw_attacks(home)
    dom = browser.dom(page)
    assert Elements(dom).title == "hello"
    assert f'class="{OWNED}"' not in dom
    assert proxy.requests_to(HOST) == []


def test_without_the_policy_the_same_attacks_work(
    home: Path, browser: Browser, proxy: Proxy
) -> None:
    """The proof that the two tests above can fail."""
    page = _with_raw_attacks(home).replace(POLICY, "")
    dom = browser.dom(page)
    assert f'class="{OWNED}"' in dom
    assert f"GET http://{HOST}/pixel.png HTTP/1.1" in proxy.requests_to(HOST)


def _with_raw_attacks(home: Path) -> str:
    page = export(ClaudeSession(home, uuid_of(1)).prompt("hello").reply("hi"))
    return page.replace("<main>", "<main>" + "\n".join((*FETCHES, *RUNS)))


def colourful_page(home: Path) -> str:
    thought = {"type": "thinking", "thinking": "It may be the clock."}
    session = ClaudeSession(home, uuid_of(1)).prompt("Why does it fail?")
    session.reply("I look.", blocks=[thought]).tool_call("call-1", {"command": "pytest"})
    session.tool_result("call-1", "1 failed")
    session.prompt("This session is being continued from …", isCompactSummary=True).reply("Go on.")
    return export(session)


def entry_log_page(folder: Path, text: str, *more: str) -> str:
    """A page of an entry log with the texts in every place that they can reach."""
    log = EntryLog.create(folder, text)
    for each in (text, *more):
        log.append_message({"role": "user", "content": each})
        block = {"type": "tool_call", "id": each, "name": each, "arguments": {each: each}}
        image = {"type": "image", "data": each, "mime_type": each}
        blocks = [{"type": "thinking", "thinking": each}, {"type": "text", "text": each}, block]
        answer = {"role": "assistant", "content": [*blocks, image], "model": each}
        log.append_message({**answer, "provider": each, "stop_reason": each})
        log.append_message({"role": "tool_result", "tool_call_id": each, "content": each})
        log.append_compaction(each, "", 1)
    fork = log.fork(folder, branch_summary=text)
    return export_html(fork.file_path.read_bytes(), title=text, session_id=text)


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_all_six_colours_can_be_seen(
    scheme: Literal["dark", "light"], home: Path, browser: Browser, proxy: Proxy
) -> None:
    page = colourful_page(home)
    png = browser.screenshot(page, width=SIZE[0], height=SIZE[1], scheme=scheme)
    check_colours(png, scheme)
    assert proxy.requests_to(HOST) == []


def check_colours(png: bytes, scheme: str) -> None:
    dark, light = STYLE.split(LIGHT)
    style = light if scheme == "light" else dark
    width, height, colours = count_colours(png)
    assert (width, height) == SIZE
    assert len(colours) > 100, "the page is blank"
    for tone in TONES:
        named = re.search(rf"--{tone}: (#[0-9a-f]{{6}})", style)
        assert named is not None
        assert colours[named[1]] > 60, f"{tone} cannot be seen"
    page = re.search(r"--page: (#[0-9a-f]{6})", style)
    assert page is not None
    assert colours[page[1]] > 100_000


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_the_page_of_an_entry_log_can_be_seen(
    scheme: Literal["dark", "light"], tmp_path: Path, browser: Browser, proxy: Proxy
) -> None:
    page = entry_log_page(tmp_path, "hello")
    check_colours(browser.screenshot(page, width=SIZE[0], height=SIZE[1], scheme=scheme), scheme)
    assert proxy.requests_to(HOST) == []


def test_a_hostile_entry_log_runs_nothing_and_fetches_nothing(
    tmp_path: Path, browser: Browser, proxy: Proxy
) -> None:
    page = entry_log_page(tmp_path, TITLE, *hostile_texts())
    written, seen = Elements(page), Elements(browser.dom(page))
    assert seen.title == written.title == TITLE
    assert seen.found == written.found, "the browser made something else of the page"
    assert {tag for tag, _ in seen.found} <= SAFE_ELEMENTS
    names = {name for _, attributes in seen.found for name, _ in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert proxy.requests_to(HOST) == []


def test_a_closed_block_hides_its_content_and_an_open_one_shows_it(
    home: Path, browser: Browser
) -> None:
    """Closing every block makes the page shorter: the tool call and its output are collapsible."""
    page = colourful_page(home)
    assert page.count(" open>") == 2
    closed = page.replace(" open>", ">")
    shown, hidden = (
        count_colours(browser.screenshot(each, width=SIZE[0], height=SIZE[1]))[2]
        for each in (page, closed)
    )
    ground = re.search(r"--page: (#[0-9a-f]{6})", STYLE)
    assert ground is not None
    assert hidden[ground[1]] > shown[ground[1]] + SIZE[0] * 20
