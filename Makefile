# Fitroom: every target sets itself up; a second call costs no set-up time.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench chaos lock clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(READY) ## Install everything into .venv (versions from requirements.lock)

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "fitroom needs Python 3.10 or newer. Received: $$($(PYTHON) --version). Try: make PYTHON=python3.11 setup"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "Python's venv module is missing. Try: apt-get install python3-venv"; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY) ## A rescue to watch, on a device that runs out of memory for real
	@$(BIN)/fitroom demo

test: $(READY) ## All tests (real processes, real out-of-memory errors)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: $(READY) ## ruff, mypy --strict, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/contract/test_import_rules.py

bench: $(READY) ## Benchmarks, as ratios measured side by side
	$(BIN)/python -m bench

chaos: $(READY) ## Long runs of injected and real out-of-memory errors
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m chaos --override-ini addopts="-ra --strict-markers"

lock: $(READY) ## Resolve requirements.lock anew (when pyproject.toml changed)
	$(BIN)/uv pip compile --quiet --python-platform linux --python-version 3.11 --upgrade --no-header \
		--extra tf-cpu --extra data --extra dev pyproject.toml requirements-build.in -o requirements.lock

clean: ## Remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/results
