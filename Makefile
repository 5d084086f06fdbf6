# The two commands of the README, and those of a developer. Each step writes a stamp file, so a second run is quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SUITE ?= gates/hopper.toml
OUT ?= runs/latest
GATE_ARGS ?=
SELFTEST_ARGS ?= --recorded
N ?= 100000
PYTEST_ARGS ?= --numprocesses=auto --dist=worksteal
NVCC ?= nvcc
LOWEST := build/lowest

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: gate
gate: $(VENV)/.tools ## Build, measure (or read recorded runs) and judge: may this change merge?
	$(BIN)/flashcore-ci gate --suite $(SUITE) --out $(OUT) $(GATE_ARGS)

.PHONY: test
test: $(VENV)/.tests $(VENV)/.tools ## Run every test that needs no GPU
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: lint
lint: $(VENV)/.lint ## Check style, types, import contracts and workflows
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet --persona=pedantic --strict-collection .github .pre-commit-hooks.yaml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions .github/actions/*/action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/python .github/checks/check_locks.py
	$(BIN)/python .github/checks/check_protection.py

.PHONY: generate
generate: $(VENV)/.package ## Regenerate what comes from the code: docs, schemas and instantiations
	$(BIN)/python tools/docs/generate.py codes schemas reference selftest
	$(BIN)/python tools/docs/generate_instantiations.py
	$(BIN)/python tools/study/verdict_tables.py

.PHONY: golden
golden: $(VENV)/.tests ## Rewrite the golden reports (review the difference)
	$(BIN)/python -m pytest tests/golden --update-golden

.PHONY: record
record: $(VENV)/.package ## Make the run in OUT the recording of the functional tests
	$(BIN)/python tools/study/record_run.py $(OUT) tests/recordings/runs

.PHONY: picture
picture: $(VENV)/.package ## Draw the report in OUT for the README
	$(BIN)/python tools/docs/picture.py $(OUT)

.PHONY: peers
peers: ## Time the attention kernel in OUT/build and its peers (PYTHON with torch, a Hopper GPU)
	$(PYTHON) tools/bench/peers.py measure --library $(OUT)/build/attention/libflashcore_attention.so --out docs/performance/peers.json.xz

.PHONY: serving
serving: ## Time decode and ragged prefill in OUT/build and their peers (PYTHON with torch, a Hopper GPU)
	$(PYTHON) tools/bench/peers.py serving --build $(OUT)/build --out docs/performance/serving.json.xz

.PHONY: performance
performance: $(VENV)/.package ## Write docs/performance.md from the samples and docs/roofline.md from the evidence
	$(BIN)/python tools/docs/generate.py performance roofline

.PHONY: microbench
microbench: build/microbench ## Measure the pipes of this GPU (NVCC, a Hopper GPU)
	build/microbench

.PHONY: fuzz
fuzz: $(VENV)/.tests ## Feed N damaged inputs of up to 1 MB to every reader, with limits of time and memory
	$(BIN)/python tools/study/fuzz.py --count $(N)

.PHONY: selftest
selftest: $(VENV)/.tools ## Are all planted defects caught? On a GPU, SELFTEST_ARGS= breaks the kernels again
	$(BIN)/flashcore-ci selftest $(SELFTEST_ARGS)

.PHONY: lowest
lowest: $(VENV)/.python ## Install the lowest versions that pyproject.toml allows, and try every command with them
	rm -rf $(LOWEST)
	$(BIN)/python -m venv --without-pip $(LOWEST)
	$(BIN)/python .github/checks/lowest_versions.py > $(LOWEST)/constraints.txt
	$(BIN)/python -m pip --python $(LOWEST)/bin/python install --quiet --disable-pip-version-check --constraint $(LOWEST)/constraints.txt .
	$(LOWEST)/bin/python .github/checks/lowest_versions.py --try $(LOWEST)/bin/flashcore-ci

.PHONY: lock
lock: $(VENV)/.python ## Pin the newest allowed Python packages in .github/locks again (review the difference)
	$(PIP) uv
	$(BIN)/python .github/checks/check_locks.py $(BIN)/uv

.PHONY: release
release: $(VENV)/.python ## Refuse a release while placeholders remain or the changelog has no entry for it
	$(BIN)/python .github/checks/check_release.py

.PHONY: clean
clean: ## Remove the virtual environment, runs and build output
	rm -rf $(VENV) runs build dist

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "this Python cannot make a virtual environment: apt-get install python3-venv" >&2; exit 1; }
	touch $@

$(VENV)/.package: $(VENV)/.python pyproject.toml
	$(PIP) --editable .
	touch $@

$(VENV)/.tests: $(VENV)/.python pyproject.toml
	$(PIP) --editable '.[test]'
	touch $(VENV)/.package $@

$(VENV)/.lint: $(VENV)/.python pyproject.toml
	$(PIP) --editable '.[test,lint]'
	touch $(VENV)/.package $(VENV)/.tests $@

$(VENV)/.tools: $(VENV)/.package flashcore_ci/build/toolchain-13.0.lock
	$(BIN)/flashcore-ci toolchain install
	touch $@

MICROBENCH := $(wildcard tools/bench/microbench/*.cu)
build/microbench: $(MICROBENCH) $(wildcard tools/bench/microbench/*.cuh tools/bench/microbench/*.h)
	mkdir -p build
	$(NVCC) -std=c++17 -O3 --use_fast_math -gencode=arch=compute_90a,code=sm_90a -Ikernel/include -o $@ $(MICROBENCH) -ldl
