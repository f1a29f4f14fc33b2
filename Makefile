# Every target sets up its own .venv first; nothing needs to be installed by hand but Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin

# pip would compile every module of every package, and most are never imported: Python compiles the others when they
# are, and keeps the results for the many processes that tests start, even where the environment says not to
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-torch cluster browser screenshots lint check docs dist endurance bench gallery clean

demo: .venv/installed
	$(BIN)/superarm reproduce all --out demo

# the tests of a file stay on one core, the longest files first (tests/conftest.py); COVER=--cov=superarm counts the lines run
COVER ?=
test: .venv/installed
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(COVER)

# the tests of tensors, which `test` skips where PyTorch is not installed; it is large
TORCH ?= torch
test-torch: .venv/installed
	$(INSTALL) "$(TORCH)" --editable ".[dev,torch]"
	$(BIN)/pytest --numprocesses 2 tests/arrays tests/oracles tests/simulation tests/benchmarks tests/studies

# the tests on a real Ray and a real Dask, which `test` skips where they are not installed; those of tests/cluster that
# need neither are run by `test`
cluster: .venv/cluster
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m cluster tests/cluster

# the page of the service in a real Chromium: Debian's package chromium, or one that playwright installs
browser: .venv/browser
	$(BIN)/pytest tests/browser

# what the README and the documentation show of the page
screenshots: .venv/browser
	$(BIN)/python docs/screenshots.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 src docs benchmarks # files are UTF-8 in any locale
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src # what only POSIX systems have is asked for only there
	$(BIN)/lint-imports

check: lint test

# the documentation site, at build/site/index.html, with its links and searches tried
docs: .venv/documents
	$(BIN)/sphinx-build --fail-on-warning --quiet --builder html docs build/site
	$(BIN)/pytest --quiet tests/site
	@echo "open build/site/index.html"

# the wheel and the source distribution, in dist/: checked as PyPI does, and the wheel installed into an environment of
# its own, where it runs the first code of the README and the demo; PYTHONS="python3.12 python3.13" tries others too
PYTHONS ?= $(PYTHON)
dist: .venv/installed
	$(INSTALL) "build>=1.2" "twine>=6.1"
	rm -rf dist build/fresh-*
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(BIN)/python -m twine check --strict dist/*
	mkdir -p build
	sed -n '/^```python$$/,/^```$$/{/^```python$$/d;/^```$$/q;p}' README.md > build/first.py
	set -e; cd build; for python in $(PYTHONS); do \
		$$python -m venv fresh-$$(basename $$python); \
		fresh-$$(basename $$python)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile ../dist/*.whl; \
		fresh-$$(basename $$python)/bin/python first.py; \
		fresh-$$(basename $$python)/bin/superarm demo --m 3 --d 4 --episodes 20 --replicates 2 --out fresh-demo; \
	done

# ten times what the tests take: a million forgetting updates and as many idle steps, 3,000 logs for each interval, three
# times the replicates of learners, 200 kills during save, 10,000 forged records and 2,000 hostile files, 20,000 problems
# for each oracle, all pairs of kernels over one cache; 1,000 kills of a service under load, 1,000 power cuts and 1,000
# damaged files; 100,000 requests to a service, of which none may be answered with 5xx; 50 kills of shards, 50 of workers
# on Ray and 50 of workers here
endurance: .venv/cluster
	SUPERARM_STEPS=1000000 $(BIN)/pytest tests/test_gaussian.py -k "many_forgetting or thousands"
	SUPERARM_LOGS=3000 $(BIN)/pytest tests/offline/test_estimates.py
	SUPERARM_PEOPLE=32561 SUPERARM_TIMES=3 $(BIN)/pytest tests/studies/test_beyond.py
	SUPERARM_TIMES=3 $(BIN)/pytest tests/studies/test_artists.py tests/studies/test_drift.py tests/beliefs/test_logit.py tests/beliefs/test_likelihoods.py \
		tests/beliefs/test_empirical_bayes.py tests/service/dashboard/test_posterior.py tests/simulation/test_episodes.py \
		tests/test_gaussian.py
	SUPERARM_KILLS=200 $(BIN)/pytest tests/files/test_atomic.py -k kills
	SUPERARM_FORGED_RECORDS=10000 SUPERARM_HOSTILE_FILES=2000 \
		$(BIN)/pytest tests/agent/test_fields.py tests/agent/test_hostile_files.py
	SUPERARM_REQUESTS=80000 SUPERARM_EXAMPLES=1000 SUPERARM_RAW=4000 $(BIN)/pytest \
		tests/service/test_generated.py tests/service/test_openapi.py tests/service/test_raw.py
	SUPERARM_FUZZ=20000 $(BIN)/pytest tests/oracles/test_fuzzed_oracles.py
	SUPERARM_SERVER_KILLS=1000 SUPERARM_POWER_CUTS=1000 SUPERARM_FLIPS=1000 \
		$(BIN)/pytest -s tests/service/test_kills.py tests/service/test_power_cuts.py tests/service/test_opening.py
	SUPERARM_SHARD_KILLS=50 SUPERARM_WORKER_KILLS=50 SUPERARM_DECISIONS=1000 $(BIN)/pytest tests/cluster
	$(BIN)/pytest tests/endurance

bench: .venv/installed
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/oracles.py
	$(BIN)/python benchmarks/tours.py --seeds 1

gallery: .venv/installed
	$(BIN)/python docs/gallery.py

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable ".[dev]"
	touch $@

.venv/documents: .venv/installed
	$(INSTALL) --editable ".[docs]"
	touch $@

.venv/cluster: .venv/installed
	$(INSTALL) --editable ".[dev,cluster]" "distributed>=2025.1"
	touch $@

.venv/browser: .venv/installed
	$(INSTALL) --editable ".[dev,browser]"
	touch $@

clean:
	rm -rf .venv demo build dist docs/api
