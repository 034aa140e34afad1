# Every target sets itself up: a virtual environment in .venv, by uv where it is found, else by venv and pip.
# It needs Python 3.10 or newer and PyPI; another interpreter is chosen with `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
UV := $(shell command -v uv 2>/dev/null)

.PHONY: help demo test test-slow lint docs format bench clean

help:
	@echo "make demo       a short demonstration (examples/demo.py)"
	@echo "make test       the test suite; ARGS='-k lease' goes to pytest"
	@echo "make test-slow  the tests that make test leaves out: slow ones and load"
	@echo "make lint       ruff, mypy, import-linter"
	@echo "make docs       the documentation into site/; whatever mkdocs warns of is an error"
	@echo "make format     what ruff can mend by itself"
	@echo "make bench      the benchmarks"
	@echo "make clean      removes the virtual environment and all caches"

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/python -m pytest -n 3 --dist loadfile $(ARGS)

test-slow: $(READY)
	$(BIN)/python -m pytest -m "slow or soak" $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet --strict $(ARGS)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks.run $(ARGS)

clean:
	rm -rf $(VENV) build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again whenever pyproject.toml changes; a second run does nothing here.
$(READY): pyproject.toml
ifneq ($(UV),)
	@test -x $(BIN)/python || $(UV) venv --quiet --python "$(PYTHON)" $(VENV)
	$(UV) pip install --quiet --python $(BIN)/python --editable '.[all]' --group dev
else
	@command -v "$(PYTHON)" >/dev/null || { echo "No $(PYTHON) found: install Python 3.10 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "$$("$(PYTHON)" --version) is too old: 3.10 or newer is needed. Name another one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian and Ubuntu: apt-get install python3-venv. Or install uv, which needs none." >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
endif
	@touch $@

$(DOCS_READY): $(READY)
ifneq ($(UV),)
	$(UV) pip install --quiet --python $(BIN)/python --group docs
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
endif
	@touch $@
