# `make demo` and `make test` do everything on a fresh machine; the rest is for people who change OptiML.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
# Tests call nvcc as a person would; where it came from PyPI it is in the virtual environment's own folders.
WITH_NVCC = PATH="$$PATH:$$(echo $(CURDIR)/$(VENV)/lib/python3*/site-packages/nvidia/cu13/bin)"

.PHONY: demo test check lint format protos clean

demo: $(VENV)/.installed
	$(BIN)/python scripts/demo.py --out demo-out

test: $(VENV)/.installed
	$(WITH_NVCC) $(BIN)/pytest -n $(JOBS) --dist worksteal

check: $(VENV)/.installed  ## the fast tests, under a minute
	$(WITH_NVCC) $(BIN)/pytest -n $(JOBS) --dist worksteal -m "not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd protos && ../$(BIN)/buf lint && ../$(BIN)/buf breaking --against optiml.binpb

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

protos: $(VENV)/.installed  ## regenerate optiml/v1 from protos/
	$(BIN)/python scripts/generate_protos.py

$(VENV)/.installed: pyproject.toml scripts/install.sh
	PYTHON=$(PYTHON) bash scripts/install.sh $(VENV)
	touch $@

clean:
	rm -rf $(VENV) demo-out
