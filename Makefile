# forerun: everything a newcomer needs. Each target sets itself up in .venv, with pip alone.
#
#   make demo       SmolLM2 writes, with accepted, corrected and bonus tokens in colour
#   make test       the tests, the exact-law proofs among them (some 25 minutes on 2 cores)
#   make test-page  the playground's tests alone; those in a browser need Chromium
#   make library    the C library alone, if its sources changed
#   make page       the playground's page, for `forerun play` from this folder
#   make pictures   docs/playground/ anew: every chapter, both languages, two widths
#   make check      lint, types, layers, and `make test`
#   make test-long  longer proofs and sweeps

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# PyPI's own build of torch for Linux carries CUDA (gigabytes); set TORCH to take another
TORCH ?= torch==2.13.0
WORKERS ?= 2
# The C library; rebuilt when its sources change. Without a C compiler forerun works, slowly.
NATIVE := src/forerun/models/native
LIBRARY := src/forerun/libforerun.$(if $(filter Darwin,$(shell uname -s)),dylib,so)
PROMPT ?= Write SQL statements that create three tables: customers, orders and products, with keys.

.PHONY: demo library page pictures test test-page test-long check fmt clean

demo: $(VENV)/.demo $(LIBRARY)
	$(BIN)/forerun generate --chat --max-tokens 200 --seed 7 --compare "$(PROMPT)"

test: $(VENV)/.dev $(LIBRARY)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long"
	$(BIN)/python web/test.py

test-page: | $(BIN)/python
	$(BIN)/python web/test.py

library: $(LIBRARY)

page: | $(BIN)/python
	$(BIN)/python web/build.py

pictures: $(VENV)/.dev
	rm -rf web/pictures/out
	FORERUN_REQUIRE_BROWSER=1 $(BIN)/python web/test.py pictures
	$(BIN)/python web/pictures/shrink.py

test-long: $(VENV)/.dev $(LIBRARY)
	$(BIN)/python -m pytest -n $(WORKERS) -m long --timeout 3600

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) test

fmt: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist web/node_modules web/pictures/out src/forerun/server/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("forerun needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.torch: | $(BIN)/python
	$(BIN)/python -m pip install "$(TORCH)"
	touch $@

$(LIBRARY): $(wildcard $(NATIVE)/csrc/*) $(NATIVE)/build.py | $(BIN)/python
	-$(BIN)/python $(NATIVE)/build.py

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -e .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.torch
	$(BIN)/python -m pip install -e ".[dev]"
	touch $@ $(VENV)/.demo
