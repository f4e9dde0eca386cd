# The two commands that matter: `make demo` and `make test`. Everything they need they install.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MINISTACK := .venv-ministack
WORKERS ?= 2

.PHONY: help install demo test check fast ministack chaos machine soak clean

help:  ## what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

# pip alone: it takes the CPU build of torch that the constraints file pins where there is one.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

install: $(VENV)/.installed  ## make .venv with the spotgrad command in it

demo: install  ## train the digits job through the whole pipeline on this machine
	$(BIN)/spotgrad local run examples/digits/job.yaml --workers $(WORKERS)

test: check  ## the gate: linters, types, architecture, every test (what .ci/run calls)
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered
	$(BIN)/python -m coverage report --fail-under=100 --include='*/spotgrad/protocol/*,*/spotgrad/merging/*,*/spotgrad/planning/*,*/spotgrad/steps/*'

check: install  ## linters, types and architecture only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/cfn-lint template.yaml

fast: install  ## the unit tests alone
	$(BIN)/python -m pytest tests/unit tests/functions

# In an environment of its own, as it pins another botocore. The tests start and end it themselves.
$(MINISTACK)/.installed: constraints-ministack.txt
	$(PYTHON) -m venv $(MINISTACK)
	$(MINISTACK)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-ministack.txt ministack
	touch $@

ministack: install $(MINISTACK)/.installed  ## contracts, races and chaos on ministack, a second and independent AWS
	$(BIN)/python -m pytest tests/ministack/store_contract.py tests/ministack/queue_contract.py tests/ministack/races.py tests/ministack/wiring.py tests/ministack/chaos.py

chaos: install  ## the digits job with everything going wrong at once, three seeds (minutes)
	$(BIN)/python -m pytest tests/e2e/chaos_seeds.py

machine: install  ## the proofs' state machine for longer, at other examples each time (minutes)
	PIPELINE_EXAMPLES=2000 $(BIN)/python -m pytest tests/proofs/test_pipeline_machine.py -k its_end

soak: install  ## 2,000 subtasks with faults throughout: goodput, and memory that stays flat (an hour)
	$(BIN)/python benchmarks/soak.py

clean:  ## remove what was built and what local runs left
	rm -rf $(VENV) $(MINISTACK) .spotgrad .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache
