"""Sessions in `tidy`, a command line tool that cleans up folders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from demo_kit.story import Command, Edit, Pause, Prompt, Read, Reply, Story, Write

_SONNET = "claude-sonnet-4-5-20250929"

SETTINGS = Story(
    key="tidy/settings",
    agent="codex",
    version="0.120.0",
    project="tidy",
    start=datetime(2026, 10, 29, 15, 6, 33, tzinfo=UTC),
    model="gpt-5-codex",
    archived=True,
    steps=(
        Prompt("Refactor the settings: a dataclass instead of the dict that is passed everywhere."),
        Reply(
            thinking="**Looking at the settings**\n\nWho reads the dict, and with which keys?",
            tools=(
                Command(
                    "grep -rn 'settings\\[' tidy/ | sort",
                    'tidy/main.py:19:    root = settings["root"]\n'
                    'tidy/main.py:20:    dry = settings["dry_run"]\n'
                    'tidy/rules.py:44:    if settings["keep_days"] > age:',
                ),
            ),
        ),
        Reply(
            "Three keys, two modules. One frozen dataclass is enough.",
            tools=(
                Write(
                    "tidy/settings.py",
                    "@dataclass(frozen=True)\n"
                    "class Settings:\n"
                    "    root: Path\n"
                    "    dry_run: bool = False\n"
                    "    keep_days: int = 30\n",
                ),
                Edit(
                    "tidy/rules.py",
                    '    if settings["keep_days"] > age:',
                    "    if settings.keep_days > age:",
                    line=44,
                ),
                Edit(
                    "tidy/main.py",
                    '    root = settings["root"]\n    dry = settings["dry_run"]',
                    "    root, dry = settings.root, settings.dry_run",
                    line=19,
                ),
            ),
        ),
        Reply(tools=(Command("python -m pytest -q", "44 passed in 1.02s", seconds=1.5),)),
        Reply(
            "Settings are a frozen dataclass now, and a mistyped key is an error. 44 tests pass."
        ),
    ),
)

GLOB_TESTS = Story(
    key="tidy/glob-tests",
    agent="claude",
    version="2.1.325",
    project="tidy",
    start=datetime(2026, 11, 6, 17, 48, 12, tzinfo=UTC),
    model=_SONNET,
    ai_title="Tests for the glob matcher",
    steps=(
        Prompt("The glob matcher has no tests. Write some, and be mean."),
        Reply(
            "Let me see what it promises.",
            tools=(
                Read(
                    "tidy/glob.py",
                    "def matches(pattern: str, path: str) -> bool:\n"
                    '    """`*` within a folder, `**` across folders, `[ab]` one of."""\n'
                    "    return _compile(pattern).fullmatch(path) is not None\n",
                ),
            ),
        ),
        Reply(
            thinking="Mean cases: an empty pattern, a star that must not cross a slash, a bracket "
            "that is never closed, a leading dot, case.",
            tools=(
                Write(
                    "tests/test_glob.py",
                    "@pytest.mark.parametrize(\n"
                    '    ("pattern", "path", "fits"),\n'
                    "    [\n"
                    '        ("*.tmp", "a.tmp", True),\n'
                    '        ("*.tmp", "sub/a.tmp", False),\n'
                    '        ("**/*.tmp", "sub/deep/a.tmp", True),\n'
                    '        ("[ab", "[ab", True),\n'
                    '        ("", "", True),\n'
                    "    ],\n"
                    ")\n"
                    "def test_a_pattern_fits(pattern, path, fits):\n"
                    "    assert matches(pattern, path) is fits\n",
                ),
                Command(
                    "pytest -q tests/test_glob.py",
                    "...F.                                                    [100%]\n"
                    "E       re.error: unterminated character set at position 0\n"
                    "FAILED tests/test_glob.py::test_a_pattern_fits[[ab-[ab-True]\n"
                    "1 failed, 4 passed in 0.19s",
                    "Run the glob tests",
                    exit_code=1,
                    seconds=0.8,
                ),
            ),
        ),
        Reply(
            "One is mean enough: an unclosed bracket crashes the matcher. Shall I treat it as a "
            "literal character, as shells do?"
        ),
        Pause(timedelta(hours=15, minutes=20)),
        Prompt("Yes, literal, like a shell."),
        Reply(
            tools=(
                Edit(
                    "tidy/glob.py",
                    '        if char == "[":',
                    '        if char == "[" and "]" in pattern[index + 2 :]:',
                    line=31,
                ),
                Command(
                    "pytest -q tests/test_glob.py",
                    ".....                                                    [100%]\n"
                    "5 passed in 0.14s",
                    "Run the glob tests",
                    seconds=0.7,
                ),
            ),
        ),
        Reply("An unclosed bracket is a literal now. All five cases pass."),
    ),
)

GLOB_PROPERTIES = Story(
    key="tidy/glob-properties",
    agent="claude",
    version="2.1.325",
    project="tidy",
    start=datetime(2026, 11, 8, 11, 2, 19, tzinfo=UTC),
    model=_SONNET,
    name="Glob tests with properties",
    fork_of="tidy/glob-tests",
    steps=(
        Prompt("Try it with property-based tests instead of a table."),
        Reply(
            thinking="Two properties: a pattern without special characters fits exactly itself, "
            "and no pattern makes the matcher raise.",
            tools=(
                Write(
                    "tests/test_glob_properties.py",
                    "@given(st.text(), st.text())\n"
                    "def test_no_pattern_makes_it_fail(pattern, path):\n"
                    "    matches(pattern, path)\n",
                ),
                Command(
                    "pytest -q tests/test_glob_properties.py",
                    ".                                                        [100%]\n"
                    "1 passed in 1.31s",
                    "Run the property",
                    seconds=1.9,
                ),
            ),
        ),
        Reply(
            "200 random patterns, no crash. I would keep both: the table says what is meant, the "
            "property finds what nobody thought of."
        ),
    ),
)

PARALLEL_SCAN = Story(
    key="tidy/parallel-scan",
    agent="codex",
    version="0.166.0",
    project="tidy",
    branch="parallel-scan",
    start=datetime(2026, 11, 11, 19, 15, 4, tzinfo=UTC),
    model="gpt-5.1-codex",
    name="Parallel scan",
    tags=("performance",),
    steps=(
        Prompt("Scanning 400k files takes 38 s. Make it parallel, and show me numbers."),
        Reply(
            "A baseline first.",
            thinking="**Measuring**\n\nWithout a number before, a number after says nothing.",
            tools=(
                Command(
                    "python bench/scan.py --runs 3",
                    "403118 files, 3 runs: mean 37.912 s, best 37.201 s, worst 38.785 s",
                    seconds=116.0,
                ),
            ),
        ),
        Reply(
            "Now a pool of workers over the top folders.",
            tools=(
                Edit(
                    "tidy/scan.py",
                    "    for folder in folders:\n        found.extend(scan(folder))",
                    "    with ThreadPoolExecutor(workers) as pool:\n"
                    "        for part in pool.map(scan, folders):\n"
                    "            found.extend(part)",
                    line=52,
                ),
                Command(
                    "python bench/scan.py --runs 3",
                    "Traceback (most recent call last):\n"
                    '  File "tidy/scan.py", line 52, in scan_all\n'
                    "NameError: name 'ThreadPoolExecutor' is not defined",
                    exit_code=1,
                    seconds=0.9,
                ),
            ),
        ),
        Reply(
            "The import is missing.",
            tools=(
                Edit(
                    "tidy/scan.py",
                    "import os",
                    "import os\nfrom concurrent.futures import ThreadPoolExecutor",
                    line=3,
                ),
                Command(
                    "python bench/scan.py --runs 3",
                    "403118 files, 3 runs: mean 9.467 s, best 9.202 s, worst 9.810 s",
                    seconds=31.0,
                ),
            ),
        ),
        Reply("37.9 s became 9.5 s with eight workers: four times as fast, same result."),
        Prompt("And with 16?"),
        Reply(
            tools=(
                Command(
                    "python bench/scan.py --runs 3 --workers 16",
                    "403118 files, 3 runs: mean 9.391 s",
                    seconds=30.0,
                ),
            ),
        ),
        Reply("9.4 s: no gain. The disk is the limit, so eight stays the default."),
    ),
)

PROCESS_POOL = Story(
    key="tidy/process-pool",
    agent="codex",
    version="0.166.0",
    project="tidy",
    branch="parallel-scan",
    start=datetime(2026, 11, 12, 8, 30, 46, tzinfo=UTC),
    model="gpt-5.1-codex",
    name="Processes instead of threads",
    fork_of="tidy/parallel-scan",
    steps=(
        Prompt("Fork: what would processes instead of threads give?"),
        Reply(
            tools=(
                Edit(
                    "tidy/scan.py",
                    "    with ThreadPoolExecutor(workers) as pool:",
                    "    with ProcessPoolExecutor(workers) as pool:",
                    line=53,
                ),
                Command(
                    "python bench/scan.py --runs 3",
                    "403118 files, 3 runs: mean 12.204 s",
                    seconds=38.0,
                ),
            ),
        ),
        Reply("12.2 s: slower, since every result is pickled. I would stay with threads."),
    ),
)

STORIES = (SETTINGS, GLOB_TESTS, GLOB_PROPERTIES, PARALLEL_SCAN, PROCESS_POOL)
