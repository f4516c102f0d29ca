# aclog: every command of the project; `make help` lists them.
#
# The environment is .venv. Plain venv and pip put uv there, and uv the rest, every file by its hash: first what aclog
# runs with (requirements/base.lock), then Spark and snapshot stores (requirements/run.lock), then what checks
# and tests it (requirements/dev.lock has all).
# Stamps in it are newer than the locks and pyproject.toml, so a second run is offline and takes no time.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

# Without the cache of bytecode each process of the tests compiles aclog again, and each worker all tests: 45 s of CPU.
# An environment may switch it off for all that it runs, not knowing of these.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
BASE_STAMP := $(VENV)/.installed-without-spark
STAMP := $(VENV)/.installed
TOOLS_STAMP := $(VENV)/.tools
JARS_STAMP := $(VENV)/.jars
GO_PROGRAMS_STAMP := $(VENV)/.go-programs

# The interpreter for .venv: the first of these that runs and is 3.11 or newer. `make PYTHON=/path/to/python` decides.
PYTHON ?= python3.14 python3.13 python3.12 python3.11 python3

# `make run SPARK=no` needs no Java, and leaves out Spark, Parquet and S3: 580 MB. A later target
# adds what it needs.
SPARK := yes
$(if $(filter-out yes no,$(SPARK)),$(error SPARK=$(SPARK) is neither yes nor no))

# What the linters and mypy read: the four layers and whatever else holds Python.
CODE := $(wildcard records snapshot replay authorizer aclog tests benchmarks examples)
PIP := $(BIN)/python -m pip --disable-pip-version-check
# What is fetched stays in .venv until it is installed: one file system, so it is linked and not copied, and a set-up
# that was interrupted goes on where it was.
UV_CACHE := $(VENV)/.uv-cache
UV := $(BIN)/uv --cache-dir $(UV_CACHE)
COMPILE := UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile --quiet --upgrade --universal \
    --python-version 3.11 --generate-hashes --no-annotate
# One worker more than the smallest machine that we build on has cores: tests wait for other processes a third of their
# time.
TEST_WORKERS ?= 3
PYTEST_ARGS ?=
# Of Debian's packages, for stand-in-images; debootstrap's own if empty.
MIRROR ?=
BENCH_ARGS ?=

# `@$(SAY) 'what is done, and how large it is'`: a shell command, for make's own functions end a text at a comma.
SAY := printf '\033[1m==> %s\033[0m\n'

# Install what the lock $(1) holds. uv is silent while it fetches pyspark, so every ten seconds it is said how much is
# there. pip, which is slower, knows a pip.conf: where an index can be reached only so, it takes over.
define install
@while sleep 10 >/dev/null && kill -0 $$$$ 2>/dev/null; do echo "    after $$SECONDS s: $$(du -sh $(VENV) | cut -f 1) on disk"; done & \
trap "kill $$!" EXIT; \
$(UV) pip install --python $(BIN)/python --compile-bytecode --require-hashes --requirement $(1) 2>&1 \
    | sed --unbuffered '/^ [-+~] /d' \
|| { echo '    uv could not; pip tries' >&2; $(PIP) install --require-hashes --requirement $(1); }
endef

define require_java
@java="$$( { "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 || true; } \
    | awk -F '[".]' '/ version "/ { print $$2 }')"; \
if [ "$${java:-0}" -lt 17 ]; then \
    echo 'aclog needs Java 17 or newer, in JAVA_HOME or on PATH: for Spark, and to test with the real Kafka.' >&2; \
    echo 'Without Java: make run SPARK=no' >&2; \
    exit 1; \
fi
endef

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(if $(filter no,$(SPARK)),$(BASE_STAMP),$(STAMP)) ## Set up what running needs, then aclog quickstart on an example log; SPARK=no: without Spark, Java and snapshot stores
	@$(SAY) 'aclog quickstart'
	@exec $(BIN)/aclog quickstart $(if $(filter no,$(SPARK)),--no-spark)

.PHONY: setup
setup: $(TOOLS_STAMP) $(JARS_STAMP) ## Set up what running and the tests need; afterwards all works offline

