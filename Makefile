# Each target sets up what it needs in .venv and re-uses what is there.
PYTHON ?= python3
BIN := .venv/bin
# The paper's data sets, where they lie beside the clone.
export BOOSTMETRIC_DATA ?= $(wildcard ../shared/data)
# What the code for GPUs is tested with, without one. Other users and tests do without torch.
TORCH := torch==2.13.0 triton==3.9.0

.PHONY: demo test test-torch test-ray test-integrations test-oldest metric-learn fuzz lint docs bench paper paper-quick release-check clean

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

# A metric in other people's frameworks and databases, with the real packages.
test-integrations: .venv/.integrations
	$(BIN)/python -m pytest -n 2 tests/test_integrations.py tests/test_export.py tests/test_docs.py

# The oldest versions that pyproject.toml allows, and of what these need, the newest of that day. Python 3.11: some have
# no wheels for newer ones.
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet uv
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct \
		--exclude-newer 2025-10-01 --exclude-newer-package threadpoolctl=2026-10-01 --editable '.[test]'
	.venv-oldest/bin/python -m pytest -n 2 -m "not torch and not ray"

# metric-learn's own tests, from its source archive, with our interface in its place. They need a pytest before 8.
metric-learn:
	$(PYTHON) -m venv .venv-metric-learn
	.venv-metric-learn/bin/pip install --quiet --editable . 'pandas>=2.2' 'pytest<8' 'pytest-xdist>=3.5'
	.venv-metric-learn/bin/python tests/metric_learn_suite.py

# Hostile input to every public function: CASES inputs for each of about forty tests, drawn with SEED.
CASES ?= 300
SEED ?= 1
fuzz: .venv/.test
	BOOSTMETRIC_FUZZ=$(CASES) $(BIN)/python -m pytest -n 2 tests/test_fuzz.py tests/test_fuzz_files.py --hypothesis-seed=$(SEED)

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The site, in docs/_build/html. Faster, without running the gallery: make docs SPHINXOPTS='-D plot_gallery=0'
docs: .venv/.docs
	rm -rf docs/api # pages of names that are gone
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet $(SPHINXOPTS) docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench: .venv/.core
	$(BIN)/python -m benchmarks

paper: .venv/.paper
	$(BIN)/boostmetric paper --output paper-output

# Every experiment, on sets that need no download and with two splits.
paper-quick: .venv/.core
	$(BIN)/boostmetric paper --only wine,iris,bal --runs 2 --output paper-quick

# What users get: built, installed into an environment of its own and tried there, outside of this folder; and the
# source archive, from which tests must run.
release-check: .venv/.release
	rm -rf dist .venv-release
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv .venv-release
	cp tests/smoke.py dist/
	.venv-release/bin/pip install --quiet dist/*.whl
	.venv-release/bin/pip check
	cd dist && ../.venv-release/bin/python smoke.py
	.venv-release/bin/pip install --quiet "$$(ls dist/*.whl)[cli,plot]"
	cd dist && ../.venv-release/bin/python smoke.py
	cd dist && tar xzf *.tar.gz --strip-components=1 --one-top-level=source
	cd dist/source && ../../$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_docs.py tests/test_imports.py tests/test_model_file.py
	$(BIN)/python -m benchmarks release

clean:
	rm -rf .venv .venv-oldest .venv-metric-learn .venv-release demo dist paper-output paper-quick docs/_build docs/api docs/gallery docs/sources

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "boostmetric needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/.core: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable '.[cli,plot]'
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

# sentence-transformers needs torch, and would take a build for GPUs.
.venv/.integrations: .venv/.torch
	$(BIN)/pip install --quiet --editable '.[integrations]'
	touch $@

.venv/.paper: .venv/.core
	$(BIN)/pip install --quiet --editable '.[paper]'
	touch $@

.venv/.release: .venv/.test
	$(BIN)/pip install --quiet --editable '.[release]'
	touch $@

.venv/.lint: .venv/.core
	$(BIN)/pip install --quiet --editable '.[lint]'
	touch $@

.venv/.docs: .venv/.core
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@
