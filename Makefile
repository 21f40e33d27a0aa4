# Two commands matter: `make run` and `make test`. `make check` is the fast subset for writing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/bash
NEW_ENOUGH = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headworks needs Python 3.11 or newer")'
# uv installs in seconds what takes pip most of a minute, but knows nothing of an index that pip was
# configured with: there, and where there is no uv, pip does it.
UV := uv==0.13.9
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check
HAS_OWN_INDEX = $(BIN)/python -m pip config list | grep -qE '\.(index-url|no-index)='
RARELY_LOADED = /(narwhals|pip|plotly|setuptools)/
define INSTALL
	@if $(HAS_OWN_INDEX) || ! { $(PIP) install --no-compile $(UV) \
		&& $(BIN)/uv pip install --quiet --python $(BIN)/python -r $(1); }; \
	then $(PIP) install --no-compile -r $(1); fi
endef
# compiled once, not by each of the many processes of an installation or a test run
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check lint types style compiled stock environment test-environment browser-environment engine-environment soak backup restore clean

run: environment
	@exec $(BIN)/python -m controlplane.local run

environment: $(VENV)/.ready
test-environment: $(VENV)/.test-ready

$(VENV)/.ready: requirements.txt
	@$(NEW_ENOUGH)
	@echo "console environment: installing into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call INSTALL,requirements.txt)
	@$(BIN)/python -m compileall -q -j 0 -x '$(RARELY_LOADED)' $(VENV)/lib
	@touch $@

# All of the above in one go: a fresh checkout that is tested asks pip once.
$(VENV)/.test-ready: requirements.txt tests/requirements.txt
	@$(NEW_ENOUGH)
	@echo "test environment: installing into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call INSTALL,tests/requirements.txt)
	@touch $(VENV)/.ready $@

browser-environment:
	@tests/browser/install-chromium

engine-environment: environment
	@$(BIN)/python -m controlplane.local engine

lint: test-environment
	@$(MAKE) --no-print-directory -j 2 types style

types:
	$(BIN)/mypy

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# Loads what the tests load, so that it is compiled before four processes each would do it.
compiled: test-environment
	@$(BIN)/pytest -q --collect-only >$(VENV)/collected || { cat $(VENV)/collected; exit 1; }

# A migrated database that the tests copy, where this tree's is not in stock.
stock: test-environment
	@$(BIN)/python -m tests.stock

# What is not slow; the stages below have the rest.
check: test-environment
	@$(MAKE) --no-print-directory -j 2 types style stock
	@$(BIN)/python -m tests.stages check

# The stages, and why they run as they do, are in tests/stages.py.
test: test-environment
	@$(MAKE) --no-print-directory -j 2 types browser-environment style compiled stock
	@$(MAKE) --no-print-directory engine-environment
	@$(BIN)/python -m tests.stages

# Half an hour: see docs/faults.md for what it checks and what was seen.
soak: test-environment
	$(BIN)/python -m benchmarks.soak $(SOAK)

# One file with the database, while it runs or not: make backup [FILE=…] [SECRETS=1]
backup: environment
	@$(BIN)/python -m controlplane.local backup $(FILE) $(if $(SECRETS),--with-secrets)

# Stop it first: make restore FILE=…; docs/operating.md says what happens and what OPTIONS there are.
restore: environment
	@test -n "$(FILE)" || { echo "make restore FILE=the back-up"; exit 2; }
	@$(BIN)/python -m controlplane.local restore "$(FILE)" $(OPTIONS)

clean:
	rm -rf $(VENV)
