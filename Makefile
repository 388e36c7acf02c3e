# Every target works on a fresh machine with python3, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Without stored bytecode every worker and every command that a test starts compiles all again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check pytest test-slow mutants mutants-sample bench docs format clean

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/local_model.py

test: check pytest

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Measuring coverage makes tests slower by half, so it is measured where every branch is reached.
MEASURED = tests/metrics tests/confidence tests/results tests/test_own_metric.py

# Each worker has a core; threads of a matrix product would only wait for each other.
pytest test-slow mutants mutants-sample: export OPENBLAS_NUM_THREADS = 1

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 $(MEASURED) \
		--cov=krisis.metrics --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100
	$(BIN)/python -m pytest -n 2 $(MEASURED:%=--ignore=%) tests

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

# Makes one clause of the source wrong at a time; with MUTANTS="metrics decisions/certify.py" only
# there, with MUTANTS=--resume from where a run was stopped. The first run records which test reaches
# what in .mutants/, later ones only the test files that changed.
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(MUTANTS)

# A few of the clauses that changed since a revision.
SINCE ?= main
N ?= 40
mutants-sample: $(VENV)/.dev
	$(BIN)/python -m tests.mutants --since $(SINCE) --sample $(N) $(MUTANTS)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) site artifacts .mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e ".[demo]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e ".[dev]"
	touch $@
