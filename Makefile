# `make help` lists the targets. Everything runs in the virtual environment that this file makes.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := api_types apiserver_client component_base console fleet koordctl koordlet manager scheduler_plugin
STAMP := $(VENV)/installed
PYTEST ?= $(BIN)/pytest
# Byte code is kept whatever the environment sets: hundreds of tests start a program of the suite.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@echo "virtual environment: installing into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment: install python3-venv" >&2; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs,influxdb]'
	@touch $@

.PHONY: venv
venv: $(STAMP) ## Make the virtual environment, pinned by constraints.txt

.PHONY: demo
demo: $(STAMP) ## Show the first ten minutes on a real cluster, with koordctl (15 minutes more the first time; needs root)
	@$(BIN)/python -m e2e.demo

.PHONY: test
test: helm ## Run all tests but the cluster ones, on all cores
	@$(PYTEST) tests -m "not long" --numprocesses auto --dist worksteal --durations=25

.PHONY: unit
unit: $(STAMP) ## Run the tests that start no process and render no chart, in two and a half minutes
	@$(PYTEST) tests -m "not slow" --numprocesses auto --dist worksteal --durations=25

.PHONY: helm
helm: $(STAMP) ## Build helm for the tests of the chart, unless one is built or on PATH (needs Go the first time)
	@$(BIN)/python -m tools.localcluster client helm

.PHONY: slow
slow: helm ## Run the tests that `make unit` leaves out: those that start processes, render charts or take long
	@$(PYTEST) tests -m "slow and not long" --numprocesses auto --dist worksteal --durations=25

.PHONY: e2e-alone
e2e-alone: $(STAMP) ## Run the end-to-end cases that need no cluster
	@$(PYTEST) e2e --part alone --durations=25 $(if $(PROVIDER),--provider $(PROVIDER))

.PHONY: e2e
e2e: $(STAMP) ## Run the end-to-end cases on a real cluster (needs root or KUBECONFIG), of PROVIDER=local|nodes|kind|existing
	@mkdir -p build
	@nice $(MAKE) --no-print-directory --keep-going e2e-alone $(BESIDE) >build/beside.log 2>&1 & beside=$$!; \
	$(PYTEST) e2e --part cluster --durations=25 $(if $(PROVIDER),--provider $(PROVIDER)); code=$$?; \
	wait $$beside || code=1; echo "what ran beside the cases of the cluster:"; cat build/beside.log; exit $$code

.PHONY: e2e-kind
e2e-kind: $(STAMP) ## Run the end-to-end cases on kind, with an engine and a node image made here (root, Debian)
	@$(BIN)/python -m e2e.downloads
	@$(BIN)/python -m tools.kind_offline run -- $(BIN)/pytest e2e --provider kind --durations=25

.PHONY: e2e-long
e2e-long: $(STAMP) ## Run the cases that wait for minutes: outages, degrade times, idle clusters, the demo
	@$(BIN)/pytest e2e --long --durations=25
	@$(BIN)/pytest tests -m long --numprocesses auto --durations=25

.PHONY: bench
bench: $(STAMP) ## Measure, and print tables
	@for bench in benchmarks/bench_*.py; do echo "== $$bench"; $(BIN)/python -m $$(echo $${bench%.py} | tr / .) || exit 1; done

.PHONY: bench-pages
bench-pages: $(STAMP) ## Measure again, and write output and commit into docs/benchmarks (hours; PAGES="extender-cost bench_admission" for some)
	@$(BIN)/python -m benchmarks.pages $(PAGES)

.PHONY: bench-age
bench-age: $(STAMP) ## Warn of benchmark pages whose measured code has changed since
	@$(BIN)/python -m benchmarks.pages --check

FLEET_MINUTES = $(if $(filter command line environment,$(origin MINUTES)),$(MINUTES),20)
.PHONY: fleet
fleet: $(STAMP) ## Measure manager and scheduler plugin with 1,000 to 15,000 nodes, write docs/benchmarks/fleet.md (80 minutes; NODES=50 MINUTES=1; needs root)
	@$(BIN)/python -m benchmarks.pages fleet --arguments "--minutes $(FLEET_MINUTES) $(if $(NODES),--nodes $(NODES))$(if $(TRACES_FILE), --traces $(TRACES_FILE))"

TRACES ?= benchmarks/backtest/data
.PHONY: bench-prediction
bench-prediction: $(STAMP) ## Run real CPU traces through every predictor (minutes; TRACES=folder, else an excerpt)
	@$(BIN)/python -m benchmarks.bench_backtest --traces $(TRACES)

ROUNDS ?= 7
.PHONY: bench-compare
bench-compare: $(STAMP) ## Compare agent, extender and manager with REF=folder or revision, in ROUNDS=7 rounds (20 minutes)
	@test -n "$(REF)" || { echo "set REF to a folder with a checkout, or to a git revision" >&2; exit 2; }
	@$(BIN)/python -m benchmarks.compare "$(REF)" --rounds $(ROUNDS) $(if $(ONLY),--only $(ONLY))

.PHONY: check
check: lint types imports style verify docs lint-workflows lint-go bench-age ## Check format, lint, types, imports, words, generated files, docs, workflows, Go

.PHONY: format
format: $(STAMP) ## Format, and fix what ruff can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: lint
lint: $(STAMP) ## Check format and lint
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

.PHONY: types
types: $(STAMP) ## Check types, strictly
	@$(BIN)/mypy

.PHONY: imports
imports: $(STAMP) ## Check the import contracts
	@$(BIN)/lint-imports

.PHONY: style
style: $(STAMP) ## Refuse the words of the ban list (docs/contributing/style.md), what is too large, and a long path
	@$(BIN)/python -m tools.style
	@$(BIN)/python -m tools.style.paths

