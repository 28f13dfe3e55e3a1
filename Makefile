# The tasks of this repository. `make` alone lists them. Everything happens in .venv, which `make setup` makes.

PYTHON := .venv/bin/python
# Compiled modules are kept, whatever the environment says: tests start dozens of Pythons, and pytest rewrites every test.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(PYTHON) -m pytest
# One has the tests on clusters, the other all others (docs/decisions/018).
TWO_PROCESSES := -n 2 --dist loadscope --no-loadscope-reorder

# Says in one line what the tests on a cluster, and in a browser, install on this machine (DEDUP_INSTALL=no refuses it).
INTENDED := $(PYTHON) -m testbed.cluster.packages

# How many minutes a share of the slow tests and the tests of the last change may take together.
MINUTES ?= 40
# After how many minutes no test begins any more, on a machine slower than the one that timed them (0: no bound).
LAST_START ?= 0

# How large the demonstration is: runs of each variant on each system, and messages a run.
RUNS ?= 2
MESSAGES ?= 200000

# How many cycles `make cycles` comes to in the end, and after how many minutes it begins no other.
N ?= 1000
CYCLE_MINUTES ?= 1440

# How long `make discover` begins new rounds.
DISCOVER_MINUTES ?= 60

# How many experiments and histories `make fuzz` comes to in the end.
SPECS ?= 1000000
HISTORIES ?= 100000

# Where a release's images are.
REGISTRY ?= localhost

# Which control plane, which cluster: any number of them run side by side.
PLANE ?= control-plane
CLUSTER ?= cluster

# Each is bench/NAME.py, or a folder bench/NAME with a __main__.py; files that begin with _ are shared by them.
BENCHES := $(patsubst %/__main__.py,%,$(filter-out bench/_%,$(sort $(wildcard bench/*.py bench/*/__main__.py))))

.DEFAULT_GOAL := help

help: ## List these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 27

setup: ## Make .venv with the dedup command in it; returns at once when nothing changed
	@sh scripts/setup.sh

demo: setup ## Kafka and Pulsar, with and without deduplication, while their connections are killed
	.venv/bin/dedup run examples/kafka-vs-pulsar.yaml --runs $(RUNS) --messages $(MESSAGES)

test: setup $(if $(ROOM),,lint) ## Lint, every fast or long test, and of the slow ones one of a kind (ROOM=core: its fast tests alone)
	$(if $(ROOM),,@$(INTENDED))
	$(PYTEST) $(TWO_PROCESSES) $(if $(ROOM),tests/$(ROOM) --tier fast,--tier quick) --last-start $(LAST_START)

test-fast: setup ## The tests of less than a second, that need no brokers, no Spark and no Kubernetes
	$(PYTEST) -n 3 --dist loadscope --no-loadscope-reorder --tier fast

test-share: setup ## After `make test`: a fifth of the slow tests, and those of the last change as far as MINUTES go
	@$(INTENDED) browser
	$(PYTEST) $(TWO_PROCESSES) --tier share --minutes $(MINUTES) --last-start $(LAST_START)

test-all: setup lint ## Lint, and every test, on real brokers too: those on clusters beside all others (an hour and three quarters)
	@$(INTENDED) browser
	$(PYTEST) $(TWO_PROCESSES) --store-durations

lint: setup ## ruff, mypy --strict, import-linter, and that no ten lines stand twice
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	.venv/bin/lint-imports
	$(PYTHON) scripts/repeats.py

format: setup ## Format, and mend what ruff can mend
	$(PYTHON) -m ruff format
	$(PYTHON) -m ruff check --fix

campaign: setup ## Break every request of the operator once each way, then a whole cluster; hours; writes docs/campaign.md
	$(PYTHON) -m testbed.campaign $(if $(SAMPLE),--sample $(SAMPLE))

cycles: setup ## Inject and heal every fault N times in all, the injector killed in a random third; goes on where it was; writes docs/cycles.md
	$(PYTHON) -m testbed.cycles --cycles $(N) --minutes $(CYCLE_MINUTES)

discover: setup ## Explore current clients and brokers in rounds for DISCOVER_MINUTES (60), and keep a ledger of alarms; writes docs/discovered.md
	$(PYTHON) -m testbed.discover --minutes $(DISCOVER_MINUTES)

fuzz: setup ## Offer SPECS experiments that nobody would write, and judge HISTORIES damaged histories; goes on where it was; writes docs/fuzz.md
	$(PYTHON) -m tests.fuzz specs --number $(SPECS)
	$(PYTHON) -m tests.fuzz histories --number $(HISTORIES)

