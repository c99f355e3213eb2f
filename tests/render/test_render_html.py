from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from drawn import drawn
from hypothesis import given
from render_samples import NOON, PNG, assistant, full_session, make, shell_call, shell_result, user

from amux.model.session import Session
from amux.render import exporter, render
from amux.render.html_style import STYLE
from amux.testing.strategies import HOSTILE, sessions

VOID = {"meta", "img"}
OUR_TAGS = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer"} | {
    *("article", "section", "details", "summary", "dl", "dt", "dd", "div", "ul", "li", "p"),
    *("h1", "h2", "h4", "span", "time", "a", "pre", "code", "strong", "img"),
}
OUR_ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "id"} | {
    "href",
    "src",
    "alt",
    "open",
}


class Page(HTMLParser):
    """What a parser written by others sees: elements, attributes, text; nesting is checked."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("the page has no comments")

    def classes(self) -> Counter[str]:
        return Counter(name for _, a in self.elements for name in (a.get("class") or "").split())


@drawn(60)
@given(session=sessions())
def test_content_makes_no_elements_attributes_or_requests(session: Session) -> None:
    page = Page(render(session, "html"))
    assert {tag for tag, _ in page.elements} <= OUR_TAGS
    for _, attributes in page.elements:
        assert set(attributes) <= OUR_ATTRIBUTES
        assert re.fullmatch(r"#[ms0-9.-]+", attributes.get("href") or "#m1")
        assert re.match(r"data:image/(png|jpeg|gif|webp);base64,", attributes.get("src") or PNG)


@pytest.mark.parametrize("snippet", HOSTILE)
def test_each_hostile_snippet_leaves_the_elements_alone(snippet: str) -> None:
    calm = make(user("calm"), shell_result("calm"), title="calm", cwd="calm")
    text = f"x\n{snippet}"
    wild = make(user(text), shell_result(text), title=text, cwd=text)
    inside = {"code", "strong", "h4", "pre"}  # how prose is set; content may choose these
    assert [t for t, _ in Page(render(wild, "html")).elements if t not in inside] == [
        t for t, _ in Page(render(calm, "html")).elements if t not in inside
    ]


def test_a_script_is_shown_and_not_run() -> None:
    attack = "<script>alert('x')</script>\"onload=\""
    session = make(
        user(attack),
        assistant(attack, thinking=attack, tool_calls=(shell_call(attack),), model=attack),
        title=attack,
        cwd=attack,
    )
    text = render(session, "html")
    assert "<script" not in text
    assert "".join(Page(text).text).count("<script>alert('x')</script>") >= 6


def test_the_page_needs_nothing_but_itself() -> None:
    text = render(full_session(), "html")
    for forbidden in (
        "http://",
        "https://",
        "//",
        "@import",
        "url(",
        "<script",
        "<link",
        "<iframe",
    ):
        assert forbidden not in re.sub(r"data:image/[^\"]+", "", text)
    assert (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:;"
    ) in text


def test_links_in_a_text_stay_text() -> None:
    page = Page(render(make(user("see https://example.org/x")), "html"))
    assert "see https://example.org/x" in page.text
    assert [a["href"] for t, a in page.elements if t == "a"] == ["#m1"]


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("user", "green"),
        ("assistant", "blue"),
        ("tool-call", "amber"),
        ("tool-result", "grey"),
        ("thinking", "purple"),
        ("compaction", "orange"),
    ],
)
def test_each_kind_of_block_has_its_class_and_colour(name: str, colour: str) -> None:
    text = render(full_session(), "html")
    assert Page(text).classes()[name] >= 1
    assert f".{name} {{ --tone: var(--{colour})" in text


def test_the_header_shows_title_short_id_place_time_count_and_cost() -> None:
    text = "".join(Page(render(full_session(), "html")).text)
    for fact in (
        "Fix the login test",
        "01234567\n",
        "/home/ann/project",
        "2026-03-01 12:00:00 UTC",
        "6 messages",
        ">= $1.20 (estimate)",
        "claude:fedcba",
    ):
        assert fact in text


def test_the_title_can_be_given_and_has_a_default() -> None:
    assert "<h1>Agent Session</h1>" in render(make(title=""), "html")
    assert "<h1>Mine &lt;3</h1>" in "".join(exporter("html", title="Mine <3")(make(), []))


def test_assistant_messages_show_their_usage() -> None:
    assert "1,200 in · 9,000 cached · 34 out · $0.0123" in render(full_session(), "html")


def test_failures_and_injected_texts_are_marked_in_words() -> None:
    page = Page(render(full_session(), "html"))
    assert page.classes()["error"] == 1
    assert {"failed", "injected"} <= set(page.text)


@pytest.mark.parametrize(
    ("content", "label", "errors"),
    [("API Error: 529 overloaded", "API error", 1), ("No response requested.", "notice", 0)],
)
def test_a_notice_of_the_agent_has_a_badge_of_its_own(
    content: str, label: str, errors: int
) -> None:
    page = Page(render(make(assistant(content, synthetic=True)), "html"))
    assert label in page.text
    assert "injected" not in page.text
    assert page.classes()["error"] == errors


def test_only_real_images_are_inlined() -> None:
    fakes = (
        "https://example.org/pixel.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:image/png;base64,PHNjcmlwdD4=",  # a script that calls itself a picture
        'data:image/png;base64,iVBORw0KGgo=" onload="alert(1)',
        "data:image/png;base64,iVBORw0KGgo",
        "data:text/html;base64,PHNjcmlwdD4=",
        "javascript:alert(1)",
        "",
    )
    page = Page(render(make(user("look", images=(PNG, *fakes))), "html"))
    assert [a["src"] for t, a in page.elements if t == "img"] == [PNG]
    assert "".join(page.text).count("not shown") == len(fakes)


@pytest.mark.parametrize("output", ["line\n" * 40, "x" * 5000])
def test_long_output_is_folded_and_whole(output: str) -> None:
    page = Page(render(make(shell_result(output)), "html"))
    assert page.classes()["fold"] == 1
    assert output.strip() in "".join(page.text)


def test_short_output_is_open_and_can_be_collapsed() -> None:
    page = Page(render(make(shell_result("ok")), "html"))
    assert page.classes()["fold"] == 0
    assert ("details", {"class": "output", "open": None}) in page.elements


def test_calls_thinking_and_output_can_be_collapsed() -> None:
    page = Page(render(full_session(), "html"))
    kinds = {a["class"]: "open" in a for tag, a in page.elements if tag == "details"}
    assert kinds == {"thinking": False, "tool-call": True, "output": True}


def test_the_page_is_dark_and_light_if_the_viewer_prefers_it() -> None:
    text = render(full_session(), "html")
    dark, light = text.split("@media print, (prefers-color-scheme: light) {")
    assert "color-scheme: dark light;" in dark
    for name in re.findall(r"--([a-z-]+): #", dark):
        assert f"--{name}: #" in light, f"{name} has no light colour"
    rules = re.sub(r":root \{[^}]*\}", "", text)
    assert re.findall(r"(?:color|background): #", rules) == [], "a colour for one scheme only"


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_text_can_be_read_on_its_background(scheme: str) -> None:
    """The contrast of WCAG 2 level AA: 4.5 to 1."""
    dark, light = STYLE.split("@media print, (prefers-color-scheme: light) {")
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6})", dark))
    if scheme == "light":
        colours |= dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6})", light.partition("}")[0]))
    for name in ("text", "soft", "faint", "green", "blue", "amber", "grey", "purple", "orange"):
        for ground in ("page", "card", "prompt", "summary", "call", "thought", "sunken"):
            found = contrast(colours[name], colours[ground])
            assert found >= 4.5, f"{name} on {ground}: {found:.2f}"


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_an_unknown_time_is_not_the_year_1970() -> None:
    epoch = datetime.fromtimestamp(0, UTC)
    text = render(make(created_at=epoch, updated_at=epoch), "html")
    assert "1970" not in text
    assert "<dt>Created</dt><dd>?</dd>" in text


def test_sub_agents_and_problems_are_sections() -> None:
    page = Page(render(full_session(), "html"))
    assert page.classes()["child"] == 1
    assert "Sub-agent 1: Find the clock" in page.text
    assert "not JSON in /x.jsonl line 7" in page.text


def test_every_message_has_an_address_of_its_own() -> None:
    ids = [a["id"] for _, a in Page(render(full_session(), "html")).elements if "id" in a]
    assert ids == [*(f"m{number}" for number in range(1, 7)), "s1-m1", "s1-m2"]


def test_code_in_an_answer_is_set_as_code_and_keeps_every_character() -> None:
    answer = "Use `a<b>` and **care**:\n```py\nx = '<&>'\n\n# no heading\n```\nDone."
    page = Page(render(make(assistant(answer, timestamp=NOON)), "html"))
    assert [t for t, _ in page.elements].count("pre") == 1
    assert "\nx = '<&>'\n\n# no heading" in page.text
    assert {"a<b>", "care", "\nDone."} & set(page.text) >= {"a<b>", "care"}


def test_an_unclosed_fence_ends_with_its_message() -> None:
    page = Page(render(make(user("```\nforever"), assistant("still here")), "html"))
    assert "\nforever" in page.text
    assert "still here" in page.text