.PHONY: changes
changes: $(STAMP) ## Try the changes of docs/contributing/architecture.md on copies: complete, and without each file (WHOLE=1: complete ones alone)
	@$(BIN)/python -m tests.changes $(if $(WHOLE),--whole)

.PHONY: verify
verify: $(STAMP) ## Fail when a generated file is stale (fix: make update)
	@$(BIN)/python -m crds.generate --check

COUNT ?= 30
.PHONY: mutants
mutants: helm ## Change one line at a time and see whether a test fails (hours; COUNT=30 a package; started again, it continues)
	@$(BIN)/python -m tests.mutants --count $(COUNT)

ACTIONLINT := .cache/actionlint/actionlint
$(ACTIONLINT): tools/actionlint/go/go.mod tools/actionlint/go/go.sum
	@mkdir -p $(@D)
	@cd tools/actionlint/go && go build -mod=readonly -trimpath -o $(CURDIR)/$@ github.com/rhysd/actionlint/cmd/actionlint

.PHONY: lint-workflows
lint-workflows: $(ACTIONLINT) ## Check the GitHub workflows (needs Go the first time)
	@$(ACTIONLINT)

STATICCHECK := .cache/staticcheck/staticcheck
$(STATICCHECK): tools/staticcheck/go/go.mod tools/staticcheck/go/go.sum
	@mkdir -p $(@D)
	@cd tools/staticcheck/go && go build -mod=readonly -trimpath -o $(CURDIR)/$@ honnef.co/go/tools/cmd/staticcheck

GO_PLUGIN := scheduler_plugin/kube_scheduler/plugin
GO_CHECKED := .cache/staticcheck/checked
$(GO_CHECKED): $(STATICCHECK) $(wildcard $(GO_PLUGIN)/*.go $(GO_PLUGIN)/socket/*.go)
	@test -z "$$(gofmt -l $(GO_PLUGIN))" || { echo "not formatted: $$(gofmt -l $(GO_PLUGIN)); run gofmt -w on them" >&2; exit 1; }
	@cd $(GO_PLUGIN) && go vet ./socket && $(CURDIR)/$(STATICCHECK) ./socket && CGO_ENABLED=1 go test -race ./socket
	@touch $@

.PHONY: lint-go
lint-go: $(GO_CHECKED) ## Check the Go of the socket and test it with the race detector; the build vets what needs Kubernetes

.PHONY: update
update: $(STAMP) ## Write all generated files
	@$(BIN)/python -m crds.generate

.PHONY: docs
docs: $(STAMP) ## Build the documentation site into build/site; fail on a dead link or a page outside the navigation
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@! grep -rlE '(src|rel="?stylesheet"? href)="?https?://' build/site --include='*.html' || { echo "these pages load from other hosts" >&2; exit 1; }

.PHONY: docs-plots
docs-plots: $(STAMP) ## Draw the plots of the documentation (TRACES=folder for those of predictions)
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[plots]'
	@$(BIN)/python -m docs.generators.score_curves
	@$(if $(TRACES),$(BIN)/python -m docs.generators.prediction_plots $(TRACES))

.PHONY: pin
pin: ## Write constraints.txt from the newest versions that pyproject.toml allows
	@rm -rf $(VENV)/pin && $(PYTHON) -m venv $(VENV)/pin
	@$(VENV)/pin/bin/pip install --quiet '.[dev,docs,influxdb,plots]' hatchling
	@{ echo "# Every version the project is built and tested with. Written by: make pin"; \
	   $(VENV)/pin/bin/pip freeze --exclude koord-suite; } > constraints.txt
	@rm -rf $(VENV)/pin

.PHONY: cluster-up
cluster-up: $(STAMP) ## Start the local cluster, or that of PROVIDER, and leave it running
	@$(BIN)/python -m tools.localcluster up $(if $(PROVIDER),--provider $(PROVIDER))

.PHONY: cluster-down
cluster-down: $(STAMP) ## Stop the local cluster and leave nothing behind
	@$(BIN)/python -m tools.localcluster down

.PHONY: release
release: $(STAMP) ## Build everything of a release into dist, from the commit: images, chart, wheels, bundle (needs Go)
	@$(BIN)/python -m tools.release build $(if $(VERSION),--version $(VERSION)) $(if $(REGISTRY),--registry "$(REGISTRY)") $(if $(SOURCE),--home "$(SOURCE)")

.PHONY: release-rehearsal
release-rehearsal: $(STAMP) ## Push, verify, install, upgrade, skew and remove a release, by a registry on this machine (2 hours; SKEW_MINUTES=30)
	@$(PYTEST) e2e/cases/release/test_rehearsal.py -x -s --verbose --durations=0 $(if $(PROVIDER),--provider $(PROVIDER))

DAY_MINUTES ?= 20
.PHONY: e2e-autoscaler
e2e-autoscaler: $(STAMP) ## Two days of Prod on 50 nodes beside Karpenter, alone and with Mid (90 minutes; LEVERS="none emptied", DAY_MINUTES=5, NODES=10)
	@$(BIN)/python -m e2e.autoscaler --day-minutes $(DAY_MINUTES) --nodes $(or $(NODES),50) $(if $(LEVERS),--lever $(LEVERS))

MINUTES ?= 120
.PHONY: soak
soak: $(STAMP) ## Two hours of churn, edits and kills on a control plane of its own (MINUTES=10, DOUBLE_FAULTS=yes; needs root)
	@$(BIN)/python -m e2e.soak --minutes $(MINUTES) $(if $(DOUBLE_FAULTS),--double-faults)
