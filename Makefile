# aclog: every command of the project; `make help` lists them.
#
# The environment is .venv, made by plain venv and pip from requirements.lock (with hashes). A stamp in it is newer
# than the lock and pyproject.toml, so a second run is offline and takes no time.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JARS_STAMP := $(VENV)/.kafka-jars
SPARK_JARS_STAMP := $(VENV)/.spark-jars

# The interpreter for .venv: the first of these that runs and is 3.11 or newer. `make PYTHON=/path/to/python` decides.
PYTHON ?= python3.14 python3.13 python3.12 python3.11 python3

# What the linters and mypy read: the four layers and whatever else holds Python.
CODE := $(wildcard records snapshot replay authorizer tests benchmarks examples)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
COMPILE := UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile --quiet --upgrade --universal \
    --python-version 3.11 --generate-hashes --no-annotate
# One worker for each core of the smallest machine that we build on.
TEST_WORKERS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=

say = @printf '\033[1m==> %s\033[0m\n' '$(1)'

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: setup ## Set up, then run everything on an example log: aclog quickstart
	$(call say,aclog quickstart)
	@exec $(BIN)/aclog quickstart

.PHONY: setup
setup: $(STAMP) $(JARS_STAMP) $(SPARK_JARS_STAMP) ## Make .venv and fetch the jars of the tests; afterwards all works offline

$(STAMP): requirements.lock pyproject.toml
	$(call say,making $(VENV) from requirements.lock: a few minutes the first time)
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
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(JARS_STAMP): $(STAMP) snapshot/jobs/ivy.py tests/support/kafka_jars.py tests/support/kafka_jars.sha256
	$(call say,fetching the Kafka jars of the tests)
	@java="$$( { java -version 2>&1 || true; } | awk -F '[".]' '/ version "/ { print $$2 }')"; \
	if [ "$${java:-0}" -lt 17 ]; then \
	    echo 'aclog needs Java 17 or newer on PATH: its tests run real Kafka tools, and its Spark jobs run Spark.' >&2; \
	    exit 1; \
	fi
	@$(BIN)/python tests/support/kafka_jars.py
	@touch $@

$(SPARK_JARS_STAMP): $(JARS_STAMP) snapshot/jobs/ivy.py snapshot/jobs/jars.py tests/support/spark.py \
    tests/support/delta_jars.py
	$(call say,fetching the Kafka connector of Spark and Delta Lake)
	@$(BIN)/python tests/support/spark.py
	@$(BIN)/python tests/support/delta_jars.py
	@touch $@

.PHONY: test
test: setup check ## Everything that CI gates: check, then all tests
	$(call say,tests)
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) $(PYTEST_ARGS)

.PHONY: check
check: lint types layers ## Lint, format, types and layers

.PHONY: lint
lint: $(STAMP) ## ruff (rules and format) and codespell; changes nothing
	$(call say,lint)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/codespell

.PHONY: format
format: $(STAMP) ## Format, and fix what ruff can fix
	$(call say,format)
	@$(BIN)/ruff check --fix-only $(CODE)
	@$(BIN)/ruff format $(CODE)

.PHONY: types
types: $(STAMP) ## mypy
	$(call say,types)
	@$(BIN)/mypy $(CODE)

.PHONY: layers
layers: $(STAMP) ## The import contracts: records <- snapshot <- replay <- authorizer
	$(call say,layers)
	@$(BIN)/lint-imports --no-logo

.PHONY: bench
bench: $(STAMP) ## Benchmarks; BENCH_ARGS="--runs 3"
	$(call say,benchmarks)
	@$(PIP) install --require-hashes --requirement requirements-bench.lock \
	    || echo 'Without pycasbin and cedarpy: the rows beside them will say so.' >&2
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

.PHONY: docs
docs: $(STAMP) ## Write docs/cli.md and docs/configuration.md anew from the commands and keys themselves
	$(call say,docs)
	@$(BIN)/python -m authorizer.cli.reference
	@$(BIN)/python -m authorizer.configuration.reference docs/configuration.md

.PHONY: lock
lock: ## Write all lock files anew, with newer versions where pyproject.toml allows
	$(call say,requirements.lock; requirements-bench.lock; those of the image in deploy/)
	@test -x $(BIN)/uv || { python3 -m venv $(VENV) && $(PIP) install uv; }
	@$(COMPILE) pyproject.toml --all-extras --group dev --output-file requirements.lock
	@$(COMPILE) --group pyproject.toml:bench --constraints requirements.lock --output-file requirements-bench.lock
	@$(COMPILE) pyproject.toml --extra kafka --constraints requirements.lock --output-file deploy/requirements.lock
	@$(COMPILE) deploy/build-requirements.in --constraints requirements.lock --output-file deploy/requirements-build.lock

.PHONY: clean
clean: ## Remove .venv, caches and builds
	$(call say,clean)
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
