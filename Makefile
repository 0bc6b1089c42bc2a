# On a machine with only Python 3.11+ and make: `make demo`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The tests start many processes: each would compile the sources again where Python may not keep its bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-long test-full browser gpu peers lint docs bench fuzz attack wheel clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.view  ## calibrate the six methods on the built-in example
	$(BIN)/capture demo

test: $(VENV)/.dev  ## the tests, and every code block of the README and the docs
	$(BIN)/pytest -n auto --dist worksteal

test-long: $(VENV)/.dev  ## the guarantees again, at length
	$(BIN)/pytest -n auto --dist worksteal -m long tests

test-full: test test-long  ## both

browser: $(VENV)/.browser  ## the live page, driven in Debian's Chromium, which root also installs
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || { apt-get update -qq && apt-get install -y -qq chromium; }
	$(BIN)/pytest -m browser tests/viewer

gpu: $(VENV)/.dev $(VENV)/.cuda  ## the kernels on this machine's NVIDIA GPU, against those of the processor
	$(BIN)/pytest -m cuda tests/gpu

peers: .venv-peers/.peers  ## other people's planners with our regions; judo wants another MuJoCo, so in an environment of its own
	.venv-peers/bin/pytest -m peers tests/peers

.venv-peers/.peers: pyproject.toml
	$(MAKE) VENV=.venv-peers .venv-peers/bin/python
	.venv-peers/bin/python -m pip install --quiet --editable '.[peers]'
	@touch $@

lint: $(VENV)/.dev  ## style, types, layering
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLC2701 src  # no private module of another package is imported
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## the site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.dev  ## speed as ratios to named alternatives
	$(BIN)/capture bench

fuzz: $(VENV)/.dev  ## a hundred thousand mutated files, none of which may do harm
	$(BIN)/python tests/fuzz.py --files 100000

attack: $(VENV)/.dev  ## forged files, full disks, kills: tries and failures in one table
	cd tests && $(abspath $(BIN))/python -m attack $(ATTACK)

wheel: $(VENV)/.dev  ## the wheel, in dist/
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) .venv-peers build dist site capture-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "capture-cp needs Python 3.11 or later; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.%: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@