# Unless make goes on to Spark, Java is not asked for.
$(BASE_STAMP): requirements/setup.lock requirements/base.lock pyproject.toml
	$(if $(filter no,$(SPARK)),,$(require_java))
	@$(SAY) 'making $(VENV) and installing uv: 18 MB to fetch'
	@for candidate in $(PYTHON); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        python="$$candidate"; break; \
	    fi; \
	done; \
	if [ -z "$${python:-}" ]; then \
	    echo 'aclog needs Python 3.11 or newer; none of these is: $(PYTHON). Name one with `make PYTHON=...`.' >&2; \
	    exit 1; \
	fi; \
	"$$python" -m venv $(VENV)
	@$(PIP) --quiet install --require-hashes --requirement requirements/setup.lock
	@$(SAY) 'installing what aclog runs with, without Spark and snapshot stores: 42 MB to fetch the first time, 0.25 GB on disk'
	$(call install,requirements/base.lock)
	@$(UV) --quiet pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@rm -rf $(UV_CACHE)
	@touch $@

$(STAMP): $(BASE_STAMP) requirements/run.lock
	$(require_java)
	@$(SAY) 'installing Spark and snapshot stores: 580 MB to fetch the first time, 1.1 GB on disk, 3 GB while at it'
	$(call install,requirements/run.lock)
	@rm -rf $(UV_CACHE)
	@touch $@

$(TOOLS_STAMP): $(STAMP) requirements/dev.lock
	@$(SAY) 'installing what checks and tests aclog: 190 MB to fetch the first time, 0.4 GB on disk'
	$(call install,requirements/dev.lock)
	@rm -rf $(UV_CACHE)
	@touch $@

$(JARS_STAMP): $(STAMP) snapshot/jobs/session/ivy.py snapshot/jobs/session/jars.py snapshot/jobs/session/delta.py snapshot/jobs/session/s3a.py tests/support/kafka_jars.py \
    $(wildcard tests/support/kafka_jars*.sha256) tests/support/spark.py tests/support/class_archives.py \
    tests/support/compiled_pyspark.py \
    tests/support/browser.py
	@$(SAY) 'fetching the jars of the tests (Kafka, Spark to Kafka, Delta Lake): 280 MB the first time'
	@$(BIN)/python tests/support/kafka_jars.py
	@$(BIN)/python tests/support/spark.py
	@PYTHONPATH=.:tests $(BIN)/python -m support.compiled_pyspark
	@$(SAY) 'running Spark and Kafka once each, to archive the classes that they load: 200 MB on disk'
	@PYTHONPATH=.:tests $(BIN)/python -m support.class_archives
	@$(SAY) 'fetching what the console is tested with (axe-core, and a browser where there is none): 68 MB the first time'
	@PYTHONPATH=.:tests $(BIN)/python -m support.browser
	@$(SAY) 'compiling the tests: half a minute'
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || echo '    not all of them: the run will say why' >&2
	@touch $@

