# Everything here creates what it needs; run any target on a fresh checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.demo-installed
LOCK := deploy/release/development.lock
DEMO_LOCK := deploy/release/demo.lock
INSTALL = $(BIN)/python -m deploy.release.install $(if $(UV),--uv $(UV)) $(if $(filter no,$(LOCKED)),--newest)
# On every core (tests/conftest.py says how many workers). With AGAIN=failed the tests that failed last time run alone, one after the other.
SPREAD = $(if $(AGAIN),--last-failed --last-failed-no-failures none,--numprocesses auto --dist worksteal)
# Workers, and hundreds of child processes, import the package and the tests: each would compile them anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo rewrite test slow browser core check compiled compiled-core e2e differential prove manifests bench cost lock release release-lock clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

# By hashes, unless pyproject.toml names other dependencies than the lock is for. LOCKED=no installs what is newest.
# UV=path installs with that uv, in seconds.
define new_environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 2))' || { echo "kubeshare-py needs Python 3.11.2 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@test -x $(BIN)/python || $(if $(UV),$(UV) venv --quiet --seed --python $(PYTHON),$(PYTHON) -m venv) $(VENV)
endef

$(STAMP): pyproject.toml $(LOCK)
	$(new_environment)
	@$(INSTALL) dev
	@touch $@

# A part of the above, for those who only look.
$(DEMO_STAMP): pyproject.toml $(DEMO_LOCK)
	$(new_environment)
	@$(INSTALL) demo
	@touch $@

setup: $(STAMP)  ## create .venv with everything in it

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO_STAMP))  ## the embedded cluster, simulated GPUs and the scheduler, with sample pods
	@exec $(BIN)/kubeshare-demo

# pytest rewrites the assertions of each module of tests, 20 s of CPU the first time, and keeps the result. Workers that
# begin together would all do it; here one process does, beside mypy, which leaves all cores but one idle.
TAG = $(shell $(BIN)/python -c 'import sys; print(sys.implementation.cache_tag)')
REWRITTEN = $(wildcard tests/__pycache__/conftest.$(TAG)-pytest-*.pyc)
rewrite: $(STAMP)
	@$(if $(REWRITTEN),,$(BIN)/pytest --quiet --collect-only -p no:cacheprovider >/dev/null 2>&1 || true)

# What the checks say comes after the tests, if they fail.
test: $(STAMP)  ## every check, and the tests that take little time each: minutes
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT; \
	$(MAKE) --silent check >"$$said" 2>&1 & checks=$$!; \
	$(MAKE) --silent rewrite; \
	$(BIN)/pytest --quiet $(SPREAD) -m 'not slow and not long and not browser'; tests=$$?; \
	wait $$checks || { cat "$$said"; exit 2; }; exit $$tests

slow: rewrite  ## the other tests on the embedded cluster, for which CI has time; only make prove runs the long ones
	@$(BIN)/pytest --quiet $(SPREAD) -m 'slow and not long'

# Debian's chromium is enough. Without a browser the tests say so and are skipped; nothing is installed but axe-core.
browser: rewrite  ## the dashboard's page in Chromium (needs it), with axe-core's rules of accessibility (needs npm)
	@$(BIN)/python -m tests.browser.axe || true
	@$(BIN)/pytest --quiet $(SPREAD) -m browser tests/browser

# Rooms that only compute, processes and connections, TLS and a whole cluster: what differs between releases of Python shows here.
CORE := $(addprefix tests/,cluster configuration devices dialects documents domain exporters isolation leader_election manifests \
	node_agent plugin sharepods terminal testing edges/process edges/kube attacks \
	faults/test_restarts.py stories/test_gangs.py stories/test_leaders.py)
core: $(STAMP)  ## tests of every kind that take a minute; CI runs them on each Python of the machine
	@$(BIN)/pytest --quiet $(SPREAD) -m 'not long and not browser' $(CORE)

check: $(STAMP)  ## format, lint, types, layers
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports >/tmp/kubeshare-lint-imports.$$$$ 2>&1 || { cat /tmp/kubeshare-lint-imports.$$$$; rm -f /tmp/kubeshare-lint-imports.$$$$; exit 1; }; rm -f /tmp/kubeshare-lint-imports.$$$$

