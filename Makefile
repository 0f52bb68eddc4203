# Each target sets up what it needs in .venv and re-uses what is there.
PYTHON ?= python3
BIN := .venv/bin
# The paper's data sets, where they lie beside the clone.
export BOOSTMETRIC_DATA ?= $(wildcard ../shared/data)
# What the code for GPUs is tested with, without one. Other users and tests do without torch.
TORCH := torch==2.13.0 triton==3.9.0

.PHONY: demo test test-torch test-ray fuzz lint bench paper paper-quick clean

demo: .venv/.core
	$(BIN)/boostmetric demo --output demo

test: .venv/.test
	$(BIN)/python -m pytest -n 2 -m "not torch and not ray"

# The code for GPUs on the CPU: as plain operations of torch, then its kernels through Triton's interpreter.
test-torch: .venv/.torch
	$(BIN)/python -m pytest -n 2 -m torch
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -n 2 tests/test_torch_fused.py

# Fits on a cluster of this machine, with workers that are killed.
test-ray: .venv/.ray
	$(BIN)/python -m pytest -m ray

# Hostile input to every public function: CASES inputs for each of about forty tests, drawn with SEED.
CASES ?= 300
SEED ?= 1
fuzz: .venv/.test
	BOOSTMETRIC_FUZZ=$(CASES) $(BIN)/python -m pytest -n 2 tests/test_fuzz.py tests/test_fuzz_files.py --hypothesis-seed=$(SEED)

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.core
	$(BIN)/python -m benchmarks

paper: .venv/.paper
	$(BIN)/boostmetric paper --output paper-output

# Every experiment, on sets that need no download and with two splits.
paper-quick: .venv/.core
	$(BIN)/boostmetric paper --only wine,iris,bal --runs 2 --output paper-quick

clean:
	rm -rf .venv demo paper-output paper-quick

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "boostmetric needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/.core: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/.test: .venv/.core
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

.venv/.torch: .venv/.test
	$(BIN)/pip install --quiet $(TORCH)
	touch $@

.venv/.ray: .venv/.test
	$(BIN)/pip install --quiet --editable '.[ray]'
	touch $@

.venv/.paper: .venv/.core
	$(BIN)/pip install --quiet --editable '.[paper]'
	touch $@

.venv/.lint: .venv/.core
	$(BIN)/pip install --quiet --editable '.[lint]'
	touch $@