# An S3 server, Prometheus, a client with Confluent's Go library and one with AdminClients in Go, for the tests of object
# stores, of deploy/, of /kafka/v3 and of Kafka's protocol. Without Go those are not run, and pytest says so.
$(GO_PROGRAMS_STAMP): $(STAMP) tests/support/go_programs.py $(wildcard tests/support/confluent_acls/* tests/support/admin_clients/*)
	@$(SAY) 'building an S3 server, Prometheus and clients in Go for the tests, where Go is: 300 MB to fetch and five minutes the first time'
	@PYTHONPATH=.:tests $(BIN)/python -m support.go_programs
	@touch $@

.PHONY: test
test: setup $(GO_PROGRAMS_STAMP) check ## What CI gates: check, then all tests but the long, soak and quarantined ones
	@$(SAY) 'tests of the gate'
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) -m 'not long and not soak and not quarantine' $(PYTEST_ARGS)

.PHONY: test-all
test-all: setup $(GO_PROGRAMS_STAMP) check ## Before a release: check, then every test but the soak ones, with more random examples
	@$(SAY) 'all tests'
	@ACLOG_HYPOTHESIS_PROFILE=$${ACLOG_HYPOTHESIS_PROFILE:-deep} $(BIN)/python -m pytest -n $(TEST_WORKERS) -m 'not soak' $(PYTEST_ARGS)

# The seed of the first round differs in every run, and is the same in all workers of pytest.
SOAK_ROUNDS ?= 10
SOAK_SEED ?= $(shell date +%s)

.PHONY: test-soak
test-soak: setup $(GO_PROGRAMS_STAMP) ## The longest tests, and those that kill processes at random points with SOAK_ROUNDS seeds (10: some hours) from SOAK_SEED on
	@$(SAY) 'random kills: $(SOAK_ROUNDS) rounds from seed $(SOAK_SEED) on'
	@ACLOG_SOAK_ROUNDS=$(SOAK_ROUNDS) ACLOG_SOAK_SEED=$(SOAK_SEED) $(BIN)/python -m pytest -n $(TEST_WORKERS) -m 'seeded or soak' $(PYTEST_ARGS)

.PHONY: test-containers
test-containers: setup ## The tests that need a Docker engine: our image, and Kafka in a container
	@$(SAY) 'tests in containers'
	@$(BIN)/python -m pytest -m containers $(PYTEST_ARGS)

.PHONY: stand-in-images
stand-in-images: setup ## Base images for test-containers where no registry can be reached; by root, with debootstrap
	@$(SAY) 'making base images with debootstrap: 100 MB to fetch'
	@PYTHONPATH=tests $(BIN)/python -m support.stand_in_images $(MIRROR)

.PHONY: check
check: $(TOOLS_STAMP) ## Lint, format, types and layers, two at a time
	@$(MAKE) --jobs=2 --output-sync=target lint types layers

.PHONY: lint
lint: $(TOOLS_STAMP) ## ruff (rules and format) and codespell; changes nothing
	@$(SAY) 'lint'
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/codespell

.PHONY: format
format: $(TOOLS_STAMP) ## Format, and fix what ruff can fix
	@$(SAY) 'format'
	@$(BIN)/ruff check --fix-only $(CODE)
	@$(BIN)/ruff format $(CODE)

.PHONY: types
types: $(TOOLS_STAMP) ## mypy
	@$(SAY) 'types'
	@$(BIN)/mypy $(CODE)

.PHONY: layers
layers: $(TOOLS_STAMP) ## The import contracts: records <- snapshot <- replay <- authorizer
	@$(SAY) 'layers'
	@$(BIN)/lint-imports --no-logo

.PHONY: bench
bench: $(STAMP) ## Benchmarks; BENCH_ARGS="--runs 3"
	@$(SAY) 'benchmarks'
	@$(PIP) --quiet install --require-hashes --requirement requirements/bench.lock \
	    || echo 'Without pycasbin and cedarpy: the rows beside them will say so.' >&2
	@$(BIN)/python -m benchmarks.opa || echo 'Without OPA: the rows beside it will say so.' >&2
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

.PHONY: docs
docs: $(STAMP) ## Write the reference pages of docs/ from the commands, keys, endpoints and errors
	@$(SAY) 'docs'
	@$(BIN)/python -m authorizer.cli.reference
	@$(BIN)/python -m authorizer.configuration.reference docs/configuration.md
	@$(BIN)/python -m authorizer.sidecar.reference

.PHONY: docs-site
docs-site: $(STAMP) ## Build the site of docs/ into build/site; a dead link is an error
	@$(SAY) 'installing what builds the site: 40 MB to fetch the first time'
	@$(PIP) --quiet install --require-hashes --requirement requirements/site.lock
	@$(SAY) 'docs-site'
	@$(BIN)/zensical build --strict

.PHONY: lock
lock: ## Write all lock files anew, with newer versions where pyproject.toml allows
	@$(SAY) 'requirements/*.lock, and those of the image in deploy/'
	@test -x $(BIN)/uv || { python3 -m venv $(VENV) && $(PIP) --quiet install uv; }
	@$(COMPILE) pyproject.toml --all-extras --group dev --output-file requirements/dev.lock
	@$(COMPILE) --group setup --constraints requirements/dev.lock --output-file requirements/setup.lock
	@$(COMPILE) pyproject.toml --all-extras --constraints requirements/dev.lock --output-file requirements/run.lock
	@$(COMPILE) pyproject.toml --extra kafka --extra kraft --extra oidc --extra otel --constraints requirements/dev.lock --output-file requirements/base.lock
	@$(COMPILE) --group bench --constraints requirements/dev.lock --output-file requirements/bench.lock
	@$(COMPILE) --group site --constraints requirements/dev.lock --output-file requirements/site.lock
	@$(COMPILE) pyproject.toml --extra kafka --extra oidc --extra otel --extra s3 --extra snapshots --constraints requirements/dev.lock --output-file deploy/requirements.lock
	@$(COMPILE) deploy/build-requirements.in --constraints requirements/dev.lock --output-file deploy/requirements-build.lock

.PHONY: clean
clean: ## Remove .venv, caches and builds
	@$(SAY) 'clean'
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
