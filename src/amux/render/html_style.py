"""The style sheet of the HTML page: dark, light if the viewer prefers it and on paper; no fonts.

Every kind of block has a colour and also a label: user green, assistant blue, tool call amber,
tool result grey, thinking purple, compaction orange.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: dark light;
  --page: #0d1015; --card: #141920; --sunken: #0a0d12; --line: #252d38;
  --text: #dbe2ea; --soft: #94a1b1; --faint: #7a8798;
  --green: #4cc38a; --blue: #5aa9f8; --amber: #e5b454; --grey: #8d99a8;
  --purple: #b58cf5; --orange: #f2894e; --red: #f4716b;
  --prompt: #111c1a; --summary: #1d1713; --call: #17171a; --thought: #17141f;
  --thought-text: #c3b9d6; --code: #222a35;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Code", "JetBrains Mono", Menlo, Consolas, monospace;
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body {
  display: flex; flex-direction: column; max-width: 60rem; margin: 0 auto;
  padding: clamp(1.25rem, 4vw, 3.5rem) clamp(0.9rem, 3vw, 2rem) 4rem;
  background: var(--page); color: var(--text); font: 16px/1.6 var(--sans);
}
/* The count is known only after the last message; it is shown above the first. */
.masthead { order: 0; } .count { order: 1; } main { order: 2; } .cost { order: 3; }

.masthead h1 {
  margin: 0.15rem 0 1.25rem; font-size: clamp(1.45rem, 3.6vw, 2.1rem); line-height: 1.2;
  letter-spacing: -0.02em; font-weight: 680; text-wrap: balance; overflow-wrap: anywhere;
}
.eyebrow {
  margin: 0; color: var(--soft); font-size: 0.78rem; font-weight: 600;
  letter-spacing: 0.09em; text-transform: uppercase;
}
.facts {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr));
  gap: 1px; margin: 0; overflow: hidden; background: var(--card);
  border: 1px solid var(--line); border-radius: 12px;
}
.facts > div { padding: 0.6rem 0.9rem; box-shadow: 0 0 0 1px var(--line); }
.facts .wide { grid-column: 1 / -1; }
.facts dt { color: var(--faint); font-size: 0.74rem; letter-spacing: 0.03em; }
.facts dd { margin: 0; font-size: 0.92rem; overflow-wrap: anywhere; }
.facts dd, .usage { font-variant-numeric: tabular-nums; }
.count { margin: 2rem 0 0.9rem; color: var(--soft); font-size: 0.9rem; }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.9rem; }

.message, .tool-call, .thinking {
  --tone: var(--grey);
  border: 1px solid var(--line); border-left: 3px solid var(--tone); border-radius: 10px;
  background: var(--card);
}
.message { padding: 0.85rem 1.1rem 1rem; }
.message:target { outline: 2px solid var(--tone); outline-offset: 3px; }
.user { --tone: var(--green); background: var(--prompt); }
.assistant { --tone: var(--blue); }
.tool-call { --tone: var(--amber); }
.tool-result { --tone: var(--grey); }
.thinking { --tone: var(--purple); }
.compaction { --tone: var(--orange); background: var(--summary); }
.system { --tone: var(--faint); }
.synthetic { border-style: dashed; border-left-style: solid; }
.synthetic > .text { color: var(--soft); }
.error { --tone: var(--red); }

.message > header, .tool-call > summary {
  display: flex; flex-wrap: wrap; align-items: baseline; gap: 0.15rem 0.75rem;
  font-size: 0.8rem; color: var(--faint);
}
.message > header { margin-bottom: 0.4rem; }
.role { color: var(--tone); font-size: 0.86rem; font-weight: 650; letter-spacing: 0.01em; }
.badge {
  padding: 0 0.5em; border: 1px solid var(--tone); border-radius: 99px;
  color: var(--tone); font-size: 0.72rem; font-weight: 600;
}
.anchor { margin-left: auto; color: var(--faint); text-decoration: none; }
.anchor:hover, .anchor:focus-visible { color: var(--text); }

.text { white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; }
.text > h4 { margin: 0.4em 0 0; font-size: 1.02rem; font-weight: 650; }
pre, code, .name { font-family: var(--mono); font-size: 0.84rem; }
code {
  padding: 0.1em 0.35em; border-radius: 5px; background: var(--code); overflow-wrap: anywhere;
}
pre {
  margin: 0.55rem 0 0; padding: 0.7rem 0.9rem; overflow: auto; max-height: 40rem; line-height: 1.5;
  background: var(--sunken); border: 1px solid var(--line); border-radius: 8px;
  white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4;
}
.text > pre { margin: 0.35rem 0; }

.message > .thinking, .message > .tool-call { margin-top: 0.75rem; }
.message > .thinking { margin-bottom: 0.75rem; }
.tool-call { padding: 0.6rem 0.9rem; background: var(--call); }
.name { color: var(--tone); font-weight: 650; overflow-wrap: anywhere; }
.argument { margin: 0.5rem 0 0; color: var(--faint); font-size: 0.76rem; }
.argument + pre { margin-top: 0.15rem; }
.thinking { padding: 0.45rem 0.9rem; background: var(--thought); }
.thinking > .text { padding: 0.35rem 0 0.3rem; color: var(--thought-text); font-size: 0.94rem; }
summary { cursor: pointer; color: var(--soft); font-size: 0.84rem; overflow-wrap: anywhere; }
.thinking > summary { color: var(--tone); font-weight: 600; }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--blue); outline-offset: 2px; }
.tool-call > summary::before { content: "\\25b8"; }
.tool-call[open] > summary::before { content: "\\25be"; }
.fold, .output { margin-top: 0.5rem; }
.fold > summary code { background: none; padding: 0; }
.image {
  display: block; max-width: 100%; max-height: 34rem; margin-top: 0.7rem; border-radius: 8px;
}
.missing { margin: 0.6rem 0 0; color: var(--soft); font-style: italic; font-size: 0.88rem; }

.child {
  display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.9rem; margin-top: 2rem;
  padding-left: clamp(0.6rem, 2vw, 1.25rem); border-left: 2px solid var(--line);
}
.child h2, .problems h2, .cost h2 {
  margin: 0; font-size: 1.12rem; font-weight: 650; overflow-wrap: anywhere;
}
.problems { margin-top: 1.5rem; } .problems li { overflow-wrap: anywhere; }
.cost { margin-top: 2.5rem; } .cost .facts { margin-top: 0.75rem; }

@media print, (prefers-color-scheme: light) {
  :root {
    --page: #f4f6f8; --card: #fff; --sunken: #f6f7f9; --line: #d4d9e0;
    --text: #14181d; --soft: #48525e; --faint: #5f6975;
    --green: #16794c; --blue: #1561b3; --amber: #8a6100; --grey: #5b6673;
    --purple: #6d3fc0; --orange: #b34f12; --red: #b3261e;
    --prompt: #f0f8f3; --summary: #fdf4ee; --call: #fbf8f0; --thought: #f7f3fd;
    --thought-text: #4d4168; --code: #e9edf2;
  }
}

@media print {
  :root { color-scheme: light; --page: #fff; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .message, .tool-call, .thinking, code { background: none; }
  .thinking > .text { color: inherit; }
  pre { max-height: none; }
  .message > header, h1, h2 { break-after: avoid; }
  .anchor { display: none; }
  details:not([open])::details-content { display: block; content-visibility: visible; }
}
"""