s0: setup ## One of S0's tables again: make s0 TABLE=kafka-kill-tcp; hours; goes on where it stopped; writes docs/s0.md
	$(PYTHON) -m testbed.s0 $(TABLE) $(if $(BATCHES),--batches $(BATCHES))

exactly-once: setup ## S2's patterns: a service killed at each of its steps; makes the runs that are missing; writes docs/exactly-once.md
	$(PYTHON) -m testbed.exactly_once $(PATTERN)

kafka-and-pulsar: setup ## S4's table of five claims: makes the runs that are missing; writes docs/kafka-and-pulsar.md
	$(PYTHON) -m testbed.claims $(TRIAL)

known-bugs: setup ## Each of examples/bugs twenty times a version; hours; goes on where it stopped; writes docs/known-bugs-figures.md
	$(PYTHON) -m testbed.known_bugs $(BUG) $(if $(BATCHES),--batches $(BATCHES))

bench: setup ## Every benchmark: ratios against the brokers' own tools, measured side by side
	@set -e; for bench in $(BENCHES); do echo "== $$bench"; $(PYTHON) $$bench; done

crd: setup ## Write crds/ again, from the models of the experiment
	$(PYTHON) -m dedup_operator.schema.crd >.crd.yaml
	mv .crd.yaml crds/dedupexperiment.yaml
	$(PYTHON) -m dedup_operator.schema.comparison_crd >.crd.yaml
	mv .crd.yaml crds/dedupcomparison.yaml
	cp crds/*.yaml charts/dedup-operator/crds/

tables: setup ## Write the tables of docs/ again that are made from the records of faults, clients and counts
	$(PYTHON) -m scripts.tables

probes: setup ## Ask Kafka and Pulsar, started here, for each rule of `dedup probe`, and write docs/probes.md again (minutes)
	$(PYTHON) -m dedup_lab.probe_pages docs

docs: setup ## The pages of docs/ as a site in build/site; a link that leads nowhere is an error
	$(PYTHON) -m sphinx --quiet --fail-on-warning --keep-going -c docs -b html -d build/doctrees . build/site
	@echo "docs: build/site/index.html"

drawings: setup ## Write docs/drawings/ and the page of the counts again, from the golden histories
	$(PYTHON) -m tests.drawings

schemas: setup ## Write schemas/ again, from the models of the files that other programs read
	$(PYTHON) -m dedup.judgement.schemas schemas

control-plane: setup ## A Kubernetes API server in the background (built once, in minutes; then up in seconds)
	@$(PYTHON) -m testbed.cluster up control-plane $(PLANE)

control-plane-down: setup ## Stop it; nothing of it is left
	@$(PYTHON) -m testbed.cluster down control-plane $(PLANE)

cluster: setup ## A whole Kubernetes with a node that runs pods, in the background (root on Linux; built once); POLICIES=CUT enforces policies
	@$(PYTHON) -m testbed.cluster up cluster $(CLUSTER) $(if $(POLICIES),--policies $(POLICIES))

cluster-down: setup ## Stop it; nothing of it is left
	@$(PYTHON) -m testbed.cluster down cluster $(CLUSTER)

images: setup ## The images of the test cluster as OCI archives, and their sizes (root on Linux; minutes once)
	@$(PYTHON) -m testbed.cluster.images

images-twice: setup ## Build each of our images twice from nothing, and compare digests and sizes (root on Linux; NAME=dedup-operator: that one)
	@$(PYTHON) -m testbed.cluster.reproducible $(NAME)

release: setup ## The charts' packages and the images' bills of materials, into dist/: make release REGISTRY=registry.example/dedup
	$(PYTHON) -m testbed.release make --registry $(REGISTRY) $(if $(TAG),--tag $(TAG))

image-parts: setup ## The programs that `docker build` takes from build/parts (docs/images.md)
	@$(PYTHON) -m testbed.cluster.images --parts

test-strimzi: setup ## Kill a leader on Strimzi, on the cluster that DEDUP_TEST_KUBECONFIG names (docs/charts.md)
	@$(PYTHON) -m testbed.kill_leader strimzi-kafka $(if $(VALUES),--values $(VALUES))

lock: ## Make requirements.lock again from pyproject.toml (UPGRADE=1: the newest of everything)
	@sh scripts/lock.sh

clean: ## Remove caches and build output; .venv and results/ stay
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

.PHONY: help setup demo test test-fast test-share test-all lint format campaign cycles discover fuzz s0 exactly-once kafka-and-pulsar known-bugs bench crd control-plane control-plane-down cluster cluster-down
.PHONY: docs drawings images image-parts images-twice probes release schemas tables test-strimzi lock clean
