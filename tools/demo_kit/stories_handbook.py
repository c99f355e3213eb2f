"""Sessions in `handbook`, a site of documentation."""

from __future__ import annotations

from datetime import UTC, datetime

from demo_kit.story import Command, Edit, Prompt, Read, Reply, Story, Write

JAPANESE = Story(
    key="handbook/japanese",
    agent="claude",
    version="2.0.77",
    project="handbook",
    branch="ja",
    start=datetime(2026, 10, 24, 6, 55, 40, tzinfo=UTC),
    model="claude-sonnet-4-5-20250929",
    steps=(
        Prompt("インストール手順を日本語に翻訳して 🗾 docs/install.md から docs/ja/install.md へ"),
        Reply(
            "まず原文を読みます。",
            tools=(
                Read(
                    "docs/install.md",
                    "# Install\n\nYou need Python 3.11 or newer.\n\n    pipx install tidy\n\n"
                    "Then run `tidy --help`. That is all.\n",
                ),
            ),
        ),
        Reply(
            thinking="コマンドとファイル名は訳さない。文体は「です・ます」にそろえる。",
            tools=(
                Write(
                    "docs/ja/install.md",
                    "# インストール\n\nPython 3.11 以降が必要です。\n\n    pipx install tidy\n\n"
                    "続いて `tidy --help` を実行してください。以上です ✅\n",
                ),
                Command(
                    "mkdocs build --strict",
                    "INFO    -  Building documentation...\n"
                    "INFO    -  Documentation built in 0.84 seconds",
                    "サイトを組み立てる",
                    seconds=1.6,
                ),
            ),
        ),
        Reply(
            "翻訳しました 🎉 `docs/ja/install.md` を追加し、サイトも警告なしで組み立てられます。"
        ),
        Prompt("絵文字は見出しだけにして 🙏"),
        Reply(
            tools=(
                Edit("docs/ja/install.md", "# インストール", "# インストール 🚀", line=1),
                Edit("docs/ja/install.md", "以上です ✅", "以上です。", line=7),
            ),
        ),
        Reply("直しました。絵文字は見出しの 🚀 だけです。"),
    ),
)

LOCAL_MODEL = Story(
    key="handbook/local-model",
    agent="codex",
    version="0.166.0",
    project="handbook",
    start=datetime(2026, 11, 13, 14, 22, 10, tzinfo=UTC),
    model="qwen3-coder:30b",
    provider="ollama",
    steps=(
        Prompt("Find dead links on the site and fix those that only moved."),
        Reply(
            "I'll run the link checker.",
            tools=(
                Command(
                    "lychee --offline site/",
                    "✗ 2 errors\n"
                    "  site/guide/index.html: ../instal/ not found\n"
                    "  site/faq/index.html: ../guide/rules.html not found",
                    exit_code=2,
                    seconds=2.2,
                ),
            ),
        ),
        Reply(
            "`instal` is a typo; `rules` became its own page.",
            tools=(
                Edit("docs/guide/index.md", "(../instal/)", "(../install/)", line=18),
                Edit("docs/faq.md", "(guide/rules.html)", "(rules/)", line=40),
                Command("lychee --offline site/", "✔ 0 errors, 214 links", seconds=2.1),
            ),
        ),
        Reply("Both links are fixed and the checker finds no others among 214."),
    ),
)

STORIES = (JAPANESE, LOCAL_MODEL)
