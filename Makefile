# Every target sets up what it needs: a virtual environment in .venv, installed again when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.installed

.PHONY: help studio demo bench test lint format types docs pictures clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev,plots,studio]'
	@touch $@

studio: $(READY)  ## pose a figure in the browser; FILE=walk.bvh opens a file
	$(BIN)/posable studio $(FILE)

demo: $(READY)  ## see what it does
	$(BIN)/python examples/demo.py

bench: $(READY)  ## measure every subject, peers included, and write docs/results (half an hour)
	$(BIN)/python -m benchmarks

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -q

lint: $(READY)  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)  ## mend style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)  ## check the type hints
	$(BIN)/basedpyright

docs: $(READY)  ## build the pages into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html

pictures: $(READY)  ## run the examples and the pages' code, draw their pictures (minutes)
	cd docs/pictures && for script in tutorial goals natural solvers examples; do ../../$(BIN)/python $$script.py || exit 1; done

clean:  ## remove the environment and every cache
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist docs/_build
