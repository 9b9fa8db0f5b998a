# The verbs. Each makes its own environment in .venv the first time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of interpreters: compiled modules are kept, apart from the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache
export PATH := $(CURDIR)/$(VENV)/node/node_modules/.bin:$(PATH)

.PHONY: demo test test-long lint docs bench bench-dlio clean

$(VENV)/.core: pyproject.toml requirements/core.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements/core.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

$(VENV)/.test: $(VENV)/.core requirements/test.txt
	$(BIN)/python -m pip install --quiet -r requirements/test.txt
	# Azure's emulator, where there is node; without it its tests are skipped and say so.
	if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --prefix $(VENV)/node azurite@3.35.0 || true; fi
	touch $@

demo: $(VENV)/.core
	$(BIN)/python examples/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2

test-long: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 -m long --timeout 3600

lint: $(VENV)/.test
	$(BIN)/ruff check .
	# Outside src style is free, but a name must exist and be used.
	$(BIN)/ruff check --isolated --target-version py311 --select F --ignore F402,F811,F841 tests benchmarks docs examples attacks release
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.docs: $(VENV)/.core requirements/docs.txt
	$(BIN)/python -m pip install --quiet -r requirements/docs.txt
	touch $@

# -W: a warning is an error, a broken link between pages among them.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.test
	$(BIN)/python benchmarks/bench.py

# A referee that is not ours: DLIO, in an environment of its own.
bench-dlio:
	test -d examples/dlio/venv || examples/dlio/run venv
	test -d examples/dlio/data || examples/dlio/run generate
	examples/dlio/run own
	examples/dlio/run shards

clean:
	rm -rf $(VENV) demo-data bench-data docs/_build
