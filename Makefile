# `make demo` trains on the shipped reviews, `make test` runs the tests.
# A fresh machine needs Python >= 3.10, pip and make; all else is installed here,
# into the active virtual environment, or into .venv when none is active.

PYTHON ?= python3
# A requirement to install before the project, to choose the build of torch:
#   make test TORCH="torch==2.13.0"
TORCH ?=

ENV := $(or $(VIRTUAL_ENV),$(CONDA_PREFIX),.venv)
BIN := $(ENV)/bin
# One stamp per set of extras: they are installed again when pyproject.toml changes.
STAMP := $(ENV)/.hsa-pyg-
STAMPS := $(addprefix $(STAMP),all test dev docs notebooks)

.PHONY: demo test coverage lint format docs notebooks pictures clean
.DEFAULT_GOAL := test

demo: $(STAMP)all
	$(BIN)/hsa-pyg demo

# One thread a worker: two workers with two threads each only wait for one another.
test: $(STAMP)test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# The same and what it reached; tracing takes its time.
coverage: $(STAMP)test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov --cov-report=term

lint: $(STAMP)dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, into runs/site; a warning is an error.
docs: $(STAMP)docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open runs/site/index.html"

# Executes the notebooks in examples/ whose source was changed, into their .ipynb:
#   make notebooks NAMES=01_hsa_conv_in_pyg   (changed or not)
NAMES ?=
notebooks: $(STAMP)all $(STAMP)notebooks
	OMP_NUM_THREADS=1 $(BIN)/python -m examples.execute $(NAMES)

# The pictures that explain the mechanism.
pictures: $(STAMP)docs
	$(BIN)/python docs/plot_tree_attention.py
	$(BIN)/python docs/plot_four_passes.py

clean:
	rm -rf .venv .coverage .mypy_cache .pytest_cache .ruff_cache runs

$(BIN)/python:
	$(PYTHON) -m venv $(ENV)

# A requirement given by hand is looked at every time; pip does nothing if it holds.
ifneq ($(TORCH),)
.PHONY: $(STAMPS)
endif
$(STAMPS): $(STAMP)%: pyproject.toml | $(BIN)/python
	$(if $(TORCH),$(BIN)/python -m pip install $(TORCH))
	$(BIN)/python -m pip install -e ".[$*]"
	@touch $@
