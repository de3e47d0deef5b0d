# Everything sets itself up from Python and make: a virtual environment in .venv, reused while pyproject.toml is unchanged.
#   make demo    a racy kernel and its error, then kernels that run      make test    the whole suite, ruff and mypy
#   make lint    ruff and mypy                                           make bench   benchmarks, both sides printed
#   make docs    regenerate README tables, docs/ and the type stub       make setup   the full environment
#   make nightly the tests that take hours: 20,000 random kernels

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What running needs, and what developing needs; the second includes the first.
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check

.PHONY: setup demo test lint nightly bench docs clean

setup: $(DEV)

$(VENV)/pyvenv.cfg:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tilecheck needs Python 3.11 or later, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(VENV)/pyvenv.cfg
	$(PIP) -e .
	touch $(RUN)

$(DEV): pyproject.toml | $(VENV)/pyvenv.cfg
	$(PIP) -e '.[dev]'
	touch $(RUN) $(DEV)

demo: $(RUN)
	@$(BIN)/python -m examples

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pytest -n 2 -m 'not gpu and not slow'

# Stopped and started again, the random kernels go on where they were; delete .agreement to begin anew.
nightly: $(DEV)
	$(BIN)/python -m tests.agreement --count 20000 --keep .agreement
	$(BIN)/python -m tests.agreement --count 5000 --structured
	$(BIN)/pytest -m slow

bench: $(DEV)
	$(BIN)/python -m benchmarks

docs: $(DEV)
	$(BIN)/python -m tilecheck.ops.stub
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV)