# mypyc takes some four minutes. The tests run beside the wheel, not beside the source (deploy/release/compiled.py).
COMPILED := .compiled
COMPILED_STAMP := $(COMPILED)/.built
COMPILED_CORE := $(addprefix tests/,domain cluster framework topology plugins manifests dialects scheduling/queue scheduling/charges)
$(COMPILED_STAMP): $(STAMP) $(shell find kubeshare_py plugins cmd -name '*.py' 2>/dev/null) $(wildcard deploy/release/*.py)
	@$(BIN)/python -m deploy.release.compiled $(COMPILED)
	@touch $@

compiled: $(COMPILED_STAMP)  ## the wheel with compiled modules (needs cc), and an environment that has it

compiled-core: $(COMPILED_STAMP)  ## tests of the rooms that are compiled, on the compiled wheel (needs cc)
	@$(BIN)/python -m deploy.release.compiled $(COMPILED) --tests
	@cd $(COMPILED)/tree && $(abspath $(COMPILED))/environment/bin/python -m pytest --quiet $(SPREAD) --compiled -m 'not long' $(COMPILED_CORE)

# Each worker has a control plane of its own and takes one folder after the other (tests/by_folder.py).
# Policies come last: an API server goes on refusing for a moment after a policy is gone.
e2e: $(STAMP)  ## stories, API facts, faults, the chart, attacks and policies on a real control plane; kube-scheduler's and kubelet's answers (needs Go)
	@binaries=$$($(BIN)/python -m tests.controlplane.build) || exit $$?; \
	PATH="$$binaries:$$PATH" exec $(BIN)/pytest --quiet $(SPREAD) --no-loadscope-reorder --control-plane real tests/stories tests/conformance tests/faults tests/deploy tests/differential tests/kubelet tests/attacks tests/policies

differential: $(STAMP)  ## CASES=n clusters and pods, put to kube-scheduler's plugins as well (needs Go); SEED=n
	@exec $(BIN)/python -m tests.differential --cases "$${CASES:-2000}" $${SEED:+--seed "$$SEED"}

prove: $(STAMP)  ## everything in full with new random input, then storms and attacks on a real control plane (needs Go); SEED=n
	@binaries=$$($(BIN)/python -m tests.controlplane.build) || exit $$?; \
	seed=$${SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; echo "SEED=$$seed"; \
	$(BIN)/pytest --quiet $(SPREAD) --scale full --hypothesis-seed "$$seed" || exit $$?; \
	$(BIN)/python -m tests.fuzz --inputs 1000000 --seed "$$seed" || exit $$?; \
	$(BIN)/python -m tests.differential --cases 20000 --seed "$$seed" || exit $$?; \
	PATH="$$binaries:$$PATH" exec $(BIN)/pytest --verbose --control-plane real --scale full --hypothesis-seed "$$seed" tests/faults tests/attacks tests/policies

manifests: $(STAMP)  ## the chart's tables and boards from the code, deploy/kubeshare.yaml from the chart (needs Go)
	@$(BIN)/python -m tests.controlplane.chart_tables
	@$(BIN)/python -m deploy.boards
	@$(BIN)/python -m tests.controlplane.helm

bench: $(STAMP)  ## decisions a second, by cluster size
	@$(BIN)/python benchmarks/decisions.py

cost: $(STAMP)  ## function calls a decision; AGAINST=commit counts both, and times both in turn
	@$(BIN)/python -m benchmarks.cost $(if $(AGAINST),--against $(AGAINST))

lock: $(STAMP)  ## pin the packages of Python that the tools and the image are made of, as they are today
	@$(BIN)/python -m deploy.release.lock --python

release: $(STAMP)  ## VERSION=x.y.z: cut it and build all of its files, twice (needs Debian 12)
	@test -n "$(VERSION)" || { echo "make release VERSION=x.y.z" >&2; exit 2; }
	@$(BIN)/python -m deploy.release "$(VERSION)"

release-lock: $(STAMP)  ## pin what the image is made of, as it is today (needs Debian 12)
	@$(BIN)/python -m deploy.release.lock

clean:  ## forget what the targets made
	rm -rf $(VENV) $(COMPILED) .demo .demo-* dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
