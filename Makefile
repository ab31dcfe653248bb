# Every target creates what it needs: a virtual environment in .venv, reinstalled when pyproject.toml changes.
PYTHON ?= python3
EXTRAS ?= dev,plots,studio
PIP_ARGS ?=
PYTEST_ARGS ?=
SECONDS ?= 60
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif
READY := .venv/.installed

.PHONY: help studio demo bench test plain lint format types docs pictures wheel smoke publish coverage mutants fuzz digest workflows clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml
	$(BIN)/python -c "" 2>/dev/null || $(PYTHON) -m venv .venv
	@echo "installing the package and its tools into .venv (minutes the first time) ..."
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --editable '.[$(EXTRAS)]'
	@touch $@

studio: $(READY)  ## pose a figure in the browser; FILE=walk.bvh opens a file
	$(BIN)/posable studio $(FILE)

demo: $(READY)  ## run a short tour in the terminal
	$(BIN)/python examples/demo.py

bench: $(READY)  ## run all benchmarks, including peers, and write docs/results (about four hours)
	$(BIN)/python -m benchmarks $(SUBJECTS)

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -q $(PYTEST_ARGS)

plain: $(READY)  ## run tests of the engine with only Numba's public interface, and without compilation
	POSABLE_JIT=plain $(BIN)/python -m pytest -q tests/engine tests/test_solve.py
	POSABLE_JIT=python $(BIN)/python -m pytest -q tests/engine/test_joints.py tests/engine/test_ltl.py tests/test_kernels_as_python.py

lint: $(READY)  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)  ## fix style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)  ## check the type hints
	$(BIN)/basedpyright

docs: $(READY)  ## build the documentation into docs/_build/html; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html

pictures: $(READY)  ## run the examples and the code in the documentation, and draw their pictures (minutes)
	cd docs/pictures && for script in tutorial goals cameras natural solvers examples; do ../../$(BIN)/python $$script.py || exit 1; done
	$(BIN)/python -m tests.studio.picture docs/images

wheel: $(READY)  ## build the wheel and the source distribution into dist/
	rm -rf dist
	$(BIN)/python -m build --quiet

smoke: wheel  ## test the wheel in a clean environment: solve, report missing extras, open the studio, uninstall
	$(BIN)/python scripts/smoke.py dist

publish: $(READY)  ## upload dist/ to PyPI; on GitHub with trusted publishing
	$(BIN)/python -m twine upload --non-interactive dist/*

coverage: $(READY)  ## measure line coverage with kernels as plain Python (minutes); at least 90% outside the studio
	$(BIN)/python scripts/coverage.py

mutants: $(READY)  ## mutate ten central kernels; each change must make a test fail
	$(BIN)/python scripts/mutants.py $(KERNELS)

fuzz: $(READY)  ## fuzz files, problems, messages and killed processes for SECONDS=60; fails on unexpected errors
	$(BIN)/python -m benchmarks.fuzz --seconds $(SECONDS) $(FUZZ_ARGS)

digest: $(READY)  ## compare results bit by bit with those stored for this Numba version and processor (minutes if not compiled yet)
	$(BIN)/python -m benchmarks.digest $(DIGEST_ARGS)

workflows: $(READY)  ## validate workflows, templates and the citation against their schemas, and check for known risks
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(wildcard .github/workflows/*.yml)
	$(BIN)/check-jsonschema --builtin-schema custom.github-workflows-require-timeout $(wildcard .github/workflows/*.yml)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/zizmor --offline --no-progress --quiet --config .github/zizmor.yml .github/workflows

clean:  ## remove the environment and every cache
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist docs/_build
