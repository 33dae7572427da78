# Everything that a fresh machine needs besides python3 (3.10+), g++, make and, for what uses cargo, a Rust toolchain, is put
# into .venv by the first target that needs it: cudabuild itself, nvcc 13.0 as PyPI wheels, ninja, the test tools.

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
DEPENDENCIES := $(VENV)/.dependencies
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

# What make was called with must not reach the nvcc, ninja and cargo under test.
unexport MAKEFLAGS MAKELEVEL MFLAGS

.PHONY: demo test test-all lint bench clean

$(DEPENDENCIES): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet '.[cuda13]' --group dev
	touch $@

# Not --editable: its import hook comes before PYTHONPATH, by which tests try a changed copy of the package.
$(READY): $(DEPENDENCIES) $(shell find cudabuild templates -name '*.py' -o -name '*.toml' -o -name '*.rs')
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall .
	touch $@

demo: $(READY) ## build the example prover with its kernels, run it, edit a header, see what is rebuilt
	PATH="$(BIN):$$PATH" CUDABUILD="$(BIN)/cudabuild" bash examples/demo.sh

test: $(READY) ## everything but what takes minutes
	CUDABUILD_REQUIRE=nvcc,cargo $(PYTEST) -m "not slow"

test-all: $(READY) ## everything: supraseal-c2 from the registry, the long oracle
	CUDABUILD_REQUIRE=nvcc,cargo CUDABUILD_ORACLE_STEPS=10000 $(PYTEST)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY) ## paired timings against plain nvcc under make, printed as medians and ratios
	$(BIN)/python tests/bench/bench.py

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf examples/*/target
