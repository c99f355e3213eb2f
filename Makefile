# The whole workflow. `make` alone lists the targets.
#
#   make PYTHON=python3.12 test     another interpreter (for a new .venv)
#   make JOBS=8 test                more test workers
#   make EXAMPLES=20 test-full      more examples of what is drawn (1: as many as a test asks for)
#   make FUZZ_SECONDS=60 fuzz       shorter fuzzing
#   make live AGENT=codex VERSION=latest   one agent in one version, and a report of what differs

PYTHON ?= python3
JOBS   ?= 2
FUZZ_SECONDS ?= 600
EXAMPLES ?= 3

VENV := .venv
BIN  := $(VENV)/bin
PIP  := -m pip -qq --disable-pip-version-check
APP  := $(VENV)/.stamp
DEV  := $(VENV)/.stamp-dev
FUZZ := $(VENV)/.stamp-fuzz
MUTANTS := $(VENV)/.stamp-mutants
AGENTS := build/agents/.stamp
HERMES := build/hermes/.stamp
FRAMEWORKS := build/frameworks/.stamp

# The layers whose answers must be right: branch coverage below this fails `make test`.
COVERED  := amux.model amux.adapters amux.assembly amux.reading amux.index amux.sessions amux.store.session_db
COVERAGE := 95

# Python may cache what it compiles: without that, every process that a test starts compiles amux.
unexport PYTHONDONTWRITEBYTECODE

FAMILIES := claude codex pi gemini copilot droid agent documents databases

.DEFAULT_GOAL := help
.PHONY: help run check test test-full agents live npm hermes frameworks browser lint style smoke bench fuzz mutants docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(APP) ## Install amux into .venv and show your sessions (without any: the demo)
	@if [ -n "$$($(BIN)/amux list --quiet --limit 1)" ]; then $(BIN)/amux; else $(BIN)/amux demo; fi

# mypy runs beside the tests; its messages follow theirs.
check: style ## For every edit, in about a minute: lint, mypy, quick tests, newest captures
	@mkdir -p build
	@echo "$(BIN)/mypy & $(BIN)/python -m pytest --quick"; \
	$(BIN)/mypy >build/mypy.txt 2>&1 & mypy=$$!; \
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --quick; code=$$?; \
	wait $$mypy || code=1; cat build/mypy.txt; exit $$code

test: lint ## Lint, type-check and run the tests, with the coverage gate
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" \
	  $(COVERED:%=--cov=%) --cov-branch --cov-report=term:skip-covered --cov-fail-under=$(COVERAGE)

