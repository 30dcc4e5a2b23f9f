# Everything a developer does here. `make` alone lists the targets.
#
# Needs Python 3.11 or newer, make and a shell. Each target sets up what it needs in .venv, with uv where it is
# installed, else with venv and pip; a second run starts at once.

VENV    ?= .venv
BIN     ?= $(VENV)/bin
WORKERS ?= 2
DEMO    ?= build/demo
# More for the demo, such as DEMO_ARGS='--orders 1000 --database postgresql://localhost/test'
DEMO_ARGS ?=
# How much chaos, such as CHAOS_ARGS='--instances 10000 --kills 800 --restarts 8'
CHAOS_ARGS ?=
# Which mutants, by name; all of them unless some are named
MUTANTS_ARGS ?=
# More for the benchmarks, such as BENCH_ARGS='--quick --write', SOAK_ARGS='--minutes 2', SCALE_ARGS='--size 0.02'
BENCH_ARGS ?=
SOAK_ARGS ?=
SCALE_ARGS ?=
# Chance in `make faults`, `make simulate` and `make fuzz`, and the tests whose engines may meet faults of the database
SEED    ?= 1
FAULTY  ?= tests/engine tests/semantics/test_scenarios_engine.py tests/conformance/test_execution_engine.py
SEEDS   ?= 500
MINUTES ?= 5
# More for pytest, such as PYTEST_ARGS='tests/unit -k parse'
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test faults simulate fuzz check format bench soak scale chaos mutants docs clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\): .*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "  make %-8s %s\n", $$1, $$2 }'

demo: $(VENV)/.installed ## Run a web shop, kill a worker, see that nothing is lost
	@$(BIN)/bpm demo --directory $(DEMO) $(DEMO_ARGS)

test: $(VENV)/.installed-test ## Run the tests on two cores, without those marked slow
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

faults: $(VENV)/.installed-test ## Run the tests of whole engines once more while the database fails now and then
	BPM_TEST_FAULTS=$(SEED) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(FAULTY) $(PYTEST_ARGS)

simulate: $(VENV)/.installed-test ## Run the simulation: SEEDS=500 of them, beginning with SEED=1
	$(BIN)/python -m tests.simulation --seed $(SEED) --seeds $(SEEDS)

fuzz: $(VENV)/.installed-test ## Damage files, expressions and values for MINUTES=5; with atheris, if it is installed
	$(BIN)/python -m tests.fuzzing --minutes $(MINUTES) --seed $(SEED)

check: $(VENV)/.installed-test $(VENV)/.installed-check ## Check format, style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-check ## Format the code and repair what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-bench ## Measure everything, beside the peers (some 25 minutes; BENCH_ARGS=--quick: a few)
	@$(BIN)/python bench/run.py $(BENCH_ARGS)

soak: $(VENV)/.installed-bench ## Mixed load for ten minutes: is it as fast and as small at the end as at the start?
	@$(BIN)/python bench/soak.py $(SOAK_ARGS)

scale: $(VENV)/.installed-bench ## A million overdue timers, a million finished instances, many items: does it hold?
	@$(BIN)/python bench/scale.py $(SCALE_ARGS)

chaos: $(VENV)/.installed-test ## Kill, stop and cut off everything while processes run; see that nothing is lost
	@PYTHONPATH=tests $(BIN)/python -m support.chaos $(CHAOS_ARGS)

mutants: $(VENV)/.installed-test ## Put known bugs into a copy of the code, one by one; see that a test finds each
	@PYTHONPATH=tests $(BIN)/python -m support.mutants $(MUTANTS_ARGS)

docs: $(VENV)/.installed-docs ## Write the generated pages and pictures anew, build the site into site/
	@$(BIN)/python docs/generate.py
	@$(BIN)/properdocs build --clean
	@echo "Open site/index.html in a browser."

clean: ## Remove what was built and cached; the virtual environment stays
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# Set-up. The stamp of an extra is older than pyproject.toml when dependencies may have changed.

$(VENV)/.installed: $(VENV)/pyvenv.cfg pyproject.toml
	@$(call install,.)
	@touch $@

$(VENV)/.installed-%: $(VENV)/pyvenv.cfg pyproject.toml
	@$(call install,.[$*])
	@touch $@ $(VENV)/.installed

define install
echo "Installing $(1) into $(VENV) …"; \
if command -v uv >/dev/null 2>&1; then \
    uv pip install --quiet --python $(BIN)/python --editable '$(1)'; \
else \
    $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null; \
    $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '$(1)'; \
fi
endef

# `python3` may be older than 3.11 while a newer one is installed beside it; version managers leave commands that
# exist and fail. So each candidate is tried.
$(VENV)/pyvenv.cfg:
	@for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        python=$$(command -v $$candidate); break; \
	    fi; \
	done; \
	if command -v uv >/dev/null 2>&1; then \
	    uv venv --quiet --seed --python "$${python:-3.13}" $(VENV); \
	elif test -z "$$python"; then \
	    echo "bpm_engine needs Python 3.11 or newer and found none. Install one, or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	elif ! $$python -m venv $(VENV); then \
	    rm -rf $(VENV); \
	    echo "$$python cannot create virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 1; \
	fi
