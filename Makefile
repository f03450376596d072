# Each target sets up what it needs: a fresh machine has only Python and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean

demo: $(VENV)/.core
	$(BIN)/python -m ultraspec demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# One stamp per set of extras, renewed when the project's requirements change.
$(VENV)/.core: EXTRAS :=
$(VENV)/.test: EXTRAS := [test]
$(VENV)/.check: EXTRAS := [check]
$(VENV)/.bench: EXTRAS := [bench]
$(VENV)/.%: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.$(EXTRAS)'
	@touch $@

clean:
	rm -rf $(VENV) dist build