test-full: smoke agents hermes frameworks browser ## The long runs that `make test` leaves out, and the built wheel in a bare environment
	EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow or hypothesis"
	MYPYPATH=tests:tests/frameworks:benchmarks build/frameworks/bin/python -m mypy --strict src/amux/integrations/*.py tests/frameworks/*.py
	build/frameworks/bin/python -m pytest -q -n $(JOBS) tests/frameworks

agents: $(AGENTS) ## Install the real agents that the live tests run, below build/

live: $(DEV) npm ## Run every real agent, or AGENT in its VERSION (or `latest`), and report what differs
ifdef AGENT
	@$(BIN)/python tools/live.py $(AGENT) $(VERSION)
else
	@$(BIN)/python tools/install_agents.py --all
	@AMUX_LIVE_AGENT=all $(BIN)/python -m pytest -q tests/live; code=$$?; \
	$(BIN)/python tools/gen_live_matrix.py; exit $$code
endif

hermes: $(HERMES) ## Install the real session database that ours is compared with, below build/

frameworks: $(FRAMEWORKS) ## Install the agent frameworks that the integrations are tested with, below build/

browser: ## Install Chromium for the browser test, when it is missing and we are root
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	  apt-get -qq -y --no-install-recommends install chromium >/dev/null; } || \
	  echo "note: there is no Chromium: the browser test will say what to install" >&2

# The type checkers run side by side, and mypy prints when both are done.
lint: style ## Ruff, mypy, pyright and the import contracts
	@mkdir -p build
	@echo "$(BIN)/mypy & $(BIN)/pyright --threads 2"; \
	$(BIN)/mypy >build/mypy.txt 2>&1 & mypy=$$!; \
	$(BIN)/pyright --threads 2; code=$$?; \
	wait $$mypy || code=1; cat build/mypy.txt; exit $$code

style: $(DEV) ## Ruff and the import contracts alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

smoke: $(DEV) ## Build the wheel, install it without the dev group, start it
	@rm -rf build/smoke
	@$(BIN)/python $(PIP) wheel --no-deps --wheel-dir build/smoke .
	@$(BIN)/python -m venv build/smoke/venv
	@build/smoke/venv/bin/python $(PIP) install build/smoke/*.whl
	build/smoke/venv/bin/amux --version
	build/smoke/venv/bin/amux --help >/dev/null
	build/smoke/venv/bin/amux demo
	build/smoke/venv/bin/python -c "import amux; print(len(amux.create_client().sessions.list('claude')))"

bench: $(DEV) ## Measure against other programs; BENCH=full: the large corpus too; BEFORE=REVISION: an earlier amux too
	@set -e; for script in benchmarks/bench_*.py; do echo "$$script"; $(BIN)/python $$script; done

fuzz: $(FUZZ) ## Fuzz the parsers of every family for FUZZ_SECONDS; inputs that fail stay in build/fuzz
	@failed=; for family in $(FAMILIES); do \
	  nice $(BIN)/python benchmarks/fuzz.py $$family $(FUZZ_SECONDS) || failed=1; done; [ -z "$$failed" ]

mutants: $(MUTANTS) ## Change the code of the lifecycle in small ways; a test must notice 85 % of the changes
	@nice $(BIN)/mutmut run --max-children $(JOBS) >build/mutants.txt 2>&1 || { tail -c 2000 build/mutants.txt; exit 1; }
	@$(BIN)/python tools/mutants.py

docs: $(DEV) ## Regenerate the generated reference pages, then check every link
	$(BIN)/python tools/gen_aio.py
	$(BIN)/python tools/gen_cli_docs.py
	$(BIN)/python tools/gen_rates.py
	$(BIN)/python tools/gen_known_fields.py
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/links.py

clean: ## Remove .venv, build products and caches
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache
	rm -rf mutants .mypy_cache .pytest_cache .ruff_cache benchmarks/out
	find src tests tools -type d -name __pycache__ -prune -exec rm -rf {} +

# A stamp is renewed when pyproject.toml changes, so a second run installs nothing.

$(APP): pyproject.toml | $(BIN)/python
	@echo "installing amux into $(VENV)" >&2
	@$(BIN)/python $(PIP) install --upgrade "pip>=25.1"
	@$(BIN)/python $(PIP) install --editable .
	@touch $@

$(DEV): $(APP)
	@echo "installing the development tools into $(VENV)" >&2
	@$(BIN)/python $(PIP) install --group dev
	@touch $@

$(FUZZ): $(DEV)
	@echo "installing the fuzzer into $(VENV)" >&2
	@$(BIN)/python $(PIP) install --group fuzz
	@touch $@

$(MUTANTS): $(DEV)
	@echo "installing the mutation tester into $(VENV)" >&2
	@$(BIN)/python $(PIP) install --group mutants
	@mkdir -p build
	@touch $@

# A version that is there is not installed again, and no install script runs.
$(AGENTS): tests/live/pins.toml tools/install_agents.py | $(BIN)/python npm
	@$(BIN)/python tools/install_agents.py
	@touch $@

npm: ## Install npm when it is missing and we are root
	@command -v npm >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	  apt-get -qq -y --no-install-recommends install nodejs npm >/dev/null; } || { \
	  echo "error: the live tests need npm to install the agents" >&2; \
	  echo "hint: install Node.js 20 or newer with npm" >&2; exit 1; }

# The session database needs none of the dependencies of the agent.
$(HERMES): tests/store/real_hermes.txt | $(BIN)/python
	@echo "installing Hermes Agent into $(@D)" >&2
	@$(BIN)/python -m venv $(@D)
	@$(@D)/bin/python $(PIP) install --no-deps --requirement $<
	@touch $@

# The frameworks have an environment of their own: nothing of theirs may be needed by the rest.
$(FRAMEWORKS): tests/frameworks/requirements.txt pyproject.toml | $(BIN)/python
	@echo "installing the agent frameworks into $(@D)" >&2
	@$(BIN)/python -m venv $(@D)
	@$(@D)/bin/python $(PIP) install --requirement $<
	@$(@D)/bin/python $(PIP) install --editable ".[postgres]"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: \`$(PYTHON)\` is not Python 3.11 or newer" >&2; \
	  echo "hint: name one, for example \`make PYTHON=python3.12\`" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "error: \`$(PYTHON) -m venv\` failed" >&2; \
	  echo "hint: on Debian and Ubuntu the package python3-venv is needed" >&2; exit 1; }
