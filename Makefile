# The commands of this project.  Each says what it does; `make help` lists them.
#
# PYTHON   the interpreter that the virtual environment is made from
# TORCH    the torch to install; empty takes the CPU build of TORCH_DEFAULT where one is to be had
# VENV     where the environment lives
# N        how many random programs `make fuzz` runs

PYTHON ?= python3
TORCH ?=
TORCH_DEFAULT := 2.13.0
VENV ?= .venv
N ?= 100
MINOR := $(shell echo $(or $(TORCH),$(TORCH_DEFAULT)) | cut -d. -f1-2)
CONSTRAINTS := constraints/torch-$(MINOR).txt
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
STAMP := $(VENV)/.installed-$(or $(TORCH),$(TORCH_DEFAULT))

# Processes by the hundred read these sources: byte code is kept, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test browser test-page screenshots lint format compat gpu-check docs fuzz clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(STAMP) ## run the examples and show their graphs and checks
	@echo "== examples: every graph, then the table of checks"
	$(PYTEST) examples --fxregion --fxregion-show -p no:cacheprovider

test: $(STAMP) ## run the suite; what needs a browser is `make test-page`
	@echo "== the suite, on two processes"
	$(PYTEST) -n 2 --dist loadfile --fxregion --durations=10 --ignore=tests/page

browser: $(VENV)/.page-installed ## get a Chromium for the next two, if the machine has none
	$(BIN)/python -m tests.page.browser

test-page: $(VENV)/.page-installed ## test the HTML report in Chromium
	$(PYTEST) tests/page -ra

screenshots: $(VENV)/.page-installed ## take the README's picture of the HTML report
	$(BIN)/python -m scripts.screenshots

$(VENV)/.page-installed: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[page]"
	@touch $@

lint: $(STAMP) ## ruff and mypy --strict
	@echo "== ruff"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "== mypy --strict"
	$(BIN)/mypy

format: $(STAMP) ## let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

compat: ## run the suite with another torch, as in `make compat TORCH=2.14.1`
	@test -n "$(TORCH)" || { echo "say which: make compat TORCH=2.14.1"; exit 2; }
	$(MAKE) test VENV=.venv-torch-$(TORCH) TORCH=$(TORCH)

gpu-check: $(STAMP) ## on a GPU: run the tests on it and on the virtual device, and compare
	$(BIN)/python scripts/gpu_check.py

docs: .venv-docs/.installed ## build the documentation's pages into site/
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet
	@echo "== open site/index.html; its search works where it is served: python3 -m http.server -d site"

.venv-docs/.installed: docs/requirements.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check --requirement docs/requirements.txt
	@touch $@

fuzz: $(STAMP) ## run N random programs, going on where it was stopped
	$(BIN)/python -m tests.fuzz $(N) --folder fxregion-fuzz

clean: ## remove the environments and what tests leave behind
	rm -rf .venv .venv-torch-* .venv-docs site fxregion-artifacts fxregion-fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml $(CONSTRAINTS) scripts/install.sh
	@echo "== environment in $(VENV), torch $(or $(TORCH),$(TORCH_DEFAULT))"
	PYTHON="$(PYTHON)" sh scripts/install.sh "$(VENV)" "$(or $(TORCH),$(TORCH_DEFAULT))" "$(CONSTRAINTS)" "$(TORCH)"
	@rm -f $(VENV)/.installed-*
	@touch $@
